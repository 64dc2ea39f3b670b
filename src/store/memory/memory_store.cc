#include "store/memory/memory_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "store/chain.h"
#include "store/memory/memory_catalog.h"
#include "store/memory/memory_server.h"
#include "store/memory/memory_subscriptions.h"
#include "store/reference.h"
#include "store/result_lifetime.h"
#include "store/unit_check.h"

namespace noetl::store {

namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr std::int64_t kSnapshotKeptUs = 3'600'000'000;  // after the end of a run: one hour

// A timer is known by all but its time: arming it again moves it.
using TimerKey =
    std::tuple<std::int64_t, engine::Timer::Kind, std::string, std::int64_t, std::string>;

TimerKey KeyOf(std::int64_t execution_id, const engine::Timer& timer) {
  return {execution_id, timer.kind, timer.step, timer.run, timer.command_id};
}

struct LoopKey {
  std::string step;
  std::int64_t run = 0;
  std::int64_t index = 0;
  auto operator<=>(const LoopKey&) const = default;
};

struct Body {
  std::string name;
  std::string data;
  std::optional<ResultRow> put;  // by a worker
};

// Everything that belongs to one run and goes with it. Without a row: the log of a subscription, or
// what outlives a run.
struct Run {
  std::optional<ExecutionRow> row;
  std::vector<EventRow> events;
  std::map<std::int64_t, CommandRow> commands;
  std::map<std::int64_t, Body> bodies;
  std::map<LoopKey, std::string> loop_rows;
  std::optional<SnapshotRow> snapshot;
  std::vector<LogChunk> logs;
  std::set<std::tuple<std::int64_t, std::string, std::int64_t>> log_offsets;
};

template <typename T>
std::vector<T> Page(const std::vector<T>& rows, std::int64_t from, std::int64_t limit) {
  const auto size = static_cast<std::int64_t>(rows.size());
  const std::int64_t begin = std::clamp<std::int64_t>(from, 0, size);
  const std::int64_t end = begin + std::min(size - begin, std::max<std::int64_t>(limit, 0));
  return {rows.begin() + begin, rows.begin() + end};
}

void Apply(const CommandChange& change, CommandRow& row) {
  row.status = change.status;
  row.parked = change.parked;
  row.lease_until_us = change.lease_until_us;
  const auto set = [](auto& member, const auto& value) {
    if (value != std::remove_cvref_t<decltype(value)>()) member = value;
  };
  set(row.worker_id, change.worker_id);
  set(row.claim_token, change.claim_token);
  set(row.claimed_at_us, change.claimed_at_us);
  set(row.started_at_us, change.started_at_us);
  set(row.completed_at_us, change.completed_at_us);
  set(row.latest_event_id, change.latest_event_id);
  set(row.error, change.error);
}

bool PathMatches(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return true;
  if (pattern.ends_with('*')) return path.starts_with(pattern.substr(0, pattern.size() - 1));
  return path == pattern;
}

// "key=value", or "key" of any value.
bool LabelMatches(const std::string& wanted, const std::string& label) {
  if (wanted.find('=') != std::string::npos) return label == wanted;
  return label.starts_with(wanted + "=");
}

bool Matches(const ExecutionFilter& filter, const ExecutionRow& row) {
  const auto has_label = [&] {
    return std::any_of(row.labels.begin(), row.labels.end(),
                       [&](const std::string& label) { return LabelMatches(filter.label, label); });
  };
  return (filter.status.empty() || filter.status == row.status) &&
         PathMatches(filter.path, row.path) &&
         ToLower(row.path).find(ToLower(filter.path_part)) != std::string::npos &&
         (filter.label.empty() || has_label()) &&
         (filter.catalog_id == 0 || filter.catalog_id == row.catalog_id) &&
         (filter.version == 0 || filter.version == row.version) &&
         (filter.parent_execution_id == 0 ||
          filter.parent_execution_id == row.parent_execution_id) &&
         (filter.started_after_us == 0 || row.started_at_us > filter.started_after_us) &&
         (filter.started_before_us == 0 ||
          (row.started_at_us != 0 && row.started_at_us < filter.started_before_us)) &&
         (filter.before_id == 0 || row.execution_id < filter.before_id);
}

// Takes the text of pieces that begin in the middle of a stream, before `until`. The first one says
// that something is missing.
void ShortenLog(std::vector<LogChunk>& logs, const LogChunk& newest, std::int64_t until) {
  LogChunk* first = nullptr;
  for (LogChunk& chunk : logs) {
    const bool beyond = chunk.command_id == newest.command_id && chunk.stream == newest.stream &&
                        chunk.offset >= kLogEndBytes;
    if (!beyond) continue;
    if (!first || chunk.offset < first->offset) first = &chunk;
    if (chunk.offset < until && chunk.text != kLogGap) chunk.text.clear();
  }
  if (first && first->text.empty()) first->text = kLogGap;
}

// Labels are written and never read.
ExecutionRow WithoutLabels(ExecutionRow row) {
  row.labels.clear();
  return row;
}

class MemoryStore final : public MemoryServer {
 public:
  explicit MemoryStore(MemoryStoreOptions options) : options_(std::move(options)) {}

