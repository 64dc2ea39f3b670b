// Starting runs.
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/route.h"
#include "api/run_state.h"
#include "api/start_once.h"
#include "base/json_io.h"

namespace noetl::api {
namespace {

// What one request may start; their answers are gathered in memory.
constexpr std::size_t kBatchMax = 1'000;

StartOutcome OutcomeOf(const Result<StartAnswer>& answer) {
  if (!answer) return StartOutcome::kError;
  return answer->duplicate ? StartOutcome::kDuplicate : StartOutcome::kNew;
}

void CountStart(const Call& call, StartEntry entry, const Result<StartAnswer>& answer) {
  MetricsOf(call.services()).starts.Count(entry, OutcomeOf(answer));
}

// One run is asked for: a request that is refused before anything is started counts too.
template <Status (*kInner)(const CallPtr&)>
Status CountedStart(const CallPtr& call) {
  const Status status = kInner(call);
  if (!status) MetricsOf(call->services()).starts.Count(StartEntry::kSingle, StartOutcome::kError);
  return status;
}

Status Execute(const CallPtr& call) {
  NOETL_ASSIGN(ExecuteRequest request,
               ReadExecuteRequest(call->body(), call->scope(),
                                  call->request().headers.Find("Idempotency-Key"), call->Trace()));
  StartOnce(call->services(), std::move(request), [call](Result<StartAnswer> answer) {
    CountStart(*call, StartEntry::kSingle, answer);
    if (!answer) return call->Refuse(answer.error());
    call->Answer(StartBody(*answer));
  });
  return {};
}

// ---- many at once

struct Batch {
  CallPtr call;
  std::vector<Result<StartAnswer>> answers;
  std::atomic<std::size_t> open = 1;

