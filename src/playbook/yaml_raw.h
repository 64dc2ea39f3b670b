// Private to the YAML reader: the document as yaml-cpp's events gave it, aliases not yet followed.
//
// Nodes lie in one array in document order, so that comments (found by a second look at the text)
// can be given to nodes by index. The children of node i start at i + 1; the sibling of a child c
// is nodes[c].end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "playbook/diagnostics.h"
#include "playbook/yaml.h"

namespace noetl::playbook {

// Values of a document. A node costs about 300 bytes and 5 microseconds while it is read; the
// largest known playbook has some 5,000.
inline constexpr std::size_t kNodesMax = 100'000;

struct RawNode {
  enum class Kind { kScalar, kList, kMap, kAlias };

  Kind kind = Kind::kScalar;
  Node::Style style = Node::Style::kPlain;
  bool flow = false;
  // An absent value ("key:"): has no text of its own and gets no comments.
  bool empty = false;
  std::string text;
  std::string tag;
  Position position;
  std::size_t offset = 0;
  int parent = -1;
  int end = 0;
  int target = -1;  // kAlias: the anchored node
  std::vector<std::string> comments_above;
  std::string comment_beside;
};

struct RawDocument {
  std::vector<RawNode> nodes;
  std::vector<std::string> comments_below;  // after the last node
};

// Refuses what yaml-cpp must not see: invalid UTF-8, control bytes (E005), flow collections so
// deep or so long that its scanner would queue the whole document (E006).
bool CheckText(std::string_view text, Diagnostics* diagnostics);

// Finds comments and gives them to the nodes they belong to.
void AttachComments(std::string_view text, RawDocument* document);

// The typed value of a scalar by the YAML 1.2 core schema; `ok` false when a tag does not fit.
struct TypedScalar {
  Json value;
  bool ok = true;
  bool overflow = false;  // an integer that became a double
};
TypedScalar TypeScalar(std::string_view text, std::string_view tag, bool plain);

// The decoded text when `text` is strict base64 of valid UTF-8.
bool DecodeBase64Document(std::string_view text, std::string* decoded);

// Resolves aliases and merge keys, checks keys, types scalars.
bool ConvertDocument(const RawDocument& raw, std::size_t text_bytes, Node* root,
                     Diagnostics* diagnostics);

}  // namespace noetl::playbook
