// Sub-playbooks that a task of a pipeline runs and, as a rule, waits for.

#include <utility>

#include <fmt/format.h>

#include "engine/decide.h"
#include "worker/command_run.h"

namespace noetl::worker {

// Names of the iteration are for templates; the child gets only what was given to it.
Json CommandRun::ChildPayload() const {
  Json payload = call_.input;
  Json own;
  const Json& config = grant_.context["tool_config"];
  const Json& tasks =
      config.is_object() ? (config.Has("tasks") ? config["tasks"] : config["tool_config"]) : config;
  for (const Json& item : tasks.items()) {
    const Json* task = item["name"].AsString() == call_.label ? &item : item.Find(call_.label);
    if (task) own = (*task)["args"].Merge((*task)["input"]);
  }
  const Json names = engine::NamesOfIteration(grant_.context["iteration"]);
  for (const JsonMember& member : names["iter"].members()) {
    if (!own.Has(member.key()) && !grant_.context["args"].Has(member.key()))
      payload = payload.Without(member.key());
  }
  if (payload.empty())
    payload = call_.config["payload"].is_object() ? call_.config["payload"] : Json::Object();
  // A secret input that is handed on is named to the child as it was named to us.
  const Json given = payload;
  for (const auto& [value, name] : secret_inputs_) {
    for (const JsonMember& member : given.members()) {
      if (member.value == value) payload = payload.With(member.key(), name);
    }
  }
  return payload;
}

void CommandRun::StartChild() {
  const Json& config = call_.config;
  called_at_us_ = parts().clock->MonotonicMicros();
  const Json& step =
      config["result_step"].is_string() ? config["result_step"] : config["return_step"];
  bus::ChildCall call{
      .parent_execution_id = grant_.execution_id,
      .parent_command_id = grant_.command_id,
      .parent_step = grant_.step,
      .key = fmt::format("{}:{}", call_.label, ++children_),
      .path = config["path"].ToString(),
      .version = config["version"],
      .payload = ChildPayload(),
      .return_step = step.ToString(),
      .wait = config["wait"].AsBool() || config["return_result"].AsBool() || step.is_string(),
      .pool = config["execution_pool"].ToString()};
  if (call.path.empty()) {
    return EndChild(Refuse("config", "E460", "sub-playbook: path rendered to nothing (E460)"));
  }
  const bool waits = call.wait;
  phase_ = Phase::kWithChild;
  const std::uint64_t ticket = ++ticket_;
  if (waits) {
    BeginWait();
    const bool by_step = config["return_step"].is_string();
    const std::int64_t limit_ms = call_.timeout_ms.value_or(
        by_step ? engine::kReturnStepTimeoutMs : engine::kReturnResultTimeoutMs);
    timer_ = parts().reactor->After(limit_ms * 1'000, [weak = weak_from_this(), limit_ms] {
      if (const auto self = weak.lock()) self->ChildTookTooLong(limit_ms);
    });
  }
  parts().server->RunChild(std::move(call), [door = parts().door, weak = weak_from_this(),
                                             ticket](Result<engine::ChildEnd> end) {
    door->Post([weak, ticket, end = std::move(end)]() mutable {
      if (const auto self = weak.lock()) self->ChildEnded(ticket, std::move(end));
    });
  });
}

void CommandRun::ChildEnded(std::uint64_t ticket, Result<engine::ChildEnd> end) {
  if (phase_ != Phase::kWithChild || ticket != ticket_) return;
  const std::string path = call_.config["path"].ToString();
  const auto fail = [&](bool retryable, std::string message) {
    ToolAnswer answer =
        Failed("playbook", "child_failed", "CHILD_FAILED", retryable, std::move(message));
    answer.hard = true;
    EndChild(std::move(answer));
    Advance();
  };
  if (!end) {
    return fail(IsTransient(end.error()),
                fmt::format("sub-playbook '{}' could not be run: {}", path, end.error().message));
  }
  if (end->status == "STARTED") {
    ToolAnswer answer;
    answer.outcome.payload =
        Json::Object({{"status", "started"},
                      {"execution_id", std::to_string(end->child_execution_id)},
                      {"path", path},
                      {"async", true}});
    EndChild(std::move(answer));
    return Advance();
  }
  if (end->status != "COMPLETED") {
    return fail(false,
                fmt::format("sub-playbook '{}' (run {}) ended {}{}", path, end->child_execution_id,
                            end->status, end->error.empty() ? std::string() : ": " + end->error));
  }
  const std::string_view ref = end->reference["ref"].AsString();
  if (ref.empty()) {
    ToolAnswer answer;
    answer.outcome.payload = std::move(end->data);
    EndChild(std::move(answer));
    return Advance();
  }
  // The tasks that follow read the result itself.
  parts().server->Load(std::string(ref), [door = parts().door, weak = weak_from_this(),
                                          ticket = ++ticket_](Result<Json> body) {
    door->Post([weak, ticket, body = std::move(body)]() mutable {
      if (const auto self = weak.lock()) self->ChildLoaded(ticket, std::move(body));
    });
  });
}

void CommandRun::ChildLoaded(std::uint64_t ticket, Result<Json> body) {
  if (phase_ != Phase::kWithChild || ticket != ticket_) return;
  ToolAnswer answer;
  if (body) {
    answer.outcome.payload = *std::move(body);
  } else {
    answer = Failed("playbook", "missing_reference", kNotAvailable, true,
                    fmt::format("the result of sub-playbook '{}' is not available: {}",
                                call_.config["path"].AsString(), body.error().message));
  }
  EndChild(std::move(answer));
  Advance();
}

void CommandRun::ChildTookTooLong(std::int64_t limit_ms) {
  timer_ = 0;
  if (phase_ != Phase::kWithChild) return;
  ToolAnswer answer = Failed("playbook", "timeout", "TIMEOUT", true,
                             fmt::format("sub-playbook '{}' did not end within {} s",
                                         call_.config["path"].AsString(), limit_ms / 1'000));
  answer.hard = true;
  EndChild(std::move(answer));
  Advance();
}

void CommandRun::EndChild(ToolAnswer answer) {
  if (timer_) parts().reactor->CancelTimer(std::exchange(timer_, 0));
  EndWait();
  ++ticket_;
  timed_out_ = false;
  answer_ = std::move(answer);
  phase_ = Phase::kAnswered;
}

}  // namespace noetl::worker
