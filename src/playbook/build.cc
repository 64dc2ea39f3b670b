// The parts of the document around the workflow.
#include "playbook/build.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kRuntimeVersion = "noetl-runtime/1";
constexpr std::string_view kFeatures[] = {
    "result_storage", "ai_meta",       "templating", "loops",          "cursor_loops",
    "pipelines",      "sub_playbooks", "keychain",   "event_sourcing", "replay"};

bool IsPathText(std::string_view path) {
  bool segment = false;
  for (char c : path) {
    if (c == '/') {
      if (!segment) return false;
      segment = false;
      continue;
    }
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.' && c != '-')
      return false;
    segment = true;
  }
  return segment;
}

void BuildMetadata(BuildContext* context, const Node& root) {
  Reporter& report = context->report;
  const Node* metadata = root.Find("metadata");
  if (metadata == nullptr || metadata->is_null()) {
    report.Add("E011", metadata == nullptr ? root : *metadata,
               "metadata.name is required (Missing 'metadata.name')",
               "add metadata: {name: ..., path: ...}");
    return;
  }
  if (!metadata->is_map()) {
    report.WrongType(*metadata, "a map");
    return;
  }
  report.CheckKeys(*metadata, "metadata", "metadata", Reporter::Unknown::kAllow);
  context->playbook->metadata = NodeToJson(*metadata);
  const Node* name = metadata->Find("name");
  context->playbook->name = TextOf(name);
  if (Trim(context->playbook->name).empty()) {
    report.Add("E011", name == nullptr ? *metadata : *name,
               "metadata.name is required (Missing 'metadata.name')", "give the playbook a name");
  }
  const Node* path = metadata->Find("path");
  context->playbook->path = TextOf(path);
  if (context->playbook->path.empty()) {
    context->playbook->path = context->playbook->name;
  } else if (!IsPathText(context->playbook->path)) {
    report.WrongType(*path, "segments of letters, digits, '_', '.' and '-' joined by '/'");
  }
}

void CheckRequires(BuildContext* context, const Node& executor) {
  Reporter& report = context->report;
  if (const Node* tools = FindPath(executor, {"requires", "tools"})) {
    std::vector<std::string_view> kinds;
    for (const ToolKind& kind : ToolKinds()) kinds.push_back(kind.name);
    for (const Node& tool : tools->items) {
      if (std::find(kinds.begin(), kinds.end(), tool.text) != kinds.end()) continue;
      report.Add("E121", tool,
                 fmt::format("executor.requires.tools: unknown tool kind '{}'", tool.text) +
                     DidYouMean(tool.text, kinds),
                 "name a tool kind, or remove the entry");
    }
  }
  if (const Node* features = FindPath(executor, {"requires", "features"})) {
    for (const Node& feature : features->items) {
      if (std::find(std::begin(kFeatures), std::end(kFeatures), feature.text) !=
          std::end(kFeatures))
        continue;
      report.Add(
          "W122", feature,
          fmt::format("unknown feature '{}'", feature.text) + DidYouMean(feature.text, kFeatures),
          "remove it, or correct the name");
    }
  }
}

void BuildExecutor(BuildContext* context, const Node& root) {
  const Node* node = root.Find("executor");
  if (node == nullptr || node->is_null()) return;
  Reporter& report = context->report;
  if (!report.CheckKeys(*node, "executor", "executor")) return;
  Executor& executor = context->playbook->executor;
  executor.raw = NodeToJson(*node);
  if (const Node* version = node->Find("version");
      version != nullptr && TextOf(version) != kRuntimeVersion) {
    report.Add("W120", *version, fmt::format("executor.version '{}' is not known", TextOf(version)),
               fmt::format("write {}", kRuntimeVersion));
  }
  CheckRequires(context, *node);
  const Node* spec = node->Find("spec");
  if (spec == nullptr || spec->is_null() ||
      !report.CheckKeys(*spec, "executor.spec", "executor.spec"))
    return;
  executor.entry_step = TextOf(spec->Find("entry_step"));
  executor.final_step = TextOf(spec->Find("final_step"));
  executor.no_next_is_error = BoolOf(spec->Find("no_next_is_error"), false);
  executor.pool = TextOf(spec->Find("pool"));
  executor.timeout_ms = ReadDuration(context, spec->Find("timeout"));
  context->default_timeout_ms =
      ReadDuration(context, FindPath(*spec, {"policy", "defaults", "timeout_s"}));
  if (const Node* bytes = FindPath(*spec, {"policy", "limits", "max_payload_bytes"})) {
    if (bytes->is_scalar() && bytes->scalar.is_int() && bytes->scalar.AsInt() >= 0) {
      executor.max_payload_bytes = bytes->scalar.AsInt();
    } else {
      report.WrongType(*bytes, "a number of bytes");
    }
  }
}

