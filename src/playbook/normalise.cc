#include "playbook/normalise.h"

#include <fmt/format.h>

#include "playbook/normalise_parts.h"

namespace noetl::playbook {
namespace {

// Keys of the first language version that belong into metadata today.
constexpr std::pair<std::string_view, std::string_view> kRootToMetadata[] = {
    {"desc", "description"}, {"description", "description"}, {"name", "name"},
    {"path", "path"},        {"version", "version"},
};

void MoveRootKeys(Node* root, Reporter* report) {
  for (const auto& [from, to] : kRootToMetadata) {
    const Node* key = FindKey(*root, from);
    if (key == nullptr) continue;
    ReportLegacy(report, *key, fmt::format("root '{}' is legacy", from),
                 fmt::format("move it to metadata.{}", to));
    Node value = *TakeKey(root, from);
    Node* metadata = MapAt(root, "metadata");
    if (metadata != nullptr && metadata->Find(to) == nullptr)
      SetKey(metadata, to, std::move(value));
  }
}

void MergeVars(Node* root, Reporter* report) {
  const Node* key = FindKey(*root, "vars");
  if (key == nullptr) return;
  report->ByProfile("110", *key, "root 'vars' is legacy; move to workload",
                    "put these keys into workload");
  Node vars = *TakeKey(root, "vars");
  Node* workload = MapAt(root, "workload");
  if (workload == nullptr || vars.is_null()) return;
  if (!vars.is_map()) {
    report->WrongType(vars, "a map");
    return;
  }
  for (auto& entry : vars.entries) {
    if (workload->Find(entry.first.text) == nullptr) workload->entries.push_back(std::move(entry));
  }
}

void NormaliseExecutor(Node* root, Reporter* report) {
  Node* executor = root->Find("executor");
  if (executor == nullptr || !executor->is_map()) return;
  if (const Node* key = FindKey(*executor, "kind")) {
    ReportLegacy(report, *key, "executor.kind is legacy", "write executor.profile");
    Node value = *TakeKey(executor, "kind");
    if (executor->Find("profile") == nullptr) {
      if (value.text == "hybrid") value = StringNode("auto", value);
      SetKey(executor, "profile", std::move(value));
    }
  }
}

// One word where a list of words is meant.
void ListOfOne(Node* map, std::string_view key) {
  Node* value = map->Find(key);
  if (value == nullptr || !value->is_scalar() || value->is_null()) return;
  Node list = ListNode(*value);
  list.items.push_back(std::move(*value));
  *value = std::move(list);
}

void NormaliseKeychain(Node* root, Reporter* report) {
  Node* keychain = root->Find("keychain");
  if (keychain == nullptr || !keychain->is_list()) return;
  for (Node& entry : keychain->items) {
    Node* scope = entry.is_map() ? entry.Find("scope") : nullptr;
    if (scope == nullptr) continue;
    const std::string_view canonical = scope->text == "execution" ? "local"
                                       : scope->text == "catalog" ? "global"
                                                                  : "";
    if (canonical.empty()) continue;
    ReportLegacy(report, *scope, fmt::format("keychain scope '{}' is legacy", scope->text),
                 fmt::format("write scope: {}", canonical));
    *scope = StringNode(canonical, *scope);
  }
}

// {tasks: {name: tool}} becomes [{name, tool}].
void WorkbookMapToList(Node* workbook) {
  if (!workbook->is_map()) return;
  const Node* tasks = workbook->Find("tasks");
  if (tasks == nullptr || !tasks->is_map()) return;
  Node list = ListNode(*workbook);
  for (const auto& [name, tool] : tasks->entries) {
    Node entry = MapNode(name);
    SetKey(&entry, "name", StringNode(name.text, name));
    SetKey(&entry, "tool", tool);
    list.items.push_back(std::move(entry));
  }
  *workbook = std::move(list);
}

void NormaliseWorkbook(Node* root, NormaliseContext* context) {
  Node* workbook = root->Find("workbook");
  if (workbook == nullptr) return;
  WorkbookMapToList(workbook);
  for (Node& entry : workbook->items) {
    if (!entry.is_map()) continue;
    MoveAlias(context->report, &entry, "description", "desc");
    if (const Node* sink = FindKey(entry, "sink")) {
      context->report->ByProfile("212", *sink, "workbook 'sink' has no effect",
                                 "write the result in a task of its own");
      TakeKey(&entry, "sink");
    }
    Node* tool = entry.Find("tool");
    if (tool == nullptr || !tool->is_map()) continue;
    NormaliseTool(tool, context->report);
    const Node* name = entry.Find("name");
    if (name == nullptr || !name->is_scalar() || name->text.empty()) continue;
    context->workbook.try_emplace(name->text, NormaliseContext::Entry{tool, entry.Find("assert")});
  }
}

}  // namespace

void ReportLegacy(Reporter* report, const Node& at, std::string message, std::string hint) {
  report->ByProfile("211", at, std::move(message), std::move(hint));
}

void MoveAlias(Reporter* report, Node* map, std::string_view from, std::string_view to) {
  const Node* key = FindKey(*map, from);
  if (key == nullptr) return;
  if (map->Find(to) == nullptr) {
    RenameKey(map, from, to);
    return;
  }
  report->Add("W240", *key, fmt::format("both '{}' and '{}' are given; '{}' wins", to, from, to),
              fmt::format("keep only '{}'", to));
  TakeKey(map, from);
}

Node Normalise(Node document, Diagnostics* diagnostics) {
  if (!document.is_map()) return document;
  const Node* kind = document.Find("kind");
  if (kind == nullptr || kind->text != "Playbook") return document;
  const Node* version = document.Find("apiVersion");
  const bool strict = version != nullptr && version->text == "noetl.io/v10";
  Reporter report(diagnostics, strict ? Profile::kStrict : Profile::kCompat);

  MoveRootKeys(&document, &report);
  MergeVars(&document, &report);
  if (const Node* spec = FindKey(document, "spec")) {
    report.ByProfile("111", *spec, "root 'spec' is legacy; move to workload",
                     "put these keys into workload and read them as {{ name }}");
  }
  NormaliseExecutor(&document, &report);
  NormaliseKeychain(&document, &report);
  if (Node* metadata = document.Find("metadata"); metadata != nullptr && metadata->is_map()) {
    ListOfOne(metadata, "tags");
    ListOfOne(metadata, "capabilities");
  }
  NormaliseContext context{&report, {}};
  NormaliseWorkbook(&document, &context);
  if (Node* workflow = document.Find("workflow")) {
    for (std::size_t i = 0; i < workflow->items.size(); ++i) {
      Node& step = workflow->items[i];
      if (step.is_map()) NormaliseStep(&step, static_cast<int>(i), context);
    }
  }
  return document;
}

}  // namespace noetl::playbook
