// The keys of the document language: one table a place.
//
// The parser checks keys and types against these tables, the schema for editors is made from them,
// and "did you mean" picks from them.
#pragma once

#include <span>
#include <string_view>

namespace noetl::playbook {

enum class KeyType {
  kAny,
  kString,
  kText,
  kBool,
  kInt,
  kNumber,
  kMap,
  kList,
  kStringList,
  kDuration,
  kCondition
};

struct Key {
  std::string_view name;
  KeyType type = KeyType::kAny;
  bool required = false;
  std::string_view meaning;      // one line for editors and docs
  std::string_view values = {};  // allowed words, separated by '|'
};

// Places: "root", "metadata", "executor", "executor.spec", "keychain", "workbook", "step",
// "step.spec", "step.spec.policy", "loop", "loop.spec", "loop.spec.policy", "loop.cursor",
// "loop.spec.frame", "next", "next.spec", "arc", "tool" (fields common to all kinds), "tool.spec",
// "policy", "rule", "rule.then", "retry", "output", "output.store", "admit", "admit.rule".
std::span<const Key> KeysOf(std::string_view place);

}  // namespace noetl::playbook