  std::vector<Status> Commit(std::span<const UnitRows* const> units) override {
    std::vector<Status> answers(units.size());
    std::vector<const UnitRows*> stored;
    CommitFault fault = CommitFault::kNone;
    {
      Lock lock(mutex_);
      ++commits_;
      if (options_.fault) fault = options_.fault(commits_);
      if (fault == CommitFault::kRefuse || fault == CommitFault::kFull) {
        const bool full = fault == CommitFault::kFull;
        std::fill(answers.begin(), answers.end(),
                  Fail(full ? "disk_full" : "io", full ? "memory: full" : "memory: refused"));
        return answers;
      }
      for (std::size_t i = 0; i < units.size(); ++i) {
        answers[i] = CheckAgainstStored(*units[i]);
        if (!answers[i]) continue;
        Keep(*units[i]);
        stored.push_back(units[i]);
      }
      for (const UnitRows* unit : stored) {
        for (const EventRow& row : unit->events) FillOutboxWith(row);
      }
    }
    if (options_.on_commit && !stored.empty()) options_.on_commit(stored);
    if (fault == CommitFault::kUnknown) {
      std::fill(answers.begin(), answers.end(), Fail("io", "memory: the answer was lost"));
    }
    return answers;
  }

  Result<std::vector<engine::Event>> ReadEvents(std::int64_t execution_id, std::int64_t after_seq,
                                                std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<engine::Event> events;
    if (const Run* run = FindRun(execution_id)) {
      for (EventRow& row : Page(run->events, after_seq, limit))
        events.push_back(std::move(row.event));
    }
    return events;
  }

  Result<std::vector<EventRow>> ReadRows(std::int64_t execution_id, std::int64_t after_seq,
                                         std::int64_t limit) const override {
    Lock lock(mutex_);
    const Run* run = FindRun(execution_id);
    return run ? Page(run->events, after_seq, limit) : std::vector<EventRow>();
  }

  Result<std::optional<engine::Event>> FindEvent(std::int64_t execution_id,
                                                 std::int64_t event_id) const override {
    Lock lock(mutex_);
    if (const Run* run = FindRun(execution_id)) {
      for (const EventRow& row : run->events) {
        if (row.event.event_id == event_id) return row.event;
      }
    }
    return std::nullopt;
  }

  Result<std::optional<engine::Event>> FindEvent(std::int64_t event_id) const override {
    Lock lock(mutex_);
    const auto found = first_events_.find(event_id);
    if (found == first_events_.end()) return std::nullopt;
    const auto [execution_id, seq] = *found->second.begin();
    return runs_.at(execution_id).events[static_cast<std::size_t>(seq - 1)].event;
  }

  Result<std::optional<engine::Event>> FindWorkerEvent(std::int64_t command_id,
                                                       std::string_view type_name) const override {
    Lock lock(mutex_);
    const auto owner = command_owner_.find(command_id);
    if (owner == command_owner_.end()) return std::nullopt;
    for (const EventRow& row : runs_.at(owner->second).events) {
      if (row.command_id == command_id && row.event.type_name == type_name &&
          !row.event.worker_id.empty()) {
        return row.event;
      }
    }
    return std::nullopt;
  }

