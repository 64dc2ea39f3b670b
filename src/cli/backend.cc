#include "cli/backend.h"

#include <array>
#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "conductor/messages.h"
#include "store/sqlite/sqlite_store.h"

namespace noetl::cli {
namespace {

// An owner that has just started reads its open runs before it answers; one that ends closes its
// store after it stopped answering.
constexpr std::chrono::seconds kOwnerAnswers{10};
constexpr std::chrono::milliseconds kOwnerRetry{50};
// A start or an end is answered after a commit.
constexpr std::chrono::seconds kCommitSeconds{30};
constexpr std::int64_t kCommitCallMs = 40'000;

// A command that a user watches says what matters itself: the log only tells what is wrong, unless
// the user asked for more.
void ConfigureCommandLog(const Settings& settings) {
  LogOptions options = LogOptions::From(settings);
  if (!settings.IsSet("NOETL_LOG") && !settings.IsSet("NOETL_DEBUG"))
    options.level = LogLevel::kWarn;
  ConfigureLog(options);
}

template <typename T>
Result<T> Await(std::future<Result<T>> answer) {
  if (answer.wait_for(kCommitSeconds) == std::future_status::ready) return answer.get();
  return Fail("unavailable", fmt::format("nothing was stored within {} s", kCommitSeconds.count()));
}

}  // namespace

Result<std::unique_ptr<Backend>> Backend::Open(std::string directory, const Settings* settings,
                                               conductor::Listener* listener) {
  ConfigureCommandLog(*settings);
  std::unique_ptr<Backend> backend(new Backend());
  backend->directory_ = std::move(directory);
  backend->settings_ = settings;
  backend->listener_ = listener;
  const auto until = std::chrono::steady_clock::now() + kOwnerAnswers;
  while (true) {
    auto node =
        Node::Open({.directory = backend->directory_, .settings = settings, .listener = listener});
    if (node) {
      backend->node_ = *std::move(node);
      backend->Serve();
      return backend;
    }
    if (node.error().code != "locked") return std::unexpected(node.error());
    if (CallOwner(backend->directory_, Json::Object({{"op", "ping"}}))) {
      NOETL_TRY(backend->OpenReader());
      return backend;
    }
    if (std::chrono::steady_clock::now() > until) return std::unexpected(node.error());
    std::this_thread::sleep_for(kOwnerRetry);
  }
}

Backend::~Backend() {
  control_.reset();
  node_.reset();
}

Status Backend::OpenReader() {
  NOETL_ASSIGN(reader_, store::OpenSqliteStore({.directory = directory_, .read_only = true}));
  return {};
}

// Without the socket everything works but other processes.
void Backend::Serve() {
  auto control = ControlServer::Serve(directory_, NodeHandler(node_.get()));
  if (control) control_ = *std::move(control);
  else LogWarn("other processes cannot use this one", {{"error", control.error().message}});
}

Status Backend::FindOwner() {
  const auto until = std::chrono::steady_clock::now() + kOwnerAnswers;
  while (true) {
    NOETL_ASSIGN(const bool taken, TakeOver());
    if (taken) return {};
    const auto answer = CallOwner(directory_, Json::Object({{"op", "ping"}}));
    if (answer) return {};
    if (std::chrono::steady_clock::now() > until) return std::unexpected(answer.error());
    std::this_thread::sleep_for(kOwnerRetry);
  }
}

Result<Json> Backend::Ask(const Json& request) {
  while (!node_) {
    auto answer = CallOwner(directory_, request, kCommitCallMs);
    if (answer || answer.error().code != "unreachable") return answer;
    NOETL_TRY(FindOwner());
  }
  return Json();
}

Result<std::int64_t> Backend::Register(const std::string& path, const std::string& content) {
  NOETL_ASSIGN(const Json answer,
               Ask(Json::Object({{"op", "register"}, {"path", path}, {"content", content}})));
  if (!answer.is_null()) return IdOf(answer["catalog_id"]);
  NOETL_ASSIGN(const store::CatalogEntry entry,
               node_->store().Register({.catalog_id = node_->ids().Next(),
                                        .path = path,
                                        .content = content,
                                        .created_at_us = clock_.NowMicros()}));
  return entry.catalog_id;
}

Result<std::int64_t> Backend::Start(std::int64_t catalog_id, const Json& payload,
                                    const std::function<void(std::int64_t)>& known) {
  NOETL_ASSIGN(const Json reserved, Ask(Json::Object({{"op", "new_id"}})));
  const std::int64_t id = reserved.is_null() ? node_->ids().Next() : IdOf(reserved["id"]);
  known(id);
  NOETL_ASSIGN(const Json answer, Ask(Json::Object({{"op", "start"},
                                                    {"execution_id", std::to_string(id)},
                                                    {"catalog_id", std::to_string(catalog_id)},
                                                    {"payload", payload}})));
  if (!answer.is_null()) return id;
  auto promise = std::make_shared<std::promise<Result<std::int64_t>>>();
  auto started = promise->get_future();
  node_->conductor().Start(
      {.execution_id = id, .catalog_id = catalog_id, .payload = payload},
      [promise](Result<std::int64_t> done) { promise->set_value(std::move(done)); });
  return Await(std::move(started));
}

Status Backend::Cancel(std::int64_t execution_id, const std::string& reason) {
  NOETL_ASSIGN(const Json asked, Ask(Json::Object({{"op", "cancel"},
                                                   {"execution_id", std::to_string(execution_id)},
                                                   {"reason", reason},
                                                   {"cascade", true}})));
  if (!asked.is_null()) return {};
  using Answer = conductor::Conductor::CancelAnswer;
  auto promise = std::make_shared<std::promise<Result<Answer>>>();
  auto answer = promise->get_future();
  node_->conductor().Cancel(execution_id, reason, "cli", true, [promise](Result<Answer> cancelled) {
    promise->set_value(std::move(cancelled));
  });
  NOETL_TRY(Await(std::move(answer)));
  return {};
}

Result<bool> Backend::TakeOver() {
  auto node = Node::Open({.directory = directory_, .settings = settings_, .listener = listener_});
  if (!node) {
    if (node.error().code == "locked") return false;
    return std::unexpected(node.error());
  }
  node_ = *std::move(node);
  reader_.reset();
  Serve();
  return true;
}

Result<std::vector<OpenRun>> OpenRunsOf(const store::Store& store) {
  NOETL_ASSIGN(const auto messages, store.Messages(0, kOpenRunsMax));
  NOETL_ASSIGN(const auto open, store.Open(0, kOpenRunsMax));
  std::vector<OpenRun> runs;
  std::set<std::int64_t> ids;
  for (const store::ExecutionRow& run : open) {
    runs.push_back({run.execution_id, run.parent_execution_id});
    ids.insert(run.execution_id);
  }
  for (const store::MessageRow& message : messages) {
    const std::int64_t id = message.target_execution_id;
    if (message.kind != store::MessageRow::Kind::kStartChild || ids.contains(id)) continue;
    NOETL_ASSIGN(const engine::ChildStart child, conductor::ReadChildStart(message));
    // It may have begun, or even ended, since the open ones were read.
    NOETL_ASSIGN(const auto known, store.Find(id));
    if (!known || !known->terminal)
      runs.push_back({id, child.parent_execution_id, known.has_value()});
  }
  return runs;
}

std::string Advice(const Error& error) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kAdvice = {{
      {"disk_full", "the disk is full: free some space and try again"},
      {"read_only", "give a directory that you may write to: --data DIR"},
      {"io", "check the data directory, or give another one: --data DIR"},
      {"corrupt", "run `noetl doctor`; `noetl restore` brings back a backup"},
      {"schema", "use the newer noetl that made this directory, or another one: --data DIR"},
      {"locked", "wait until it ends, or use another directory: --data DIR"},
      {"unavailable", "the disk may be full or slow; try again later"},
  }};
  for (const auto& [code, advice] : kAdvice) {
    if (code == error.code) return fmt::format("{}\n  hint: {}", error.message, advice);
  }
  return error.message;
}

int Complain(std::string_view command, const Error& error, Console& console, int code) {
  console.Err(fmt::format("noetl {}: {}\n", command, Advice(error)));
  return code;
}

}  // namespace noetl::cli
