#include "engine/result.h"

#include <array>
#include <optional>
#include <utility>

#include "engine/result_parts.h"

namespace noetl::engine {
namespace {

constexpr std::array<std::pair<StepResult::Shape, std::string_view>, 4> kShapes = {{
    {StepResult::Shape::kPlain, "plain"},
    {StepResult::Shape::kLoop, "loop"},
    {StepResult::Shape::kCursor, "cursor"},
    {StepResult::Shape::kChild, "child"},
}};

// Which errors may pass when the same call is made again, and the code of those that have one
// code only.
struct ErrorKind {
  std::string_view name;
  bool retryable = false;
  std::string_view code = {};
};
constexpr std::array<ErrorKind, 23> kErrorKinds = {{
    {"rate_limit", true},
    {"auth", false},
    {"not_found", false},
    {"client_error", false},
    {"server_error", true},
    {"timeout", true, "CONN_TIMEOUT"},
    {"connection", true, "CONN_ERROR"},
    {"db_deadlock", true},
    {"db_constraint", false},
    {"db_connection", true},
    {"db_timeout", true},
    {"db_error", false},
    {"parse", false},
    {"schema", false},
    {"missing_reference", true, "REFERENCE_NOT_AVAILABLE"},
    {"storage_quota", false},
    {"storage_access", false},
    {"storage", true},
    {"config", false},
    {"template", false},
    {"cancelled", false},
    {"tool_error", false},
    {"unknown", false, "UNKNOWN"},
}};

const ErrorKind* FindKind(std::string_view name) {
  for (const ErrorKind& kind : kErrorKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::string_view KindOfHttpStatus(std::int64_t status) {
  if (status == 429) return "rate_limit";
  if (status == 401 || status == 403) return "auth";
  if (status == 404) return "not_found";
  if (status >= 400 && status < 500) return "client_error";
  if (status >= 500 && status < 600) return "server_error";
  return "unknown";
}

std::string_view KindOfSqlState(std::string_view state) {
  if (state == "40001" || state == "40P01") return "db_deadlock";
  if (state == "57014") return "db_timeout";
  if (state.starts_with("23")) return "db_constraint";
  if (state.starts_with("08") || state.starts_with("57P")) return "db_connection";
  return "db_error";
}

// The first of several members that is there.
const Json& FirstOf(const Json& map, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    if (const Json* found = map.Find(name); found && !found->is_null()) return *found;
  }
  static const Json kNone;
  return kNone;
}

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

// Labels first, then the fields of every map payload in execution order; a label is never hidden
// by a field.
Json Flatten(const Json& labels, const Json& order) {
  Json flat = labels;
  Json::Members fields;
  for (const Json& label : order.items()) {
    for (const JsonMember& field : labels[label.AsString()].members()) {
      if (!labels.Has(field.key())) fields.emplace_back(field.key_json(), field.value);
    }
  }
  return fields.empty() ? flat : flat.Merge(Json::Object(std::move(fields)));
}

}  // namespace

Json StepResult::ToJson() const {
  JsonObjectBuilder out;
  out.Add("data", data).AddSome("order", order).AddSome("reference", reference);
  if (!tool_kind.empty()) out.Add("tool_kind", tool_kind);
  for (const auto& [value, name] : kShapes) {
    if (value == shape && shape != Shape::kPlain) out.Add("shape", name);
  }
  if (failed) out.Add("failed", true);
  if (!error.empty()) out.Add("error", error);
  out.AddSome("error_info", error_info).AddSome("meta", meta).AddSome("accessors", accessors);
  return out.Build();
}

StepResult StepResult::FromJson(const Json& json) {
  StepResult result;
  result.data = json["data"];
  result.order = json["order"];
  result.reference = json["reference"];
  result.tool_kind = json["tool_kind"].ToString();
  for (const auto& [value, name] : kShapes) {
    if (json["shape"].AsString() == name) result.shape = value;
  }
  result.failed = json["failed"].AsBool();
  result.error = json["error"].ToString();
  result.error_info = json["error_info"];
  result.meta = json["meta"];
  result.accessors = json["accessors"];
  return result;
}

Result<const Json*> LoadBody(const Bodies* bodies, std::string_view ref) {
  if (bodies != nullptr) {
    NOETL_ASSIGN(const Json* body, bodies->Find(ref));
    if (body != nullptr) return body;
  }
  return Fail(kNeedsReference, std::string(ref));
}

std::string_view ReferenceOf(const Json& value) {
  if (!value.is_object() || value.size() != 1) return {};
  const std::string_view ref = value["_ref"].AsString();
  return ref.starts_with("noetl://") ? ref : std::string_view();
}

Result<Json> PayloadOf(const StepResult& result, const Bodies* bodies) {
  Json payload = result.data;
  if (!result.ref().empty()) {
    NOETL_ASSIGN(const Json* body, LoadBody(bodies, result.ref()));
    payload = *body;
  }
  if (result.order.is_array() && payload.is_object()) return Flatten(payload, result.order);
  if (const std::string_view items = LoopRowsRef(payload["results"]);
      !items.empty() && IsLoop(result.shape)) {
    NOETL_ASSIGN(const Json* body, LoadBody(bodies, items));
    return payload.With("results", *body);
  }
  return payload;
}

Result<Json> RecordedPayloadOf(const StepResult& result, const Bodies* bodies) {
  if (IsLoop(result.shape) && !LoopRowsRef(result.data["results"]).empty()) return result.data;
  return PayloadOf(result, bodies);
}

Json ErrorObject(std::string_view text, const Json& info) {
  const Json& status = FirstOf(info, {"status_code", "http_status", "status"});
  const Json& state = FirstOf(info, {"pg_code", "sqlstate"});
  std::string kind = info["kind"].ToString();
  if (kind.empty() && status.is_int()) kind = KindOfHttpStatus(status.AsInt());
  if (kind.empty() && state.is_string()) kind = KindOfSqlState(state.AsString());
  if (kind.empty() && info["code"].AsString() == "REFERENCE_NOT_AVAILABLE")
    kind = "missing_reference";
  if (kind.empty()) kind = "unknown";
  const ErrorKind* known = FindKind(kind);

  std::string code = info["code"].ToString();
  if (code.empty() && status.is_int()) code = "HTTP_" + std::to_string(status.AsInt());
  if (code.empty() && state.is_string()) code = "PG_" + state.ToString();
  if (code.empty() && known != nullptr) code = known->code;
  if (code.empty()) code = UpperCase(kind);

  const Json& message = info["message"];
  JsonObjectBuilder out;
  out.Add("kind", kind)
      .Add("retryable", info["retryable"].AsBool(known != nullptr && known->retryable))
      .Add("code", code)
      .Add("message", message.is_string() ? message : Json(text));
  if (status.is_int()) {
    for (std::string_view name : {"status", "status_code", "http_status"}) out.Add(name, status);
  }
  if (state.is_string()) out.Add("pg_code", state).Add("sqlstate", state);
  Json made = out.Build();
  for (const JsonMember& member : info.members()) {
    if (!made.Has(member.key())) made = made.With(member.key(), member.value);
  }
  return made;
}

}  // namespace noetl::engine