  Result<std::vector<engine::Event>> ReadNewest(std::int64_t execution_id, std::int64_t before_seq,
                                                std::string_view type_name,
                                                std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<engine::Event> events;
    const Run* run = FindRun(execution_id);
    if (!run) return events;
    for (auto row = run->events.rbegin(); row != run->events.rend(); ++row) {
      if (std::ssize(events) >= limit) break;
      if (row->event.seq < before_seq && (type_name.empty() || row->event.type_name == type_name))
        events.push_back(row->event);
    }
    return events;
  }

  Result<std::optional<ExecutionRow>> Find(std::int64_t execution_id) const override {
    Lock lock(mutex_);
    const Run* run = FindRun(execution_id);
    if (!run || !run->row) return std::nullopt;
    return WithoutLabels(*run->row);
  }

  Result<std::vector<ExecutionRow>> List(const ExecutionFilter& filter) const override {
    Lock lock(mutex_);
    std::vector<ExecutionRow> rows;
    std::int64_t left_out = 0;
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      if (std::ssize(rows) >= filter.limit) break;
      if (!run->second.row || !Matches(filter, *run->second.row)) continue;
      if (left_out++ >= filter.offset) rows.push_back(WithoutLabels(*run->second.row));
    }
    return rows;
  }

  Result<std::vector<ExecutionRow>> Open(std::int64_t after_id, std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<ExecutionRow> rows;
    for (auto run = runs_.upper_bound(after_id); run != runs_.end(); ++run) {
      if (std::ssize(rows) >= limit) break;
      if (run->second.row && !run->second.row->terminal)
        rows.push_back(WithoutLabels(*run->second.row));
    }
    return rows;
  }

  Result<ExecutionCounts> Count(std::int64_t started_after_us) const override {
    Lock lock(mutex_);
    ExecutionCounts counts;
    for (const auto& [id, run] : runs_) {
      if (!run.row || run.row->started_at_us < started_after_us) continue;
      const std::string& status = run.row->status;
      std::int64_t& count = status == "RUNNING"     ? counts.running
                            : status == "FAILED"    ? counts.failed
                            : status == "CANCELLED" ? counts.cancelled
                                                    : counts.completed;
      ++count;
    }
    return counts;
  }

  Result<std::vector<CommandRow>> OpenCommands(std::int64_t after_id,
                                               std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<CommandRow> rows;
    for (auto at = open_commands_.upper_bound(after_id); at != open_commands_.end(); ++at) {
      if (std::ssize(rows) >= limit) break;
      rows.push_back(*FindCommandRow(*at));
    }
    return rows;
  }

  Result<std::optional<CommandRow>> FindCommand(std::int64_t command_id) const override {
    Lock lock(mutex_);
    const CommandRow* row = FindCommandRow(command_id);
    return row ? std::optional(*row) : std::nullopt;
  }

  Result<std::vector<CommandRow>> CommandsOf(std::int64_t execution_id, std::int64_t after_id,
                                             std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<CommandRow> rows;
    if (const Run* run = FindRun(execution_id)) {
      for (auto at = run->commands.upper_bound(after_id); at != run->commands.end(); ++at) {
        if (std::ssize(rows) >= limit) break;
        rows.push_back(at->second);
      }
    }
    return rows;
  }

