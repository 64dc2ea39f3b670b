// Steps, loops and routing.
#include <algorithm>

#include <fmt/format.h>

#include "playbook/normalise_parts.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kOldStepForms[] = {"type", "call", "action"};
constexpr std::string_view kToolFields[] = {
    "command", "commands", "cmds",   "code",     "url",        "endpoint", "query",
    "auth",    "kind",     "method", "headers",  "params",     "payload",  "json",
    "data",    "body",     "libs",   "database", "connection", "script",   "credential"};
constexpr std::string_view kDroppedKeys[] = {"save", "sink", "pipe", "result", "outcome"};

void RejectOldForms(Node* step, std::string_view name, Reporter* report) {
  bool old_form = false;
  for (std::string_view key : kOldStepForms) {
    const Node* written = FindKey(*step, key);
    if (written == nullptr) continue;
    const Node value = *step->Find(key);
    const std::string kind = value.is_string() ? value.text : "...";
    report->Add("E201", *written,
                fmt::format("Step '{}': use tool: {{kind: {}}} instead of '{}'", name, kind, key),
                "write the tool as a map under 'tool:' with a 'kind'");
    TakeKey(step, key);
    old_form = true;
  }
  Node* tool = step->Find("tool");
  if (tool != nullptr && tool->is_scalar() && !tool->is_null()) {
    report->Add("E201", *tool, fmt::format("Step '{}': use tool: {{kind: {}}}", name, tool->text),
                "write the tool as a map under 'tool:' and move its fields into it");
    TakeKey(step, "tool");
    old_form = true;
  }
  for (std::string_view field : kToolFields) {
    const Node* key = FindKey(*step, field);
    if (key == nullptr) continue;
    if (!old_form) {
      report->Add(
          "E203", *key,
          fmt::format("Step '{}': '{}' must be inside 'tool' (tool field required)", name, field),
          fmt::format("'{}' belongs under tool:", field));
    }
    TakeKey(step, field);
  }
  if (const Node* key = FindKey(*step, "case")) {
    report->Add(
        "E202", *key,
        fmt::format("Step '{}': 'case' blocks are not allowed; use next.arcs[].when and "
                    "spec.policy.rules",
                    name),
        "routes go to next.arcs[].when, reactions to a tool's outcome to its spec.policy.rules");
    TakeKey(step, "case");
  }
}

void MoveVars(Node* step, Reporter* report) {
  const Node* key = FindKey(*step, "vars");
  if (key == nullptr) return;
  ReportLegacy(report, *key, "step 'vars' is legacy", "write set: {ctx.<name>: ...}");
  Node vars = *TakeKey(step, "vars");
  if (vars.is_null()) return;
  if (!vars.is_map()) {
    report->WrongType(vars, "a map");
    return;
  }
  Node* set = MapAt(step, "set");
  if (set == nullptr) return;
  for (auto& [name, value] : vars.entries) {
    const std::string target = "ctx." + name.text;
    if (set->Find(target) == nullptr) SetKey(set, target, std::move(value));
  }
}

void DropUnusedKeys(Node* step, std::string_view name, Reporter* report) {
  for (std::string_view dropped : kDroppedKeys) {
    const Node* key = FindKey(*step, dropped);
    if (key == nullptr) continue;
    report->ByProfile("212", *key,
                      fmt::format("Step '{}': '{}' on a step has no effect", name, dropped),
                      "add a task to the tool list that stores or reshapes the result");
    TakeKey(step, dropped);
  }
  const Node* key = FindKey(*step, "retry");
  if (key == nullptr) return;
  report->ByProfile("212", *key, fmt::format("Step '{}': 'retry' on a step is legacy", name),
                    "move 'retry' into the tool");
  Node retry = *TakeKey(step, "retry");
  Node* tool = step->Find("tool");
  if (tool != nullptr && tool->is_map() && tool->Find("retry") == nullptr) {
    SetKey(tool, "retry", std::move(retry));
  }
}

void NormaliseLoop(Node* step, Reporter* report) {
  Node* loop = step->Find("loop");
  if (loop == nullptr || !loop->is_map()) return;
  for (std::string_view moved : {"mode", "max_in_flight"}) {
    const Node* key = FindKey(*loop, moved);
    if (key == nullptr) continue;
    ReportLegacy(report, *key, fmt::format("loop.{} is legacy", moved),
                 fmt::format("write loop.spec.{}", moved));
    Node value = *TakeKey(loop, moved);
    Node* spec = MapAt(loop, "spec");
    if (spec != nullptr && spec->Find(moved) == nullptr) SetKey(spec, moved, std::move(value));
  }
}

void NormaliseAdmit(Node* step, Reporter* report) {
  Node* at = step;
  for (std::string_view key : {"spec", "policy", "admit", "rules"}) {
    at = at->is_map() ? at->Find(key) : nullptr;
    if (at == nullptr) return;
  }
  NormaliseRules(at, report);
}

