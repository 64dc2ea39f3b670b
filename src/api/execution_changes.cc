#include "api/execution_changes.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/run_state.h"
#include "base/log.h"

namespace noetl::api {

namespace {

// Runs that one answer names or one clean-up ends.
constexpr std::size_t kRunsMax = 1'000;
constexpr std::int64_t kPageRuns = 500;
constexpr std::int64_t kMinutesMax = 525'600;

// Open runs below this one that end with it: those it waits for, and with `cascade` all of them.
Result<std::vector<std::int64_t>> OpenDescendants(const store::Store& store, std::int64_t root,
                                                  bool cascade) {
  std::vector<std::int64_t> found = {root};
  for (std::size_t next = 0; next < found.size() && found.size() < kRunsMax; ++next) {
    store::ExecutionFilter filter;
    filter.parent_execution_id = found[next];
    filter.status = "RUNNING";
    filter.limit = kPageRuns;
    NOETL_ASSIGN(const std::vector<store::ExecutionRow> children, store.List(filter));
    for (const store::ExecutionRow& child : children) {
      const bool waited_for = !child.parent_command_id.empty();
      if (waited_for || cascade) found.push_back(child.execution_id);
    }
  }
  if (found.size() > kRunsMax) found.resize(kRunsMax);
  return found;
}

Json TextList(const std::vector<std::int64_t>& ids) {
  std::vector<Json> list;
  for (const std::int64_t id : ids) list.emplace_back(std::to_string(id));
  return Json::Array(std::move(list));
}

Json AlreadyEnded(std::int64_t id, const std::string& status) {
  return Json::Object({{"execution_id", id},
                       {"status", "already_completed"},
                       {"execution_status", status},
                       {"cancelled_executions", Json::Array()},
                       {"message", fmt::format("the run had ended already: {}", status)}});
}

}  // namespace

Status CancelExecution(const CallPtr& call) {
  NOETL_ASSIGN(const std::int64_t id, call->PathId("execution_id"));
  const Json body = call->body().is_object() ? call->body() : Json::Object();
  NOETL_ASSIGN(const std::string reason, OptionalText(body, "reason"));
  NOETL_ASSIGN(const std::string requested_by, OptionalText(body, "requested_by", "api"));
  NOETL_ASSIGN(const bool cascade, OptionalBool(body, "cascade", true));
  NOETL_TRY(FindRun(*call->services().store, id));
  NOETL_ASSIGN(std::vector<std::int64_t> runs,
               OpenDescendants(*call->services().store, id, cascade));
  call->services().conductor->Cancel(
      id, reason, requested_by, cascade,
      [call, id, runs = std::move(runs)](Result<conductor::Conductor::CancelAnswer> answer) {
        if (!answer) return call->Refuse(answer.error());
        if (!answer->cancelled) return call->Answer(AlreadyEnded(id, answer->status));
        call->Answer(Json::Object({{"execution_id", id},
                                   {"status", "cancelled"},
                                   {"cancelled_executions", TextList(runs)},
                                   {"message", fmt::format("cancelled {} run(s)", runs.size())}}));
      });
  return {};
}

Status FinalizeExecution(const CallPtr& call) {
  const Json& body = call->body();
  NOETL_TRY(NeedMap(body));
  NOETL_ASSIGN(const std::int64_t id, call->PathId("execution_id"));
  NOETL_ASSIGN(const std::string status, OptionalText(body, "status"));
  NOETL_ASSIGN(const std::string reason, OptionalText(body, "reason"));
  NOETL_ASSIGN(const std::string error, OptionalText(body, "error", reason));
  // The older form has a reason alone; it means a failure and may be sent again.
  const bool old_form = status.empty() && !reason.empty();
  if (!old_form && status != "COMPLETED" && status != "FAILED")
    return Fail("invalid", "`status` must be COMPLETED or FAILED");
  NOETL_TRY(FindRun(*call->services().store, id));
  const std::string wanted = old_form ? "FAILED" : status;
  call->services().conductor->Finalize(
      id, wanted == "COMPLETED", error,
      [call, id, wanted, old_form](Result<conductor::Conductor::CancelAnswer> answer) {
        if (!answer) return call->Refuse(answer.error());
        if (answer->cancelled) {
          return call->Answer(
              Json::Object({{"execution_id", id}, {"status", wanted}, {"message", "finalized"}}));
        }
        if (old_form) return call->Answer(AlreadyEnded(id, answer->status));
        call->Refuse(Error{"already_terminal",
                           fmt::format("the run had ended already: {}", answer->status)});
      });
  return {};
}

namespace {

// Whether somebody may still say something about a command of the run.
Result<bool> IsWorkedOn(const Services& services, const store::ExecutionRow& row) {
  NOETL_ASSIGN(const std::optional<engine::State> state, FoldRun(*services.store, row));
  if (!state) return true;  // not known: left alone
  for (const auto& [id, command] : state->commands()) {
    if (command.parked || command.child_execution_id != 0) return true;  // it has its own deadline
    if (command.status == engine::Command::Status::kIssued) continue;
    if (command.worker.starts_with(conductor::kInProcessWorker)) return true;
    const std::optional<conductor::Lease> lease =
        services.conductor->leases().Find(command.event_id);
    if (lease && lease->until_us > services.clock->MonotonicMicros()) return true;
  }
  return false;
}

Result<std::vector<std::int64_t>> FindStale(const Services& services, std::int64_t before_us) {
  std::vector<std::int64_t> stale;
  std::int64_t after = 0;
  while (stale.size() < kRunsMax) {
    NOETL_ASSIGN(const std::vector<store::ExecutionRow> rows,
                 services.store->Open(after, kPageRuns));
    if (rows.empty()) break;
    for (const store::ExecutionRow& row : rows) {
      after = row.execution_id;
      if (row.updated_at_us >= before_us || stale.size() == kRunsMax) continue;
      NOETL_ASSIGN(const bool worked_on, IsWorkedOn(services, row));
      if (!worked_on) stale.push_back(row.execution_id);
    }
  }
  return stale;
}

struct Cleanup {
  CallPtr call;
  std::vector<std::int64_t> runs;
  std::vector<std::uint8_t> ended;  // by its place in `runs`
  bool dry_run = false;
  std::atomic<std::size_t> open = 1;