  Result<std::vector<TimerRow>> DueTimers(std::int64_t until_us,
                                          std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<TimerRow> rows;
    for (const auto& [key, timer] : timers_) {
      if (timer.due_us <= until_us) rows.push_back({std::get<0>(key), timer});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const TimerRow& a, const TimerRow& b) {
      return a.timer.due_us < b.timer.due_us;
    });
    if (std::ssize(rows) > limit)
      rows.resize(static_cast<std::size_t>(std::max<std::int64_t>(limit, 0)));
    return rows;
  }

  Result<std::optional<std::int64_t>> NextDueUs(std::int64_t after_us) const override {
    Lock lock(mutex_);
    std::optional<std::int64_t> next;
    const auto consider = [&](std::int64_t due_us) {
      if (due_us > after_us && (!next || due_us < *next)) next = due_us;
    };
    for (const auto& [key, timer] : timers_) consider(timer.due_us);
    for (const auto& [id, message] : messages_) consider(message.not_before_us);
    return next;
  }

  Result<std::vector<MessageRow>> Messages(std::int64_t after_id,
                                           std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<MessageRow> rows;
    for (auto at = messages_.upper_bound(after_id); at != messages_.end(); ++at) {
      if (std::ssize(rows) >= limit) break;
      rows.push_back(at->second);
    }
    return rows;
  }

  Result<Json> Load(std::string_view ref) const override;
  Result<std::vector<LoopRow>> LoopRows(std::int64_t execution_id, std::string_view step,
                                        std::int64_t run, std::int64_t from,
                                        std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<LoopRow> rows;
    const Run* owner = FindRun(execution_id);
    if (!owner) return rows;
    for (auto at = owner->loop_rows.lower_bound({std::string(step), run, from});
         at != owner->loop_rows.end() && at->first.step == step && at->first.run == run; ++at) {
      if (std::ssize(rows) >= limit) break;
      rows.push_back({at->first.step, run, at->first.index, at->second});
    }
    return rows;
  }

  Result<std::optional<SnapshotRow>> LoadSnapshot(std::int64_t execution_id) const override {
    Lock lock(mutex_);
    const Run* run = FindRun(execution_id);
    return run ? run->snapshot : std::nullopt;
  }

  Result<CatalogEntry> Register(CatalogEntry entry) override {
    Lock lock(mutex_);
    return catalog_.Register(std::move(entry));
  }
  Result<std::optional<CatalogEntry>> FindEntry(std::int64_t catalog_id) const override {
    Lock lock(mutex_);
    const CatalogEntry* entry = catalog_.Find(catalog_id);
    return entry ? std::optional(*entry) : std::nullopt;
  }
  Result<std::optional<CatalogEntry>> FindEntry(std::string_view path,
                                                std::int64_t version) const override {
    Lock lock(mutex_);
    const CatalogEntry* entry = catalog_.Find(path, version);
    return entry ? std::optional(*entry) : std::nullopt;
  }
  Result<std::vector<CatalogEntry>> ListEntries(std::string_view after_path,
                                                std::int64_t limit) const override {
    Lock lock(mutex_);
    return catalog_.Newest(after_path, limit);
  }
  Result<std::vector<CatalogEntry>> ListCatalog(const CatalogFilter& filter) const override {
    Lock lock(mutex_);
    return catalog_.List(filter);
  }
  Result<std::vector<CatalogEntry>> FindListener(std::string_view listener,
                                                 std::int64_t limit) const override {
    Lock lock(mutex_);
    return catalog_.WithListener(listener, limit);
  }
  Result<CatalogRemoval> RemoveEntries(std::string_view path, std::int64_t version,
                                       std::int64_t now_us) override {
    Lock lock(mutex_);
    return catalog_.Remove(path, version, now_us, [&](const CatalogEntry& entry) {
      return std::any_of(runs_.begin(), runs_.end(),
                         [&](const auto& run) {
                           return run.second.row && run.second.row->catalog_id == entry.catalog_id;
                         }) ||
             subscriptions_.Uses(entry.catalog_id);
    });
  }
  Result<std::vector<CatalogEntry>> RestoreEntries(std::string_view path,
                                                   std::int64_t version) override {
    Lock lock(mutex_);
    return catalog_.Restore(path, version);
  }

  Result<ResultRow> PutResult(ResultRow row, std::string_view data) override;
  Result<std::vector<ResultRow>> ListResults(std::int64_t execution_id, std::int64_t after_id,
                                             std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<ResultRow> rows;
    const Run* run = FindRun(execution_id);
    if (!run) return rows;
    for (auto at = run->bodies.upper_bound(after_id); at != run->bodies.end(); ++at) {
      if (std::ssize(rows) >= limit) break;
      if (at->second.put) rows.push_back(*at->second.put);
    }
    return rows;
  }
  Result<std::optional<ResultRow>> FindResult(std::int64_t execution_id,
                                              std::int64_t result_id) const override {
    Lock lock(mutex_);
    const Run* run = FindRun(execution_id);
    const auto body = run ? run->bodies.find(result_id) : decltype(run->bodies.end())();
    return run && body != run->bodies.end() ? body->second.put : std::nullopt;
  }
  Result<std::int64_t> PurgeResults(std::int64_t now_us, std::int64_t limit) override;
  Result<std::int64_t> DeleteResults(std::int64_t execution_id) override {
    Lock lock(mutex_);
    const auto run = runs_.find(execution_id);
    if (run == runs_.end()) return 0;
    return static_cast<std::int64_t>(std::erase_if(
        run->second.bodies, [](const auto& entry) { return entry.second.put.has_value(); }));
  }

  Result<SubscriptionRow> RegisterSubscription(const SubscriptionRow& fresh, std::int64_t event_id,
                                               std::int64_t now_us) override {
    Lock lock(mutex_);
    const CatalogEntry* entry = catalog_.Find(fresh.catalog_id);
    if (!entry || entry->archived_at_us != 0)
      return Fail("not_found", fmt::format("the catalog has no entry {}", fresh.catalog_id));
    if (const SubscriptionRow* live = subscriptions_.Live(fresh.path)) return *live;
    return KeepStep(subscriptions_.Begin(fresh, event_id, now_us));
  }
  Result<std::optional<SubscriptionRow>> FindSubscription(std::int64_t id) const override {
    Lock lock(mutex_);
    const SubscriptionRow* row = subscriptions_.Find(id);
    return row ? std::optional(*row) : std::nullopt;
  }
  Result<std::vector<SubscriptionRow>> ListSubscriptions(std::int64_t before_id,
                                                         std::int64_t limit) const override {
    Lock lock(mutex_);
    return subscriptions_.List(before_id, limit);
  }
  Result<SubscriptionRow> ActOnSubscription(std::int64_t id, std::string_view action,
                                            std::int64_t event_id, std::int64_t now_us) override {
    Lock lock(mutex_);
    return KeepStep(subscriptions_.Act(id, action, event_id, now_us));
  }

  Result<StoreGauges> Measure() const override;

  Result<std::vector<LogChunk>> ReadLogs(std::int64_t execution_id, std::int64_t command_id,
                                         std::int64_t after, std::int64_t limit) const override {
    Lock lock(mutex_);
    std::vector<LogChunk> chunks;
    const Run* run = FindRun(execution_id);
    if (!run) return chunks;
    for (const LogChunk& chunk : run->logs) {
      if (command_id == 0 || chunk.command_id == command_id) chunks.push_back(chunk);
    }
    return Page(chunks, after, limit);
  }

  Status Purge(std::int64_t execution_id) override {
    Lock lock(mutex_);
    const Run* run = FindRun(execution_id);
    if (!run || !run->row) return Fail("not_found", fmt::format("no execution {}", execution_id));
    if (!run->row->terminal) {
      return Fail("open", fmt::format("execution {} has not ended", execution_id));
    }
    Remove(execution_id);
    return {};
  }

  Result<std::int64_t> PurgeEnded(std::int64_t before_us, std::int64_t now_us,
                                  std::int64_t limit) override {
    Lock lock(mutex_);
    std::vector<std::pair<std::int64_t, std::int64_t>> ended;  // when, id
    for (auto& [id, run] : runs_) {
      if (!run.row || !run.row->terminal) continue;
      if (run.row->ended_at_us < now_us - kSnapshotKeptUs) run.snapshot.reset();
      if (run.row->ended_at_us < before_us) ended.emplace_back(run.row->ended_at_us, id);
    }
    std::sort(ended.begin(), ended.end());
    if (std::ssize(ended) > limit)
      ended.resize(static_cast<std::size_t>(std::max<std::int64_t>(limit, 0)));
    for (const auto& [when, id] : ended) Remove(id);
    return std::ssize(ended);
  }

  Status Backup(const std::string&) override {
    return Fail("io", "a store in memory has no file to copy");
  }

  Result<std::vector<std::string>> Check() const override {
    Lock lock(mutex_);
    std::vector<std::string> findings;
    for (const auto& [id, run] : runs_) {
      if (!run.row) continue;
      Sha256Digest chain = ChainStart(id);
      std::int64_t seq = 0;
      for (const EventRow& row : run.events) {
        if (row.event.seq != ++seq) findings.push_back(fmt::format("execution {}: gap", id));
        chain = row.chain;
      }
      if (run.row->head != seq || run.row->chain != chain) {
        findings.push_back(fmt::format("execution {}: its head is not that of its log", id));
      }
    }
    return findings;
  }

  Result<StoreStats> Stats() const override {
    Lock lock(mutex_);
    StoreStats stats;
    for (const auto& [id, run] : runs_) {
      if (!run.row) continue;
      ++stats.executions;
      if (!run.row->terminal) ++stats.open_executions;
      stats.events += std::ssize(run.events);
      for (const EventRow& row : run.events) {
        stats.bytes += std::ssize(row.context) + std::ssize(row.result) + std::ssize(row.meta);
      }
    }
    return stats;
  }

 private:
  const Run* FindRun(std::int64_t execution_id) const {
    const auto run = runs_.find(execution_id);
    return run == runs_.end() ? nullptr : &run->second;
  }

  const CommandRow* FindCommandRow(std::int64_t command_id) const {
    const auto owner = command_owner_.find(command_id);
    if (owner == command_owner_.end()) return nullptr;
    return &runs_.at(owner->second).commands.at(command_id);
  }

  void FillOutboxWith(const EventRow& row) {
    if (options_.outbox) FillOutbox(row);
  }
  void KeepEvent(const EventRow& row, Run& run) {
    first_events_[row.event.event_id].emplace_back(row.event.execution_id, row.event.seq);
    run.events.push_back(row);
  }
  Result<SubscriptionRow> KeepStep(Result<SubscriptionStep> step) {
    if (!step) return std::unexpected(step.error());
    KeepEvent(step->event, runs_[step->row.subscription_id]);
    FillOutboxWith(step->event);
    subscriptions_.Keep(step->row);
    return std::move(step->row);
  }

  Status CheckAgainstStored(const UnitRows& unit) const;
  void Keep(const UnitRows& unit);
  void KeepRows(const UnitRows& unit, Run& run);
  void KeepWork(const UnitRows& unit, Run& run);
  void Remove(std::int64_t execution_id);

  MemoryStoreOptions options_;
  mutable std::mutex mutex_;  // taken before the one of the layer below
  std::int64_t commits_ = 0;
  std::map<std::int64_t, Run> runs_;
  std::map<std::int64_t, std::int64_t> command_owner_;
  std::set<std::int64_t> open_commands_;
  std::map<TimerKey, engine::Timer> timers_;
  std::map<std::int64_t, MessageRow> messages_;
  // Run and seq of the events with an id, in the order of their commits.
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> first_events_;
  MemoryCatalog catalog_;
  MemorySubscriptions subscriptions_;
};

