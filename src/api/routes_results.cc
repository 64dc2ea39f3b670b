// Results that are too large for an event, and bytes under names.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/byte_range.h"
#include "api/handle.h"
#include "api/route.h"
#include "base/json_io.h"
#include "base/redact.h"
#include "base/text.h"
#include "store/reference.h"
#include "store/result_lifetime.h"
#include "store/store.h"

namespace noetl::api {
namespace {

constexpr std::size_t kNameBytesMax = 512;
constexpr std::size_t kKeyBytesMax = 1024;
constexpr std::size_t kMediaTypeBytesMax = 255;
constexpr std::int64_t kListDefault = 100;
constexpr std::int64_t kListMax = 1000;
// Ten years: what is wanted longer has no end.
constexpr std::int64_t kTtlMaxMs = std::int64_t{3650} * 86'400'000;
// Objects with one run, step and row: those of other tenants.
constexpr std::int64_t kTwinsMax = 64;

// Counts a call of a route when it is over.
class Counted {
 public:
  Counted(Services& services, CounterTable ServerMetrics::* counter,
          HistogramTable ServerMetrics::* seconds)
      : services_(services),
        counter_(MetricsOf(services).*counter),
        seconds_(MetricsOf(services).*seconds),
        began_us_(services.clock->MonotonicMicros()) {}
  ~Counted() {
    counter_.Add({status_});
    seconds_.Observe(static_cast<double>(services_.clock->MonotonicMicros() - began_us_) / 1e6);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void Ended(std::string_view code) {
    const int status = code.empty() ? 200 : StatusOf(code);
    status_ = status < 400    ? "ok"
              : status == 404 ? "not_found"
              : status < 500  ? "bad_request"
                              : "error";
  }

 private:
  Services& services_;
  CounterTable& counter_;
  HistogramTable& seconds_;
  const std::int64_t began_us_;
  std::string_view status_ = "error";
};

template <typename T>
std::string_view CodeOf(const Result<T>& result) {
  return result ? std::string_view() : std::string_view(result.error().code);
}

void CountObject(Services& services, std::string_view operation, std::string_view outcome) {
  MetricsOf(services).object_ops.Add({"embedded", operation, outcome});
}

// ---- results

// How long a result is wanted, in milliseconds: a number of seconds or a text such as "12h"; 0: none
// was told.
Result<std::int64_t> ReadTtl(const Json& ttl) {
  if (ttl.is_null()) return 0;
  std::optional<std::int64_t> ms;
  if (ttl.is_string()) ms = ParseDurationMs(Trim(ttl.AsString()));
  // Compared as it came: not every number fits.
  const double seconds = ttl.is_number() ? ttl.AsDouble() : 0;
  if (seconds > 0 && seconds * 1000 <= static_cast<double>(kTtlMaxMs))
    ms = static_cast<std::int64_t>(seconds * 1000);
  if (ms && *ms > 0 && *ms <= kTtlMaxMs) return *ms;
  return Fail("invalid",
              "`ttl` must be a number of seconds above 0, or a text such as \"90s\", \"12h\" or "
              "\"7d\", of at most 3650 days");
}

Status ReadLifetime(const Json& body, std::int64_t now_us, store::ResultRow& row) {
  NOETL_ASSIGN(row.scope, OptionalText(body, "scope", "execution"));
  if (std::ranges::find(store::kResultScopes, row.scope) == store::kResultScopes.end()) {
    return Fail("invalid", fmt::format("`scope` must be one of {}, got '{}'",
                                       fmt::join(store::kResultScopes, ", "), row.scope));
  }
  NOETL_ASSIGN(const std::int64_t ttl_ms, ReadTtl(body["ttl"]));
  if (ttl_ms != 0 && row.scope == store::kPermanentScope)
    return Fail("invalid", "a result of scope permanent has no `ttl`");
  row.created_at_us = now_us;
  row.expires_at_us = ttl_ms == 0 ? 0 : now_us + ttl_ms * 1000;
  return {};
}

Result<Json> StoreResult(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  store::ResultRow row;
  NOETL_ASSIGN(row.execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(row.name, TextMember(body, "name"));
  if (row.name.size() > kNameBytesMax) {
    return Fail("invalid", fmt::format("`name` has {} bytes; at most {} are allowed",
                                       row.name.size(), kNameBytesMax));
  }
  if (!body.Has("data")) return Fail("invalid", "`data` is missing");
  NOETL_ASSIGN(row.source_step, OptionalText(body, "source_step"));
  NOETL_ASSIGN(const std::string data, WriteStoredJson(body["data"]));
  const Services& services = call.services();
  NOETL_TRY(ReadLifetime(body, services.clock->NowMicros(), row));
  row.result_id = services.ids->Next();
  NOETL_ASSIGN(const store::ResultRow stored, services.store->PutResult(std::move(row), data));
  return Json::Object({{"ref", stored.ref},
                       {"store", "db"},
                       {"scope", stored.scope},
                       {"bytes", stored.bytes},
                       {"sha256", stored.sha256},
                       {"expires_at", TimeOrNull(stored.expires_at_us)}});
}

Result<Json> PutResult(Call& call) {
  Counted counted(call.services(), &ServerMetrics::result_put, &ServerMetrics::result_put_seconds);
  Result<Json> answer = StoreResult(call);
  counted.Ended(CodeOf(answer));
  return answer;
}

std::unexpected<Error> NothingThere(std::string_view ref) {
  return Fail("not_found", fmt::format("nothing is stored under '{}'", ref));
}

bool HasExpired(const store::ResultRow& row, std::int64_t now_us) {
  return row.expires_at_us != 0 && row.expires_at_us <= now_us;
}

Result<Json> LoadObject(const store::Store& store, std::string_view ref,
                        const store::ObjectReference& wanted) {
  NOETL_ASSIGN(const auto keys, store.FindObjectKeys(wanted.tail, kTwinsMax));
  const auto key =
      std::ranges::find_if(keys, [&](const std::string& each) { return wanted.Fits(each); });
  if (key == keys.end()) return NothingThere(ref);
  NOETL_ASSIGN(const auto object, store.FindObject(*key));
  if (!object) return NothingThere(ref);
  Result<Json> value = ParseJson(object->bytes);
  if (value) return value;
  return Fail("corrupt",
              fmt::format("the object '{}' is not JSON: {}", *key, value.error().message));
}

Result<Json> LoadReference(const Services& services, std::string_view ref) {
  const store::Store& store = *services.store;
  const std::optional<store::Reference> own = store::ParseReference(ref);
  if (!own) {
    if (const auto object = store::ParseObjectReference(ref))
      return LoadObject(store, ref, *object);
    return Fail("bad_request", ref.empty() ? "`ref` is missing"
                                           : fmt::format("'{}' is no reference of a result", ref));
  }
  if (own->kind == store::Reference::Kind::kResult) {
    NOETL_ASSIGN(const auto row, store.FindResult(own->execution_id, own->id));
    if (row && HasExpired(*row, services.clock->NowMicros())) return NothingThere(ref);
  }
  return store.Load(ref);
}

Result<Json> ReadReference(const Call& call) {
  // Workers need the value as it is; people see it without credentials.
  const bool trusted = call.scope() >= Scope::kWorker;
  NOETL_ASSIGN(const bool redact, call.QueryBool("redact", !trusted));
  if (!redact && !trusted)
    return Fail("forbidden", "redact=false needs the rights of a worker or an administrator");
  NOETL_ASSIGN(Json value, LoadReference(call.services(), call.Query("ref").value_or("")));
  return redact ? Redact(value) : value;
}

// Answers with the stored value itself.
void ResolveResult(CallPtr call) {
  Counted counted(call->services(), &ServerMetrics::result_resolve,
                  &ServerMetrics::result_resolve_seconds);
  const Result<Json> value = ReadReference(*call);
  counted.Ended(CodeOf(value));
  if (!value) return call->Refuse(value.error());
  Response response;
  response.body = WriteJson(*value);
  call->Answer(std::move(response));
}

Json ResultJson(const store::ResultRow& row) {
  return Json::Object({{"result_id", IdText(row.result_id)},
                       {"name", row.name},
                       {"scope", row.scope},
                       {"source_step", TextOrNull(row.source_step)},
                       {"ref", row.ref},
                       {"bytes", row.bytes},
                       {"sha256", row.sha256},
                       {"created_at", TimeOrNull(row.created_at_us)},
                       {"expires_at", TimeOrNull(row.expires_at_us)}});
}

Status NeedRun(const Services& services, std::int64_t execution_id) {
  NOETL_ASSIGN(const auto row, services.store->Find(execution_id));
  if (row) return {};
  return Fail("not_found", fmt::format("there is no run {}", execution_id));
}

Result<Json> ListResults(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  NOETL_ASSIGN(const std::int64_t limit, call.QueryInt("limit", kListDefault, 1, kListMax));
  NOETL_ASSIGN(const std::int64_t cursor, call.QueryId("cursor"));
  NOETL_TRY(NeedRun(call.services(), execution_id));
  NOETL_ASSIGN(auto rows, call.services().store->ListResults(execution_id, cursor, limit + 1));
  Json next;
  if (std::ssize(rows) > limit) {
    rows.pop_back();
    next = IdText(rows.back().result_id);
  }
  const std::int64_t now_us = call.services().clock->NowMicros();
  std::vector<Json> list;
  for (const store::ResultRow& row : rows) {
    if (!HasExpired(row, now_us)) list.push_back(ResultJson(row));
  }
  return Json::Object({{"execution_id", IdText(execution_id)},
                       {"results", Json::Array(std::move(list))},
                       {"next_cursor", next}});
}

Result<Json> DeleteResults(Call& call) {
  NOETL_ASSIGN(const std::int64_t execution_id, call.PathId("execution_id"));
  NOETL_TRY(NeedRun(call.services(), execution_id));
  NOETL_ASSIGN(const std::int64_t deleted, call.services().store->DeleteResults(execution_id));
  return Json::Object(
      {{"execution_id", IdText(execution_id)}, {"results_deleted", deleted}, {"status", "ok"}});
}

// ---- objects

// A key must mean one thing wherever it is kept, also as a path of files.
Status CheckKey(std::string_view key) {
  if (key.empty() || key.size() > kKeyBytesMax) {
    return Fail("invalid", fmt::format("the key of an object has 1 to {} bytes", kKeyBytesMax));
  }
  const bool plain = std::ranges::all_of(
      key, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\'; });
  if (!plain) return Fail("invalid", "the key of an object holds a control character or a '\\'");
  for (std::size_t from = 0; from <= key.size();) {
    const std::size_t slash = std::min(key.find('/', from), key.size());
    const std::string_view part = key.substr(from, slash - from);
    if (part.empty() || part == "." || part == "..") {
      return Fail("invalid", "the key of an object has an empty part, '.' or '..'");
    }
    from = slash + 1;
  }
  return {};
}

Status CheckMediaType(std::string_view type) {
  const bool plain =
      std::ranges::all_of(type, [](char c) { return c >= 0x20 && c < 0x7f && c != '"'; });
  const bool sized = !type.empty() && type.size() <= kMediaTypeBytesMax;
  if (plain && sized && type.find('/') != std::string_view::npos) return {};
  return Fail("invalid", "`media_type` must be a media type such as application/json");
}

Result<Json> PutObject(Call& call) {
  const Services& services = call.services();
  store::ObjectRow row{
      .key = std::string(call.Path("key")),
      .media_type = std::string(call.Query("media_type").value_or("application/octet-stream")),
      .bytes = call.request().body,
      .created_at_us = services.clock->NowMicros()};
  NOETL_TRY(CheckKey(row.key));
  NOETL_TRY(CheckMediaType(row.media_type));
  const std::size_t bytes = row.bytes.size();
  const std::int64_t bytes_max = services.settings->Int("NOETL_OBJECT_MAX_BYTES");
  if (std::cmp_greater(bytes, bytes_max)) {
    return Fail("too_large", fmt::format("the object has {} bytes; at most {} are stored here",
                                         bytes, bytes_max));
  }
  const Result<store::ObjectRow> put = services.store->PutObject(std::move(row));
  CountObject(call.services(), "put", put ? "ok" : "error");
  NOETL_ASSIGN(const store::ObjectRow stored, put);
  return Json::Object({{"key", stored.key}, {"digest", stored.digest}, {"bytes", bytes}});
}

void GetObject(CallPtr call) {
  const std::string_view key = call->Path("key");
  if (const Status checked = CheckKey(key); !checked) return call->Refuse(checked.error());
  Result<std::optional<store::ObjectRow>> row = call->services().store->FindObject(key);
  CountObject(call->services(), "get", !row ? "error" : *row ? "ok" : "not_found");
  if (!row) return call->Refuse(row.error());
  if (!*row) return call->Refuse(404, "not_found", fmt::format("there is no object '{}'", key));
  store::ObjectRow& object = **row;
  const Headers& headers = call->request().headers;

  Response response{.content_type = object.media_type};
  response.headers.Add("ETag", fmt::format("\"{}\"", object.digest));
  response.headers.Add("Accept-Ranges", "bytes");
  response.headers.Add("X-Content-Type-Options", "nosniff");
  if (NamesTag(headers.Find("If-None-Match"), object.digest)) {
    response.status = 304;
    return call->Answer(std::move(response));
  }
  const std::string_view condition = headers.Find("If-Range");
  const bool may_be_part = condition.empty() || NamesTag(condition, object.digest);
  const std::size_t size = object.bytes.size();
  const ByteRange range = ReadRange(may_be_part ? headers.Find("Range") : "", size);
  switch (range.kind) {
    case ByteRange::Kind::kWhole: response.body = std::move(object.bytes); break;
    case ByteRange::Kind::kPart:
      response.status = 206;
      response.headers.Add("Content-Range", fmt::format("bytes {}-{}/{}", range.first,
                                                        range.first + range.count - 1, size));
      response.body = object.bytes.substr(range.first, range.count);
      break;
    case ByteRange::Kind::kOutside:
      call->AddHeader("Content-Range", fmt::format("bytes */{}", size));
      return call->Refuse(416, "range", "the range lies outside of the object");
  }
  call->Answer(std::move(response));
}

// ---- the table

constexpr Parameter kResolveQuery[] = {
    {"ref", "string",
     "noetl://execution/<run>/result/<name>/<id>, another of the log, or noetl://<tenant>/"
     "<project>/results/<run>/<step>/<frame>/<row>/<attempt> for an object"},
    {"redact", "boolean", "hide what looks like a credential; only workers may say false"}};
constexpr Parameter kListQuery[] = {{"limit", "integer", "1 to 1000"},
                                    {"cursor", "string", "next_cursor of the page before"}};
constexpr Parameter kObjectQuery[] = {
    {"media_type", "string", "what the bytes are; application/octet-stream unless told"}};

constexpr Route kRoutes[] = {
    {.method = "PUT",
     .path = "/api/result/{execution_id}",
     .family = "results",
     .summary = "Stores a result of a run; the same name and content give the same reference. "
                "`scope` is step (until the run ends), execution, workflow (as long as the run) or "
                "permanent; `ttl` is a number of seconds or a text such as 12h",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyResult,
     .handle = Now<PutResult>,
     .request = R"({"name":"load_rows","data":{"rows":[1,2,3]},"scope":"execution",)"
                R"("source_step":"load_rows","ttl":"12h"})",
     .response = R"({"ref":"noetl://execution/325481002387804160/result/load_rows/)"
                 R"(325481009000000000","store":"db","scope":"execution","bytes":16,)"
                 R"("sha256":"5d...","expires_at":"2026-06-19T00:00:00.000000Z"})"},
    {.method = "GET",
     .path = "/api/result/resolve",
     .family = "results",
     .summary = "The value behind a reference, as the body itself",
     .scope = Scope::kViewer,
     .handle = ResolveResult,
     .query = kResolveQuery,
     .response = R"({"rows":[1,2,3]})"},
    {.method = "GET",
     .path = "/api/result/{execution_id}/list",
     .family = "results",
     .summary = "What was stored for a run, without the values",
     .scope = Scope::kViewer,
     .handle = Now<ListResults>,
     .query = kListQuery,
     .response = R"({"execution_id":"325481002387804160","results":[{"result_id":)"
                 R"("325481009000000000","name":"load_rows","scope":"execution",)"
                 R"("source_step":"load_rows","ref":"noetl://execution/325481002387804160/)"
                 R"(result/load_rows/325481009000000000","bytes":16,"sha256":"5d...",)"
                 R"("created_at":"2026-06-18T12:00:00.000000Z","expires_at":null}],)"
                 R"("next_cursor":null})"},
    {.method = "DELETE",
     .path = "/api/result/{execution_id}",
     .family = "results",
     .summary = "Removes the results that workers stored for a run",
     .scope = Scope::kAdmin,
     .handle = Now<DeleteResults>,
     .response = R"({"execution_id":"325481002387804160","results_deleted":1,"status":"ok"})"},
    {.method = "PUT",
     .path = "/api/internal/objects/{key...}",
     .family = "internal",
     .summary = "Stores bytes under a key",
     .scope = Scope::kInternal,
     .body = BodyKind::kRaw,
     .body_max = kBodyResult,
     .handle = Now<PutObject>,
     .query = kObjectQuery,
     .response = R"({"key":"noetl/execution=42/results/s/0/0/1.json","digest":"5d...",)"
                 R"("bytes":16})"},
    {.method = "GET",
     .path = "/api/internal/objects/{key...}",
     .family = "internal",
     .summary = "Bytes under a key, whole or in part, with an entity tag",
     .scope = Scope::kInternal,
     .handle = GetObject},
};

}  // namespace

std::span<const Route> ResultRoutes() { return kRoutes; }

}  // namespace noetl::api
