// The catalog: documents in versions under paths.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/catalog_document.h"
#include "api/handle.h"
#include "api/route.h"
#include "api/subscription_spec.h"
#include "api/ui_schema.h"
#include "base/text.h"
#include "store/store.h"

namespace noetl::api {
namespace {

constexpr std::int64_t kListDefault = 100;
constexpr std::int64_t kListMax = 1000;
// Agents are found by reading documents: one request looks at no more than this many.
constexpr std::int64_t kScannedMax = 5000;
constexpr std::int64_t kScanPage = 200;

using Removed = std::vector<store::CatalogEntry>;

// ---- register

bool Refused(Call& call, const Error& error) {
  call.Refuse(error);
  return false;
}

playbook::LoadOptions LoadOptionsOf(const Services& services) {
  return {.require_start = services.settings->Bool("NOETL_REQUIRE_START")};
}

// Stores the document and answers; refuses one with errors. Whether it was stored.
bool Register(Call& call, std::string_view content, std::string_view resource_type, bool check,
              std::string_view path_wanted) {
  Document document = ReadDocument(content, resource_type, check, LoadOptionsOf(call.services()));
  const Json errors = document.Errors();
  if (!document.ok()) {
    const Json& first = errors.At(0);
    call.Refuse(422, "invalid",
                fmt::format("the document was refused: {} {} (line {}); {} problem{} in all",
                            first["code"].AsString(), first["message"].AsString(),
                            first["line"].AsInt(), errors.size(), errors.size() == 1 ? "" : "s"),
                errors);
    return false;
  }
  if (!path_wanted.empty() && document.path != path_wanted) {
    return Refused(call, {"invalid", fmt::format("the document names the path '{}', not '{}'",
                                                 document.path, path_wanted)});
  }
  const Services& services = call.services();
  const std::int64_t new_id = services.ids->Next();
  const Json warnings = document.Warnings();
  std::string listener = document.kind == "subscription" ? ListenerOf(document.text) : "";
  Result<store::CatalogEntry> stored =
      services.store->Register({.catalog_id = new_id,
                                .path = std::move(document.path),
                                .kind = std::move(document.kind),
                                .content = std::move(document.text),
                                .created_at_us = services.clock->NowMicros(),
                                .listener = std::move(listener)});
  if (!stored) return Refused(call, stored.error());
  const bool is_new = stored->catalog_id == new_id;
  JsonObjectBuilder answer;
  answer.Add("status", is_new ? "success" : "unchanged")
      .Add("message", is_new
                          ? fmt::format("registered {} version {}", stored->path, stored->version)
                          : fmt::format("{} version {} has this content already", stored->path,
                                        stored->version))
      .Add("path", stored->path)
      .Add("version", stored->version)
      .Add("catalog_id", IdText(stored->catalog_id))
      .Add("kind", stored->kind);
  if (!warnings.empty()) answer.Add("warnings", warnings);
  call.Answer(answer.Build());
  return true;
}

// A handler from a function that answers and tells whether a document was stored.
template <bool (*kInner)(Call&)>
void CountedRegister(CallPtr call) {
  Services& services = call->services();
  const std::int64_t began_us = services.clock->MonotonicMicros();
  const bool stored = kInner(*call);
  MetricsOf(services).writes.Count(WriteEndpoint::kCatalogRegister, stored,
                                   services.clock->MonotonicMicros() - began_us);
}

bool RegisterDocument(Call& call) {
  const Result<std::string> content = TextMember(call.body(), "content");
  if (!content) return Refused(call, content.error());
  const Result<std::string> type = OptionalText(call.body(), "resource_type", "Playbook");
  if (!type) return Refused(call, type.error());
  const Result<bool> check = call.QueryBool("validate", true);
  if (!check) return Refused(call, check.error());
  return Register(call, *content, *type, *check, "");
}

void ValidateDocument(CallPtr call) {
  const Result<std::string> content = TextMember(call->body(), "content");
  if (!content) return call->Refuse(content.error());
  const Document document =
      ReadDocument(*content, "Playbook", true, LoadOptionsOf(call->services()));
  const Json errors = document.Errors();
  JsonObjectBuilder answer;
  answer.Add("valid", document.ok())
      .Add("errors", errors)
      .Add("warnings", document.Warnings())
      .Add("path", TextOrNull(document.path))
      .Add("kind", TextOrNull(document.kind));
  if (document.ok()) return call->Answer(answer.Build());
  const std::string message = errors.At(0)["message"].ToString();
  answer.Add("error", message)
      .Add("status", 422)
      .Add("detail", message)
      .Add("code", "invalid")
      .Add("details", errors)
      .Add("request_id", call->request().id);
  call->Answer(answer.Build(), 422);
}

// ---- reading

// A list of texts; absent is empty.
Result<std::vector<std::string>> TextList(const Json& body, std::string_view name) {
  std::vector<std::string> texts;
  for (const Json& item : body[name].items()) {
    if (!item.is_string())
      return Fail("invalid", fmt::format("`{}` must be a list of texts", name));
    texts.push_back(item.ToString());
  }
  if (!body[name].is_null() && !body[name].is_array()) {
    return Fail("invalid", fmt::format("`{}` must be a list of texts", name));
  }
  return texts;
}

struct Listing {
  store::CatalogFilter filter;
  bool agents = false;
  std::vector<std::string> capabilities;
  bool with_content = true;
};

Result<Listing> ReadListing(const Json& body) {
  NOETL_TRY(NeedMap(body));
  Listing listing;
  NOETL_ASSIGN(const std::string kind, OptionalText(body, "resource_type"));
  listing.filter.kind = ToLower(Trim(kind));
  NOETL_ASSIGN(listing.filter.path, OptionalText(body, "path"));
  NOETL_ASSIGN(listing.filter.path_prefix, OptionalText(body, "path_prefix"));
  NOETL_ASSIGN(listing.filter.latest_only, OptionalBool(body, "latest_only", false));
  NOETL_ASSIGN(listing.filter.include_archived, OptionalBool(body, "include_archived", false));
  NOETL_ASSIGN(listing.with_content, OptionalBool(body, "include_content", true));
  NOETL_ASSIGN(listing.filter.limit, OptionalInt(body, "limit", kListDefault, 1, kListMax));
  NOETL_ASSIGN(const std::optional<std::int64_t> cursor, OptionalId(body, "cursor"));
  listing.filter.before_id = cursor.value_or(0);
  NOETL_ASSIGN(listing.agents, OptionalBool(body, "agent_only", false));
  NOETL_ASSIGN(listing.capabilities, TextList(body, "capabilities"));
  listing.agents = listing.agents || !listing.capabilities.empty();
  return listing;
}

Result<Json> AnswerPage(const std::vector<store::CatalogEntry>& entries, bool with_content,
                        std::int64_t next_cursor) {
  std::vector<Json> list;
  list.reserve(entries.size());
  for (const store::CatalogEntry& entry : entries) list.push_back(EntryJson(entry, with_content));
  return Json::Object(
      {{"entries", Json::Array(std::move(list))}, {"next_cursor", IdText(next_cursor)}});
}

Result<Json> ListPlain(const store::Store& store, Listing listing) {
  listing.filter.include_content = listing.with_content;
  // One more than asked for tells whether there is another page.
  ++listing.filter.limit;
  NOETL_ASSIGN(auto entries, store.ListCatalog(listing.filter));
  std::int64_t next = 0;
  if (std::ssize(entries) == listing.filter.limit) {
    entries.pop_back();
    next = entries.back().catalog_id;
  }
  return AnswerPage(entries, listing.with_content, next);
}

Result<Json> ListAgents(const store::Store& store, Listing listing) {
  const std::int64_t wanted = listing.filter.limit;
  listing.filter.limit = kScanPage;
  std::vector<store::CatalogEntry> found;
  for (std::int64_t scanned = 0; scanned < kScannedMax; scanned += kScanPage) {
    NOETL_ASSIGN(auto page, store.ListCatalog(listing.filter));
    for (store::CatalogEntry& entry : page) {
      listing.filter.before_id = entry.catalog_id;
      if (!IsAgent(entry, listing.capabilities)) continue;
      found.push_back(std::move(entry));
      if (std::ssize(found) == wanted) {
        return AnswerPage(found, listing.with_content, listing.filter.before_id);
      }
    }
    if (std::ssize(page) < kScanPage) return AnswerPage(found, listing.with_content, 0);
  }
  return AnswerPage(found, listing.with_content, listing.filter.before_id);
}

Result<Json> ListEntries(Call& call) {
  NOETL_ASSIGN(Listing listing, ReadListing(call.body()));
  const store::Store& store = *call.services().store;
  return listing.agents ? ListAgents(store, std::move(listing))
                        : ListPlain(store, std::move(listing));
}

// Looking for agents reads many documents.
void ListCatalog(CallPtr call) {
  const Json& body = call->body();
  const bool reads_documents = body["agent_only"].AsBool() || !body["capabilities"].empty();
  if (reads_documents) return InBackground(std::move(call), Now<ListEntries>);
  Now<ListEntries>(std::move(call));
}

Result<Json> ListAgentEntries(Call& call) {
  NOETL_ASSIGN(Listing listing, ReadListing(call.body().is_null() ? Json::Object() : call.body()));
  return ListAgents(*call.services().store, std::move(listing));
}

Result<store::CatalogEntry> FindByPath(const store::Store& store, std::string_view path,
                                       std::int64_t version) {
  NOETL_ASSIGN(auto entry, store.FindEntry(path, version));
  if (entry) return *std::move(entry);
  if (version == 0) return Fail("not_found", fmt::format("the catalog has no '{}'", path));
  return Fail("not_found", fmt::format("the catalog has no version {} of '{}'", version, path));
}

Result<store::CatalogEntry> FindById(const store::Store& store, std::int64_t id) {
  NOETL_ASSIGN(auto entry, store.FindEntry(id));
  if (entry) return *std::move(entry);
  return Fail("not_found", fmt::format("the catalog has no entry {}", id));
}

Result<Json> FindResource(Call& call) {
  const Json& body = call.body();
  NOETL_TRY(NeedMap(body));
  const store::Store& store = *call.services().store;
  NOETL_ASSIGN(const std::optional<std::int64_t> id, OptionalId(body, "catalog_id"));
  if (id) {
    NOETL_ASSIGN(const store::CatalogEntry entry, FindById(store, *id));
    return EntryJson(entry, true);
  }
  NOETL_ASSIGN(const std::string path, OptionalText(body, "path"));
  if (Trim(path).empty()) return Fail("invalid", "`catalog_id` or `path` must be given");
  NOETL_ASSIGN(const std::int64_t version, ReadVersion(body["version"]));
  NOETL_ASSIGN(const store::CatalogEntry entry, FindByPath(store, Trim(path), version));
  return EntryJson(entry, true);
}

Result<Json> FindUiSchema(Call& call) {
  const std::string_view path = Trim(call.Path("path"));
  if (path.empty()) return Fail("invalid", "the path of the entry is empty");
  const Json asked(call.Query("version").value_or("latest"));
  NOETL_ASSIGN(const std::int64_t version, ReadVersion(asked));
  NOETL_ASSIGN(const store::CatalogEntry entry, FindByPath(*call.services().store, path, version));
  const Json schema = UiSchema(entry.content);
  return Json::Object({{"path", entry.path}, {"version", entry.version}, {"kind", entry.kind}})
      .Merge(schema)
      .With("generated_at", TimeOrNull(call.services().clock->NowMicros()));
}

// `playbook_id` is the id of an entry or its path.
Result<store::CatalogEntry> FindPlaybook(const Call& call) {
  const std::string_view id = Trim(call.Query("playbook_id").value_or(""));
  if (id.empty()) return Fail("bad_request", "`playbook_id` is missing");
  const store::Store& store = *call.services().store;
  if (const Result<std::int64_t> number = call.QueryId("playbook_id")) {
    Result<store::CatalogEntry> entry = FindById(store, *number);
    if (entry || entry.error().code != "not_found") return entry;
  }
  return FindByPath(store, id, 0);
}

Result<Json> ReadContent(Call& call) {
  NOETL_ASSIGN(const store::CatalogEntry entry, FindPlaybook(call));
  return Json::Object({{"content", entry.content},
                       {"catalog_id", IdText(entry.catalog_id)},
                       {"path", entry.path},
                       {"version", entry.version},
                       {"kind", entry.kind}});
}

bool WriteContent(Call& call) {
  const Result<store::CatalogEntry> entry = FindPlaybook(call);
  if (!entry) return Refused(call, entry.error());
  const Result<std::string> content = TextMember(call.body(), "content");
  if (!content) return Refused(call, content.error());
  return Register(call, *content, entry->kind, true, entry->path);
}

// ---- removing

struct Selection {
  std::string path;
  std::int64_t version = 0;
};

Result<Selection> ReadSelection(const Json& body) {
  NOETL_ASSIGN(const std::string path, TextMember(body, "path"));
  Selection selection{.path = std::string(Trim(path))};
  if (body["version"].is_null()) return selection;
  NOETL_ASSIGN(selection.version, ReadVersion(body["version"]));
  if (selection.version == 0) return Fail("invalid", "`version` must be a number; none means all");
  return selection;
}

Json AnswerRemoval(const Selection& selection, const Removed& entries, std::string_view mode) {
  std::vector<Json> list;
  for (const store::CatalogEntry& entry : entries) {
    list.push_back(
        Json::Object({{"catalog_id", IdText(entry.catalog_id)}, {"version", entry.version}}));
  }
  return Json::Object(
      {{"status", "success"},
       {"message", fmt::format("{} of {}: {}", entries.size(), selection.path, mode)},
       {"path", selection.path},
       {"deleted", Json::Array(std::move(list))},
       {"count", entries.size()},
       {"mode", mode}});
}

// Whether a removal found nothing because what it means is archived already.
bool IsArchived(const store::Store& store, const Selection& selection) {
  const auto entries = store.ListCatalog({.path = selection.path,
                                          .include_archived = true,
                                          .include_content = false,
                                          .limit = kListMax});
  return entries && std::ranges::any_of(*entries, [&](const store::CatalogEntry& entry) {
           return selection.version == 0 || entry.version == selection.version;
         });
}

Result<Json> DeleteEntries(Call& call) {
  NOETL_ASSIGN(const Selection selection, ReadSelection(call.body()));
  Services& services = call.services();
  NOETL_ASSIGN(const store::CatalogRemoval removal,
               services.store->RemoveEntries(selection.path, selection.version,
                                             services.clock->NowMicros()));
  const std::string_view mode = removal.entries.empty() ? "none"
                                : removal.archived      ? "archived"
                                                        : "deleted";
  const std::string_view outcome = !removal.entries.empty()                 ? mode
                                   : IsArchived(*services.store, selection) ? "already_archived"
                                                                            : "no_match";
  MetricsOf(services).catalog_delete.Add({outcome});
  return AnswerRemoval(selection, removal.entries, mode);
}

Result<Json> RestoreEntries(Call& call) {
  NOETL_ASSIGN(const Selection selection, ReadSelection(call.body()));
  NOETL_ASSIGN(const Removed entries,
               call.services().store->RestoreEntries(selection.path, selection.version));
  MetricsOf(call.services()).catalog_delete.Add({entries.empty() ? "no_match" : "restored"});
  return AnswerRemoval(selection, entries, entries.empty() ? "none" : "restored");
}

// ---- the table

constexpr Parameter kRegisterQuery[] = {
    {"validate", "boolean", "false: a playbook is stored without being compiled"}};
constexpr Parameter kVersionQuery[] = {{"version", "string", "a number, or latest"}};
constexpr Parameter kContentQuery[] = {
    {"playbook_id", "string", "the id of an entry, or a path for its newest version"}};

constexpr std::string_view kRegistered =
    R"({"status":"success","message":"registered demo/hello version 3","path":"demo/hello",)"
    R"("version":3,"catalog_id":"652113904210427905","kind":"playbook"})";
constexpr std::string_view kEntry =
    R"({"catalog_id":"652113904210427905","path":"demo/hello","kind":"playbook","version":3,)"
    R"("content":"kind: Playbook ...","layout":[{"step":"start"}],"payload":{"who":"world"},)"
    R"("meta":null,"created_at":"2026-06-18T12:00:00.123456Z"})";
constexpr std::string_view kEntries =
    R"({"entries":[{"catalog_id":"652113904210427905","path":"demo/hello","kind":"playbook",)"
    R"("version":3,"content":"kind: Playbook ...","layout":[{"step":"start"}],)"
    R"("payload":{"who":"world"},"meta":null,"created_at":"2026-06-18T12:00:00.123456Z"}],)"
    R"("next_cursor":null})";
constexpr std::string_view kRemoved =
    R"({"status":"success","message":"1 of demo/hello: deleted","path":"demo/hello",)"
    R"("deleted":[{"catalog_id":"652113904210427904","version":2}],"count":1,"mode":"deleted"})";

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/api/catalog/register",
     .family = "catalog",
     .summary = "Stores a document as a new version of its path",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyDocument,
     .handle = CountedRegister<RegisterDocument>,
     .query = kRegisterQuery,
     .request = R"({"content":"apiVersion: noetl.io/v2\nkind: Playbook\n...",)"
                R"("resource_type":"Playbook"})",
     .response = kRegistered},
    {.method = "POST",
     .path = "/api/catalog/list",
     .family = "catalog",
     .summary = "Entries of the catalog, newest first",
     .scope = Scope::kViewer,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = ListCatalog,
     .request = R"({"resource_type":"playbook","path_prefix":"demo/","latest_only":true,)"
                R"("include_archived":false,"include_content":true,"limit":100,"cursor":null})",
     .response = kEntries},
    {.method = "POST",
     .path = "/api/catalog/resource",
     .family = "catalog",
     .summary = "One entry, by its id or by path and version",
     .scope = Scope::kViewer,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<FindResource>,
     .request = R"({"path":"demo/hello","version":"latest"})",
     .response = kEntry},
    {.method = "POST",
     .path = "/api/catalog/agents/list",
     .family = "catalog",
     .summary = "Entries that are agents, with all of the named capabilities",
     .scope = Scope::kViewer,
     .body = BodyKind::kOptional,
     .body_max = kBodyDefault,
     .handle = Later<ListAgentEntries>,
     .request = R"({"capabilities":["search"]})",
     .response = kEntries},
    {.method = "GET",
     .path = "/api/catalog/{path...}/ui_schema",
     .family = "catalog",
     .summary = "The form of a run's input, inferred from the workload",
     .scope = Scope::kViewer,
     .handle = Now<FindUiSchema>,
     .query = kVersionQuery,
     .response = R"({"path":"demo/hello","version":3,"kind":"playbook","title":"hello",)"
                 R"("description_markdown":null,"exposed_in_ui":false,"fields":[{"name":"who",)"
                 R"("kind":"string","default":"world","description":null,"secret":false,)"
                 R"("credential_glob":null,"options":null,"children":null}],)"
                 R"("generated_at":"2026-06-18T12:01:00.000000Z"})"},
    {.method = "POST",
     .path = "/api/catalog/playbooks/validate",
     .family = "catalog",
     .summary = "Checks a document without storing it; 422 when it has errors",
     .scope = Scope::kViewer,
     .body = BodyKind::kJson,
     .body_max = kBodyDocument,
     .handle = ValidateDocument,
     .request = R"({"content":"apiVersion: noetl.io/v2\nkind: Playbook\n..."})",
     .response = R"({"valid":true,"errors":[],"warnings":[],"path":"demo/hello",)"
                 R"("kind":"playbook"})"},
    {.method = "GET",
     .path = "/api/catalog/playbook/content",
     .family = "catalog",
     .summary = "The text of an entry",
     .scope = Scope::kViewer,
     .handle = Now<ReadContent>,
     .query = kContentQuery,
     .response = R"({"content":"kind: Playbook ...","catalog_id":"652113904210427905",)"
                 R"("path":"demo/hello","version":3,"kind":"playbook"})"},
    {.method = "PUT",
     .path = "/api/catalog/playbook/content",
     .family = "catalog",
     .summary = "Stores a text as a new version of an entry",
     .scope = Scope::kOperator,
     .body = BodyKind::kJson,
     .body_max = kBodyDocument,
     .handle = CountedRegister<WriteContent>,
     .query = kContentQuery,
     .request = R"({"content":"apiVersion: noetl.io/v2\nkind: Playbook\n..."})",
     .response = kRegistered},
    {.method = "POST",
     .path = "/api/catalog/delete",
     .family = "catalog",
     .summary = "Removes versions of a path, or archives them when runs refer to them",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<Written<WriteEndpoint::kCatalogDelete, DeleteEntries>>,
     .request = R"({"path":"demo/hello","version":2})",
     .response = kRemoved},
    {.method = "POST",
     .path = "/api/catalog/restore",
     .family = "catalog",
     .summary = "Brings archived versions of a path back",
     .scope = Scope::kInternal,
     .body = BodyKind::kJson,
     .body_max = kBodyDefault,
     .handle = Now<RestoreEntries>,
     .request = R"({"path":"demo/hello","version":2})",
     .response = kRemoved},
};

}  // namespace

std::span<const Route> CatalogRoutes() { return kRoutes; }

}  // namespace noetl::api
