// From yaml-cpp's events to the tree: aliases, merge keys, key rules, types, paths.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "playbook/yaml_raw.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kBinaryTag = "tag:yaml.org,2002:binary";

class Converter {
 public:
  Converter(const RawDocument& raw, std::size_t text_bytes, Diagnostics* diagnostics)
      : raw_(raw),
        diagnostics_(diagnostics),
        nodes_max_(std::min(kNodesMax, kAliasExpansionMax * std::max<std::size_t>(text_bytes, 1))),
        bytes_max_(kAliasExpansionMax * std::max<std::size_t>(text_bytes, 1)) {}

  // False when the tree is unusable; key errors leave a usable tree.
  bool Convert(int index, std::string path, int depth, Node* out) {
    const RawNode& raw = At(index);
    if (raw.kind == RawNode::Kind::kAlias) return ConvertAlias(index, std::move(path), depth, out);
    if (!Spend(raw, path, depth)) return false;
    out->position = raw.position;
    out->path = std::move(path);
    out->comments_above = raw.comments_above;
    out->comment_beside = raw.comment_beside;
    if (raw.tag == kBinaryTag) {
      Report("E005", *out, "YAML: binary values are not supported",
             "store the bytes elsewhere, or write them as base64 text");
      return true;
    }
    switch (raw.kind) {
      case RawNode::Kind::kScalar: return ConvertScalar(raw, out);
      case RawNode::Kind::kList: return ConvertList(index, depth, out);
      default: return ConvertMap(index, depth, out);
    }
  }

 private:
  const RawNode& At(int index) const { return raw_.nodes[static_cast<std::size_t>(index)]; }

  void Report(std::string_view code, const Node& at, std::string message, std::string hint) {
    diagnostics_->Add(code, at.path, at.position, std::move(message), std::move(hint));
  }

  bool Spend(const RawNode& raw, const std::string& path, int depth) {
    ++nodes_;
    bytes_ += raw.text.size();
    if (nodes_ > nodes_max_ || bytes_ > bytes_max_) {
      diagnostics_->Add(
          "E003", path, raw.position,
          fmt::format("aliases expand the document more than {} times", kAliasExpansionMax),
          "write the repeated part once and refer to it by name (workload, workbook)");
      return false;
    }
    if (depth > kDocumentDepthMax) {
      diagnostics_->Add("E006", path, raw.position,
                        fmt::format("nesting depth exceeded: {} > {}", depth, kDocumentDepthMax),
                        "flatten the document");
      return false;
    }
    return true;
  }

  bool ConvertAlias(int index, std::string path, int depth, Node* out) {
    const RawNode& raw = At(index);
    if (raw.target < 0 || At(raw.target).end > index) {
      diagnostics_->Add("E003", path, raw.position, "an alias refers to a part that contains it",
                        "remove the alias; a value cannot contain itself");
      return false;
    }
    if (!Convert(raw.target, std::move(path), depth, out)) return false;
    // Messages should point at the use, comments belong to the place where they were written.
    out->position = raw.position;
    out->comments_above = raw.comments_above;
    out->comment_beside = raw.comment_beside;
    return true;
  }

  bool ConvertScalar(const RawNode& raw, Node* out) {
    out->kind = Node::Kind::kScalar;
    out->style = raw.style;
    out->text = raw.text;
    TypedScalar typed = TypeScalar(raw.text, raw.tag, raw.style == Node::Style::kPlain);
    out->scalar = std::move(typed.value);
    if (!typed.ok) {
      Report("E005", *out,
             fmt::format("YAML: tag '{}' does not fit '{}'", raw.tag, raw.text.substr(0, 40)),
             "remove the tag");
    }
    if (typed.overflow) {
      Report("W013", *out,
             fmt::format("{} does not fit 64 bits; it becomes a float", raw.text.substr(0, 40)),
             "quote it when every digit matters");
    }
    return true;
  }

  bool ConvertList(int index, int depth, Node* out) {
    out->kind = Node::Kind::kList;
    for (int child = index + 1; child < At(index).end; child = At(child).end) {
      const std::string path = fmt::format("{}[{}]", out->path, out->items.size());
      if (!Convert(child, path, depth + 1, &out->items.emplace_back())) return false;
    }
    return true;
  }