  void Leave();
};

void Cleanup::Leave() {
  if (open.fetch_sub(1) != 1) return;
  std::vector<Json> ids;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (dry_run || ended[i] != 0) ids.emplace_back(runs[i]);
  }
  const std::int64_t count = std::ssize(ids);
  call->Answer(
      Json::Object({{"cancelled_count", count},
                    {"execution_ids", Json::Array(std::move(ids))},
                    {"dry_run", dry_run},
                    {"message", fmt::format("{} run(s) {}", count,
                                            dry_run ? "would be cancelled" : "cancelled")}}));
}

}  // namespace

Status CleanupExecutions(const CallPtr& call) {
  const Json body = call->body().is_object() ? call->body() : Json::Object();
  NOETL_ASSIGN(const std::int64_t minutes,
               OptionalInt(body, "older_than_minutes", 5, 1, kMinutesMax));
  auto cleanup = std::make_shared<Cleanup>();
  cleanup->call = call;
  NOETL_ASSIGN(cleanup->dry_run, OptionalBool(body, "dry_run", false));
  const Services& services = call->services();
  NOETL_ASSIGN(cleanup->runs,
               FindStale(services, services.clock->NowMicros() - minutes * 60'000'000));
  cleanup->ended.resize(cleanup->runs.size());
  if (!cleanup->dry_run) {
    cleanup->open += cleanup->runs.size();
    for (std::size_t i = 0; i < cleanup->runs.size(); ++i) {
      services.conductor->Cancel(
          cleanup->runs[i], fmt::format("nothing happened for {} minutes", minutes), "cleanup",
          true, [cleanup, i](Result<conductor::Conductor::CancelAnswer> answer) {
            cleanup->ended[i] = answer && answer->cancelled ? 1 : 0;
            cleanup->Leave();
          });
    }
  }
  cleanup->Leave();
  return {};
}

}  // namespace noetl::api
