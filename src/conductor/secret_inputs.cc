#include "conductor/secret_inputs.h"

#include <algorithm>

#include <fmt/format.h>

namespace noetl::conductor {

namespace {

constexpr std::string_view kMark = "_secret";

// Whether the run was started with this very reference.
Result<bool> Holds(const store::Store& store, std::int64_t execution_id, const Json& reference) {
  if (execution_id == 0) return false;
  NOETL_ASSIGN(const auto first, store.ReadEvents(execution_id, 0, 1));
  if (first.empty()) return false;
  const auto inputs = first.front().context["workload"].members();
  return std::ranges::any_of(
      inputs, [&](const JsonMember& member) { return member.value == reference; });
}

// A reference opens the secret for whoever holds it: only a child or a repetition gets one.
Status CheckReferences(const store::Store& store, const StartCall& call) {
  for (const JsonMember& member : call.payload.members()) {
    if (!member.value.Has(kMark)) continue;
    NOETL_ASSIGN(bool held, Holds(store, call.parent_execution_id, member.value));
    if (!held) {
      NOETL_ASSIGN(held, Holds(store, call.secrets_of, member.value));
    }
    if (!held) {
      return Fail("invalid", fmt::format("input '{}' names a secret of another run; give its value",
                                         member.key()));
    }
  }
  return {};
}

bool IsGiven(const Json& value) {
  return !value.is_null() && !(value.is_string() && value.AsString().empty());
}

}  // namespace

Status HideSecretInputs(const playbook::Playbook& playbook, const store::Store& store,
                        SecretSource* secrets, StartCall* call) {
  NOETL_TRY(CheckReferences(store, *call));
  if (!secrets) return {};
  for (const playbook::WorkloadEntry& entry : playbook.workload) {
    const Json* value = entry.secret ? call->payload.Find(entry.name) : nullptr;
    if (!value || !IsGiven(*value) || value->Has(kMark)) continue;
    NOETL_ASSIGN(std::string alias, secrets->KeepInput(call->execution_id, entry.name, *value));
    call->payload =
        call->payload.With(entry.name, Json::Object({{std::string(kMark), std::move(alias)}}));
  }
  return {};
}

}  // namespace noetl::conductor
