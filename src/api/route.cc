#include "api/route.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/ids.h"
#include "base/json_io.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"

namespace noetl::api {

namespace {

// After this many seconds a client that was told to come again should.
constexpr std::string_view kRetryAfterSeconds = "2";

struct CodeStatus {
  std::string_view code;
  int status;
  // What clients read instead of the message, which may name files and tables; empty: the message.
  std::string_view text = "";
};

constexpr CodeStatus kCodes[] = {
    {"bad_request", 400},
    {"json_syntax", 400},
    {"json_depth", 400},
    {"unauthorized", 401},
    {"forbidden", 403},
    {"disabled", 403},
    {"refused", 403},
    {"not_found", 404},
    {"method_not_allowed", 405},
    {"conflict", 409},
    {"active_claim", 409},
    {"stale_claim", 409},
    {"superseded", 409},
    {"cancelled", 409},
    {"already_terminal", 409},
    {"terminal", 409},
    {"open", 409},
    {"too_large", 413},
    {"media_type", 415},
    {"invalid", 422},
    {"bad_event", 422},
    {"json_nul", 422},
    {"overloaded", 429},
    {"upstream", 502},
    {"unavailable", 503},
    {"io", 503, "the store cannot be read or written at the moment; try again later"},
    {"disk_full", 503, "the disk of the store is full: nothing can be written until there is room"},
    {"read_only", 503, "the store cannot be written: its file or disk is read-only"},
    {"busy", 503, "the store is busy; try again later"},
    {"timeout", 504},
};

const CodeStatus* FindCode(std::string_view code) {
  const auto* found = std::ranges::find(kCodes, code, &CodeStatus::code);
  return found == std::end(kCodes) ? nullptr : found;
}

bool ComesAgain(int status, std::string_view code) {
  return status == 429 || status == 503 || code == "active_claim";
}

// A positive decimal of 64 bits; 0: not one.
std::int64_t IdOf(std::string_view text) {
  std::int64_t id = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, id);
  const bool whole = problem == std::errc() && rest == end && !text.empty();
  return whole && id > 0 ? id : 0;
}

bool IsHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool AllZero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

// 00-<trace>-<span>-<flags>; a later version may go on after the flags.
bool IsTraceParent(std::string_view text) {
  if (text.size() < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, 32);
  const std::string_view span = text.substr(36, 16);
  if (!IsHex(version) || !IsHex(trace) || !IsHex(span) || !IsHex(text.substr(53, 2))) return false;
  if (version == "ff" || AllZero(trace) || AllZero(span)) return false;
  return text.size() == 55 || (version != "00" && text[55] == '-');
}

// More is no trace state that anybody has to carry.
constexpr std::size_t kTraceStateMax = 512;

bool IsPlainText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::unexpected<Error> Wrong(std::string_view name, std::string_view wanted, const Json& got) {
  return Fail("invalid", fmt::format("`{}` must be {}, not {}", name, wanted, got.TypeName()));
}

}  // namespace

int StatusOf(std::string_view code) {
  const CodeStatus* known = FindCode(code);
  return known != nullptr ? known->status : 500;
}

Response ErrorResponse(int status, std::string_view code, std::string_view message,
                       std::string_view request_id, const Json& details) {
  JsonObjectBuilder body;
  body.Add("error", message).Add("status", status).Add("detail", message);
  body.Add("code", code).AddSome("details", details).Add("request_id", request_id);
  Response response;
  response.status = status;
  response.body = WriteJson(body.Build());
  if (ComesAgain(status, code))
    response.headers.Set("Retry-After", std::string(kRetryAfterSeconds));
  return response;
}

// ---- Call

Call::Call(std::shared_ptr<Exchange> exchange, const Route* route, Services* services,
           std::map<std::string, std::string, std::less<>> path, Scope scope)
    : exchange_(std::move(exchange)),
      route_(route),
      services_(services),
      path_(std::move(path)),
      query_(ParseQuery(exchange_->request().query)),
      scope_(scope) {
  ids_as_text_ = Query("ids") == "string" || request().headers.Find("X-Noetl-Ids") == "string";
}

Call::~Call() {
  if (answered_) return;
  LogError("request was left without an answer",
           {{"route", route_->path}, {"request_id", request().id}});
  Refuse(500, "internal", "the server did not answer this request; its log has the request id");
}

