#include "api/ui_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "playbook/yaml.h"

namespace noetl::api {
namespace {

using playbook::Node;

struct Hints {
  bool secret = false;
  Json options;  // list, or null
  Json credential;
  Json description;
};

std::string_view Unquoted(std::string_view text) {
  text = Trim(text);
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.front() == text.back();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// "[a, 'b']" or one bare value.
Json ReadOptions(std::string_view text) {
  text = Trim(text);
  std::vector<Json> options;
  if (!text.starts_with('[') || !text.ends_with(']')) {
    options.emplace_back(Unquoted(text));
    return Json::Array(std::move(options));
  }
  text = text.substr(1, text.size() - 2);
  while (!Trim(text).empty()) {
    const std::size_t comma = text.find(',');
    options.emplace_back(Unquoted(text.substr(0, comma)));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return Json::Array(std::move(options));
}

void ReadHint(std::string_view hint, Hints* hints) {
  const std::size_t equals = hint.find('=');
  const std::string_view name = Trim(hint.substr(0, equals));
  if (equals == std::string_view::npos) {
    if (name == "secret") hints->secret = true;
    return;
  }
  const std::string_view value = hint.substr(equals + 1);
  if (name == "enum") hints->options = ReadOptions(value);
  if (name == "credential") hints->credential = Json(Unquoted(value));
  if (name == "description") hints->description = Json(Unquoted(value));
}

// Several hints may stand in one comment, each with its own "ui:".
Hints ReadHints(std::string_view comment) {
  constexpr std::string_view kMark = "ui:";
  const auto next_mark = [&](std::size_t from) {
    std::size_t at = comment.find(kMark, from);
    while (at != std::string_view::npos && at > 0 && comment[at - 1] != ' ' &&
           comment[at - 1] != '#' && comment[at - 1] != '\t') {
      at = comment.find(kMark, at + 1);
    }
    return at;
  };
  Hints hints;
  std::size_t at = next_mark(0);
  while (at != std::string_view::npos) {
    const std::size_t start = at + kMark.size();
    at = next_mark(start);
    std::string_view hint =
        Trim(comment.substr(start, at == std::string_view::npos ? at : at - start));
    if (at != std::string_view::npos && hint.ends_with('#'))
      hint = Trim(hint.substr(0, hint.size() - 1));
    ReadHint(hint, &hints);
  }
  return hints;
}

std::string_view KindOf(const Node& node) {
  if (node.is_map()) return "object";
  if (node.is_list()) return "array";
  switch (node.scalar.type()) {
    case Json::Type::kNull: return "null";
    case Json::Type::kBool: return "boolean";
    case Json::Type::kInt:
    case Json::Type::kUint:
    case Json::Type::kBigInt: return "integer";
    case Json::Type::kDouble: return "number";
    default: return "string";
  }
}

// A comment counts when it stands on the line of the key.
std::string_view CommentOf(const Node& key, const Node& value) {
  if (!key.comment_beside.empty()) return key.comment_beside;
  return value.position.line == key.position.line ? std::string_view(value.comment_beside)
                                                  : std::string_view();
}

Json FieldOf(const Node& key, const Node& value, const Hints& hints) {
  Json children;
  if (value.is_map()) {
    std::vector<Json> fields;
    for (const auto& [name, child] : value.entries) fields.push_back(FieldOf(name, child, {}));
    children = Json::Array(std::move(fields));
  }
  return Json::Object({{"name", key.text},
                       {"kind", hints.options.is_null() ? KindOf(value) : "enum"},
                       {"default", NodeToJson(value)},
                       {"description", hints.description},
                       {"secret", hints.secret},
                       {"credential_glob", hints.credential},
                       {"options", hints.options},
                       {"children", children}});
}

Json TextOf(const Node* node) {
  return node != nullptr && node->is_scalar() && !node->is_null() ? Json(node->text) : Json();
}

}  // namespace

Json UiSchema(std::string_view content) {
  Node root;
  playbook::Diagnostics diagnostics;
  const bool readable = playbook::ParseYaml(content, &root, &diagnostics) && root.is_map();
  const Node* metadata = readable ? root.Find("metadata") : nullptr;
  if (metadata != nullptr && !metadata->is_map()) metadata = nullptr;
  const auto member = [&](std::string_view name) {
    return metadata == nullptr ? nullptr : metadata->Find(name);
  };
  std::vector<Json> fields;
  const Node* workload = readable ? root.Find("workload") : nullptr;
  if (workload != nullptr && workload->is_map()) {
    for (const auto& [key, value] : workload->entries) {
      fields.push_back(FieldOf(key, value, ReadHints(CommentOf(key, value))));
    }
  }
  const Node* exposed = member("exposed_in_ui");
  return Json::Object({{"title", TextOf(member("name"))},
                       {"description_markdown", TextOf(member("description"))},
                       {"exposed_in_ui", exposed != nullptr && exposed->scalar.AsBool()},
                       {"fields", Json::Array(std::move(fields))}});
}

}  // namespace noetl::api