Result<StoreGauges> MemoryStore::Measure() const {
  Lock lock(mutex_);
  StoreGauges gauges{.oldest_outbox_us = OldestOutboxUs()};
  for (const std::int64_t id : open_commands_) {
    const CommandRow& row = *FindCommandRow(id);
    if (row.status != CommandStatus::kPending || row.server_run) continue;
    gauges.oldest_pending_us = row.created_at_us;
    break;
  }
  return gauges;
}

// Everything is looked at before anything changes, so that a refused unit leaves no trace.
Status MemoryStore::CheckAgainstStored(const UnitRows& unit) const {
  NOETL_TRY(CheckUnit(unit));
  const Run* run = FindRun(unit.execution_id);
  if (!unit.events.empty()) {
    const std::int64_t head = run && run->row ? run->row->head : 0;
    if (head != unit.expected_head) return HeadConflict(unit, head);
    if (run && run->row && run->row->terminal && HasTerminal(unit)) return EndedAlready(unit);
  }
  const auto bad = [&](std::string_view what, std::int64_t id) {
    return Fail("bad_row", fmt::format("execution {}: {} {}", unit.execution_id, what, id));
  };
  std::set<std::int64_t> new_commands;
  for (const CommandRow& row : unit.commands) {
    if (command_owner_.contains(row.command_id) || !new_commands.insert(row.command_id).second) {
      return bad("there is already a command", row.command_id);
    }
  }
  for (const CommandChange& change : unit.command_changes) {
    if (!command_owner_.contains(change.command_id) && !new_commands.contains(change.command_id)) {
      return bad("there is no command", change.command_id);
    }
  }
  std::set<LoopKey> new_rows;
  for (const LoopRow& row : unit.loop_rows) {
    LoopKey key{row.step, row.run, row.index};
    if ((run && run->loop_rows.contains(key)) || !new_rows.insert(std::move(key)).second) {
      return bad("there is already a loop row", row.index);
    }
  }
  std::set<std::int64_t> new_messages;
  for (const MessageRow& row : unit.messages) {
    if (messages_.contains(row.message_id) || !new_messages.insert(row.message_id).second) {
      return bad("there is already a message", row.message_id);
    }
  }
  return {};
}

