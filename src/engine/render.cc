#include "engine/render.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace noetl::engine {
namespace {

using expr::Value;

constexpr std::array<std::string_view, 8> kStructuredFields = {"input", "args",   "payload", "json",
                                                               "data",  "params", "value",   "set"};
constexpr std::array<std::string_view, 5> kSplicedFields = {"command", "commands", "query", "url",
                                                            "cmds"};

template <std::size_t N>
bool IsIn(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<Value> Attribute(const Value& value, const std::string& key) {
  if (value.view() != nullptr) return value.view()->Get(key);
  if (!value.is_json()) return Value();
  const Json& json = value.json();
  if (json.is_object()) {
    const Json* found = json.Find(key);
    return found ? Value(*found) : Value();
  }
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (!json.is_array() || error != std::errc() || end != key.data() + key.size()) return Value();
  if (index < 0) index += static_cast<std::int64_t>(json.size());
  if (index < 0 || index >= static_cast<std::int64_t>(json.size())) return Value();
  return Value(json.At(static_cast<std::size_t>(index)));
}

Status CheckSplices(std::string_view field, const expr::Template& text, const expr::Scope& scope) {
  for (const expr::RootPath& root : text.analysis().roots) {
    if (root.guarded) continue;
    std::string name = root.root;
    NOETL_ASSIGN(Value value, scope.Lookup(root.root));
    for (const std::string& key : root.path) {
      name += "." + key;
      NOETL_ASSIGN(value, Attribute(value, key));
    }
    if (!value.is_missing()) continue;
    return Fail("E410",
                fmt::format("{}: '{}' is {} and would leave a gap in the text; give it a value, a "
                            "default(...), or test it with 'is defined'",
                            field, name, value.is_undefined() ? "undefined" : "null"));
  }
  return {};
}

}  // namespace

expr::Output OutputOf(std::string_view field) {
  return IsIn(kStructuredFields, field) ? expr::Output::kStructured : expr::Output::kText;
}

Result<Json> RenderField(std::string_view field, const expr::Tree& value, const expr::Scope& scope,
                         playbook::Profile profile, expr::Output output,
                         const expr::Tree::Defer& defer) {
  if (value.is_literal()) return value.source();
  if (profile == playbook::Profile::kStrict && IsIn(kSplicedFields, field)) {
    for (const expr::Tree::Leaf& leaf : value.Leaves()) {
      // A lone expression is a value of its own, not a part of some text.
      if (leaf.compiled.is_literal() || leaf.compiled.is_single()) continue;
      if (defer && defer(leaf.compiled)) continue;
      NOETL_TRY(CheckSplices(field, leaf.compiled, scope));
    }
  }
  return value.Render(scope, output, defer);
}

}  // namespace noetl::engine
