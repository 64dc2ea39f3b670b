#include "api/streams.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "api/execution_json.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/text.h"

namespace noetl::api {

namespace {

constexpr std::int64_t kPageEvents = 200;
constexpr std::int64_t kPageChunks = 64;
// Runs of the first message of a list stream, and those that are looked at to continue one.
constexpr std::int64_t kListRuns = 50;
constexpr std::int64_t kListResumeRuns = 200;
// Events that a snapshot of one run shows.
constexpr std::int64_t kSnapshotEvents = 100;
// More changed runs between two messages are told as one snapshot.
constexpr std::size_t kChangedMax = 500;
// A client that was up to date once and is further behind is not sent everything it missed.
constexpr std::int64_t kBehindEventsMax = 5'000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::string SseMessage(std::string_view type, std::string_view id, const Json& data) {
  // Types come from workers: a line break would begin a field of their own.
  const std::string name(type.substr(0, type.find_first_of("\r\n")));
  std::string text;
  if (!id.empty()) text += fmt::format("id: {}\n", id);
  text += fmt::format("event: {}\ndata: ", name);
  AppendJson(text, data);
  text += "\n\n";
  return text;
}

// Touched by the thread alone once it has been added, except for what never changes.
struct Streams::Watcher {
  enum class Kind : std::uint8_t { kRun, kList, kLogs, kAlive };

  Id id = 0;
  Kind kind = Kind::kAlive;
  std::shared_ptr<BodyStream> stream;
  RunFeed run;
  ListFeed list;
  LogFeed logs;

  std::int64_t place = 0;  // seq of the last event, or number of chunks, that was sent
  bool looked = false;     // has been served once
  bool live = false;       // has been up to date
  bool lagging = false;    // a message did not fit
  bool saw_end = false;
  bool closed = false;
  std::map<std::string, TextRedactor> redactors;  // by command and stream

  std::int64_t execution_id() const {
    return kind == Kind::kRun ? run.execution_id : kind == Kind::kLogs ? logs.execution_id : 0;
  }
  bool plain_text() const { return kind == Kind::kLogs && !logs.sse; }
};

Streams::Streams(const store::Store* store, Clock* clock, StreamOptions options)
    : store_(store), clock_(clock), options_(options), thread_([this] { Run(); }) {}

Streams::~Streams() { Stop(); }

void Streams::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  std::map<Id, WatcherPtr> watchers;
  Round last;
  {
    const std::lock_guard lock(mutex_);
    watchers = std::exchange(watchers_, {});
    by_run_.clear();
    due_.clear();
    slow_.clear();
    list_watchers_ = 0;
    last.waits = std::exchange(ended_waits_, {});
    while (!waits_.empty()) TakeWait(waits_.begin()->first, &last);
    interested_ = 0;
  }
  for (auto& done : last.waits) done();
  for (const auto& [id, watcher] : watchers) {
    if (watcher) watcher->stream->Close();
  }
}

// ---- news from the lanes

void Streams::OnEvents(const store::ExecutionRow& execution, std::span<const store::EventRow>) {
  if (interested_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  bool news = false;
  const auto [first, last] = by_run_.equal_range(execution.execution_id);
  for (auto at = first; at != last; ++at) {
    if (at->second->kind == Watcher::Kind::kLogs && !execution.terminal) continue;
    news |= due_.insert(at->second).second;
  }
  if (execution.terminal) {
    const auto waiting = waits_by_run_.equal_range(execution.execution_id);
    std::vector<std::uint64_t> ended;
    for (auto at = waiting.first; at != waiting.second; ++at) ended.push_back(at->second);
    for (const std::uint64_t id : ended) TakeWait(id, nullptr);
    news |= !ended.empty();
  }
  if (list_watchers_ > 0 && !changed_too_many_) {
    changed_[execution.execution_id] = execution;
    changed_too_many_ = changed_.size() > kChangedMax;
    if (changed_too_many_) changed_.clear();
    if (flush_at_us_ == 0) {
      flush_at_us_ = clock_->MonotonicMicros() + options_.coalesce_ms * 1'000;
      news = true;
    }
  }
  if (news) wake_.notify_one();
}

void Streams::OnLogs(std::span<const store::LogChunk> chunks) {
  if (interested_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  bool news = false;
  for (const store::LogChunk& chunk : chunks) {
    const auto [first, last] = by_run_.equal_range(chunk.execution_id);
    for (auto at = first; at != last; ++at) {
      if (at->second->kind == Watcher::Kind::kLogs) news |= due_.insert(at->second).second;
    }
  }
  if (news) wake_.notify_one();
}

// ---- who watches

Result<Streams::Id> Streams::Reserve() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return Fail("unavailable", "the server is stopping");
  if (watchers_.size() >= options_.watchers_max)
    return Fail("unavailable", fmt::format("{} clients watch already", watchers_.size()));
  watchers_.emplace(next_id_, nullptr);
  ++interested_;
  return next_id_++;
}

void Streams::Remove(Id id) {
  const std::lock_guard lock(mutex_);
  const auto at = watchers_.find(id);
  if (at == watchers_.end()) return;
  if (const WatcherPtr watcher = at->second) {
    const auto [first, last] = by_run_.equal_range(watcher->execution_id());
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second != watcher) continue;
      by_run_.erase(entry);
      break;
    }
    if (watcher->kind == Watcher::Kind::kList) --list_watchers_;
    due_.erase(watcher);
    slow_.erase(watcher);
  }
  watchers_.erase(at);
  --interested_;
}

