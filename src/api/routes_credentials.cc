// Credentials, the keychain, and the care of both. Secrets are given out to workers and
// administrators only, and every time that happens is in the audit.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/route.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"
#include "store/store.h"
#include "vault/vault.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kListDefault = 100;
constexpr std::int64_t kListMax = 1000;
constexpr std::int64_t kAuditMax = 10'000;
constexpr std::int64_t kExpiresInMax = 31'536'000;  // a year of seconds
constexpr std::int64_t kBatchDefault = 100;
constexpr std::int64_t kBatchMax = 10'000;
constexpr std::int64_t kBatchesDefault = 1000;
constexpr std::string_view kWorkerPool = "worker_pool";

// Secrets must not stay in anybody's cache.
void ForbidCaching(Call& call) { call.AddHeader("Cache-Control", "no-store"); }

// The vault's errors with the words that clients know.
void Refuse(Call& call, const Error& error) {
  if (error.code == "decrypt") {
    return call.Refuse(
        500, "decrypt",
        "Decryption failed: the record was not made with the keys of this server, or "
        "it was changed; store the credential again");
  }
  if (error.code == "no_pubkey") return call.Refuse(400, "no_pubkey", error.message);
  call.Refuse(error);
}

template <Result<Json> (*F)(Call&)>
void Guarded(CallPtr call) {
  Result<Json> answer = F(*call);
  if (!answer) return Refuse(*call, answer.error());
  call->Answer(*std::move(answer));
}

template <Result<Json> (*F)(Call&)>
void GuardedLater(CallPtr call) {
  InBackground(std::move(call), Guarded<F>);
}

// ---- credentials

Result<std::optional<std::vector<std::string>>> ReadTags(const Json& tags) {
  if (tags.is_null()) return std::nullopt;
  std::vector<std::string> list;
  for (const Json& tag : tags.items()) list.push_back(tag.ToString());
  const bool texts = std::ranges::all_of(tags.items(), &Json::is_string);
  if (!tags.is_array() || !texts) return Fail("invalid", "`tags` must be a list of texts");
  return list;
}

Result<Json> PutCredential(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  vault::Vault& vault = *call.services().vault;
  vault::Credential credential;
  NOETL_ASSIGN(credential.name, TextMember(body, "name"));
  NOETL_ASSIGN(credential.type, TextMember(body, "type"));
  if (body["data"].is_null()) return Fail("invalid", "`data` is missing");
  credential.data = body["data"];
  NOETL_ASSIGN(const bool merge, call.QueryBool("merge", false));
  if (merge) {
    // What the body leaves out stays as it is.
    Result<vault::Credential> old = vault.Find(credential.name, false, {});
    if (!old && old.error().code != "not_found") return std::unexpected(old.error());
    if (old && old->name == credential.name) {
      credential.meta = std::move(old->meta);
      credential.tags = std::move(old->tags);
      credential.description = std::move(old->description);
    }
  }
  if (!body["meta"].is_null()) credential.meta = body["meta"];
  if (!body["tags"].is_null()) {
    NOETL_ASSIGN(credential.tags, ReadTags(body["tags"]));
  }
  NOETL_ASSIGN(credential.description,
               OptionalText(body, "description", std::string(credential.description)));
  NOETL_ASSIGN(vault::Credential stored, vault.Put(credential));
  stored.data = Json();
  return stored.ToJson();
}

Result<Json> ListCredentials(Call& call) {
  const std::string_view type = call.Query("type").value_or("");
  const std::string_view text = call.Query("q").value_or("");
  NOETL_ASSIGN(const std::int64_t limit, call.QueryInt("limit", kListDefault, 1, kListMax));
  NOETL_ASSIGN(const std::int64_t cursor, call.QueryId("cursor"));
  NOETL_ASSIGN(auto found, call.services().vault->List(type, text, cursor, limit + 1));
  Json next;
  if (std::ssize(found) > limit) {
    found.pop_back();
    next = IdText(found.back().id);
  }
  std::vector<Json> items;
  for (const vault::Credential& credential : found) items.push_back(credential.ToJson());
  JsonObjectBuilder filter;
  if (!type.empty()) filter.Add("type", type);
  if (!text.empty()) filter.Add("q", text);
  JsonObjectBuilder answer;
  answer.Add("items", Json::Array(std::move(items)));
  if (!type.empty() || !text.empty()) answer.Add("filter", filter.Build());
  answer.Add("next_cursor", next);
  return answer.Build();
}