std::string_view Call::Path(std::string_view name) const {
  const auto found = path_.find(name);
  return found == path_.end() ? std::string_view() : std::string_view(found->second);
}

Result<std::int64_t> Call::PathId(std::string_view name) const {
  const std::int64_t id = IdOf(Path(name));
  if (id > 0) return id;
  return Fail("bad_request", fmt::format("`{}` in the path must be a positive number, not '{}'",
                                         name, Path(name)));
}

std::optional<std::string_view> Call::Query(std::string_view name) const {
  const auto found = std::ranges::find(
      query_, name, [](const auto& member) -> std::string_view { return member.first; });
  if (found == query_.end()) return std::nullopt;
  return found->second;
}

Result<std::int64_t> Call::QueryInt(std::string_view name, std::int64_t fallback, std::int64_t min,
                                    std::int64_t max) const {
  const std::optional<std::string_view> text = Query(name);
  if (!text || text->empty()) return fallback;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, problem] = std::from_chars(text->data(), end, value);
  if (rest != end || (problem != std::errc() && problem != std::errc::result_out_of_range)) {
    return Fail("bad_request", fmt::format("`{}` must be an integer, not '{}'", name, *text));
  }
  if (problem != std::errc()) return text->starts_with('-') ? min : max;
  return std::clamp(value, min, max);
}