void MemoryStore::Keep(const UnitRows& unit) {
  Run& run = runs_[unit.execution_id];
  if (!unit.events.empty()) {
    const bool ended = run.row && run.row->terminal;
    std::vector<std::string> labels = run.row ? run.row->labels : unit.execution.labels;
    run.row = unit.execution;
    run.row->labels = std::move(labels);
    run.row->terminal = run.row->terminal || ended;
    for (const EventRow& row : unit.events) KeepEvent(row, run);
  }
  KeepRows(unit, run);
  KeepWork(unit, run);
}

void MemoryStore::KeepRows(const UnitRows& unit, Run& run) {
  for (const BodyRow& row : unit.bodies) {
    const Reference ref = *ParseReference(row.ref);
    run.bodies.try_emplace(ref.id, Body{ref.name, row.data, std::nullopt});
  }
  for (const LoopRow& row : unit.loop_rows)
    run.loop_rows.emplace(LoopKey{row.step, row.run, row.index}, row.data);
  if (unit.snapshot && (!run.snapshot || run.snapshot->seq <= unit.snapshot->seq))
    run.snapshot = unit.snapshot;
  for (const LogChunk& chunk : unit.logs) {
    if (run.log_offsets.emplace(chunk.command_id, chunk.stream, chunk.offset).second)
      run.logs.push_back(chunk);
    const std::int64_t until = chunk.offset - kLogEndBytes + std::ssize(chunk.text);
    if (until > kLogEndBytes) ShortenLog(run.logs, chunk, until);
  }
}