// "ui:enum=[a,b] ui:secret": hints for the form of a run.
void ReadUiHints(std::string_view comment, WorkloadEntry* entry) {
  JsonObjectBuilder hints;
  bool any = false;
  std::size_t at = 0;
  while ((at = comment.find("ui:", at)) != std::string_view::npos) {
    at += 3;
    const std::size_t next = std::min(comment.find(" ui:", at), comment.size());
    const std::string_view hint = Trim(comment.substr(at, next - at));
    const std::size_t equals = hint.find('=');
    const std::string_view name = Trim(hint.substr(0, equals));
    if (name == "secret" || name.starts_with("secret ")) {
      entry->secret = true;
    } else if (equals != std::string_view::npos) {
      std::string_view value = Trim(hint.substr(equals + 1));
      any = true;
      if (value.starts_with('[') && value.ends_with(']')) {
        value = value.substr(1, value.size() - 2);
        std::vector<Json> words;
        while (!value.empty()) {
          const std::size_t comma = value.find(',');
          words.emplace_back(Trim(value.substr(0, comma)));
          value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
        }
        hints.Add(name, Json::Array(std::move(words)));
      } else {
        hints.Add(name, Json(value));
      }
    }
    at = next;
  }
  if (any) entry->ui = hints.Build();
}

void CheckSelfReference(BuildContext* context, const WorkloadEntry& entry, const Node& key) {
  for (const expr::Tree::Leaf& leaf : entry.value.Leaves()) {
    for (const expr::RootPath& root : leaf.compiled.analysis().roots) {
      const bool self = root.root == entry.name || (root.root == "workload" && !root.path.empty() &&
                                                    root.path.front() == entry.name);
      if (!self || root.guarded) continue;
      context->report.Add(
          "W130", key, fmt::format("workload '{}' refers to itself; it will be null", entry.name),
          "give it a default value; a run may override it");
      return;
    }
  }
}

}  // namespace

std::string TextOf(const Node* node) {
  return node != nullptr && node->is_scalar() && !node->is_null() ? node->text : std::string();
}

bool BoolOf(const Node* node, bool fallback) {
  return node != nullptr && node->is_scalar() ? node->scalar.AsBool(fallback) : fallback;
}

const Node* FindPath(const Node& node, std::initializer_list<std::string_view> keys) {
  const Node* at = &node;
  for (std::string_view key : keys) {
    if (!at->is_map()) return nullptr;
    at = at->Find(key);
    if (at == nullptr || at->is_null()) return nullptr;
  }
  return at;
}

std::optional<std::int64_t> ReadDuration(BuildContext* context, const Node* node) {
  if (node == nullptr || node->is_null()) return std::nullopt;
  // Ten years: beyond it a limit is a mistake, and milliseconds stay far from overflow.
  constexpr double kSecondsMax = 10.0 * 366 * 86'400;
  if (node->is_scalar() && node->scalar.is_number()) {
    const double seconds = node->scalar.AsDouble();
    if (seconds >= 0 && seconds <= kSecondsMax) return static_cast<std::int64_t>(seconds * 1000);
  } else if (node->is_string()) {
    if (expr::Template::LooksLikeTemplate(node->text)) return std::nullopt;
    if (const auto ms = ParseDurationMs(node->text)) return ms;
  }
  context->report.WrongType(*node, "a duration (seconds, or text like 250ms, 90s, 5m, 2h)");
  return std::nullopt;
}