  void Leave();
};

Json ItemBody(std::size_t index, const Result<StartAnswer>& answer) {
  if (answer) return Json::Object({{"index", index}}).Merge(StartBody(*answer));
  // Texts of the store name files: they go to the log, not to clients.
  const bool known = StatusOf(answer.error().code) < 500;
  return Json::Object({{"index", index},
                       {"status", "error"},
                       {"commands_generated", 0},
                       {"error", known ? answer.error().message : "the run could not be started"},
                       {"code", answer.error().code}});
}

void Batch::Leave() {
  if (open.fetch_sub(1) != 1) return;
  std::vector<Json> results;
  std::int64_t duplicates = 0;
  std::int64_t failed = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CountStart(*call, StartEntry::kBatch, answers[i]);
    if (!answers[i]) ++failed;
    else if (answers[i]->duplicate) ++duplicates;
    results.push_back(ItemBody(i, answers[i]));
  }
  const std::int64_t count = std::ssize(answers);
  call->Answer(Json::Object({{"count", count},
                             {"started", count - duplicates - failed},
                             {"duplicates", duplicates},
                             {"failed", failed},
                             {"results", Json::Array(std::move(results))}}));
}

Status ExecuteBatch(const CallPtr& call) {
  const Json& list = call->body()["executions"];
  if (!list.is_array() || list.empty() || list.size() > kBatchMax) {
    return Fail("invalid",
                fmt::format("`executions` must be a list of 1 to {} requests", kBatchMax));
  }
  MetricsOf(call->services()).starts.CountBatch(list.size());
  const std::string key(call->request().headers.Find("Idempotency-Key"));
  auto batch = std::make_shared<Batch>();
  batch->call = call;
  batch->answers.resize(list.size(), Fail("internal", ""));
  batch->open += list.size();
  for (std::size_t i = 0; i < list.size(); ++i) {
    // One key for the request means one for each of its runs.
    const std::string item_key = key.empty() ? "" : fmt::format("{}#{}", key, i);
    Result<ExecuteRequest> request =
        ReadExecuteRequest(list.At(i), call->scope(), item_key, call->Trace());
    if (!request) {
      batch->answers[i] = std::unexpected(request.error());
      batch->Leave();
      continue;
    }
    request->start.patient = true;  // the request is bounded as a whole
    StartOnce(call->services(), *std::move(request), [batch, i](Result<StartAnswer> answer) {
      batch->answers[i] = std::move(answer);
      batch->Leave();
    });
  }
  batch->Leave();
  return {};
}

// ---- again

// The run's workload as it was, with the members of the body's over it.
Result<ExecuteRequest> ReadRerun(const Call& call, const store::ExecutionRow& source) {
  Json body = call.body().is_object() ? call.body() : Json::Object();
  if (body.Has("path") || body.Has("catalog_id") || body.Has("version"))
    return Fail("invalid", "a rerun takes the playbook of its source; only `workload` may change");
  body = body.With("catalog_id", source.catalog_id);
  NOETL_ASSIGN(ExecuteRequest request,
               ReadExecuteRequest(body, call.scope(),
                                  call.request().headers.Find("Idempotency-Key"), call.Trace()));
  NOETL_ASSIGN(const std::vector<engine::Event> first,
               call.services().store->ReadEvents(source.execution_id, 0, 1));
  if (!first.empty() && first[0].context["workload"].is_object())
    request.start.payload = first[0].context["workload"].Merge(request.start.payload);
  request.start.secrets_of = source.execution_id;
  if (request.start.pool.empty() && !first.empty())
    request.start.pool = first[0].meta["execution_pool"].ToString();
  return request;
}

Status Rerun(const CallPtr& call) {
  NOETL_ASSIGN(const std::int64_t id, call->PathId("execution_id"));
  NOETL_ASSIGN(const store::ExecutionRow source, FindRun(*call->services().store, id));
  NOETL_ASSIGN(ExecuteRequest request, ReadRerun(*call, source));
  StartOnce(call->services(), std::move(request), [call, id](Result<StartAnswer> answer) {
    CountStart(*call, StartEntry::kSingle, answer);
    if (!answer) return call->Refuse(answer.error());
    call->Answer(StartBody(*answer)
                     .With("source_execution_id", std::to_string(id))
                     .With("rerun_of", std::to_string(id)));
  });
  return {};
}

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/execute",
     .family = "execute",
     .summary = "Start a run of a playbook, by path or catalog_id",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<CountedStart<Execute>>,
     .request = R"({"path":"demo/hello","version":2,"workload":{"who":"ann"},)"
                R"("execution_pool":"shared","dedup":{"key":"order-17","window_secs":300}})",
     .response =
         R"({"execution_id":"325481002387804160","status":"started","commands_generated":1})",
     .starts = true},
    {.method = "POST",
     .path = "/api/execute/batch",
     .family = "execute",
     .summary = "Start up to 1000 runs; each item is an execute request",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Handled<ExecuteBatch>,
     .request = R"({"executions":[{"path":"demo/hello"},{"path":"nope"}]})",
     .response =
         R"({"count":2,"started":1,"duplicates":0,"failed":1,"results":[{"index":0,)"
         R"("execution_id":"325481002387804161","status":"started","commands_generated":1},)"
         R"({"index":1,"status":"error","commands_generated":0,)"
         R"("error":"playbook not found: nope","code":"not_found"}]})"},
    {.method = "POST",
     .path = "/api/executions/{execution_id}/rerun",
     .family = "execute",
     .summary = "Start the playbook of a run again, with its workload and changes to it",
     .scope = Scope::kOperator,
     .body = BodyKind::kOptional,
     .body_max = kBodyEvents,
     .handle = Handled<CountedStart<Rerun>>,
     .request = R"({"workload":{"who":"bob"}})",
     .response =
         R"({"execution_id":"325481002387804170","status":"started","commands_generated":1,)"
         R"("source_execution_id":"325481002387804160","rerun_of":"325481002387804160"})"},
};

}  // namespace

std::span<const Route> ExecuteRoutes() { return kRoutes; }

}  // namespace noetl::api