void MemoryStore::KeepWork(const UnitRows& unit, Run& run) {
  for (const CommandRow& row : unit.commands) {
    run.commands.emplace(row.command_id, row);
    command_owner_[row.command_id] = unit.execution_id;
    if (IsOpen(row.status)) open_commands_.insert(row.command_id);
  }
  for (const CommandChange& change : unit.command_changes) {
    CommandRow& row = runs_.at(command_owner_.at(change.command_id)).commands.at(change.command_id);
    Apply(change, row);
    if (IsOpen(row.status)) {
      open_commands_.insert(row.command_id);
    } else {
      open_commands_.erase(row.command_id);
    }
  }
  for (const engine::Timer& timer : unit.fired_timers) {
    const auto at = timers_.find(KeyOf(unit.execution_id, timer));
    if (at != timers_.end() && at->second.due_us == timer.due_us) timers_.erase(at);
  }
  for (const engine::Timer& timer : unit.timers)
    timers_.insert_or_assign(KeyOf(unit.execution_id, timer), timer);
  if (unit.drops_timers) {
    std::erase_if(timers_,
                  [&](const auto& entry) { return std::get<0>(entry.first) == unit.execution_id; });
  }
  for (const MessageRow& row : unit.messages) messages_.emplace(row.message_id, row);
  for (const std::int64_t id : unit.consumed_messages) messages_.erase(id);
}

