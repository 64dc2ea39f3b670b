// Subscriptions, and what a gateway asks about those that messages are pushed to.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/handle.h"
#include "api/route.h"
#include "api/subscription_spec.h"
#include "base/text.h"
#include "store/store.h"
#include "vault/vault.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kListDefault = 100;
constexpr std::int64_t kListMax = 1000;
constexpr std::string_view kKind = "subscription";

Json StatusJson(const store::SubscriptionRow& row) {
  return Json::Object({{"subscription_id", IdText(row.subscription_id)},
                       {"path", row.path},
                       {"catalog_id", IdText(row.catalog_id)},
                       {"state", row.state},
                       {"last_event_type", row.last_event_type},
                       {"updated_at", TimeOrNull(row.updated_at_us)}});
}

// ---- life

Result<store::SubscriptionRow> RegisterEntry(const Services& services,
                                             const store::CatalogEntry& entry) {
  const std::int64_t id = services.ids->Next();
  return services.store->RegisterSubscription(
      {.subscription_id = id, .path = entry.path, .catalog_id = entry.catalog_id},
      services.ids->Next(), services.clock->NowMicros());
}

Result<Json> Register(Call& call) {
  NOETL_TRY(NeedMap(call.body()));
  NOETL_ASSIGN(const std::string text, TextMember(call.body(), "path"));
  const std::string_view path = Trim(text);
  const Services& services = call.services();
  NOETL_ASSIGN(const auto entry, services.store->FindEntry(path, 0));
  if (!entry) {
    return Fail("not_found", fmt::format("the catalog has no '{}'; register its document first, "
                                         "with POST /api/catalog/register",
                                         path));
  }
  if (entry->kind != kKind) {
    return Fail("invalid", fmt::format("'{}' is of kind {}; only documents with `kind: "
                                       "Subscription` can be registered here",
                                       path, entry->kind));
  }
  NOETL_ASSIGN(const store::SubscriptionRow row, RegisterEntry(services, *entry));
  return StatusJson(row);
}

Result<Json> List(Call& call) {
  NOETL_ASSIGN(const std::int64_t limit, call.QueryInt("limit", kListDefault, 1, kListMax));
  NOETL_ASSIGN(const std::int64_t cursor, call.QueryId("cursor"));
  NOETL_ASSIGN(auto rows, call.services().store->ListSubscriptions(cursor, limit + 1));
  Json next;
  if (std::ssize(rows) > limit) {
    rows.pop_back();
    next = IdText(rows.back().subscription_id);
  }
  std::vector<Json> list;
  for (const store::SubscriptionRow& row : rows) list.push_back(StatusJson(row));
  return Json::Object({{"subscriptions", Json::Array(std::move(list))}, {"next_cursor", next}});
}

Result<Json> Get(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.PathId("subscription_id"));
  NOETL_ASSIGN(const auto row, call.services().store->FindSubscription(id));
  if (row) return StatusJson(*row);
  return Fail("not_found", fmt::format("there is no subscription {}", id));
}

Result<Json> Act(Call& call) {
  NOETL_ASSIGN(const std::int64_t id, call.PathId("subscription_id"));
  const Services& services = call.services();
  NOETL_ASSIGN(const store::SubscriptionRow row,
               services.store->ActOnSubscription(id, call.Path("action"), services.ids->Next(),
                                                 services.clock->NowMicros()));
  return StatusJson(row);
}

// ---- ingress

Result<store::CatalogEntry> FindListener(const store::Store& store, std::string_view listener) {
  NOETL_ASSIGN(auto entries, store.FindListener(listener, 2));
  if (entries.size() == 1) return std::move(entries.front());
  if (entries.empty()) {
    return Fail("not_found", fmt::format("no subscription has a spec.ingress.gateway_path that "
                                         "ends with '/{}'",
                                         listener));
  }
  return Fail("conflict",
              fmt::format("'{}' and '{}' have the same listener '{}'; remove one of them",
                          entries[0].path, entries[1].path, listener));
}

// The text that a credential is about: itself, or the first of the usual members.
Result<std::string> SecretText(std::string_view name, const Json& data) {
  if (data.is_string() && !data.AsString().empty()) return data.ToString();
  for (const std::string_view member : {"secret", "token", "value", "key", "password"}) {
    const Json& value = data[member];
    if (value.is_string() && !value.AsString().empty()) return value.ToString();
  }
  return Fail("invalid", fmt::format("the credential '{}' that spec.ingress.verify.secret names "
                                     "must be a text or have one of secret, token, value, key, "
                                     "password",
                                     name));
}

