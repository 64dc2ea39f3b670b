// YAML text to a tree that remembers where everything was.
//
// Built on yaml-cpp's event interface, because its own tree builder crashes on hostile input.
// Bounded: size, depth, alias expansion. Anchors, aliases and merge keys are resolved here.
// Comments are kept on the nodes they belong to, so that the formatter can put them back. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "playbook/diagnostics.h"

namespace noetl::playbook {

inline constexpr std::size_t kDocumentBytesMax = 4u << 20;
inline constexpr int kDocumentDepthMax = 64;
// Aliases may expand a document to this many times its size.
inline constexpr std::size_t kAliasExpansionMax = 64;

struct Node {
  struct Entry;
  enum class Kind { kScalar, kList, kMap };
  enum class Style { kPlain, kQuoted, kLiteral, kFolded };

  Kind kind = Kind::kScalar;
  // Scalars: the typed value (YAML 1.2 core schema) and the text it was written as.
  Json scalar;
  std::string text;
  Style style = Style::kPlain;
  // Lists: values. Maps: entries in document order, keys unique.
  std::vector<Node> items;
  std::vector<Entry> entries;

  Position position;
  // Dotted path in the document as written: "workflow[3].tool.url".
  std::string path;
  // Own-line comments above the node and the comment that ends its first line, without '#'.
  std::vector<std::string> comments_above;
  std::string comment_beside;
  // The root only: comments after the last node.
  std::vector<std::string> comments_below;

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_string() const { return is_scalar() && scalar.is_string(); }
  bool is_null() const { return is_scalar() && scalar.is_null(); }

  const Node* Find(std::string_view key) const;
  Node* Find(std::string_view key);
  // "map", "list", "string", "int", "float", "bool", "null".
  std::string_view TypeName() const;
};

// A member of a map.
struct Node::Entry {
  Node first;   // key
  Node second;  // value
};

// Parses one document. On errors (E002 to E006) the result may be unusable; see `diagnostics`.
// Catalog content may be base64: strict base64 of valid UTF-8 is decoded first.
bool ParseYaml(std::string_view text, Node* root, Diagnostics* diagnostics);

// The node as JSON: scalars typed, maps in order, keys as text.
Json NodeToJson(const Node& node);

}  // namespace noetl::playbook
