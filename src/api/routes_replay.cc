// Replay: the state of a run as of a point of its log, sealed with checksums.
//
// The answer is what the servers that this API comes from give, to the byte, before credentials are
// hidden in it. Whatever is added (headers, `only`) never enters a checksum.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/ids.h"
#include "api/replay_log.h"
#include "api/route.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"
#include "engine/replay_resolve.h"
#include "engine/replay_seal.h"

namespace noetl::api {
namespace {

using engine::replay::kProjections;
using engine::replay::Projection;

constexpr std::int64_t kLimitDefault = 10'000;
constexpr std::int64_t kLimitMax = 100'000;
constexpr std::string_view kAll = "all";
// Time for reading payloads.
constexpr std::int64_t kResolveUsMax = 30'000'000;
// Nothing else is stored: other names have an empty log.
constexpr std::string_view kDefaultOwner = "default";

constexpr Parameter kStateQuery[] = {
    {"execution_id", "integer", "the run; one that is not known has an empty log"},
    {"tenant_id", "string", "default; echoed, and other names have an empty log"},
    {"organization_id", "string", "default; echoed, and other names have an empty log"},
    {"as_of_event_id", "integer", "only events with ids up to this one"},
    {"as_of_position", "integer", "the same as as_of_event_id"},
    {"as_of_time", "timestamp",
     "only events made up to this time, with its zone. The order stays that of ids, so an event "
     "with a smaller id and a later time is left out"},
    {"as_of_seq", "integer", "only the first so many events that came in"},
    {"projection", "string",
     "execution, stage, frame, command, business_object, loop or all; echoed, nothing else"},
    {"only", "string", "shows this projection only; the checksums stay those of all"},
    {"limit", "integer", "1 to 100000, default 10000; the oldest are kept"},
    {"resolve_payloads", "boolean",
     "true tells whether each payload is there, its digest and its size; up to 256 of them"},
    {"strict", "boolean", "true repeats how the original server reads nulls and numbers"},
    {"dialect", "string", "typed, or flat: the form of an older server"},
    {"redact", "boolean", "false shows credentials; workers and administrators only"},
};

// ---- the query

enum class Dialect : std::uint8_t { kTyped, kFlat };
constexpr std::pair<std::string_view, Dialect> kDialects[] = {{"typed", Dialect::kTyped},
                                                              {"flat", Dialect::kFlat}};

struct StateQuery {
  engine::replay::Context context;
  ReplayRequest replay;
  Dialect dialect = Dialect::kTyped;
  bool strict = false;
  bool resolve = false;
  std::string only{kAll};
};

std::unexpected<Error> BadQuery(std::string_view problem) {
  return Fail("bad_request", fmt::format("Failed to deserialize query string: {}", problem));
}

// Reads members as the original does: exact spellings, none twice, no empty numbers.
class QueryReader {
 public:
  explicit QueryReader(std::string_view query) : members_(ParseQuery(query)) {}

  Status CheckTwice() const {
    for (const Parameter& parameter : kStateQuery) {
      const auto count = std::ranges::count(members_, parameter.name, &Member::first);
      if (count > 1) return BadQuery(fmt::format("duplicate field `{}`", parameter.name));
    }
    return {};
  }

  std::optional<std::string_view> Find(std::string_view name) const {
    const auto found = std::ranges::find(members_, name, &Member::first);
    if (found == members_.end()) return std::nullopt;
    return found->second;
  }
  std::string Text(std::string_view name, std::string_view fallback) const {
    return std::string(Find(name).value_or(fallback));
  }

  Result<std::optional<std::int64_t>> Int(std::string_view name) const {
    const std::optional<std::string_view> text = Find(name);
    if (!text) return std::nullopt;
    std::string_view digits = *text;
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [rest, problem] = std::from_chars(digits.data(), end, value);
    if (problem == std::errc() && rest == end) return value;
    return BadQuery(fmt::format("{}: expected an integer of 64 bits, not '{}'", name, *text));
  }

  Result<std::optional<std::int64_t>> TimeUs(std::string_view name) const {
    const std::optional<std::string_view> text = Find(name);
    if (!text) return std::nullopt;
    if (const std::optional<std::int64_t> us = ParseTime(*text)) return us;
    return BadQuery(
        fmt::format("{}: expected a time such as 2026-06-18T12:00:00Z, not '{}'", name, *text));
  }

  Result<bool> Bool(std::string_view name, bool fallback) const {
    const std::optional<std::string_view> text = Find(name);
    if (!text) return fallback;
    if (*text == "true") return true;
    if (*text == "false") return false;
    return BadQuery(fmt::format("{}: expected `true` or `false`, not '{}'", name, *text));
  }

