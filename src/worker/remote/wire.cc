#include "worker/remote/wire.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "base/time.h"

namespace noetl::worker {
namespace {

constexpr std::int64_t kMillisPerSecond = 1'000;

std::string TextOrNumber(const Json& value) {
  if (value.is_int()) return std::to_string(value.AsInt());
  return value.ToString();
}

std::vector<CommandName> NamesFrom(const Json& list) {
  std::vector<CommandName> names;
  for (const Json& item : list.items()) {
    CommandName name;
    if (item.is_object()) {
      name.event_id = IdOf(item["event_id"]).value_or(0);
      name.command_id = TextOrNumber(item["command_id"]);
    } else if (const auto id = IdOf(item)) {
      name.event_id = *id;
    } else {
      name.command_id = item.ToString();
    }
    if (name.event_id != 0 || !name.command_id.empty()) names.push_back(std::move(name));
  }
  return names;
}

Result<std::int64_t> RequiredId(const Json& body, std::string_view name) {
  const std::optional<std::int64_t> id = IdOf(body[name]);
  if (!id) return Fail("bad_answer", fmt::format("a command without a valid {}", name));
  return *id;
}

}  // namespace

std::optional<std::int64_t> IdOf(const Json& value) {
  if (value.is_int()) return value.AsInt() > 0 ? std::optional(value.AsInt()) : std::nullopt;
  const std::string_view text = value.AsString();
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && id > 0 ? std::optional(id) : std::nullopt;
}

std::optional<std::int64_t> LeaseMsOf(const Json& body) {
  const Json& seconds = body["lease_seconds"];
  if (!seconds.is_number() || seconds.AsDouble() <= 0) return std::nullopt;
  return std::max<std::int64_t>(
      1, std::llround(seconds.AsDouble() * static_cast<double>(kMillisPerSecond)));
}

Result<Granted> GrantFromJson(const Json& body) {
  Granted granted;
  bus::Grant& grant = granted.grant;
  NOETL_ASSIGN(grant.execution_id, RequiredId(body, "execution_id"));
  NOETL_ASSIGN(grant.event_id, RequiredId(body, "event_id"));
  grant.step = body["node_name"].ToString();
  grant.tool_kind = body["action"].ToString();
  if (grant.step.empty() || grant.tool_kind.empty()) {
    return Fail("bad_answer", fmt::format("command {} names no step or no tool", grant.event_id));
  }
  grant.context = body["context"];
  grant.meta = body["meta"].is_object() ? body["meta"] : Json::Object();
  grant.command_id = TextOrNumber(grant.meta["command_id"]);
  if (grant.command_id.empty())
    grant.command_id = fmt::format("{}:{}:{}", grant.execution_id, grant.step, grant.event_id);
  // Members that are ours alone may be in the body or, for those who pass it on, in the meta.
  const auto own = [&](std::string_view name) -> const Json& {
    return body.Has(name) ? body[name] : grant.meta[name];
  };
  grant.path = own("path").ToString();
  const Json& token = body.Has("claim_token") ? body["claim_token"] : body["claim_epoch"];
  grant.claim_token = IdOf(token).value_or(0);
  grant.strict = own("strict").AsBool();
  grant.inline_bytes = own("inline_bytes").AsInt(kInlineBytesDefault);
  granted.lease_ms = LeaseMsOf(body).value_or(kLeaseMsDefault);
  return granted;
}

Json EventRequest(const engine::Event& event, const bus::Report& report) {
  Json meta = event.meta.is_object() ? event.meta : Json::Object();
  if (!meta.Has("claim_token")) meta = meta.With("claim_token", report.claim_token);
  JsonObjectBuilder request;
  request.Add("execution_id", event.execution_id)
      .Add("event_id", event.event_id)
      .Add("event_type", event.type_name)
      .Add("step", event.node_name)
      .Add("status", event.status)
      .Add("created_at", FormatTime(event.created_at_us))
      .Add("worker_id", report.worker_id)
      .Add("context", event.result["context"])
      .Add("meta", std::move(meta));
  if (!event.error.empty()) request.Add("error", event.error);
  return request.Build();
}

Result<LeaseAnswer> LeaseAnswerFromJson(const Json& body) {
  if (!body.is_object()) return Fail("bad_answer", "the server's answer is not a map");
  LeaseAnswer answer;
  for (const Json& item : body["events"].items())
    answer.events.push_back({item["code"].ToString(), item["error"].ToString()});
  for (const Json& item : body["commands"].items()) {
    Result<Granted> granted = GrantFromJson(item);
    if (granted) answer.commands.push_back(*std::move(granted));
    else answer.problems.push_back(granted.error().message);
  }
  answer.cancel = NamesFrom(body["cancel"]);
  answer.lost = NamesFrom(body["lost"]);
  return answer;
}

BeatAnswer BeatAnswerFromJson(const Json& body) {
  return {.recreated = body["status"].AsString() == "recreated",
          .lost = NamesFrom(body["lost"]),
          .cancel = NamesFrom(body["cancel"])};
}

std::optional<ControlNews> ControlNewsFrom(std::string_view event, const Json& data) {
  using Kind = ControlNews::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 3> kKinds = {
      {{"cancel", Kind::kCancel}, {"lost", Kind::kLost}, {"drain", Kind::kDrain}}};
  for (const auto& [name, kind] : kKinds) {
    if (name != event) continue;
    ControlNews news{.kind = kind};
    const auto names = NamesFrom(Json::Array({data}));
    if (!names.empty()) news.command = names.front();
    return news;
  }
  return std::nullopt;
}

std::optional<engine::ChildEnd> ChildEndFromJson(const Json& body) {
  constexpr std::array<std::string_view, 3> kEnds = {"completed", "failed", "cancelled"};
  const std::string status = ToLower(body["status"].AsString());
  if (std::ranges::find(kEnds, status) == kEnds.end()) return std::nullopt;
  engine::ChildEnd end;
  end.child_execution_id = IdOf(body["execution_id"]).value_or(0);
  end.path = body["path"].ToString();
  end.status = status == "completed" ? "COMPLETED" : status == "failed" ? "FAILED" : "CANCELLED";
  end.data = body["data"];
  end.reference = body["reference"];
  end.error = body["error"].ToString();
  end.step_missing = body["step_missing"].AsBool();
  return end;
}

void SetChildResult(const Json& result, engine::ChildEnd* end) {
  const bool stored =
      result["kind"].AsString() == "result_ref" && result["ref"].AsString().starts_with("noetl://");
  (stored ? end->reference : end->data) = result;
}

Json ReportToJson(const bus::Report& report) {
  std::vector<Json> events;
  for (const engine::Event& event : report.events) events.push_back(engine::EventToJson(event));
  std::vector<Json> bodies;
  for (const engine::StoredBody& body : report.bodies)
    bodies.push_back(Json::Object({{"ref", body.ref}, {"body", body.body}}));
  std::vector<Json> logs;
  for (const bus::LogText& log : report.logs) {
    logs.push_back(
        Json::Object({{"stream", log.stream}, {"offset", log.offset}, {"text", Json(log.text)}}));
  }
  return Json::Object({{"execution_id", report.execution_id},
                       {"command_id", report.command_id},
                       {"event_id", report.event_id},
                       {"claim_token", report.claim_token},
                       {"worker_id", report.worker_id},
                       {"step", report.step},
                       {"ends", report.ends},
                       {"events", Json::Array(std::move(events))},
                       {"bodies", Json::Array(std::move(bodies))},
                       {"logs", Json::Array(std::move(logs))}});
}

Result<bus::Report> ReportFromJson(const Json& json) {
  bus::Report report{.execution_id = json["execution_id"].AsInt(),
                     .command_id = json["command_id"].ToString(),
                     .event_id = json["event_id"].AsInt(),
                     .claim_token = json["claim_token"].AsInt(),
                     .worker_id = json["worker_id"].ToString(),
                     .step = json["step"].ToString()};
  report.ends = json["ends"].AsBool();
  if (report.execution_id == 0 || report.command_id.empty())
    return Fail("bad_answer", "a report without its command");
  for (const Json& row : json["events"].items()) {
    NOETL_ASSIGN(engine::Event event, engine::EventFromJson(row));
    report.events.push_back(std::move(event));
  }
  for (const Json& row : json["bodies"].items())
    report.bodies.push_back({row["ref"].ToString(), row["body"]});
  for (const Json& row : json["logs"].items()) {
    report.logs.push_back(
        {row["stream"].ToString(), row["offset"].AsInt(), row["text"].ToString()});
  }
  return report;
}

Json ReplaceText(const Json& value, std::string_view from, std::string_view to) {
  if (value.is_string()) return value.AsString() == from ? Json(to) : value;
  if (value.is_array()) {
    std::vector<Json> items;
    for (const Json& item : value.items()) items.push_back(ReplaceText(item, from, to));
    return Json::Array(std::move(items));
  }
  if (!value.is_object()) return value;
  Json::Members members;
  for (const JsonMember& member : value.members())
    members.emplace_back(member.key_json(), ReplaceText(member.value, from, to));
  return Json::Object(std::move(members));
}

}  // namespace noetl::worker