Result<bool> Call::QueryBool(std::string_view name, bool fallback) const {
  const std::optional<std::string_view> text = Query(name);
  if (!text) return fallback;
  const std::string word = ToLower(*text);
  // A bare "?full" means yes.
  for (std::string_view yes : {"", "true", "1", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (std::string_view no : {"false", "0", "no", "off"}) {
    if (word == no) return false;
  }
  return Fail("bad_request", fmt::format("`{}` must be true or false, not '{}'", name, *text));
}

Result<std::int64_t> Call::QueryId(std::string_view name) const {
  const std::optional<std::string_view> text = Query(name);
  if (!text || text->empty()) return 0;
  const std::int64_t id = IdOf(*text);
  if (id > 0) return id;
  return Fail("bad_request", fmt::format("`{}` must be a positive number, not '{}'", name, *text));
}

Result<std::int64_t> Call::QueryTimeUs(std::string_view name) const {
  const std::optional<std::string_view> text = Query(name);
  if (!text || text->empty()) return 0;
  std::string spelled(*text);
  // A '+' that was not encoded has become a blank.
  const std::size_t blank = spelled.rfind(' ');
  if (blank != std::string::npos && blank > 10) spelled[blank] = '+';
  const std::optional<std::int64_t> us = ParseTimeKindly(spelled);
  if (us) return *us;
  return Fail(
      "bad_request",
      fmt::format("`{}` must be a time such as 2026-06-18T12:00:00Z, not '{}'", name, *text));
}

Json Call::Trace() const {
  const std::string_view parent = request().headers.Find("traceparent");
  if (!IsTraceParent(parent)) return {};
  Json trace = Json::Object({{"traceparent", parent}});
  const std::string_view state = request().headers.Find("tracestate");
  if (state.empty() || state.size() > kTraceStateMax || !IsPlainText(state)) return trace;
  return trace.With("tracestate", state);
}

void Call::Answer(Json body, int status) {
  Response response;
  response.status = status;
  response.body = WriteJson(ids_as_text_ ? IdsAsText(body) : body);
  Answer(std::move(response));
}

void Call::Answer(Response response) {
  if (!First()) return;
  for (const auto& [name, value] : headers_.entries()) response.headers.Set(name, value);
  exchange_->Send(std::move(response));
}

void Call::Refuse(const Error& error, Json details) {
  const CodeStatus* known = FindCode(error.code);
  if (known != nullptr && known->text.empty()) {
    return Refuse(known->status, error.code, error.message, std::move(details));
  }
  LogError("request failed", {{"route", route_->path},
                              {"request_id", request().id},
                              {"code", error.code},
                              {"error", error.message}});
  if (known != nullptr) return Refuse(known->status, error.code, std::string(known->text));
  Refuse(
      500, "internal",
      fmt::format("internal error; the log of the server has it under request {}", request().id));
}

void Call::Refuse(int status, std::string_view code, std::string message, Json details) {
  if (ids_as_text_) details = IdsAsText(details);
  Answer(ErrorResponse(status, code, message, request().id, details));
}

std::shared_ptr<BodyStream> Call::Stream(Response head, std::move_only_function<void()> closed) {
  if (!First()) return nullptr;
  for (const auto& [name, value] : headers_.entries()) head.headers.Add(name, value);
  return exchange_->Stream(std::move(head), std::move(closed));
}

// ---- members of a body

Result<std::optional<std::int64_t>> OptionalId(const Json& body, std::string_view name) {
  const Json& value = body[name];
  if (value.is_null()) return std::nullopt;
  const std::int64_t id = value.is_string() ? IdOf(value.AsString()) : value.AsInt();
  if (id > 0) return id;
  if (value.is_int() || value.is_string()) {
    return Fail("invalid", fmt::format("`{}` must be a positive number, not {}", name,
                                       WriteJson(value).substr(0, 80)));
  }
  return Wrong(name, "an id, as a number or a text", value);
}

Result<std::int64_t> IdMember(const Json& body, std::string_view name) {
  NOETL_ASSIGN(const std::optional<std::int64_t> id, OptionalId(body, name));
  if (id) return *id;
  return Fail("invalid", fmt::format("`{}` is missing", name));
}

Result<std::string> TextMember(const Json& body, std::string_view name) {
  const Json& value = body[name];
  if (value.is_null()) return Fail("invalid", fmt::format("`{}` is missing", name));
  if (!value.is_string()) return Wrong(name, "a text", value);
  if (Trim(value.AsString()).empty()) {
    return Fail("invalid", fmt::format("`{}` must not be blank", name));
  }
  return value.ToString();
}

Result<std::string> OptionalText(const Json& body, std::string_view name,
                                 std::string_view fallback) {
  const Json& value = body[name];
  if (value.is_null()) return std::string(fallback);
  if (!value.is_string()) return Wrong(name, "a text", value);
  return value.ToString();
}

Result<std::int64_t> OptionalInt(const Json& body, std::string_view name, std::int64_t fallback,
                                 std::int64_t min, std::int64_t max) {
  const Json& value = body[name];
  if (value.is_null()) return fallback;
  if (!value.is_integer()) return Wrong(name, "an integer", value);
  if (!value.is_int() || value.AsInt() < min || value.AsInt() > max) {
    return Fail("invalid", fmt::format("`{}` must be {} to {}, not {}", name, min, max,
                                       WriteJson(value).substr(0, 80)));
  }
  return value.AsInt();
}

Result<bool> OptionalBool(const Json& body, std::string_view name, bool fallback) {
  const Json& value = body[name];
  if (value.is_null()) return fallback;
  if (!value.is_bool()) return Wrong(name, "true or false", value);
  return value.AsBool();
}

Result<Json> OptionalObject(const Json& body, std::string_view name) {
  const Json& value = body[name];
  if (value.is_null() || value.is_object()) return value;
  return Wrong(name, "a map", value);
}

Result<std::optional<std::int64_t>> OptionalTimeUs(const Json& body, std::string_view name) {
  const Json& value = body[name];
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) return Wrong(name, "a time such as 2026-06-18T12:00:00Z", value);
  const std::optional<std::int64_t> us = ParseTimeKindly(value.AsString());
  if (us) return us;
  return Fail("invalid", fmt::format("`{}` must be a time such as 2026-06-18T12:00:00Z, not '{}'",
                                     name, value.AsString().substr(0, 80)));
}

// ---- values of answers

std::optional<std::int64_t> ParseTimeKindly(std::string_view text) {
  std::string spelled(Trim(text));
  if (spelled.size() == 10) spelled += "T00:00:00";
  if (spelled.size() < 19) return std::nullopt;
  if (spelled[10] == ' ') spelled[10] = 'T';
  const std::size_t zone = spelled.find_first_of("+-Zz", 19);
  if (zone == std::string::npos) {
    spelled += 'Z';
  } else if (spelled.size() - zone == 3) {
    spelled += ":00";  // PostgreSQL writes "+00"
  }
  return ParseTime(spelled);
}

Json TimeOrNull(std::int64_t us) { return us == 0 ? Json() : Json(FormatTime(us)); }
Json IdOrNull(std::int64_t id) { return id == 0 ? Json() : Json(id); }
Json IdText(std::int64_t id) { return id == 0 ? Json() : Json(fmt::format("{}", id)); }

}  // namespace noetl::api