Result<vault::Reader> ReaderOf(const Call& call) {
  vault::Reader reader{.worker_id = std::string(call.Query("worker_id").value_or(""))};
  NOETL_ASSIGN(reader.execution_id, call.QueryId("execution_id"));
  NOETL_ASSIGN(reader.parent_execution_id, call.QueryId("parent_execution_id"));
  return reader;
}

// What a playbook's keychain resolves to, in the shape of a credential.
Json KeychainCredential(std::string_view alias, const Json& secret, std::int64_t now_us) {
  return Json::Object({{"id", "0"},
                       {"name", alias},
                       {"type", "keychain"},
                       {"data", secret["data"]},
                       {"created_at", TimeOrNull(now_us)},
                       {"updated_at", TimeOrNull(now_us)}});
}

// Whether a secret that is not stored is to be looked for among those of the run.
bool MayBeInKeychain(const Services& services, const Error& error, const vault::Reader& reader) {
  return error.code == "not_found" && reader.execution_id != 0 && services.secrets != nullptr;
}

void GetCredential(CallPtr call) {
  const std::string alias(call->Path("identifier"));
  const Result<bool> with_data = call->QueryBool("include_data", false);
  if (!with_data) return call->Refuse(with_data.error());
  if (*with_data && call->scope() < Scope::kWorker) {
    return call->Refuse(403, "forbidden",
                        "the data of a credential is for workers and administrators only");
  }
  const Result<vault::Reader> reader = ReaderOf(*call);
  if (!reader) return call->Refuse(reader.error());
  if (*with_data) ForbidCaching(*call);

  const Services& services = call->services();
  const Result<vault::Credential> found = services.vault->Find(alias, *with_data, *reader);
  if (found) return call->Answer(found->ToJson());
  if (!*with_data || !MayBeInKeychain(services, found.error(), *reader))
    return Refuse(*call, found.error());
  services.secrets->FindSecret(alias, reader->execution_id, [call, alias](Result<Json> secret) {
    if (!secret) return Refuse(*call, secret.error());
    call->Answer(KeychainCredential(alias, *secret, call->services().clock->NowMicros()));
  });
}

Result<Json> DeleteCredential(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.services().vault->Delete(call.Path("identifier")));
  return Json::Object({{"message", "deleted"}, {"id", IdText(id)}});
}

// The word of the metrics for an attempt to seal.
std::string_view SealOutcome(bool worker_known, const Result<Json>& sealed) {
  if (sealed) return "ok";
  if (sealed.error().code == "no_pubkey") return worker_known ? "no_pubkey" : "worker_not_found";
  return sealed.error().code == "not_found" ? "not_found" : "credential_error";
}

// What is sealed, and to whom.
struct SealRequest {
  std::string alias;
  std::string public_key;  // without one the vault refuses, and says so in the audit
  bool worker_known = false;
  vault::Reader reader;
};

Result<SealRequest> SealRequestOf(const Call& call) {
  SealRequest request{.alias = std::string(call.Path("identifier"))};
  NOETL_ASSIGN(request.reader, ReaderOf(call));
  const std::string& worker = request.reader.worker_id;
  if (worker.empty()) return Fail("bad_request", "`worker_id` is missing");
  NOETL_ASSIGN(const auto row, call.services().conductor->fleet().Find(kWorkerPool, worker));
  request.worker_known = row.has_value();
  if (row) {
    request.public_key = ParseJson(row->runtime).value_or(Json())["worker_public_key"].ToString();
  }
  return request;
}

void AnswerSealed(Call& call, const SealRequest& request, Result<Json> sealed) {
  MetricsOf(call.services()).credentials_sealed.Add({SealOutcome(request.worker_known, sealed)});
  if (!sealed) return Refuse(call, sealed.error());
  call.Answer(*std::move(sealed));
}

