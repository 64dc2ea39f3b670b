#include "vault/keychain_entry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "base/json_io.h"
#include "base/text.h"
#include "engine/render.h"
#include "expr/tree.h"

namespace noetl::vault {
namespace {

struct Named {
  std::string_view name;
  EntryKind kind;
};

constexpr std::array kKinds = {Named{"credential", EntryKind::kCredential},
                               Named{"credential_ref", EntryKind::kCredential},
                               Named{"postgres_credential", EntryKind::kCredential},
                               Named{"bearer", EntryKind::kBearer},
                               Named{"static", EntryKind::kStatic},
                               Named{"oauth2", EntryKind::kHttp},
                               Named{"http", EntryKind::kHttp}};
// Kinds whose source the `provider` tells.
constexpr std::array<std::string_view, 2> kProvided = {"secrets", "secret_manager"};
constexpr std::array kProviders = {
    Named{"env", EntryKind::kEnvironment}, Named{"file", EntryKind::kFile},
    Named{"vault", EntryKind::kVault}, Named{"k8s", EntryKind::kKubernetes},
    Named{"kubernetes", EntryKind::kKubernetes}};

// An entry without a kind is what its fields make it; the first that is there decides.
struct Implied {
  std::string_view field;
  std::string_view kind;
};
constexpr std::array kImplied = {
    Implied{"provider", "secrets"}, Implied{"credential", "credential"},
    Implied{"ref", "credential"},   Implied{"endpoint", "oauth2"},
    Implied{"token", "bearer"},     Implied{"map", "static"}};

struct ScopeName {
  std::string_view written;
  std::string_view meant;
};
constexpr std::array kScopes = {ScopeName{"", "local"},          ScopeName{"local", "local"},
                                ScopeName{"execution", "local"}, ScopeName{"global", "global"},
                                ScopeName{"catalog", "global"},  ScopeName{"shared", "shared"}};

template <typename Table>
std::string Names(const Table& table) {
  std::string out;
  for (const Named& each : table) out += fmt::format("{}{}", out.empty() ? "" : ", ", each.name);
  return out;
}

std::string KindOf(const Json& entry) {
  if (entry["kind"].is_string()) return ToLower(entry["kind"].AsString());
  for (const Implied& implied : kImplied) {
    if (!entry[implied.field].is_null()) return std::string(implied.kind);
  }
  return "credential";
}

std::optional<std::int64_t> SecondsOf(const Json& value) {
  if (value.is_int()) return value.AsInt();
  const std::string_view text = value.AsString();
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return seconds;
}

Result<EntryKind> FindKind(const std::string& name, const std::string& kind, const Json& entry) {
  if (std::ranges::find(kProvided, kind) == kProvided.end()) {
    const auto* const found = std::ranges::find(kKinds, kind, &Named::name);
    if (found != kKinds.end()) return found->kind;
    return EntryError("unsupported", name,
                      fmt::format("kind '{}' is not supported by this server; it has {}, {}", kind,
                                  Names(kKinds), fmt::join(kProvided, ", ")));
  }
  const std::string provider = ToLower(entry["provider"].AsString());
  if (provider.empty()) {
    return EntryError("invalid", name,
                      fmt::format("kind '{}' needs a provider: {}", kind, Names(kProviders)));
  }
  const auto* const found = std::ranges::find(kProviders, provider, &Named::name);
  if (found != kProviders.end()) return found->kind;
  return EntryError("unsupported", name,
                    fmt::format("provider '{}' is not supported by this server; it has {}",
                                provider, Names(kProviders)));
}

Json Identity(std::int64_t execution_id, std::int64_t catalog_id) {
  return Json::Object(
      {{"execution_id", std::to_string(execution_id)}, {"catalog_id", std::to_string(catalog_id)}});
}

}  // namespace

std::unexpected<Error> EntryError(std::string_view code, std::string_view entry,
                                  std::string_view what) {
  return Fail(code, fmt::format("keychain entry '{}': {}", entry, what));
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.ToString() : WriteJson(value);
}

Result<Entry> ReadEntry(const Json& json) {
  Entry out{.name = json["name"].ToString(), .kind_name = KindOf(json), .fields = json};
  NOETL_ASSIGN(out.kind, FindKind(out.name, out.kind_name, json));
  const std::string scope = ToLower(json["scope"].AsString());
  const auto* const found = std::ranges::find(kScopes, scope, &ScopeName::written);
  if (found == kScopes.end()) {
    return EntryError("invalid", out.name, "scope is not one of local, global and shared");
  }
  out.scope = found->meant;
  if (!json["ttl_seconds"].is_null()) {
    const std::optional<std::int64_t> seconds = SecondsOf(json["ttl_seconds"]);
    constexpr std::int64_t kSecondsMax = std::int64_t{366} * 86'400;  // a year
    if (!seconds || *seconds < 1 || *seconds > kSecondsMax) {
      return EntryError("invalid", out.name, "ttl_seconds is not a number of seconds up to a year");
    }
    out.ttl_seconds = *seconds;
  }
  out.auto_renew = json["auto_renew"].AsBool();
  return out;
}

std::vector<std::size_t> EarlierEntries(const Json& entries, std::size_t index,
                                        const Json& workload) {
  std::vector<expr::Tree::Problem> problems;  // told when the field is rendered
  const expr::Tree tree = expr::Tree::Compile(entries.At(index), {}, &problems);
  std::set<std::string, std::less<>> names;
  bool all = false;
  for (const expr::Tree::Leaf& leaf : tree.Leaves()) {
    for (const expr::RootPath& root : leaf.compiled.analysis().roots) {
      if (root.root != "keychain") {
        if (!workload.Has(root.root)) names.insert(root.root);
      } else if (root.path.empty()) {
        all = true;
      } else {
        names.insert(root.path[0]);
      }
    }
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < index; ++i) {
    if (all || names.contains(entries.At(i)["name"].AsString())) out.push_back(i);
  }
  return out;
}

EntryRenderer::EntryRenderer(const Entry& entry, const Json& workload, const Json& earlier,
                             std::int64_t execution_id, std::int64_t catalog_id)
    : entry_(entry),
      scope_({.workload = workload, .identity = Identity(execution_id, catalog_id)}) {
  for (const JsonMember& member : earlier.members()) {
    if (!workload.Has(member.key())) scope_.Bind(member.key(), member.value);
  }
  scope_.Bind("keychain", earlier);
}

Result<Json> EntryRenderer::Value(std::string_view field) const {
  std::vector<expr::Tree::Problem> problems;
  const expr::Tree tree = expr::Tree::Compile(entry_.fields[field], {}, &problems);
  if (!problems.empty()) {
    return EntryError(
        "template", entry_.name,
        fmt::format("{}: the template is wrong ({})", field, problems[0].error.error.code));
  }
  // As the address of a request: nothing that is missing is spliced into a text.
  Result<Json> value =
      engine::RenderField("url", tree, scope_, playbook::Profile::kStrict, expr::Output::kText);
  // The message of the template could quote a secret.
  if (!value) {
    return EntryError("template", entry_.name,
                      fmt::format("{}: the template fails ({})", field, value.error().code));
  }
  return value;
}

Result<std::string> EntryRenderer::Text(std::string_view field) const {
  NOETL_ASSIGN(const Json value, Value(field));
  if (value.is_container()) {
    return EntryError("invalid", entry_.name,
                      fmt::format("{} must be a text, not a {}", field, value.TypeName()));
  }
  std::string text = value.is_null() ? "" : TextOf(value);
  if (Trim(text).empty()) {
    return EntryError(Has(field) ? "template" : "invalid", entry_.name,
                      fmt::format("{} is {}", field, Has(field) ? "empty" : "missing"));
  }
  return text;
}

Result<Json> EntryRenderer::Map(std::string_view field) const {
  NOETL_ASSIGN(const Json value, Value(field));
  if (!value.is_object()) {
    return EntryError("invalid", entry_.name, fmt::format("{} must be a map", field));
  }
  for (const JsonMember& member : value.members()) {
    if (!member.value.is_null()) continue;
    return EntryError("template", entry_.name, fmt::format("{}.{} is empty", field, member.key()));
  }
  return value;
}

}  // namespace noetl::vault
