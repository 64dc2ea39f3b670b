// Tools and workbook references.
#include <algorithm>

#include <fmt/format.h>

#include "expr/template.h"
#include "playbook/normalise_parts.h"

namespace noetl::playbook {
namespace {

// Tool fields that some documents keep in the tool's spec.
constexpr std::string_view kHoisted[] = {
    "method",  "url",     "endpoint", "params",   "code",     "input",      "args", "auth",
    "command", "headers", "query",    "commands", "cmds",     "data",       "json", "payload",
    "body",    "script",  "libs",     "path",     "database", "connection", "form"};
constexpr std::string_view kCredentialIsAuth[] = {"postgres", "duckdb", "ducklake", "snowflake",
                                                  "http"};

std::string KindOf(const Node& tool) {
  const Node* kind = tool.Find("kind");
  return kind != nullptr && kind->is_scalar() ? kind->text : std::string();
}

bool IsToolMap(const Node& node) { return node.is_map() && node.Find("kind") != nullptr; }

void HoistSpec(Node* tool, Reporter* report) {
  Node* spec = tool->Find("spec");
  if (spec == nullptr || !spec->is_map()) return;
  std::vector<std::string> fields;
  for (const auto& [key, value] : spec->entries) {
    if (std::find(std::begin(kHoisted), std::end(kHoisted), key.text) == std::end(kHoisted))
      continue;
    ReportLegacy(report, key, fmt::format("'{}' inside a tool's 'spec' is legacy", key.text),
                 fmt::format("move '{}' to the tool itself", key.text));
    fields.push_back(key.text);
  }
  for (const std::string& field : fields) {
    Node value = *TakeKey(tool->Find("spec"), field);
    if (tool->Find(field) == nullptr) SetKey(tool, field, std::move(value));
  }
  spec = tool->Find("spec");
  if (spec->entries.empty()) TakeKey(tool, "spec");
}

// All spellings of a tool's time limit become `timeout`: a number of seconds or a duration.
void NormaliseTimeout(Node* tool) {
  const auto is_template = [](const Node& node) {
    return node.is_string() && expr::Template::LooksLikeTemplate(node.text);
  };
  if (Node* ms = tool->Find("timeout_ms"); ms != nullptr && !is_template(*ms)) {
    Node value = *TakeKey(tool, "timeout_ms");
    if (value.is_scalar() && value.scalar.is_number()) value = StringNode(value.text + "ms", value);
    if (tool->Find("timeout") == nullptr) SetKey(tool, "timeout", std::move(value));
  }
  if (Node* seconds = tool->Find("timeout_seconds"); seconds != nullptr && !is_template(*seconds)) {
    Node value = *TakeKey(tool, "timeout_seconds");
    if (tool->Find("timeout") == nullptr) SetKey(tool, "timeout", std::move(value));
  }
  Node* spec = tool->Find("spec");
  if (spec == nullptr || !spec->is_map()) return;
  if (std::optional<Node> value = TakeKey(spec, "timeout")) {
    const bool empty = spec->entries.empty();
    if (tool->Find("timeout") == nullptr) SetKey(tool, "timeout", std::move(*value));
    if (empty) TakeKey(tool, "spec");
  }
}

void NormalisePolicy(Node* tool, Reporter* report) {
  NormaliseEval(tool, report);
  Node* spec = tool->Find("spec");
  Node* policy = spec != nullptr && spec->is_map() ? spec->Find("policy") : nullptr;
  if (policy == nullptr) return;
  // A bare list of rules.
  if (policy->is_list()) {
    Node rules = std::move(*policy);
    *policy = MapNode(rules);
    SetKey(policy, "rules", std::move(rules));
  }
  Node* rules = policy->is_map() ? policy->Find("rules") : nullptr;
  if (rules != nullptr) NormaliseRules(rules, report);
}

// `iterator: {items, item}` on the tool of a step without a loop.
void LiftIterator(Node* step, Node* tool, Reporter* report) {
  const Node* key = FindKey(*tool, "iterator");
  if (key == nullptr) return;
  report->ByProfile("213", *key, "'iterator' on a tool is legacy",
                    "write loop: {in, iterator} on the step");
  Node iterator = *TakeKey(tool, "iterator");
  if (!iterator.is_map() || step->Find("loop") != nullptr) return;
  Node loop = MapNode(iterator);
  if (std::optional<Node> items = TakeKey(&iterator, "items"))
    SetKey(&loop, "in", std::move(*items));
  std::optional<Node> item = TakeKey(&iterator, "item");
  SetKey(&loop, "iterator", item ? std::move(*item) : StringNode("item", iterator));
  SetKey(step, "loop", std::move(loop));
}

void CheckExpects(const NormaliseContext::Entry& entry, const Node& tool, const Node& caller,
                  std::string_view name, Reporter* report) {
  const Node* expects =
      entry.assert != nullptr&& entry.assert->is_map() ? entry.assert->Find("expects") : nullptr;
  if (expects == nullptr || !expects->is_list()) return;
  const Node* input = tool.Find("input");
  for (const Node& wanted : expects->items) {
    if (!wanted.is_scalar()) continue;
    if (input != nullptr && input->is_map() && input->Find(wanted.text) != nullptr) continue;
    report->Add("W150", caller,
                fmt::format("workbook entry '{}' expects an input '{}'", name, wanted.text),
                fmt::format("add '{}' to input", wanted.text));
  }
}

void MergeInput(Node* tool, Node input) {
  Node* own = tool->Find("input");
  if (own == nullptr || !own->is_map() || !input.is_map()) {
    SetKey(tool, "input", std::move(input));
    return;
  }
  for (auto& [name, value] : input.entries) SetKey(own, name.text, std::move(value));
}

// Puts the workbook's tool in the place of a reference; the caller's own fields win.
void ResolveWorkbook(Node* tool, bool in_list, std::string_view step_name,
                     const NormaliseContext& context) {
  if (KindOf(*tool) != "workbook") return;
  Reporter* report = context.report;
  const Node* reference = tool->Find("task");
  if (reference == nullptr || !reference->is_scalar() || reference->text.empty()) {
    reference = tool->Find("name");
  }
  const std::string name = reference != nullptr && reference->is_scalar() ? reference->text : "";
  const auto fail = [&](std::string_view code, const Node& at, std::string message,
                        std::string hint) {
    report->Add(code, at, fmt::format("Step '{}': {}", step_name, message), std::move(hint));
    Node label = in_list && tool->Find("name") ? *tool->Find("name") : StringNode("", *tool);
    Node empty = MapNode(*tool);
    if (!label.text.empty()) SetKey(&empty, "name", std::move(label));
    SetKey(&empty, "kind", StringNode("noop", *tool));
    *tool = std::move(empty);
  };
  std::vector<std::string> names;
  for (const auto& [entry_name, entry] : context.workbook) names.push_back(entry_name);
  if (name.empty()) {
    return fail("E150", *tool, "workbook tool requires a 'name'",
                fmt::format("name one of the workbook entries: {}", JoinNames(names)));
  }
  const auto found = context.workbook.find(name);
  if (found == context.workbook.end()) {
    return fail("E151", *reference,
                fmt::format("no workbook entry '{}'; entries are: {}{}", name, JoinNames(names),
                            DidYouMean(name, names)),
                "add the entry under workbook, or correct the name");
  }
  if (KindOf(*found->second.tool) == "workbook") {
    return fail("E152", *reference,
                fmt::format("workbook entry '{}' is itself of kind workbook", name),
                "let the entry name a real tool");
  }
  Node resolved = *found->second.tool;
  TakeKey(&resolved, "name");
  if (in_list)
    SetFirst(&resolved, "name", tool->Find("name") ? *tool->Find("name") : StringNode(name, *tool));
  for (auto& [key, value] : tool->entries) {
    if (key.text == "kind" || key.text == "name" || key.text == "task") continue;
    if (key.text == "input") {
      MergeInput(&resolved, std::move(value));
    } else {
      SetKey(&resolved, key.text, std::move(value));
    }
  }
  CheckExpects(found->second, resolved, *tool, name, report);
  resolved.position = tool->position;
  *tool = std::move(resolved);
}

// One item of a tool list becomes a flat map with a name.
void FlattenItem(Node* item, std::size_t index, std::string_view step_name, Reporter* report) {
  const std::string unnamed = fmt::format("task_{}", index);
  const auto replace = [&](std::string message, std::string hint) {
    report->Add("E230", *item, std::move(message), std::move(hint));
    Node empty = MapNode(*item);
    SetKey(&empty, "name", StringNode(unnamed, *item));
    SetKey(&empty, "kind", StringNode("noop", *item));
    *item = std::move(empty);
  };
  if (IsToolMap(*item)) {
    const Node* name = item->Find("name");
    if (name == nullptr || name->is_null()) {
      TakeKey(item, "name");
      SetFirst(item, "name", StringNode(unnamed, *item));
    }
    return;
  }
  if (item->is_map() && item->entries.size() == 1 && IsToolMap(item->entries[0].second)) {
    Node label = std::move(item->entries[0].first);
    Node tool = std::move(item->entries[0].second);
    TakeKey(&tool, "name");
    tool.comments_above.insert(tool.comments_above.begin(), item->comments_above.begin(),
                               item->comments_above.end());
    SetFirst(&tool, "name", StringNode(label.text, label));
    *item = std::move(tool);
    return;
  }
  const bool labels = item->is_map() && item->entries.size() > 1 &&
                      std::all_of(item->entries.begin(), item->entries.end(),
                                  [](const auto& entry) { return IsToolMap(entry.second); });
  if (labels) {
    return replace(fmt::format("Step '{}': tool[{}]: one label expected, found {}", step_name,
                               index, item->entries.size()),
                   "write one list item per task");
  }
  replace(fmt::format("Step '{}': tool[{}] needs 'kind' (or be {{label: {{kind: ...}}}})",
                      step_name, index),
          "write - name: <label> and kind: <tool> for each task");
}

}  // namespace

void NormaliseTool(Node* tool, Reporter* report) {
  HoistSpec(tool, report);
  const std::string kind = KindOf(*tool);
  // A container's args are its argv.
  if (kind != "container") MoveAlias(report, tool, "args", "input");
  if (const Node* key = FindKey(*tool, "with")) {
    ReportLegacy(report, *key, "'with' on a tool is legacy", "write 'input'");
    MoveAlias(report, tool, "with", "input");
  }
  const bool credential = std::find(std::begin(kCredentialIsAuth), std::end(kCredentialIsAuth),
                                    kind) != std::end(kCredentialIsAuth);
  if (const Node* value = tool->Find("credential");
      credential && value != nullptr && value->is_string() && tool->Find("auth") == nullptr) {
    RenameKey(tool, "credential", "auth");
  }
  NormaliseTimeout(tool);
  NormalisePolicy(tool, report);
  NormaliseOutput(tool, report);
}

void NormaliseOutput(Node* owner, Reporter* report) {
  std::optional<Node> select = TakeKey(owner, "output_select");
  if (Node* output = owner->Find("output"); output != nullptr && output->is_map()) {
    if (std::optional<Node> own = TakeKey(output, "output_select")) select = std::move(own);
  }
  if (!select) return;
  Node* output = MapAt(owner, "output");
  if (output == nullptr) return;
  if (select->is_list()) {
    if (output->Find("select") == nullptr) SetKey(output, "select", *std::move(select));
    return;
  }
  const Node* threshold = select->is_map() ? select->Find("threshold_kb") : nullptr;
  // A gigabyte: more means "inline whatever it is", and the product stays far from overflow.
  constexpr std::int64_t kThresholdKbMax = 1 << 20;
  if (threshold == nullptr || !threshold->scalar.is_int() || threshold->scalar.AsInt() < 0 ||
      threshold->scalar.AsInt() > kThresholdKbMax) {
    report->WrongType(*select, "a list of fields, or {strategy: size_threshold, threshold_kb: n}");
    return;
  }
  Node bytes = *threshold;
  bytes.scalar = Json(threshold->scalar.AsInt() * 1024);
  bytes.text = std::to_string(bytes.scalar.AsInt());
  if (output->Find("inline_max_bytes") == nullptr) {
    SetKey(output, "inline_max_bytes", std::move(bytes));
  }
}

void NormaliseTools(Node* step, std::string_view step_name, const NormaliseContext& context) {
  Node* tool = step->Find("tool");
  if (tool == nullptr || tool->is_null()) {
    Node noop = MapNode(*step);
    SetKey(&noop, "kind", StringNode("noop", *step));
    SetKey(step, "tool", std::move(noop));
    return;
  }
  Reporter* report = context.report;
  if (tool->is_map()) {
    NormaliseTool(tool, report);
    ResolveWorkbook(tool, false, step_name, context);
    Node lifted = std::move(*tool);
    LiftIterator(step, &lifted, report);
    *step->Find("tool") = std::move(lifted);
    return;
  }
  for (std::size_t i = 0; i < tool->items.size(); ++i) {
    Node& item = tool->items[i];
    FlattenItem(&item, i, step_name, report);
    NormaliseTool(&item, report);
    ResolveWorkbook(&item, true, step_name, context);
  }
}

}  // namespace noetl::playbook