void SealCredential(CallPtr call) {
  ForbidCaching(*call);
  const Result<SealRequest> request = SealRequestOf(*call);
  if (!request) return Refuse(*call, request.error());
  const Services& services = call->services();
  Result<Json> stored = services.vault->Seal(request->alias, request->public_key, request->reader);
  if (stored || !MayBeInKeychain(services, stored.error(), request->reader))
    return AnswerSealed(*call, *request, std::move(stored));
  services.secrets->FindSecret(
      request->alias, request->reader.execution_id,
      [call, request = *request](Result<Json> secret) {
        if (!secret) return AnswerSealed(*call, request, std::move(secret));
        const Services& services = call->services();
        const Json credential =
            KeychainCredential(request.alias, *secret, services.clock->NowMicros());
        AnswerSealed(*call, request,
                     services.vault->SealGiven(request.alias, credential, request.public_key,
                                               request.reader));
      });
}

// ---- keychain

Result<vault::KeychainKey> KeyOf(const Call& call) {
  vault::KeychainKey key{.name = std::string(call.Path("keychain_name")),
                         .scope_type = std::string(call.Query("scope_type").value_or("global"))};
  NOETL_ASSIGN(key.catalog_id, call.PathId("catalog_id"));
  NOETL_ASSIGN(key.execution_id, call.QueryId("execution_id"));
  return key;
}

Result<Json> GetKeychain(Call& call) {
  ForbidCaching(call);
  NOETL_ASSIGN(const vault::KeychainKey key, KeyOf(call));
  NOETL_ASSIGN(const vault::KeychainEntry entry, call.services().vault->FindKeychain(key));
  using State = vault::KeychainEntry::State;
  if (entry.state == State::kNotFound) return Json::Object({{"status", "not_found"}});
  JsonObjectBuilder answer;
  answer.Add("status", entry.state == State::kFound ? "found" : "expired");
  if (entry.state == State::kFound) answer.Add("data", entry.data);
  answer.AddSome("expires_at", TimeOrNull(entry.expires_at_us))
      .Add("auto_renew", entry.auto_renew)
      .Add("access_count", entry.access_count);
  return answer.Build();
}

// When the entry ends: told as a time, or in seconds from now; 0: the default of its scope.
Result<std::int64_t> ReadExpiry(const Json& body, std::int64_t now_us) {
  NOETL_ASSIGN(const std::optional<std::int64_t> at_us, OptionalTimeUs(body, "expires_at"));
  if (at_us) return *at_us;
  if (body["expires_in"].is_null()) return 0;
  NOETL_ASSIGN(const std::int64_t seconds, OptionalInt(body, "expires_in", 0, 1, kExpiresInMax));
  return now_us + seconds * 1'000'000;
}

Result<Json> PutKeychain(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  const Services& services = call.services();
  vault::KeychainKey key{.name = std::string(call.Path("keychain_name"))};
  NOETL_ASSIGN(key.catalog_id, call.PathId("catalog_id"));
  NOETL_ASSIGN(key.scope_type, OptionalText(body, "scope_type", "global"));
  NOETL_ASSIGN(const std::optional<std::int64_t> execution_id, OptionalId(body, "execution_id"));
  key.execution_id = execution_id.value_or(0);
  if (!body.Has("data")) return Fail("invalid", "`data` is missing");
  NOETL_ASSIGN(const std::int64_t expires_at_us, ReadExpiry(body, services.clock->NowMicros()));
  NOETL_ASSIGN(const bool auto_renew, OptionalBool(body, "auto_renew", false));
  NOETL_ASSIGN(const auto entry, services.store->FindEntry(key.catalog_id));
  if (!entry) {
    return Fail("not_found", fmt::format("the catalog has no entry {}", key.catalog_id));
  }
  NOETL_ASSIGN(const std::int64_t until_us,
               services.vault->PutKeychain(key, body["data"], expires_at_us, auto_renew,
                                           body["renew_config"]));
  return Json::Object(
      {{"status", "success"}, {"cache_key", key.CacheKey()}, {"expires_at", TimeOrNull(until_us)}});
}