void Streams::Add(Id id, WatcherPtr watcher) {
  watcher->id = id;
  const std::lock_guard lock(mutex_);
  const auto at = watchers_.find(id);
  if (at == watchers_.end()) return;  // the client has gone already
  at->second = watcher;
  if (watcher->execution_id() != 0) by_run_.emplace(watcher->execution_id(), watcher);
  if (watcher->kind == Watcher::Kind::kList) ++list_watchers_;
  if (beat_at_us_ == 0) beat_at_us_ = clock_->MonotonicMicros() + options_.heartbeat_ms * 1'000;
  due_.insert(std::move(watcher));
  wake_.notify_one();
}

void Streams::FollowRun(Id id, std::shared_ptr<BodyStream> stream, RunFeed feed) {
  auto watcher = std::make_shared<Watcher>();
  watcher->kind = Watcher::Kind::kRun;
  watcher->stream = std::move(stream);
  watcher->place = feed.after_seq;
  watcher->run = feed;
  Add(id, std::move(watcher));
}

void Streams::FollowList(Id id, std::shared_ptr<BodyStream> stream, ListFeed feed) {
  auto watcher = std::make_shared<Watcher>();
  watcher->kind = Watcher::Kind::kList;
  watcher->stream = std::move(stream);
  watcher->list = std::move(feed);
  watcher->list.path_part = ToLower(watcher->list.path_part);
  Add(id, std::move(watcher));
}

void Streams::FollowLogs(Id id, std::shared_ptr<BodyStream> stream, LogFeed feed) {
  auto watcher = std::make_shared<Watcher>();
  watcher->kind = Watcher::Kind::kLogs;
  watcher->stream = std::move(stream);
  watcher->place = feed.after;
  watcher->logs = std::move(feed);
  Add(id, std::move(watcher));
}

void Streams::KeepAlive(Id id, std::shared_ptr<BodyStream> stream) {
  auto watcher = std::make_shared<Watcher>();
  watcher->stream = std::move(stream);
  Add(id, std::move(watcher));
}

Status Streams::WaitForEnd(std::int64_t execution_id, std::int64_t timeout_ms,
                           std::move_only_function<void()> done) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Fail("unavailable", "the server is stopping");
    if (waits_.size() >= options_.waits_max)
      return Fail("unavailable", fmt::format("{} requests wait already", waits_.size()));
    id = next_id_++;
    const std::int64_t due_us = clock_->MonotonicMicros() + timeout_ms * 1'000;
    waits_.emplace(id, Wait{execution_id, due_us, std::move(done)});
    waits_by_run_.emplace(execution_id, id);
    waits_due_.emplace(due_us, id);
    ++interested_;
  }
  // It may have ended before anybody would have told us.
  const auto row = store_->Find(execution_id);
  const bool over = !row || !*row || (*row)->terminal;
  {
    const std::lock_guard lock(mutex_);
    if (over) TakeWait(id, nullptr);
  }
  wake_.notify_one();
  return {};
}

std::size_t Streams::watchers() const {
  const std::lock_guard lock(mutex_);
  return watchers_.size();
}

// Under the lock: the wait is over; the thread answers it.
void Streams::TakeWait(std::uint64_t id, Round* round) {
  const auto at = waits_.find(id);
  if (at == waits_.end()) return;
  (round ? round->waits : ended_waits_).push_back(std::move(at->second.done));
  waits_due_.erase({at->second.due_us, id});
  const auto [first, last] = waits_by_run_.equal_range(at->second.execution_id);
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second != id) continue;
    waits_by_run_.erase(entry);
    break;
  }
  waits_.erase(at);
  --interested_;
}

// ---- the thread

std::int64_t Streams::NextDueUs() const {
  std::int64_t due = kNever;
  if (!due_.empty() || !ended_waits_.empty()) return 0;
  if (flush_at_us_ != 0) due = std::min(due, flush_at_us_);
  if (!slow_.empty()) due = std::min(due, slow_at_us_);
  if (!watchers_.empty() && beat_at_us_ != 0) due = std::min(due, beat_at_us_);
  if (!waits_due_.empty()) due = std::min(due, waits_due_.begin()->first);
  return due;
}