  bool ConvertMap(int index, int depth, Node* out) {
    out->kind = Node::Kind::kMap;
    std::unordered_map<std::string, int> lines;  // key to the line of its first use
    std::vector<Node> merged;
    std::size_t merge_at = 0;
    for (int key = index + 1; key < At(index).end;) {
      const int value = At(key).end;
      const int next = At(value).end;
      Node name;
      if (!Convert(key, out->path, depth + 1, &name)) return false;
      key = next;
      if (!name.is_scalar()) {
        Report("E005", name,
               fmt::format("YAML: a mapping key must be text, got {}", name.TypeName()),
               "quote the key; a value that starts with '{{' needs quotes too");
        continue;
      }
      name.path = out->path.empty() ? name.text : out->path + "." + name.text;
      Node content;
      if (!Convert(value, name.path, depth + 1, &content)) return false;
      if (name.text == "<<" && name.style == Node::Style::kPlain) {
        merge_at = out->entries.size();
        CollectMerge(std::move(content), &merged);
        continue;
      }
      const auto [first, added] = lines.emplace(name.text, name.position.line);
      if (!added) {
        Report("E004", name,
               fmt::format("duplicate key '{}' (first at line {})", name.text, first->second),
               fmt::format("line {} and line {} both define it; remove one", first->second,
                           name.position.line));
        continue;
      }
      out->entries.push_back({std::move(name), std::move(content)});
    }
    if (!merged.empty()) Merge(std::move(merged), merge_at, lines, out);
    return true;
  }

  void CollectMerge(Node content, std::vector<Node>* merged) {
    if (content.is_map()) {
      merged->push_back(std::move(content));
      return;
    }
    if (!content.is_list()) {
      Report("E005", content, "YAML: '<<' needs a mapping or a list of mappings",
             "write <<: *name");
      return;
    }
    for (Node& item : content.items) {
      if (item.is_map()) {
        merged->push_back(std::move(item));
      } else {
        Report("E005", item, "YAML: '<<' needs a mapping or a list of mappings",
               "write <<: [*a, *b]");
      }
    }
  }

  // Own keys win over merged ones, earlier maps over later ones.
  void Merge(std::vector<Node> merged, std::size_t at,
             const std::unordered_map<std::string, int>& own, Node* out) {
    std::vector<Node::Entry> added;
    std::unordered_map<std::string, int> seen = own;
    for (Node& map : merged) {
      for (auto& entry : map.entries) {
        if (seen.emplace(entry.first.text, 0).second) added.push_back(std::move(entry));
      }
    }
    for (auto& [key, value] : added) {
      key.path = out->path.empty() ? key.text : out->path + "." + key.text;
      Repath(&value, key.path);
    }
    out->entries.insert(out->entries.begin() + static_cast<std::ptrdiff_t>(at),
                        std::make_move_iterator(added.begin()),
                        std::make_move_iterator(added.end()));
  }

  static void Repath(Node* node, const std::string& path) {
    node->path = path;
    for (std::size_t i = 0; i < node->items.size(); ++i) {
      Repath(&node->items[i], fmt::format("{}[{}]", path, i));
    }
    for (auto& [key, value] : node->entries) {
      key.path = path + "." + key.text;
      Repath(&value, key.path);
    }
  }

  const RawDocument& raw_;
  Diagnostics* diagnostics_;
  std::size_t nodes_ = 0;
  std::size_t bytes_ = 0;
  std::size_t nodes_max_;
  std::size_t bytes_max_;
};

}  // namespace

bool ConvertDocument(const RawDocument& raw, std::size_t text_bytes, Node* root,
                     Diagnostics* diagnostics) {
  if (!Converter(raw, text_bytes, diagnostics).Convert(0, "", 0, root)) return false;
  root->comments_below = raw.comments_below;
  if (!root->is_map()) {
    diagnostics->Add(
        "E002", "", root->position,
        fmt::format("document must be a single YAML mapping, got {}", root->TypeName()),
        "a playbook starts with 'apiVersion: noetl.io/v2' at the top level");
    return false;
  }
  return true;
}

}  // namespace noetl::playbook
