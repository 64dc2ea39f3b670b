#include "api/catalog_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/route.h"
#include "api/subscription_spec.h"
#include "base/crypto.h"
#include "base/text.h"
#include "playbook/yaml.h"

namespace noetl::api {
namespace {

using playbook::Diagnostic;
using playbook::Node;

constexpr std::array<std::string_view, 6> kKinds = {"playbook", "credential", "mcp",
                                                    "agent",    "memory",     "subscription"};
constexpr std::size_t kPathBytesMax = 512;

// Base64 of UTF-8 is what the command line sends; anything else is the text itself.
std::string Decoded(std::string_view content) {
  std::optional<std::string> bytes = crypto::Base64Decode(Trim(content));
  if (bytes && !bytes->empty() && !FirstInvalidUtf8(*bytes)) return *std::move(bytes);
  return std::string(content);
}

std::string TextOf(const Node* node) {
  return node != nullptr && node->is_scalar() && !node->is_null() ? std::string(Trim(node->text))
                                                                  : std::string();
}

const Node* MapAt(const Node& root, std::string_view key) {
  const Node* node = root.is_map() ? root.Find(key) : nullptr;
  return node != nullptr && node->is_map() ? node : nullptr;
}

// What every kind needs: metadata with a path or a name, and a kind that is known.
void ReadHead(const Node& root, std::string_view resource_type, Document* document) {
  const auto add = [&](std::string_view path, const Node& at, std::string message) {
    document->findings.push_back({.code = "E011",
                                  .path = std::string(path),
                                  .position = at.position,
                                  .message = std::move(message)});
  };
  const Node* metadata = MapAt(root, "metadata");
  if (metadata == nullptr) {
    add("metadata", root, "metadata is missing, or no map");
  } else {
    document->path = TextOf(metadata->Find("path"));
    if (document->path.empty()) document->path = TextOf(metadata->Find("name"));
    if (document->path.empty()) {
      add("metadata", *metadata, "metadata needs a path or a name");
    } else if (document->path.size() > kPathBytesMax) {
      add("metadata.path", *metadata,
          fmt::format("the path has {} bytes; at most {} are allowed", document->path.size(),
                      kPathBytesMax));
    }
  }
  const Node* kind = root.Find("kind");
  document->kind = ToLower(TextOf(kind));
  if (document->kind.empty()) document->kind = ToLower(Trim(resource_type));
  if (std::ranges::find(kKinds, document->kind) == kKinds.end()) {
    add("kind", kind == nullptr ? root : *kind,
        fmt::format("kind '{}' is not known; there are {}", document->kind,
                    fmt::join(kKinds, ", ")));
  }
}

Json FindingsOf(const std::vector<Diagnostic>& findings, bool errors) {
  std::vector<Json> list;
  for (const Diagnostic& finding : findings) {
    if (finding.is_error() != errors || list.size() == kFindingsMax) continue;
    list.push_back(DiagnosticJson(finding));
  }
  return Json::Array(std::move(list));
}

std::optional<Node> Parsed(std::string_view content) {
  Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(content, &root, &diagnostics) || !root.is_map()) return std::nullopt;
  return root;
}

Json PartOf(const Node* node) { return node == nullptr ? Json() : NodeToJson(*node); }

}  // namespace

bool Document::ok() const { return std::ranges::none_of(findings, &Diagnostic::is_error); }
Json Document::Errors() const { return FindingsOf(findings, true); }
Json Document::Warnings() const { return FindingsOf(findings, false); }

Document ReadDocument(std::string_view content, std::string_view resource_type, bool check,
                      const playbook::LoadOptions& options) {
  Document document{.text = Decoded(content)};
  Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(document.text, &root, &diagnostics)) {
    document.findings = diagnostics.Take();
    return document;
  }
  ReadHead(root, resource_type, &document);
  if (!document.ok()) return document;
  if (document.kind == "subscription") {
    document.findings = CheckSubscription(root);
  } else if (document.kind == "playbook" && check) {
    document.findings = playbook::Load(document.text, options).diagnostics;
  }
  return document;
}

Json EntryJson(const store::CatalogEntry& entry, bool with_content) {
  const std::optional<Node> root = with_content ? Parsed(entry.content) : std::nullopt;
  const Node* metadata = root ? MapAt(*root, "metadata") : nullptr;
  JsonObjectBuilder json;
  json.Add("catalog_id", IdText(entry.catalog_id))
      .Add("path", entry.path)
      .Add("kind", entry.kind)
      .Add("version", entry.version)
      .Add("content", with_content ? Json(entry.content) : Json())
      .Add("layout", PartOf(root ? root->Find("workflow") : nullptr))
      .Add("payload", PartOf(root ? root->Find("workload") : nullptr))
      .Add("meta", PartOf(metadata == nullptr ? nullptr : metadata->Find("labels")))
      .Add("created_at", TimeOrNull(entry.created_at_us))
      .AddSome("archived_at", TimeOrNull(entry.archived_at_us));
  return json.Build();
}

bool IsAgent(const store::CatalogEntry& entry, const std::vector<std::string>& capabilities) {
  const std::optional<Node> root = Parsed(entry.content);
  const Node* metadata = root ? MapAt(*root, "metadata") : nullptr;
  const Node* agent = metadata == nullptr ? nullptr : metadata->Find("agent");
  const bool says_agent = agent != nullptr && agent->scalar.AsBool();
  if (entry.kind != "agent" && !says_agent) return false;
  const Node* has = metadata == nullptr ? nullptr : metadata->Find("capabilities");
  return std::ranges::all_of(capabilities, [&](const std::string& wanted) {
    return has != nullptr && std::ranges::any_of(has->items, [&](const Node& item) {
             return item.is_scalar() && item.text == wanted;
           });
  });
}

Result<std::int64_t> ReadVersion(const Json& version) {
  if (version.is_null()) return 0;
  std::int64_t number = version.AsInt();
  if (version.is_string()) {
    const std::string_view text = Trim(version.AsString());
    if (text.empty() || text == "latest") return 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) number = 0;
  }
  if (number > 0) return number;
  return Fail("invalid", "version must be \"latest\" or a number from 1");
}

}  // namespace noetl::api