void Streams::Run() {
  for (;;) {
    Round round;
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        if (stopping_) return;
        const std::int64_t due_us = NextDueUs();
        const std::int64_t now_us = clock_->MonotonicMicros();
        if (due_us <= now_us) {
          round = TakeRound(now_us);
          break;
        }
        if (due_us == kNever) wake_.wait(lock);
        else wake_.wait_for(lock, std::chrono::microseconds(due_us - now_us));
      }
    }
    Serve(round);
  }
}

Streams::Round Streams::TakeRound(std::int64_t now_us) {
  Round round;
  round.waits = std::exchange(ended_waits_, {});
  while (!waits_due_.empty() && waits_due_.begin()->first <= now_us)
    TakeWait(waits_due_.begin()->second, &round);
  if (!slow_.empty() && slow_at_us_ <= now_us) due_.merge(std::exchange(slow_, {}));
  round.due.assign(due_.begin(), due_.end());
  due_.clear();
  const bool flush = flush_at_us_ != 0 && flush_at_us_ <= now_us;
  const bool beat = beat_at_us_ != 0 && beat_at_us_ <= now_us;
  for (const auto& [id, watcher] : watchers_) {
    if (!watcher || (!flush && !beat)) continue;
    if (flush && watcher->kind == Watcher::Kind::kList) round.lists.push_back(watcher);
    if (beat && !watcher->plain_text()) round.beats.push_back(watcher);
  }
  if (flush) {
    round.changed = std::exchange(changed_, {});
    round.changed_too_many = std::exchange(changed_too_many_, false);
    flush_at_us_ = 0;
  }
  if (beat) beat_at_us_ = watchers_.empty() ? 0 : now_us + options_.heartbeat_ms * 1'000;
  return round;
}

void Streams::Serve(Round& round) {
  for (auto& done : round.waits) done();
  for (const WatcherPtr& watcher : round.due) {
    switch (watcher->kind) {
      case Watcher::Kind::kRun: ServeRun(*watcher); break;
      case Watcher::Kind::kLogs: ServeLogs(*watcher); break;
      case Watcher::Kind::kList:
        if (!watcher->looked || watcher->lagging) SendList(*watcher);
        break;
      case Watcher::Kind::kAlive: break;
    }
  }
  for (const WatcherPtr& watcher : round.lists) ServeList(*watcher, round);
  // Nobody is told that a message did not fit: the next one shows it.
  for (const WatcherPtr& watcher : round.beats) {
    if (!watcher->closed) watcher->stream->Write(": heartbeat\n\n");
  }
}

// ---- writing

void Streams::LookAgain(Watcher& watcher) {
  const std::lock_guard lock(mutex_);
  const auto at = watchers_.find(watcher.id);
  if (at == watchers_.end() || !at->second) return;
  if (slow_.empty()) slow_at_us_ = clock_->MonotonicMicros() + options_.coalesce_ms * 1'000;
  slow_.insert(at->second);
}

bool Streams::Ready(Watcher& watcher) {
  if (watcher.closed) return false;
  if (watcher.stream->waiting() <= kStreamBytesMax / 2) return true;
  LookAgain(watcher);
  return false;
}

bool Streams::Write(Watcher& watcher, std::string text) {
  if (text.empty() || watcher.stream->Write(std::move(text))) return true;
  watcher.lagging = true;
  LookAgain(watcher);
  return false;
}

// ---- one run

void Streams::SendSnapshot(Watcher& watcher, const store::ExecutionRow& row) {
  const auto newest = store_->ReadNewest(row.execution_id, row.head + 1, "", kSnapshotEvents);
  if (!newest) return LookAgain(watcher);
  std::vector<Json> events;
  for (auto event = newest->rbegin(); event != newest->rend(); ++event)
    events.push_back(EventBody(*event, {.ids = Ids::kTexts, .redact = true, .payload = false}));
  const Json body =
      Json::Object({{"execution", ExecutionSummary(row, clock_->NowMicros(), Ids::kTexts)},
                    {"skipped", row.head - watcher.place},
                    {"events", Json::Array(std::move(events))}});
  watcher.lagging = false;
  if (!Write(watcher, SseMessage("snapshot", std::to_string(row.last_event_id), body))) return;
  watcher.place = row.head;
  watcher.saw_end = row.terminal;
}

void Streams::EndRun(Watcher& watcher, std::string_view status) {
  const Json body = Json::Object(
      {{"execution_id", std::to_string(watcher.run.execution_id)}, {"status", status}});
  if (!Write(watcher, SseMessage("end", "", body))) return;
  watcher.closed = true;
  watcher.stream->Close();
}