Result<Json> VerifyJson(const Services& services, const IngressSpec& spec) {
  JsonObjectBuilder verify;
  verify.Add("type", spec.verify_type);
  if (!spec.header.empty()) verify.Add("header", spec.header);
  if (!spec.secret.empty()) {
    const auto found = services.vault->Find(spec.secret, /*with_data=*/true, {});
    if (!found && found.error().code == "not_found") {
      return Fail("invalid", fmt::format("there is no credential '{}', which "
                                         "spec.ingress.verify.secret names",
                                         spec.secret));
    }
    if (!found) return std::unexpected(found.error());
    NOETL_ASSIGN(const std::string secret, SecretText(spec.secret, found->data));
    verify.Add("secret", secret);
  }
  if (!spec.audience.empty()) verify.Add("audience", spec.audience);
  if (!spec.service_account.empty()) verify.Add("service_account", spec.service_account);
  return verify.Build();
}

Result<Json> Ingress(Call& call) {
  call.AddHeader("Cache-Control", "no-store");  // there may be a secret in it
  const Services& services = call.services();
  const std::string_view listener = call.Path("listener");
  NOETL_ASSIGN(const store::CatalogEntry entry, FindListener(*services.store, listener));
  NOETL_ASSIGN(const IngressSpec spec, ReadIngress(entry.content));
  NOETL_ASSIGN(const Json verify, VerifyJson(services, spec));
  NOETL_ASSIGN(const store::SubscriptionRow row, RegisterEntry(services, entry));
  JsonObjectBuilder dispatch;
  dispatch.Add("playbook", spec.playbook).Add("payload_from", spec.payload_from);
  if (!spec.execution_pool.empty()) dispatch.Add("execution_pool", spec.execution_pool);
  JsonObjectBuilder answer;
  answer.Add("listener", listener)
      .Add("catalog_path", entry.path)
      .Add("source", spec.source)
      .Add("subscription_id", IdText(row.subscription_id))
      .Add("state", row.state)
      .Add("verify", verify)
      .Add("dispatch", dispatch.Build());
  if (!spec.directives.is_null()) answer.Add("directives", spec.directives);
  return answer.Build();
}

// ---- the table

constexpr Parameter kListQuery[] = {{"limit", "integer", "1 to 1000"},
                                    {"cursor", "string", "next_cursor of the page before"}};

constexpr std::string_view kPath = R"({"path":"subscriptions/iot"})";
constexpr std::string_view kRegistered =
    R"({"subscription_id":"325490000000000000","path":"subscriptions/iot",)"
    R"("catalog_id":"325480000000000000","state":"REGISTERED",)"
    R"("last_event_type":"subscription.registered",)"
    R"("updated_at":"2026-06-18T12:00:00.000000Z"})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/subscriptions/register",
     .family = "subscriptions",
     .summary = "The subscription of a path; a new one when there is none or it was deactivated",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Register>,
     .request = kPath,
     .response = kRegistered},
    {.method = "POST",
     .path = "/api/subscriptions",
     .family = "subscriptions",
     .summary = "The same as /api/subscriptions/register",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Register>,
     .request = kPath,
     .response = kRegistered},
    {.method = "GET",
     .path = "/api/subscriptions",
     .family = "subscriptions",
     .summary = "All subscriptions, newest first",
     .scope = Scope::kViewer,
     .handle = Now<List>,
     .query = kListQuery,
     .response = R"({"subscriptions":[{"subscription_id":"325490000000000000",)"
                 R"("path":"subscriptions/iot","catalog_id":"325480000000000000",)"
                 R"("state":"ACTIVE","last_event_type":"subscription.activated",)"
                 R"("updated_at":"2026-06-18T12:00:00.000000Z"}],"next_cursor":null})"},
    {.method = "GET",
     .path = "/api/subscriptions/{subscription_id}",
     .family = "subscriptions",
     .summary = "One subscription",
     .scope = Scope::kViewer,
     .handle = Now<Get>,
     .response = kRegistered},
    {.method = "POST",
     .path = "/api/subscriptions/{subscription_id}/{action}",
     .family = "subscriptions",
     .summary = "activate, pause, resume, drain or deactivate; each call is an event of its log",
     .scope = Scope::kOperator,
     .handle = Now<Act>,
     .response = R"({"subscription_id":"325490000000000000","path":"subscriptions/iot",)"
                 R"("catalog_id":"325480000000000000","state":"ACTIVE",)"
                 R"("last_event_type":"subscription.activated",)"
                 R"("updated_at":"2026-06-18T12:00:01.000000Z"})"},
    {.method = "GET",
     .path = "/api/internal/ingress/{listener}",
     .family = "internal",
     .summary = "How a gateway verifies what is pushed to a listener, and what it starts",
     .scope = Scope::kInternal,
     .handle = Now<Ingress>,
     .response = R"({"listener":"stripe","catalog_path":"subscriptions/stripe",)"
                 R"("source":"webhook","subscription_id":"325490000000000000",)"
                 R"("state":"REGISTERED","verify":{"type":"hmac_sha256",)"
                 R"("header":"stripe-signature","secret":"whsec..."},)"
                 R"("dispatch":{"playbook":"billing/on_event","payload_from":"message.json"}})"},
};

}  // namespace

std::span<const Route> SubscriptionRoutes() { return kRoutes; }

}  // namespace noetl::api