Result<Json> DeleteKeychain(Call& call) {
  NOETL_ASSIGN(const vault::KeychainKey key, KeyOf(call));
  NOETL_ASSIGN(const bool deleted, call.services().vault->DeleteKeychain(key));
  if (!deleted) return Json::Object({{"status", "not_found"}});
  return Json::Object({{"status", "deleted"}, {"cache_key", key.CacheKey()}});
}

Result<Json> ListKeychain(Call& call) {
  NOETL_ASSIGN(const std::int64_t catalog_id, call.PathId("catalog_id"));
  NOETL_ASSIGN(const std::int64_t limit, call.QueryInt("limit", kListDefault, 1, kListMax));
  const Services& services = call.services();
  NOETL_ASSIGN(const auto rows, services.store->ListKeychain(catalog_id, limit));
  const std::int64_t now_us = services.clock->NowMicros();
  std::vector<Json> entries;
  for (const store::KeychainRow& row : rows) {
    JsonObjectBuilder entry;
    entry.Add("keychain_name", row.name)
        .Add("scope_type", row.scope_type)
        .AddSome("execution_id", IdText(row.execution_id))
        .AddSome("expires_at", TimeOrNull(row.expires_at_us))
        .Add("expired", row.expires_at_us != 0 && row.expires_at_us <= now_us)
        .Add("access_count", row.access_count)
        .AddSome("accessed_at", TimeOrNull(row.accessed_at_us))
        .Add("created_at", TimeOrNull(row.created_at_us));
    entries.push_back(entry.Build());
  }
  return Json::Object(
      {{"catalog_id", IdText(catalog_id)}, {"entries", Json::Array(std::move(entries))}});
}

// ---- care

Json RotationJson(const vault::Rotation& rotation) {
  return Json::Object({{"processed", rotation.processed},
                       {"rewrapped", rotation.rewrapped},
                       {"skipped", rotation.skipped},
                       {"failed", rotation.failed},
                       {"last_id", rotation.last_id}});
}

void CountRotation(Services& services, std::string_view table, const vault::Rotation& rotation) {
  CounterTable& counter = MetricsOf(services).wallet_rotate;
  counter.Add({table, "rewrapped"}, static_cast<double>(rotation.rewrapped));
  counter.Add({table, "skipped"}, static_cast<double>(rotation.skipped));
  counter.Add({table, "failed"}, static_cast<double>(rotation.failed));
}

Result<Json> RotateKeys(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  NOETL_ASSIGN(const std::int64_t batch,
               OptionalInt(body, "batch_size", kBatchDefault, 1, kBatchMax));
  NOETL_ASSIGN(const std::int64_t batches,
               OptionalInt(body, "max_batches", kBatchesDefault, 1, INT64_MAX));
  NOETL_ASSIGN(const auto rotated, call.services().vault->Rotate(batch, batches));
  CountRotation(call.services(), "credential", rotated.credential);
  CountRotation(call.services(), "keychain", rotated.keychain);
  return Json::Object({{"credential", RotationJson(rotated.credential)},
                       {"keychain", RotationJson(rotated.keychain)}});
}

Result<Json> KeyStatus(Call& call) { return call.services().vault->KeyStatus(); }

Json AuditJson(const store::AuditRow& row) {
  return Json::Object({{"audit_id", row.audit_id},
                       {"occurred_at", TimeOrNull(row.occurred_at_us)},
                       {"credential", row.credential},
                       {"operation", row.operation},
                       {"outcome", row.outcome},
                       {"worker_id", TextOrNull(row.worker_id)},
                       {"execution_id", IdOrNull(row.execution_id)},
                       {"parent_execution_id", IdOrNull(row.parent_execution_id)},
                       {"server_region", Json()},
                       {"broker_region", Json()},
                       {"kek_version", TextOrNull(row.kek_version)},
                       {"notes", TextOrNull(row.notes)}});
}

