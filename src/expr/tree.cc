#include "expr/tree.h"

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::expr {

namespace {

// How much of a template an error message shows.
constexpr std::size_t kShownSourceBytes = 200;

std::string Shown(std::string_view source) {
  if (source.size() <= kShownSourceBytes) return std::string(source);
  std::size_t end = kShownSourceBytes;
  // Not in the middle of a code point.
  while (end > 0 && (static_cast<unsigned char>(source[end]) & 0xC0u) == 0x80u) --end;
  return std::string(source.substr(0, end)) + "...";
}

std::string MemberPath(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string ItemPath(const std::string& path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace

// A part of the tree that holds at least one template; parts that hold none are `literal`.
struct Tree::Node {
  enum class Kind { kLiteral, kTemplate, kList, kMap };
  Kind kind = Kind::kLiteral;
  Json literal;
  std::string path;
  std::optional<Template> compiled;
  std::vector<Json> keys;
  std::vector<Node> children;

  struct Compiler;
  void CollectLeaves(std::vector<Leaf>* leaves) const;
  Result<Json> Render(const Scope& scope, Output output, const Defer& defer) const;
};

struct Tree::Node::Compiler {
  const Dialect& dialect;
  std::vector<Problem>* problems;
  const Filter& filter;
  std::size_t leaves = 0;

  void Report(const std::string& path, std::string source, Template::CompileError error) {
    if (problems != nullptr) problems->push_back({path, std::move(source), std::move(error)});
  }

  Node Literal(const Json& source) {
    Node node;
    node.literal = source;
    return node;
  }

  Node Compile(const Json& source, const std::string& path, int depth) {
    if (source.is_container()) {
      if (depth >= kTreeDepthMax) {
        Report(path, "", {{"E420", fmt::format("nested deeper than {} levels", kTreeDepthMax)}, 0});
        return Literal(source);
      }
      return CompileContainer(source, path, depth);
    }
    if (!source.is_string() || !Template::LooksLikeTemplate(source.AsString())) {
      return Literal(source);
    }
    if (filter && !filter(path)) return Literal(source);
    auto compiled = Template::Compile(source.AsString(), dialect);
    if (!compiled) {
      Report(path, source.ToString(), std::move(compiled.error()));
      return Literal(source);
    }
    ++leaves;
    Node node;
    node.kind = Kind::kTemplate;
    node.literal = source;
    node.path = path;
    node.compiled = std::move(*compiled);
    return node;
  }

  Node CompileContainer(const Json& source, const std::string& path, int depth) {
    const std::size_t before = leaves;
    Node node;
    node.kind = source.is_array() ? Kind::kList : Kind::kMap;
    node.children.reserve(source.size());
    std::size_t index = 0;
    for (const Json& item : source.items()) {
      node.children.push_back(Compile(item, ItemPath(path, index++), depth + 1));
    }
    for (const JsonMember& member : source.members()) {
      node.keys.push_back(member.key_json());
      node.children.push_back(Compile(member.value, MemberPath(path, member.key()), depth + 1));
    }
    return leaves == before ? Literal(source) : node;
  }
};

void Tree::Node::CollectLeaves(std::vector<Leaf>* leaves) const {
  if (kind == Kind::kTemplate) leaves->push_back({path, *compiled});
  for (const Node& child : children) child.CollectLeaves(leaves);
}

Result<Json> Tree::Node::Render(const Scope& scope, Output output, const Defer& defer) const {
  switch (kind) {
    case Kind::kLiteral: return literal;
    case Kind::kTemplate: {
      if (defer && defer(*compiled)) return literal;
      Result<Json> rendered = compiled->Render(scope, output);
      if (rendered) return rendered;
      Error error = std::move(rendered.error());
      // The message of other codes belongs to the caller ("needs_reference" carries a reference).
      if (error.code.starts_with("E4")) {
        error.message = fmt::format("{}{}'{}': {}", path, path.empty() ? "" : " ",
                                    Shown(compiled->source()), error.message);
      }
      return std::unexpected(std::move(error));
    }
    case Kind::kList: {
      std::vector<Json> items;
      items.reserve(children.size());
      for (const Node& child : children) {
        NOETL_ASSIGN(Json item, child.Render(scope, output, defer));
        items.push_back(std::move(item));
      }
      return Json::Array(std::move(items));
    }
    case Kind::kMap: {
      Json::Members members;
      members.reserve(children.size());
      for (std::size_t i = 0; i < children.size(); ++i) {
        NOETL_ASSIGN(Json value, children[i].Render(scope, output, defer));
        members.emplace_back(keys[i], std::move(value));
      }
      return Json::Object(std::move(members));
    }
  }
  return Json();
}

Tree Tree::Compile(const Json& source, const Dialect& dialect, std::vector<Problem>* problems,
                   const Filter& filter) {
  Node::Compiler compiler{dialect, problems, filter};
  Tree tree;
  tree.source_ = source;
  Node root = compiler.Compile(source, "", 0);
  tree.leaves_ = compiler.leaves;
  if (tree.leaves_ > 0) tree.root_ = std::make_shared<const Node>(std::move(root));
  return tree;
}

std::vector<Tree::Leaf> Tree::Leaves() const {
  std::vector<Leaf> leaves;
  leaves.reserve(leaves_);
  if (root_ != nullptr) root_->CollectLeaves(&leaves);
  return leaves;
}

Result<Json> Tree::Render(const Scope& scope, Output output, const Defer& defer) const {
  if (root_ == nullptr) return source_;
  return root_->Render(scope, output, defer);
}

}  // namespace noetl::expr
