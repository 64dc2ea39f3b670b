#include "cli/subscribe_server.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "api/route.h"

namespace noetl::cli {
namespace {

using worker::DispatchOutcome;
using worker::DispatchRequest;

// A page of subscriptions, and of runs.
constexpr std::int64_t kSubscriptionsPage = 1'000;
constexpr std::int64_t kRunsPage = 200;

// They say something about the server or about us, not about the message.
constexpr std::array kMayWorkLater = {401, 403, 408, 429, 502, 503, 504};

DispatchOutcome StartedOf(const Json& answer) {
  const bool duplicate = answer["status"].AsString() == "duplicate";
  return {.kind = duplicate ? DispatchOutcome::Kind::kDuplicate : DispatchOutcome::Kind::kStarted,
          .execution_id = answer["execution_id"].ToString()};
}

void Tell(const worker::EventSink& events, std::string_view type, const Json& row) {
  events(type,
         Json::Object({{"subscription_id", row["subscription_id"]}, {"state", row["state"]}}));
}

}  // namespace

DispatchOutcome::Kind KindOfStatus(int status) {
  if (std::ranges::find(kMayWorkLater, status) != kMayWorkLater.end())
    return DispatchOutcome::Kind::kUnavailable;
  return status < 500 ? DispatchOutcome::Kind::kRefused : DispatchOutcome::Kind::kFailed;
}

// ---- the life of the subscription

Result<Json> ServerDispatcher::Act(std::string_view action) {
  return client_->Post(fmt::format("/subscriptions/{}/{}", id_, action), Json::Object());
}

Result<Json> ServerDispatcher::Newest() {
  NOETL_ASSIGN(const Json list,
               client_->Get(fmt::format("/subscriptions?limit={}", kSubscriptionsPage)));
  for (const Json& row : list["subscriptions"].items()) {
    if (row["path"].AsString() == path_) return row;
  }
  return Json();
}

Status ServerDispatcher::Begin(const worker::EventSink& events) {
  NOETL_ASSIGN(Json row, Newest());
  if (row.is_null()) {
    NOETL_ASSIGN(row, client_->Post("/subscriptions/register", Json::Object({{"path", path_}})));
  }
  id_ = row["subscription_id"].ToString();
  Tell(events, "subscription.registered", row);
  const std::string_view state = row["state"].AsString();
  if (state == "PAUSED") return {};
  // One whose listener died while it was to end.
  if (state == "DRAINING") NOETL_TRY(Act("deactivate"));
  NOETL_ASSIGN(row, Act("activate"));
  Tell(events, "subscription.activated", row);
  return {};
}

Status ServerDispatcher::End(const worker::EventSink& events) {
  NOETL_ASSIGN(const std::string state, State());
  if (state == "DEACTIVATED") return {};
  if (state == "ACTIVE" || state == "PAUSED") {
    NOETL_ASSIGN(const Json row, Act("drain"));
    Tell(events, "subscription.draining", row);
  }
  NOETL_ASSIGN(const Json row, Act("deactivate"));
  Tell(events, "subscription.deactivated", row);
  return {};
}

Result<std::string> ServerDispatcher::State() {
  NOETL_ASSIGN(const Json row, client_->Get("/subscriptions/" + id_));
  return row["state"].ToString();
}

// ---- runs

Json ServerDispatcher::BodyOf(const DispatchRequest& request) const {
  JsonObjectBuilder body;
  body.Add("path", request.playbook).Add("payload", request.payload);
  if (!request.pool.empty()) body.Add("execution_pool", request.pool);
  return body.AddSome("trace", request.trace)
      .Add("parent_execution_id", id_)
      .Add("dedup",
           Json::Object({{"key", request.dedup_key}, {"window_secs", request.dedup_window_secs}}))
      .Build();
}

// The run's log says what headers of the message decided. A server that wants the token of a worker
// for it does without: our own events have it too.
void ServerDispatcher::Audit(const DispatchRequest& request, const DispatchOutcome& outcome) {
  if (request.audit.is_null() || outcome.kind != DispatchOutcome::Kind::kStarted) return;
  const auto ignored =
      client_->Call("POST", "/events",
                    Json::Object({{"execution_id", outcome.execution_id},
                                  {"event_type", "subscription.message.directives_applied"},
                                  {"step", "ingress"},
                                  {"status", "COMPLETED"},
                                  {"payload", request.audit}}));
}

DispatchOutcome ServerDispatcher::One(const DispatchRequest& request) {
  const auto answer = client_->Call("POST", "/execute", BodyOf(request));
  if (!answer) return {.error = answer.error().message};
  if (answer->ok()) return StartedOf(answer->body);
  return {.kind = KindOfStatus(answer->status), .error = client_->Refusal(*answer).message};
}

std::vector<DispatchOutcome> ServerDispatcher::Many(std::span<const DispatchRequest> requests) {
  std::vector<Json> bodies;
  for (const DispatchRequest& request : requests) bodies.push_back(BodyOf(request));
  const auto answer = client_->Call("POST", "/execute/batch",
                                    Json::Object({{"executions", Json::Array(std::move(bodies))}}));
  DispatchOutcome all;
  if (!answer) all.error = answer.error().message;
  else if (!answer->ok())
    all = {.kind = KindOfStatus(answer->status), .error = client_->Refusal(*answer).message};
  const Json results = answer && answer->ok() ? answer->body["results"] : Json();
  std::vector<DispatchOutcome> outcomes;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Json& result = results.At(i);
    if (!result.is_object()) {
      outcomes.push_back(all);
    } else if (result["status"].AsString() == "error") {
      outcomes.push_back({.kind = KindOfStatus(api::StatusOf(result["code"].AsString())),
                          .error = result["error"].ToString()});
    } else {
      outcomes.push_back(StartedOf(result));
    }
  }
  return outcomes;
}

std::vector<DispatchOutcome> ServerDispatcher::Dispatch(std::span<const DispatchRequest> requests) {
  std::vector<DispatchOutcome> outcomes;
  if (requests.size() == 1) outcomes.push_back(One(requests.front()));
  else outcomes = Many(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) Audit(requests[i], outcomes[i]);
  return outcomes;
}

Result<std::int64_t> ServerDispatcher::InFlight(std::int64_t enough) {
  std::int64_t count = 0;
  std::string cursor;
  while (count < enough) {
    NOETL_ASSIGN(const HttpAnswer answer,
                 client_->Call("GET", fmt::format("/executions?parent_execution_id={}&status="
                                                  "RUNNING&limit={}{}",
                                                  id_, std::min(kRunsPage, enough),
                                                  cursor.empty() ? "" : "&cursor=" + cursor)));
    if (!answer.ok()) return std::unexpected(client_->Refusal(answer));
    count += static_cast<std::int64_t>(answer.body.items().size());
    const auto next = answer.headers.find("x-next-cursor");
    if (next == answer.headers.end() || next->second.empty()) break;
    cursor = next->second;
  }
  return count;
}

}  // namespace noetl::cli