void NormaliseArc(Node* arc, bool router, Reporter* report) {
  if (arc->is_scalar()) {
    Node target = std::move(*arc);
    *arc = MapNode(target);
    SetKey(arc, "step", std::move(target));
    return;
  }
  if (!arc->is_map()) return;
  for (std::string_view alias : {"cond", "condition", "expr"}) {
    const Node* key = FindKey(*arc, alias);
    if (key == nullptr) continue;
    report->ByProfile("271", *key, fmt::format("use 'when' instead of '{}'", alias),
                      "rename the key to 'when'");
    if (arc->Find("when") == nullptr) {
      RenameKey(arc, alias, "when");
    } else {
      TakeKey(arc, alias);
    }
  }
  MoveAlias(report, arc, "with", "args");
  if (const Node* args = FindKey(*arc, "args"); args != nullptr && router) {
    ReportLegacy(report, *args, "'args' on an arc is legacy",
                 "give the target step an 'input', or use the arc's 'set'");
  }
}

// The mode that spec.next_mode asks for; taken off the step.
std::optional<Node> TakeNextMode(Node* step, Reporter* report) {
  Node* spec = step->Find("spec");
  if (spec == nullptr || !spec->is_map()) return std::nullopt;
  const Node* key = FindKey(*spec, "next_mode");
  if (key == nullptr) return std::nullopt;
  ReportLegacy(report, *key, "spec.next_mode is legacy", "write next.spec.mode");
  std::optional<Node> mode = TakeKey(spec, "next_mode");
  if (spec->entries.empty()) TakeKey(step, "spec");
  return mode;
}

// The canonical {spec, arcs} of a `next` that is not yet a map with arcs.
Node RouterFrom(Node next, Reporter* report) {
  Node router = MapNode(next);
  Node arcs = ListNode(next);
  bool all_names = next.is_list() && !next.items.empty();
  if (next.is_list()) {
    if (report->strict()) {
      ReportLegacy(report, next, "'next' as a list is legacy", "write next: {arcs: [{step: ...}]}");
    }
    for (Node& item : next.items) {
      all_names = all_names && item.is_scalar();
      NormaliseArc(&item, false, report);
      arcs.items.push_back(std::move(item));
    }
  } else {
    if (next.is_map()) {
      report->ByProfile(report->strict() ? "211" : "210", next,
                        "'next: {step: ...}' is not a router", "write next: {arcs: [{step: ...}]}");
    } else if (report->strict()) {
      ReportLegacy(report, next, "'next' as text is legacy", "write next: {arcs: [{step: ...}]}");
    }
    NormaliseArc(&next, false, report);
    arcs.items.push_back(std::move(next));
  }
  if (all_names && arcs.items.size() > 1) {
    Node spec = MapNode(router);
    SetKey(&spec, "mode", StringNode("inclusive", router));
    SetKey(&router, "spec", std::move(spec));
  }
  SetKey(&router, "arcs", std::move(arcs));
  return router;
}

}  // namespace

void NormaliseNext(Node* step, Reporter* report) {
  std::optional<Node> mode = TakeNextMode(step, report);
  Node* next = step->Find("next");
  if (next == nullptr) return;
  if (next->is_null()) {
    TakeKey(step, "next");
    return;
  }
  if (!next->is_map() || (next->Find("arcs") == nullptr && next->Find("step") != nullptr)) {
    *next = RouterFrom(std::move(*next), report);
  } else if (Node* arcs = next->Find("arcs"); arcs != nullptr && arcs->is_list()) {
    for (Node& arc : arcs->items) NormaliseArc(&arc, true, report);
  }
  if (!mode) return;
  Node* spec = MapAt(next, "spec");
  if (spec != nullptr && spec->Find("mode") == nullptr) SetKey(spec, "mode", std::move(*mode));
}

void NormaliseStep(Node* step, int index, const NormaliseContext& context) {
  Reporter* report = context.report;
  if (step->Find("step") == nullptr) {
    if (const Node* key = FindKey(*step, "name")) {
      ReportLegacy(report, *key, "'name' on a step is legacy", "write 'step: <name>'");
      RenameKey(step, "name", "step");
    }
  }
  const Node* name_node = step->Find("step");
  const std::string name =
      name_node != nullptr && name_node->is_scalar() ? name_node->text : fmt::format("#{}", index);
  MoveAlias(report, step, "description", "desc");
  for (std::string_view alias : {"args", "with"}) {
    if (const Node* key = FindKey(*step, alias); key != nullptr && report->strict()) {
      ReportLegacy(report, *key, fmt::format("'{}' on a step is legacy", alias), "write 'input'");
    }
    MoveAlias(report, step, alias, "input");
  }
  if (const Node* key = FindKey(*step, "when"); key != nullptr && report->strict()) {
    ReportLegacy(report, *key, "'when' on a step is legacy",
                 "write spec.policy.admit.rules, or put 'when' on the arc that leads here");
  }
  MoveVars(step, report);
  RejectOldForms(step, name, report);
  DropUnusedKeys(step, name, report);
  NormaliseLoop(step, report);
  NormaliseAdmit(step, report);
  NormaliseTools(step, name, context);
  NormaliseOutput(step, report);
  NormaliseNext(step, report);
}

}  // namespace noetl::playbook