 private:
  using Member = std::pair<std::string, std::string>;
  std::vector<Member> members_;
};

Result<Dialect> ReadDialect(std::string_view name) {
  for (const auto& [known, dialect] : kDialects) {
    if (name == known) return dialect;
  }
  return BadQuery(fmt::format("dialect: expected `typed` or `flat`, not '{}'", name));
}

// Every member by itself.
Result<StateQuery> ReadMembers(const QueryReader& reader) {
  NOETL_TRY(reader.CheckTwice());
  StateQuery query;
  ReplayRequest& replay = query.replay;
  NOETL_ASSIGN(const std::optional<std::int64_t> id, reader.Int("execution_id"));
  if (!id) return BadQuery("missing field `execution_id`");
  replay.execution_id = *id;
  query.context = {.tenant_id = reader.Text("tenant_id", kDefaultOwner),
                   .organization_id = reader.Text("organization_id", kDefaultOwner),
                   .execution_id = *id,
                   .projection = reader.Text("projection", kAll)};
  query.only = reader.Text("only", kAll);
  NOETL_ASSIGN(replay.cutoff.event_id, reader.Int("as_of_event_id"));
  NOETL_ASSIGN(const std::optional<std::int64_t> position, reader.Int("as_of_position"));
  if (position) replay.cutoff.event_id = position;
  NOETL_ASSIGN(replay.cutoff.time_us, reader.TimeUs("as_of_time"));
  NOETL_ASSIGN(replay.cutoff.seq, reader.Int("as_of_seq"));
  NOETL_ASSIGN(const std::optional<std::int64_t> limit, reader.Int("limit"));
  replay.limit = std::clamp<std::int64_t>(limit.value_or(kLimitDefault), 1, kLimitMax);
  NOETL_ASSIGN(query.resolve, reader.Bool("resolve_payloads", false));
  NOETL_ASSIGN(query.strict, reader.Bool("strict", false));
  NOETL_TRY(reader.Bool("redact", true));
  NOETL_ASSIGN(query.dialect, ReadDialect(reader.Text("dialect", "typed")));
  replay.numbers = query.dialect == Dialect::kFlat ? JsonNumbers::kFlat
                   : query.strict                  ? JsonNumbers::kTypedStrict
                                                   : JsonNumbers::kTyped;
  return query;
}

std::string Quoted(std::string_view text) {
  static constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
  std::string quoted = "\"";
  for (const char c : text) {
    const auto* escape = std::ranges::find(kEscapes, c, &std::pair<char, std::string_view>::first);
    escape == std::end(kEscapes) ? quoted += c : quoted += escape->second;
  }
  return quoted + "\"";
}

Status CheckProjection(std::string_view name) {
  const auto* known = std::ranges::find(kProjections, name, &Projection::name);
  if (name == kAll || known != std::end(kProjections)) return {};
  return Fail("bad_request", fmt::format("unknown projection {}; expected one of: execution, "
                                         "stage, frame, command, business_object, loop, all",
                                         Quoted(name)));
}

Result<StateQuery> ReadStateQuery(const Call& call) {
  const QueryReader reader(call.request().query);
  NOETL_ASSIGN(StateQuery query, ReadMembers(reader));
  int cutoffs = 0;
  for (std::string_view name : {"as_of_event_id", "as_of_position", "as_of_time", "as_of_seq"})
    cutoffs += reader.Find(name).has_value();
  if (cutoffs > 1) {
    return Fail("bad_request",
                "Use only one replay cutoff: as_of_event_id, as_of_position, or as_of_time");
  }
  NOETL_TRY(CheckProjection(query.context.projection));
  NOETL_TRY(CheckProjection(query.only));
  return query;
}

// ---- the answer

bool HasLog(const engine::replay::Context& context) {
  return context.tenant_id == kDefaultOwner && context.organization_id == kDefaultOwner;
}

struct Folded {
  ReplayedLog log;
  Json body;
};

Result<Folded> FoldFor(const Call& call, const StateQuery& query) {
  const auto folder = query.dialect == Dialect::kFlat
                          ? MakeFlatFolder(query.context)
                          : MakeTypedFolder(query.context, query.strict);
  Folded folded;
  if (HasLog(query.context)) {
    NOETL_ASSIGN(folded.log, FoldLog(*call.services().store, query.replay, *folder,
                                     [&call] { return call.gone(); }));
  }
  NOETL_ASSIGN(folded.body, folder->Seal());
  return folded;
}

// Payloads of the store are known by texts of one scheme; nothing else is asked for.
Json WithPayloads(const Call& call, const Json& body) {
  Clock& clock = *call.services().clock;
  const std::int64_t until_us = clock.MonotonicMicros() + kResolveUsMax;
  const auto load = [&](const Json& target) -> Result<Json> {
    const std::string place = engine::replay::LocatorOf(target);
    if (place.starts_with("noetl://")) {
      Result<Json> payload = call.services().store->Load(place);
      if (payload) return payload;
      // The message of another error may name files of the server.
      if (const std::string& code = payload.error().code; code != "not_found")
        return Fail(code, fmt::format("the payload cannot be read: {}", code));
    }
    return Fail("not_found", fmt::format("not found: {}", place));
  };
  return engine::replay::ResolvePayloads(
      body, load, [&] { return call.gone() || clock.MonotonicMicros() > until_us; });
}

Json OnlyProjection(Json body, std::string_view only) {
  if (only == kAll) return body;
  for (const Projection& projection : kProjections) {
    if (projection.name != only) body = body.Without(projection.member);
  }
  return body;
}

// Names of entities are no names of secrets: values are looked at one member at a time.
Json RedactMembers(const Json& map) {
  Json::Members members;
  members.reserve(map.size());
  for (const JsonMember& member : map.members())
    members.emplace_back(member.key_json(), Redact(member.value));
  return Json::Object(std::move(members));
}

Json RedactBody(const Json& body) {
  Json redacted = body;
  for (const Projection& projection : kProjections) {
    const Json& content = body[projection.member];
    if (!content.is_object()) continue;
    if (projection.name == "execution") {
      redacted = redacted.With(projection.member, RedactMembers(content));
      continue;
    }
    Json::Members entities;
    entities.reserve(content.size());
    for (const JsonMember& entity : content.members())
      entities.emplace_back(entity.key_json(), RedactMembers(entity.value));
    redacted = redacted.With(projection.member, Json::Object(std::move(entities)));
  }
  if (body.Has("payload_resolution"))
    redacted = redacted.With("payload_resolution", Redact(body["payload_resolution"]));
  return redacted;
}

void RefuseFold(Call& call, const Error& error) {
  // The flat dialect has no answer for a log with a counter that is no number.
  if (error.code == "bad_row") return call.Refuse(500, error.code, error.message);
  LogError("replay failed",
           {{"request_id", call.request().id}, {"code", error.code}, {"error", error.message}});
  // The message may name files of the server.
  call.Refuse(500, "database",
              fmt::format("Database error: {}; the log of the server has it under request {}",
                          error.code, call.request().id));
}

std::string_view Word(bool value) { return value ? "true" : "false"; }

void AnswerState(CallPtr call) {
  Result<StateQuery> query = ReadStateQuery(*call);
  if (!query) return call->Refuse(query.error());
  const Result<bool> redact = WantsRedaction(*call);
  if (!redact) return call->Refuse(redact.error());
  Result<Folded> folded = FoldFor(*call, *query);
  if (!folded) return RefuseFold(*call, folded.error());
  Json body = std::move(folded->body);
  if (query->resolve) body = WithPayloads(*call, body);
  body = OnlyProjection(std::move(body), query->only);
  call->AddHeader("X-Replay-Truncated", std::string(Word(folded->log.truncated)));
  call->AddHeader("X-Replay-Dialect", query->dialect == Dialect::kFlat ? "flat" : "typed");
  call->AddHeader("X-Replay-Strict", std::string(Word(query->strict)));
  call->AddHeader("X-Replay-Events-Folded", std::to_string(folded->log.folded));
  if (*redact) {
    Json shown = RedactBody(body);
    if (!(shown == body)) call->AddHeader("X-Replay-Redacted", "true");
    body = std::move(shown);
  }
  Response response;
  response.body = engine::replay::WriteState(call->ids_as_text() ? IdsAsText(body) : body);
  call->Answer(std::move(response));
}

// A long log takes a while.
void GetState(CallPtr call) { InBackground(std::move(call), AnswerState); }

constexpr Route kRoutes[] = {
    {.method = "GET",
     .path = "/api/replay/state",
     .family = "replay",
     .summary = "The state of a run as of a point of its log, with checksums; the headers "
                "X-Replay-Truncated, -Events-Folded, -Strict, -Dialect and -Redacted tell how it "
                "was made",
     .scope = Scope::kViewer,
     .handle = GetState,
     .query = kStateQuery,
     .response =
         R"({"tenant_id":"default","organization_id":"default","execution_id":42,)"
         R"("projection":"all","event_count":2,"last_event_id":2,"last_event_type":"step.enter",)"
         R"("execution":{"status":"RUNNING","last_node_name":"start","payload_refs":[]},)"
         R"("stages":{},"frames":{},"commands":{},"business_objects":{},"loops":{},)"
         R"("checksum":{"type":"sha256","value":"4d21..."},"projection_checksums":{)"
         R"("stage":{"type":"sha256","value":"4413..."}}})"},
};

}  // namespace

std::span<const Route> ReplayRoutes() { return kRoutes; }

}  // namespace noetl::api