void Streams::ServeRun(Watcher& watcher) {
  if (!Ready(watcher)) return;
  const auto row = store_->Find(watcher.run.execution_id);
  if (!row) return LookAgain(watcher);
  if (!*row) return EndRun(watcher, "PURGED");
  const bool behind = watcher.live && (*row)->head - watcher.place > kBehindEventsMax;
  if (watcher.lagging || behind) SendSnapshot(watcher, **row);
  while (!watcher.lagging) {
    const auto events = store_->ReadEvents(watcher.run.execution_id, watcher.place, kPageEvents);
    if (!events) return LookAgain(watcher);
    for (const engine::Event& event : *events) {
      if (!Ready(watcher)) return;
      const Json body =
          EventBody(event, {.ids = Ids::kTexts, .redact = watcher.run.redact, .payload = true});
      if (!Write(watcher, SseMessage(event.type_name, std::to_string(event.event_id), body)))
        return;
      watcher.place = event.seq;
      watcher.saw_end |= engine::IsTerminal(event.type);
    }
    if (std::ssize(*events) < kPageEvents) break;
  }
  if (watcher.lagging) return;
  watcher.live = true;
  // Who continues after the last event does not see it again.
  if (watcher.saw_end || (*row)->terminal) EndRun(watcher, (*row)->status);
}

// ---- logs

void Streams::ServeLogs(Watcher& watcher) {
  if (!Ready(watcher)) return;
  const LogFeed& feed = watcher.logs;
  // Before the chunks: a run that has ended writes no more.
  const auto row = store_->Find(feed.execution_id);
  if (!row) return LookAgain(watcher);
  for (;;) {
    const auto chunks =
        store_->ReadLogs(feed.execution_id, feed.command_id, watcher.place, kPageChunks);
    if (!chunks) return LookAgain(watcher);
    for (const store::LogChunk& chunk : *chunks) {
      if (!Ready(watcher)) return;
      const bool wanted = (feed.step.empty() || chunk.step == feed.step) &&
                          (feed.stream.empty() || chunk.stream == feed.stream);
      std::string text;
      if (wanted && feed.sse) {
        text = SseMessage("log", "", LogBody(chunk, feed.redact));
      } else if (wanted && feed.redact) {
        text = watcher.redactors[fmt::format("{}/{}", chunk.command_id, chunk.stream)].Next(
            chunk.text);
      } else if (wanted) {
        text = chunk.text;
      }
      if (!Write(watcher, std::move(text))) return;
      ++watcher.place;
    }
    if (std::ssize(*chunks) < kPageChunks) break;
  }
  if (*row && !(*row)->terminal) return;
  for (auto& [stream, redactor] : watcher.redactors) Write(watcher, redactor.End());
  if (feed.sse) {
    Write(watcher, SseMessage("end", "",
                              Json::Object({{"execution_id", std::to_string(feed.execution_id)},
                                            {"status", *row ? (*row)->status : "PURGED"}})));
  }
  watcher.closed = true;
  watcher.stream->Close();
}

// ---- the list of runs

void Streams::SendList(Watcher& watcher) {
  if (!Ready(watcher)) return;
  const bool resumes = !watcher.looked && watcher.list.after_event_id != 0;
  store::ExecutionFilter filter;
  filter.path_part = watcher.list.path_part;
  filter.limit = resumes ? kListResumeRuns : kListRuns;
  const auto rows = store_->List(filter);
  if (!rows) return LookAgain(watcher);
  watcher.looked = true;
  watcher.lagging = false;
  std::int64_t newest = 0;
  std::string text;
  std::vector<Json> shown;
  for (const store::ExecutionRow& row : *rows) {
    newest = std::max(newest, row.last_event_id);
    Json body = ExecutionSummary(row, clock_->NowMicros(), Ids::kTexts);
    if (!resumes) shown.push_back(std::move(body));
    else if (row.last_event_id > watcher.list.after_event_id)
      text += SseMessage("execution", std::to_string(row.last_event_id), body);
  }
  if (!resumes) {
    text = SseMessage("snapshot", newest == 0 ? "" : std::to_string(newest),
                      Json::Object({{"executions", Json::Array(std::move(shown))}}));
  }
  Write(watcher, std::move(text));
}

void Streams::ServeList(Watcher& watcher, const Round& round) {
  if (watcher.lagging || !watcher.looked) return;  // the snapshot that comes holds these changes
  if (round.changed_too_many) return SendList(watcher);
  std::string text;
  for (const auto& [id, row] : round.changed) {
    const bool wanted = watcher.list.path_part.empty() ||
                        ToLower(row.path).find(watcher.list.path_part) != std::string::npos;
    if (!wanted) continue;
    text += SseMessage("execution", std::to_string(row.last_event_id),
                       ExecutionSummary(row, clock_->NowMicros(), Ids::kTexts));
  }
  Write(watcher, std::move(text));
}

}  // namespace noetl::api