void CheckReserved(BuildContext* context, const Node& at, std::string_view name,
                   std::string_view what) {
  if (!IsReservedRoot(name)) return;
  context->report.ByProfile("221", at,
                            fmt::format("{} name '{}' shadows template root", what, name),
                            "choose another name; templates use this one for themselves");
}

void BuildHeader(BuildContext* context, const Node& root) {
  Reporter& report = context->report;
  const Node* version = root.Find("apiVersion");
  const std::string got = TextOf(version);
  if (got != "noetl.io/v2" && got != "noetl.io/v10") {
    report.Add("E010", version == nullptr ? root : *version,
               fmt::format("Unsupported API version '{}' (use noetl.io/v2 or noetl.io/v10)", got),
               "write apiVersion: noetl.io/v2 or noetl.io/v10");
  }
  report.CheckKeys(root, "root", "the document");
  BuildMetadata(context, root);
  BuildExecutor(context, root);
  if (const Node* spec = root.Find("spec"); spec != nullptr && spec->is_map()) {
    context->playbook->root_spec = NodeToJson(*spec);
  }
}

void BuildWorkload(BuildContext* context, const Node& root) {
  const Node* workload = root.Find("workload");
  if (workload == nullptr || !workload->is_map()) return;
  for (const auto& [key, value] : workload->entries) {
    CheckReserved(context, key, key.text, "workload");
    WorkloadEntry entry;
    entry.name = key.text;
    entry.value = CompileTree(context, value);
    ReadUiHints(key.comment_beside.empty() ? value.comment_beside : key.comment_beside, &entry);
    if (entry.secret) context->secrets.insert(entry.name);
    CheckSelfReference(context, entry, key);
    context->playbook->workload.push_back(std::move(entry));
  }
}

void BuildKeychain(BuildContext* context, const Node& root) {
  const Node* keychain = root.Find("keychain");
  if (keychain == nullptr || !keychain->is_list()) return;
  Reporter& report = context->report;
  std::map<std::string, int> lines;
  for (const Node& entry : keychain->items) {
    if (!report.CheckKeys(entry, "keychain", "a keychain entry")) continue;
    const std::string name = TextOf(entry.Find("name"));
    if (name.empty()) {
      report.Add("E140", entry, "keychain entry without a name", "add 'name'");
    } else if (const auto [first, added] = lines.emplace(name, entry.position.line); !added) {
      report.Add(
          "E140", *entry.Find("name"),
          fmt::format("duplicate keychain entry '{}' (first at line {})", name, first->second),
          "give each entry its own name");
    }
    CompileTree(context, entry);
  }
  context->playbook->keychain = NodeToJson(*keychain);
}

void CheckWorkbook(BuildContext* context, const Node& root) {
  const Node* workbook = root.Find("workbook");
  if (workbook == nullptr || workbook->is_null()) return;
  Reporter& report = context->report;
  if (!workbook->is_list()) {
    report.WrongType(*workbook, "a list of {name, tool}");
    return;
  }
  std::map<std::string, int> lines;
  for (const Node& entry : workbook->items) {
    if (!report.CheckKeys(entry, "workbook", "a workbook entry")) continue;
    const std::string name = TextOf(entry.Find("name"));
    if (name.empty()) {
      report.Add("E150", entry, "workbook entry requires a 'name'", "add 'name'");
    } else if (const auto [first, added] = lines.emplace(name, entry.position.line); !added) {
      report.Add("E150", *entry.Find("name"),
                 fmt::format("Duplicate workbook entry '{}' at lines {} and {}", name,
                             first->second, entry.position.line),
                 "give each entry its own name");
    }
    if (entry.Find("tool") == nullptr) {
      report.Add("E150", entry, fmt::format("workbook entry '{}' has no tool", name), "add 'tool'");
    }
  }
}

}  // namespace noetl::playbook