Result<Json> ListAudit(Call& call) {
  store::Secrets::AuditFilter filter{.credential =
                                         std::string(call.Query("credential").value_or(""))};
  NOETL_ASSIGN(filter.execution_id, call.QueryId("execution_id"));
  NOETL_ASSIGN(filter.from_us, call.QueryTimeUs("from"));
  NOETL_ASSIGN(filter.to_us, call.QueryTimeUs("to"));
  NOETL_ASSIGN(filter.limit, call.QueryInt("limit", kListDefault, 1, kAuditMax));
  NOETL_ASSIGN(const auto rows, call.services().store->ListAudit(filter));
  std::vector<Json> list;
  for (const store::AuditRow& row : rows) list.push_back(AuditJson(row));
  return Json::Object({{"rows", Json::Array(std::move(list))}});
}

// ---- the table

constexpr Parameter kPutQuery[] = {
    {"merge", "boolean", "true: meta, tags and description that are left out stay as they are"}};
constexpr Parameter kListQuery[] = {{"type", "string", "exact"},
                                    {"q", "string", "a part of the name or description"},
                                    {"limit", "integer", "1 to 1000"},
                                    {"cursor", "string", "next_cursor of the page before"}};
constexpr Parameter kGetQuery[] = {
    {"include_data", "boolean", "with the secret itself; workers and administrators only"},
    {"execution_id", "integer", "the run that needs it: its playbook's keychain counts too"},
    {"parent_execution_id", "integer", "for the audit"},
    {"worker_id", "string", "for the audit"}};
constexpr Parameter kSealedQuery[] = {
    {"worker_id", "string", "the registered worker it is sealed to"},
    {"execution_id", "integer", "the run that needs it: its playbook's keychain counts too"},
    {"parent_execution_id", "integer", "for the audit"}};
constexpr Parameter kKeychainQuery[] = {{"scope_type", "string", "global, local or shared"},
                                        {"execution_id", "integer", "of the local and shared"}};
constexpr Parameter kLimitQuery[] = {{"limit", "integer", "1 to 1000"}};
constexpr Parameter kAuditQuery[] = {{"credential", "string", "name, exact"},
                                     {"execution_id", "integer", "of the run that read it"},
                                     {"from", "timestamp", "inclusive"},
                                     {"to", "timestamp", "exclusive"},
                                     {"limit", "integer", "1 to 10000"}};

