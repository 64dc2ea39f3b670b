#include "cli/subscribe_local.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/log.h"
#include "cli/remote/remote_runs.h"
#include "worker/subscription/durable_file.h"

namespace noetl::cli {
namespace {

using worker::DispatchOutcome;
using worker::DispatchRequest;

constexpr std::string_view kJournal = "started.jsonl";
// Shorter ones are not worth the work of writing only what counts.
constexpr std::size_t kLinesMin = 10'000;
constexpr std::size_t kRunsMin = 1'000;
// How often to look whether runs have ended.
constexpr std::int64_t kPauseUs = 100'000;
// A message that cannot be started as it is; other errors are of the moment.
constexpr std::array<std::string_view, 3> kRefusals = {"invalid", "not_found", "usage"};

Json Line(const std::string& key, std::int64_t execution_id, std::int64_t until_us) {
  return Json::Object(
      {{"key", key}, {"execution_id", std::to_string(execution_id)}, {"until_us", until_us}});
}

}  // namespace

LocalDispatcher::~LocalDispatcher() {
  if (journal_ >= 0) close(journal_);
}

Result<std::unique_ptr<LocalDispatcher>> LocalDispatcher::Open(Backend* backend,
                                                               std::string folder) {
  std::unique_ptr<LocalDispatcher> dispatcher(new LocalDispatcher(backend, std::move(folder)));
  NOETL_TRY(worker::MakeDirectory(dispatcher->folder_));
  NOETL_TRY(dispatcher->ReadJournal());
  NOETL_TRY(dispatcher->WriteJournal());
  return dispatcher;
}

// ---- which message started which run

Status LocalDispatcher::ReadJournal() {
  const auto text = worker::ReadWholeFile(fmt::format("{}/{}", folder_, kJournal));
  if (!text && text.error().code == "not_found") return {};
  if (!text) return std::unexpected(text.error());
  const std::int64_t now_us = clock_.NowMicros();
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const auto line = ParseJson(rest.substr(0, end));  // the last one may be cut off
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line || (*line)["until_us"].AsInt() <= now_us) continue;
    keys_.Add((*line)["key"].ToString(), AnyId((*line)["execution_id"]),
              (*line)["until_us"].AsInt());
  }
  return {};
}

Status LocalDispatcher::WriteJournal() {
  std::string kept;
  for (const auto& [key, value] : keys_.keys())
    kept += WriteJson(Line(key, value.execution_id, value.until_us)) + "\n";
  NOETL_TRY(worker::WriteDurably(folder_, std::string(kJournal), kept));
  lines_ = keys_.keys().size();
  if (journal_ >= 0) close(journal_);
  const std::string path = fmt::format("{}/{}", folder_, kJournal);
  journal_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (journal_ < 0) return Fail("io", fmt::format("cannot write {}: {}", path, strerror(errno)));
  return {};
}

Status LocalDispatcher::Note(const std::string& key, std::int64_t execution_id,
                             std::int64_t until_us) {
  keys_.Add(key, execution_id, until_us);
  ++lines_;
  if (lines_ > kLinesMin && lines_ > 2 * keys_.keys().size()) return WriteJournal();
  const std::string line = WriteJson(Line(key, execution_id, until_us)) + "\n";
  if (write(journal_, line.data(), line.size()) != std::ssize(line) || fdatasync(journal_) != 0)
    return Fail("io", fmt::format("cannot note which run a message starts: {}", strerror(errno)));
  return {};
}

Result<std::int64_t> LocalDispatcher::FindStarted(const std::string& key) {
  const std::int64_t id = keys_.Find(key, clock_.NowMicros());
  if (id == 0) return 0;
  NOETL_ASSIGN(const auto run, backend_->store().Find(id));
  return run ? id : 0;  // a note about a run that was not started after all
}

// ---- runs

DispatchOutcome LocalDispatcher::One(const DispatchRequest& request) {
  using Kind = DispatchOutcome::Kind;
  const auto known = FindStarted(request.dedup_key);
  if (!known) return {.kind = Kind::kFailed, .error = known.error().message};
  if (*known != 0) return {.kind = Kind::kDuplicate, .execution_id = std::to_string(*known)};
  const auto entry = backend_->store().FindEntry(request.playbook, 0);
  if (!entry) return {.kind = Kind::kFailed, .error = entry.error().message};
  if (!*entry) {
    return {.kind = Kind::kRefused,
            .error = fmt::format("playbook not found: {}", request.playbook)};
  }
  // On the disk before the run: a crash in between leaves a note about a run that is not there.
  Status noted;
  const auto started = backend_->Start((*entry)->catalog_id, request.payload, [&](std::int64_t id) {
    noted = Note(request.dedup_key, id, clock_.NowMicros() + request.dedup_window_secs * 1'000'000);
  });
  if (!noted) LogWarn("a crash now could start a run twice", {{"error", noted.error().message}});
  if (!started) {
    const bool refused = std::ranges::find(kRefusals, started.error().code) != kRefusals.end();
    return {.kind = refused ? Kind::kRefused : Kind::kFailed, .error = started.error().message};
  }
  open_.insert(*started);
  return {.kind = Kind::kStarted, .execution_id = std::to_string(*started)};
}

std::vector<DispatchOutcome> LocalDispatcher::Dispatch(std::span<const DispatchRequest> requests) {
  std::vector<DispatchOutcome> outcomes;
  for (const DispatchRequest& request : requests) outcomes.push_back(One(request));
  if (open_.size() >= std::max(look_at_, kRunsMin)) {
    if (const auto count = InFlight(0)) look_at_ = 2 * static_cast<std::size_t>(*count);
  }
  return outcomes;
}

Result<std::int64_t> LocalDispatcher::InFlight(std::int64_t) {
  for (auto id = open_.begin(); id != open_.end();) {
    NOETL_ASSIGN(const auto run, backend_->store().Find(*id));
    id = !run || run->terminal ? open_.erase(id) : std::next(id);
  }
  return std::ssize(open_);
}

Status LocalDispatcher::WaitForRuns() {
  while (true) {
    NOETL_ASSIGN(const std::int64_t count, InFlight(1));
    if (count == 0) return {};
    if (!backend_->owns()) NOETL_TRY(backend_->TakeOver());
    clock_.SleepMicros(kPauseUs);
  }
}

}  // namespace noetl::cli