void MemoryStore::Remove(std::int64_t execution_id) {
  Run& run = runs_.at(execution_id);
  for (const auto& [id, row] : run.commands) {
    command_owner_.erase(id);
    open_commands_.erase(id);
  }
  std::erase_if(timers_,
                [&](const auto& entry) { return std::get<0>(entry.first) == execution_id; });
  std::erase_if(messages_, [&](const auto& entry) {
    return entry.second.target_execution_id == execution_id;
  });
  for (const EventRow& row : run.events) {
    const auto found = first_events_.find(row.event.event_id);
    if (found == first_events_.end()) continue;
    std::erase_if(found->second, [&](const auto& place) { return place.first == execution_id; });
    if (found->second.empty()) first_events_.erase(found);
  }
  std::erase_if(run.bodies, [](const auto& entry) {
    return !entry.second.put || entry.second.put->scope != kPermanentScope;
  });
  Run left{.bodies = std::move(run.bodies)};
  runs_.erase(execution_id);
  if (!left.bodies.empty()) runs_[execution_id] = std::move(left);
  ForgetRun(execution_id);
}

Result<std::int64_t> MemoryStore::PurgeResults(std::int64_t now_us, std::int64_t limit) {
  Lock lock(mutex_);
  std::int64_t removed = 0;
  for (auto& [id, run] : runs_) {
    const bool ended = run.row && run.row->terminal;
    removed += static_cast<std::int64_t>(std::erase_if(run.bodies, [&](const auto& entry) {
      if (!entry.second.put || limit <= 0) return false;
      const ResultRow& row = *entry.second.put;
      const bool gone = (row.expires_at_us != 0 && row.expires_at_us <= now_us) ||
                        (ended && row.scope == kStepScope);
      limit -= gone ? 1 : 0;
      return gone;
    }));
  }
  return removed;
}

Result<ResultRow> MemoryStore::PutResult(ResultRow row, std::string_view data) {
  if (row.name.empty() || row.result_id <= 0) return Fail("bad_row", "a result without name or id");
  Lock lock(mutex_);
  const auto run = runs_.find(row.execution_id);
  if (run == runs_.end() || !run->second.row)
    return Fail("not_found", fmt::format("no execution {}", row.execution_id));
  row.sha256 = Sha256Hex(data);
  row.bytes = std::ssize(data);
  row.ref = ResultReference(row.execution_id, row.name, row.result_id);
  for (auto& [id, body] : run->second.bodies) {
    if (!body.put || body.put->name != row.name || body.put->sha256 != row.sha256) continue;
    ExtendLifetime(*body.put, row);
    return *body.put;
  }
  const bool taken = std::any_of(runs_.begin(), runs_.end(), [&](const auto& each) {
    return each.second.bodies.contains(row.result_id);
  });
  if (taken) return Fail("bad_row", fmt::format("result id {} is taken", row.result_id));
  run->second.bodies[row.result_id] = {row.name, std::string(data), row};
  return row;
}

Result<Json> MemoryStore::Load(std::string_view text) const {
  Lock lock(mutex_);
  const auto missing = [&] {
    return Fail("not_found", fmt::format("nothing is stored as '{}'", text));
  };
  const std::optional<Reference> ref = ParseReference(text);
  const Run* run = ref ? FindRun(ref->execution_id) : nullptr;
  if (!run) return missing();
  if (ref->kind == Reference::Kind::kResult) {
    const auto body = run->bodies.find(ref->id);
    if (body == run->bodies.end() || !IsNamed(ref->name, body->second.name)) return missing();
    return ParseJson(body->second.data);
  }
  if (ref->kind == Reference::Kind::kCommand) {
    for (const EventRow& row : run->events) {
      if (row.event.event_id == ref->id && row.event.type == engine::EventType::kCommandIssued)
        return row.event.context;
    }
    return missing();
  }
  std::vector<Json> items;
  for (auto at = run->loop_rows.lower_bound({ref->name, ref->id, 0});
       at != run->loop_rows.end() && at->first.step == ref->name && at->first.run == ref->id;
       ++at) {
    items.resize(static_cast<std::size_t>(at->first.index));
    NOETL_ASSIGN(Json item, ParseJson(at->second));
    items.push_back(std::move(item));
  }
  if (items.empty()) return missing();
  return Json::Array(std::move(items));
}

}  // namespace

std::unique_ptr<Store> MakeMemoryStore(MemoryStoreOptions options) {
  return std::make_unique<MemoryStore>(std::move(options));
}

}  // namespace noetl::store