constexpr std::string_view kCredential =
    R"({"id":"652114000000000001","name":"pg_demo","type":"postgres","tags":["db"],)"
    R"("created_at":"2026-06-18T12:00:00.000000Z","updated_at":"2026-06-18T12:00:00.000000Z"})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/credentials",
     .family = "credentials",
     .summary = "Makes or replaces the credential of a name",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Guarded<Written<WriteEndpoint::kCredentialsUpsert, PutCredential>>,
     .query = kPutQuery,
     .request = R"({"name":"pg_demo","type":"postgres","data":{"host":"db","user":"u"},)"
                R"("tags":["db"]})",
     .response = kCredential},
    {.method = "GET",
     .path = "/api/credentials",
     .family = "credentials",
     .summary = "Credentials without their data, newest first",
     .scope = Scope::kViewer,
     .handle = Guarded<ListCredentials>,
     .query = kListQuery,
     .response = R"({"items":[{"id":"652114000000000001","name":"pg_demo","type":"postgres",)"
                 R"("created_at":"2026-06-18T12:00:00.000000Z",)"
                 R"("updated_at":"2026-06-18T12:00:00.000000Z"}],"filter":{"type":"postgres"},)"
                 R"("next_cursor":null})"},
    {.method = "GET",
     .path = "/api/credentials/{identifier}",
     .family = "credentials",
     .summary = "One credential, by id or name",
     .scope = Scope::kViewer,
     .handle = GetCredential,
     .query = kGetQuery,
     .response = kCredential},
    {.method = "DELETE",
     .path = "/api/credentials/{identifier}",
     .family = "credentials",
     .summary = "Removes a credential",
     .scope = Scope::kOperator,
     .handle = Guarded<DeleteCredential>,
     .response = R"({"message":"deleted","id":"652114000000000001"})"},
    {.method = "GET",
     .path = "/api/credentials/{identifier}/sealed",
     .family = "credentials",
     .summary = "A credential that only one worker can open",
     .scope = Scope::kWorker,
     .handle = SealCredential,
     .query = kSealedQuery,
     .response = R"({"alg":"x25519-hkdf-sha256-chacha20-poly1305","v":1,"eph_pub":"mD...=",)"
                 R"("ciphertext":"Qk...="})"},
    {.method = "GET",
     .path = "/api/keychain/catalog/{catalog_id}",
     .family = "keychain",
     .summary = "What the keychain holds for a playbook, without the data",
     .scope = Scope::kViewer,
     .handle = Guarded<ListKeychain>,
     .query = kLimitQuery,
     .response = R"({"catalog_id":"652113904210427905","entries":[{"keychain_name":"openai",)"
                 R"("scope_type":"global","expires_at":"2026-06-18T13:00:00.000000Z",)"
                 R"("expired":false,"access_count":1,)"
                 R"("created_at":"2026-06-18T12:00:00.000000Z"}]})"},
    {.method = "GET",
     .path = "/api/keychain/{catalog_id}/{keychain_name}",
     .family = "keychain",
     .summary = "A resolved secret that is kept; counts the access",
     .scope = Scope::kWorker,
     .handle = Guarded<GetKeychain>,
     .query = kKeychainQuery,
     .response = R"({"status":"found","data":{"token":"..."},)"
                 R"("expires_at":"2026-06-18T13:00:00.000000Z","auto_renew":false,)"
                 R"("access_count":1})"},
    {.method = "POST",
     .path = "/api/keychain/{catalog_id}/{keychain_name}",
     .family = "keychain",
     .summary = "Keeps a resolved secret until it expires",
     .scope = Scope::kWorker,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Guarded<Written<WriteEndpoint::kKeychainSet, PutKeychain>>,
     .request = R"({"data":{"token":"..."},"scope_type":"global","expires_in":3600})",
     .response = R"({"status":"success","cache_key":"openai:652113904210427905:global",)"
                 R"("expires_at":"2026-06-18T13:00:00.000000Z"})"},
    {.method = "DELETE",
     .path = "/api/keychain/{catalog_id}/{keychain_name}",
     .family = "keychain",
     .summary = "Forgets a resolved secret",
     .scope = Scope::kWorker,
     .handle = Guarded<DeleteKeychain>,
     .query = kKeychainQuery,
     .response = R"({"status":"deleted","cache_key":"openai:652113904210427905:global"})"},
    {.method = "POST",
     .path = "/api/internal/wallet/rotate-kek",
     .family = "internal",
     .summary = "Wraps data keys anew that are not under the current master key",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = GuardedLater<RotateKeys>,
     .request = R"({"batch_size":100,"max_batches":1000})",
     .response = R"({"credential":{"processed":9,"rewrapped":8,"skipped":0,"failed":1,)"
                 R"("last_id":652114000000000001},"keychain":{"processed":0,"rewrapped":0,)"
                 R"("skipped":0,"failed":0,"last_id":0}})"},
    {.method = "GET",
     .path = "/api/internal/wallet/key-status",
     .family = "internal",
     .summary = "How many records are under each version of the master key",
     .scope = Scope::kInternal,
     .handle = GuardedLater<KeyStatus>,
     .response = R"({"credential":{"v1":5},"keychain":{}})"},
    {.method = "GET",
     .path = "/api/internal/secret-audit",
     .family = "internal",
     .summary = "Who read which secret, newest first",
     .scope = Scope::kInternal,
     .handle = Guarded<ListAudit>,
     .query = kAuditQuery,
     .response = R"({"rows":[{"audit_id":3254,"occurred_at":"2026-06-18T12:00:00.000000Z",)"
                 R"("credential":"pg_demo","operation":"get_credential","outcome":"ok",)"
                 R"("worker_id":null,"execution_id":42,"parent_execution_id":null,)"
                 R"("server_region":null,"broker_region":null,"kek_version":"v1","notes":null}]})"},
};

}  // namespace

std::span<const Route> CredentialRoutes() { return kRoutes; }

}  // namespace noetl::api
