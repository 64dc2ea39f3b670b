// Values that the steps of a run share.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/handle.h"
#include "api/route.h"
#include "base/json_io.h"
#include "base/text.h"
#include "store/store.h"

namespace noetl::api {
namespace {

constexpr std::size_t kNameCharactersMax = 256;
// Larger values are results, and belong there.
constexpr std::size_t kValueBytesMax = 1u << 20;
constexpr std::array<std::string_view, 4> kTypes = {"user_defined", "step_result", "computed",
                                                    "iterator_state"};

struct Variable {
  std::string name;
  Json value;
  std::string type;
  std::string source_step;
};

Status CheckName(std::string_view name) {
  const std::size_t characters = CodePoints(name);
  if (characters >= 1 && characters <= kNameCharactersMax) return {};
  return Fail("invalid", fmt::format("the name of a variable has 1 to {} characters, not {}",
                                     kNameCharactersMax, characters));
}

Status CheckType(std::string_view type) {
  if (std::ranges::find(kTypes, type) != kTypes.end()) return {};
  return Fail("invalid",
              fmt::format("`var_type` must be one of {}, not '{}'", fmt::join(kTypes, ", "), type));
}

// {variables: [{var_name, var_value, var_type?, source_step?}]}
Result<std::vector<Variable>> ReadList(const Json& list) {
  std::vector<Variable> variables;
  for (const Json& item : list.items()) {
    NOETL_ASSIGN(const std::string name, TextMember(item, "var_name"));
    if (!item.Has("var_value")) {
      return Fail("invalid", fmt::format("variable '{}' has no `var_value`", name));
    }
    NOETL_ASSIGN(const std::string type, OptionalText(item, "var_type", kTypes[0]));
    NOETL_ASSIGN(const std::string source, OptionalText(item, "source_step"));
    variables.push_back({name, item["var_value"], type, source});
  }
  return variables;
}

// {variables: {name: value}, var_type?, source_step?} or the bare map itself.
Result<std::vector<Variable>> ReadMap(const Json& map, const Json& around) {
  NOETL_ASSIGN(const std::string type, OptionalText(around, "var_type", kTypes[0]));
  NOETL_ASSIGN(const std::string source, OptionalText(around, "source_step"));
  std::vector<Variable> variables;
  for (const JsonMember& member : map.members()) {
    variables.push_back({std::string(member.key()), member.value, type, source});
  }
  return variables;
}

Result<std::vector<Variable>> ReadVariables(const Json& body) {
  NOETL_TRY(NeedMap(body));
  const Json& variables = body["variables"];
  if (variables.is_array()) return ReadList(variables);
  if (variables.is_object()) return ReadMap(variables, body);
  return ReadMap(body, Json());
}

Json VariableJson(const store::VariableRow& row) {
  return Json::Object({{"var_name", row.name},
                       {"var_type", row.type},
                       {"var_value", ParseJson(row.value).value_or(Json())},
                       {"source_step", TextOrNull(row.source_step)},
                       {"created_at", TimeOrNull(row.created_at_us)},
                       {"accessed_at", TimeOrNull(row.accessed_at_us)},
                       {"access_count", row.access_count}});
}

Result<Json> ListVariables(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(const auto rows, call.services().store->ListVariables(execution_id));
  std::vector<Json> list;
  list.reserve(rows.size());
  for (const store::VariableRow& row : rows) list.push_back(VariableJson(row));
  return Json::Array(std::move(list));
}

Result<Json> SetVariables(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(const std::vector<Variable> variables, ReadVariables(call.body()));
  const std::int64_t now_us = call.services().clock->NowMicros();
  // Of two with one name the last counts.
  std::map<std::string, store::VariableRow> rows;
  for (const Variable& variable : variables) {
    NOETL_TRY(CheckName(variable.name));
    NOETL_TRY(CheckType(variable.type));
    NOETL_ASSIGN(std::string value, WriteStoredJson(variable.value));
    if (value.size() > kValueBytesMax) {
      return Fail("invalid", fmt::format("variable '{}' has {} bytes; at most {} are allowed",
                                         variable.name, value.size(), kValueBytesMax));
    }
    rows[variable.name] = {.execution_id = execution_id,
                           .name = variable.name,
                           .type = variable.type,
                           .value = std::move(value),
                           .source_step = variable.source_step,
                           .created_at_us = now_us,
                           .accessed_at_us = now_us};
  }
  std::vector<store::VariableRow> list;
  for (auto& [name, row] : rows) list.push_back(std::move(row));
  if (!list.empty()) NOETL_TRY(call.services().store->PutVariables(list));
  return Json::Object(
      {{"execution_id", execution_id}, {"variables_set", list.size()}, {"status", "ok"}});
}

std::unexpected<Error> NoVariable(std::int64_t execution_id, std::string_view name) {
  return Fail("not_found", fmt::format("run {} has no variable '{}'", execution_id, name));
}

Result<Json> TakeVariable(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  const Services& services = call.services();
  NOETL_ASSIGN(const auto row, services.store->TakeVariable(execution_id, call.Path("var_name"),
                                                            services.clock->NowMicros()));
  if (!row) return NoVariable(execution_id, call.Path("var_name"));
  return VariableJson(*row);
}

Result<Json> DeleteVariable(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  const std::string_view name = call.Path("var_name");
  NOETL_ASSIGN(const bool deleted, call.services().store->DeleteVariable(execution_id, name));
  if (!deleted) return NoVariable(execution_id, name);
  return Json::Object({{"execution_id", execution_id}, {"var_name", name}, {"status", "deleted"}});
}

Result<Json> DeleteVariables(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(const std::int64_t deleted, call.services().store->DeleteVariables(execution_id));
  return Json::Object(
      {{"execution_id", execution_id}, {"variables_deleted", deleted}, {"status", "ok"}});
}

constexpr std::string_view kVariable =
    R"({"var_name":"total","var_type":"user_defined","var_value":3,"source_step":null,)"
    R"("created_at":"2026-06-18T12:00:00.000000Z","accessed_at":"2026-06-18T12:00:01.000000Z",)"
    R"("access_count":1})";

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/vars/{execution_id}",
     .family = "variables",
     .summary = "Variables of a run by name; counts no access",
     .scope = Scope::kViewer,
     .handle = Now<ListVariables>,
     .response = R"([{"var_name":"total","var_type":"user_defined","var_value":3,)"
                 R"("source_step":null,"created_at":"2026-06-18T12:00:00.000000Z",)"
                 R"("accessed_at":"2026-06-18T12:00:01.000000Z","access_count":1}])"},
    {.method = "POST",
     .path = "/api/vars/{execution_id}",
     .family = "variables",
     .summary = "Sets variables, all or none: a list, a map under variables, or a bare map",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyEvents,
     .handle = Now<SetVariables>,
     .request = R"({"variables":[{"var_name":"total","var_value":3}]})",
     .response = R"({"execution_id":325481002387804160,"variables_set":1,"status":"ok"})"},
    {.method = "DELETE",
     .path = "/api/vars/{execution_id}",
     .family = "variables",
     .summary = "Removes all variables of a run",
     .scope = Scope::kOperator,
     .handle = Now<DeleteVariables>,
     .response = R"({"execution_id":325481002387804160,"variables_deleted":1,"status":"ok"})"},
    {.method = "GET",
     .path = "/api/vars/{execution_id}/{var_name}",
     .family = "variables",
     .summary = "One variable; counts the access",
     .scope = Scope::kViewer,
     .handle = Now<TakeVariable>,
     .response = kVariable},
    {.method = "DELETE",
     .path = "/api/vars/{execution_id}/{var_name}",
     .family = "variables",
     .summary = "Removes one variable",
     .scope = Scope::kOperator,
     .handle = Now<DeleteVariable>,
     .response = R"({"execution_id":325481002387804160,"var_name":"total","status":"deleted"})"},
};

}  // namespace

std::span<const Route> VariableRoutes() { return kRoutes; }

}  // namespace noetl::api
