// Policy and admission rules.
//
// Canonical: {when, then: {...}} for a rule with a condition, {else: {then: {...}}} for one
// without.
#include <fmt/format.h>

#include "playbook/normalise_parts.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kThenKeys[] = {"do",       "set",     "attempts", "backoff",
                                          "delay",    "to",      "message",  "allow",
                                          "set_vars", "set_ctx", "set_iter"};

// Old assignment blocks and the prefix their keys get in `set`.
constexpr std::pair<std::string_view, std::string_view> kOldSets[] = {
    {"set_vars", "ctx."}, {"set_ctx", "ctx."}, {"set_iter", "iter."}};

void NormaliseThen(Node* then, Reporter* report) {
  if (!then->is_map()) return;
  for (const auto& [old_key, prefix] : kOldSets) {
    const Node* key = FindKey(*then, old_key);
    if (key == nullptr) continue;
    ReportLegacy(report, *key, fmt::format("'{}' is legacy", old_key),
                 fmt::format("write set: {{{}<name>: ...}}", prefix));
    Node values = *TakeKey(then, old_key);
    if (!values.is_map()) {
      if (!values.is_null()) report->WrongType(values, "a map");
      continue;
    }
    Node* set = MapAt(then, "set");
    if (set == nullptr) continue;
    for (auto& [name, value] : values.entries) {
      const bool prefixed = name.text.starts_with("ctx.") || name.text.starts_with("iter.");
      SetKey(set, prefixed ? name.text : std::string(prefix) + name.text, std::move(value));
    }
  }
}

Node ElseRule(const Node& rule, Node then) {
  Node body = MapNode(then);
  SetKey(&body, "then", std::move(then));
  Node canonical = MapNode(rule);
  canonical.comments_above = rule.comments_above;
  canonical.comment_beside = rule.comment_beside;
  SetKey(&canonical, "else", std::move(body));
  return canonical;
}

// What an `else` block says to do, whichever way it was written.
Node ThenOfElse(Node* rule, Node block) {
  if (block.is_map()) {
    if (std::optional<Node> then = TakeKey(&block, "then")) return std::move(*then);
    return block;
  }
  if (block.is_null()) {
    if (std::optional<Node> then = TakeKey(rule, "then")) return std::move(*then);
    return MapNode(block);
  }
  return block;
}

void NormaliseRule(Node* rule, Reporter* report) {
  if (!rule->is_map()) return;
  if (const Node* key = FindKey(*rule, "expr")) {
    ReportLegacy(report, *key, "'expr' in a rule is legacy", "write 'when'");
    if (rule->Find("when") == nullptr) {
      RenameKey(rule, "expr", "when");
    } else {
      TakeKey(rule, "expr");
    }
  }
  const bool has_when = rule->Find("when") != nullptr;
  if (FindKey(*rule, "else") != nullptr && !has_when) {
    Node block = *TakeKey(rule, "else");
    Node then = ThenOfElse(rule, std::move(block));
    if (then.is_null()) then = MapNode(then);
    NormaliseThen(&then, report);
    Node canonical = ElseRule(*rule, std::move(then));
    for (auto& entry : rule->entries) canonical.entries.push_back(std::move(entry));
    *rule = std::move(canonical);
    return;
  }
  Node* then = rule->Find("then");
  if (then == nullptr) return;
  if (then->is_null()) *then = MapNode(*then);
  NormaliseThen(then, report);
  if (has_when) return;
  Node taken = *TakeKey(rule, "then");
  Node canonical = ElseRule(*rule, std::move(taken));
  for (auto& entry : rule->entries) canonical.entries.push_back(std::move(entry));
  *rule = std::move(canonical);
}

// {expr, do, attempts, ...} becomes {when, then: {do, attempts, ...}}.
Node RuleFromEval(Node item, Reporter* report) {
  if (!item.is_map()) return item;
  RenameKey(&item, "expr", "when");
  Node* body = &item;
  Node* otherwise = item.Find("else");
  if (otherwise != nullptr && otherwise->is_map()) body = otherwise;
  RenameKey(body, "target", "to");
  if (body != &item) return item;
  Node then = MapNode(item);
  for (std::string_view key : kThenKeys) {
    if (std::optional<Node> value = TakeKey(&item, key)) SetKey(&then, key, std::move(*value));
  }
  if (std::optional<Node> value = TakeKey(&item, "to")) SetKey(&then, "to", std::move(*value));
  NormaliseThen(&then, report);
  if (item.Find("then") == nullptr && item.Find("else") == nullptr) {
    SetKey(&item, "then", std::move(then));
  }
  return item;
}

}  // namespace

void NormaliseRules(Node* rules, Reporter* report) {
  for (Node& rule : rules->items) NormaliseRule(&rule, report);
}

void NormaliseEval(Node* tool, Reporter* report) {
  const Node* key = FindKey(*tool, "eval");
  if (key == nullptr) return;
  ReportLegacy(report, *key, "'eval' on a tool is legacy", "write spec.policy.rules");
  Node eval = *TakeKey(tool, "eval");
  if (eval.is_map()) {
    Node list = ListNode(eval);
    list.items.push_back(std::move(eval));
    eval = std::move(list);
  }
  if (!eval.is_list()) {
    report->WrongType(eval, "a list of rules");
    return;
  }
  Node rules = ListNode(eval);
  for (Node& item : eval.items) rules.items.push_back(RuleFromEval(std::move(item), report));
  Node* spec = MapAt(tool, "spec");
  Node* policy = spec != nullptr ? MapAt(spec, "policy") : nullptr;
  if (policy != nullptr && policy->Find("rules") == nullptr)
    SetKey(policy, "rules", std::move(rules));
}

}  // namespace noetl::playbook
