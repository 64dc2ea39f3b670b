#include "playbook/yaml.h"

#include <algorithm>
#include <istream>
#include <map>
#include <streambuf>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/text.h"
#include "playbook/yaml_raw.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Thrown through yaml-cpp to stop it; the reason is in the diagnostics.
struct Stop {};

// Lets yaml-cpp read the text without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Turns yaml-cpp marks (bytes) into positions (code points). Marks come nearly in order, so
// counting goes on from the last one.
class Positions {
 public:
  explicit Positions(std::string_view text) : text_(text) {}

  Position Of(const YAML::Mark& mark) {
    const auto offset = std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), text_.size());
    if (mark.line != line_ || offset < offset_) {
      line_ = mark.line;
      offset_ = offset - std::min(offset, static_cast<std::size_t>(std::max(mark.column, 0)));
      column_ = 1;
    }
    for (; offset_ < offset; ++offset_) {
      if ((static_cast<unsigned char>(text_[offset_]) & 0xC0) != 0x80) ++column_;
    }
    return {line_ + 1, column_};
  }

 private:
  std::string_view text_;
  std::size_t offset_ = 0;
  int line_ = 0;
  int column_ = 1;
};

class Collector : public YAML::EventHandler {
 public:
  Collector(std::string_view text, RawDocument* document, Diagnostics* diagnostics)
      : text_(text), positions_(text), document_(document), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RawNode& node = Add(RawNode::Kind::kScalar, mark, anchor);
    node.tag = "?";
    node.text = NullWordAt(node.offset);
    node.empty = node.text.empty();
    if (node.empty && node.parent >= 0) UsePositionOfKey(&node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RawNode& node = Add(RawNode::Kind::kAlias, mark, YAML::NullAnchor);
    auto found = anchors_.find(anchor);
    node.target = found == anchors_.end() ? -1 : found->second;
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RawNode& node = Add(RawNode::Kind::kScalar, mark, anchor);
    node.tag = tag;
    node.text = value;
    node.style = StyleAt(node.offset, tag == "?");
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    Open(RawNode::Kind::kList, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Open(RawNode::Kind::kMap, mark, tag, anchor, style);
  }
  void OnMapEnd() override { Close(); }

 private:
  RawNode& Add(RawNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    auto& nodes = document_->nodes;
    const Position position = positions_.Of(mark);
    if (nodes.size() >= kNodesMax) {
      diagnostics_->Add(
          "E006", "", position,
          fmt::format("number of values exceeded: {} > {}", nodes.size() + 1, kNodesMax),
          "move bulk data out of the playbook");
      throw Stop{};
    }
    const int index = static_cast<int>(nodes.size());
    if (anchor != YAML::NullAnchor) anchors_[anchor] = index;
    RawNode& node = nodes.emplace_back();
    node.kind = kind;
    node.position = position;
    node.offset = static_cast<std::size_t>(std::max(mark.pos, 0));
    node.parent = open_.empty() ? -1 : open_.back();
    node.end = index + 1;
    return node;
  }

  void Open(RawNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
    if (open_.size() >= static_cast<std::size_t>(kDocumentDepthMax)) {
      diagnostics_->Add(
          "E006", "", positions_.Of(mark),
          fmt::format("nesting depth exceeded: {} > {}", open_.size() + 1, kDocumentDepthMax),
          "flatten the document");
      throw Stop{};
    }
    RawNode& node = Add(kind, mark, anchor);
    node.tag = tag;
    node.flow = style == YAML::EmitterStyle::Flow;
    open_.push_back(static_cast<int>(document_->nodes.size()) - 1);
  }

  void Close() {
    document_->nodes[static_cast<std::size_t>(open_.back())].end =
        static_cast<int>(document_->nodes.size());
    open_.pop_back();
  }

  // yaml-cpp reports "~" and "null" as null without their text; as a key the text matters.
  std::string NullWordAt(std::size_t offset) const {
    for (std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (offset < text_.size() && text_.substr(offset).starts_with(word)) return std::string(word);
    }
    return {};
  }

  // The mark of an absent value is the next token's; its key is the better place.
  void UsePositionOfKey(RawNode* node) const {
    const auto index = static_cast<std::size_t>(node - document_->nodes.data());
    const RawNode& before = document_->nodes[index - 1];
    node->position = before.position;
    node->offset = before.offset;
  }

  Node::Style StyleAt(std::size_t offset, bool plain) const {
    if (plain) return Node::Style::kPlain;
    // A tag or an anchor may stand before the value.
    while (offset < text_.size() && (text_[offset] == '!' || text_[offset] == '&')) {
      while (offset < text_.size() && !IsSpace(text_[offset])) ++offset;
      while (offset < text_.size() && IsSpace(text_[offset])) ++offset;
    }
    if (offset >= text_.size()) return Node::Style::kPlain;
    switch (text_[offset]) {
      case '|': return Node::Style::kLiteral;
      case '>': return Node::Style::kFolded;
      case '"':
      case '\'': return Node::Style::kQuoted;
      default: return Node::Style::kPlain;
    }
  }

  static bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  std::string_view text_;
  Positions positions_;
  RawDocument* document_;
  Diagnostics* diagnostics_;
  std::vector<int> open_;
  std::map<YAML::anchor_t, int> anchors_;
};

// Notices whether anything follows the first document.
class SecondDocument : public Collector {
 public:
  using Collector::Collector;
  void OnDocumentStart(const YAML::Mark& mark) override {
    line = mark.line + 1;
    throw Stop{};
  }
  int line = 0;
};

std::string_view LineOf(std::string_view text, int line) {
  std::size_t start = 0;
  for (int i = 1; i < line; ++i) {
    const std::size_t newline = text.find('\n', start);
    if (newline == std::string_view::npos) return {};
    start = newline + 1;
  }
  return text.substr(start, text.find('\n', start) - start);
}

bool IndentedWithTab(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return line.substr(0, first).find('\t') != std::string_view::npos;
}

// yaml-cpp's words are terse; the usual causes deserve a remedy.
std::string SyntaxHint(std::string_view problem, std::string_view text, int line) {
  for (int l = std::max(1, line - 1); l <= line + 1; ++l) {
    if (IndentedWithTab(LineOf(text, l))) {
      return fmt::format("line {} is indented with a tab; YAML allows only spaces for indentation",
                         l);
    }
  }
  if (problem.find("anchor") != std::string_view::npos) {
    return "an alias (*name) needs an anchor (&name) earlier in the document";
  }
  if (LineOf(text, line).find("{{") != std::string_view::npos) {
    return "put a value that starts with '{{' into quotes";
  }
  return "check the indentation and the quotes of this line and the one before it";
}

void ReportSyntax(const YAML::Exception& error, std::string_view text, Diagnostics* diagnostics) {
  Position position;
  if (!error.mark.is_null()) position = {error.mark.line + 1, error.mark.column + 1};
  std::string problem = error.msg.empty() ? "syntax error" : error.msg;
  std::string hint = SyntaxHint(problem, text, position.line);
  if (hint.find("tab") != std::string::npos) problem += " (tab in the indentation)";
  diagnostics->Add("E005", "", position,
                   fmt::format("YAML: {} at {}:{}", problem, position.line, position.column), hint);
}

bool ReadEvents(std::string_view text, RawDocument* document, Diagnostics* diagnostics) {
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  SecondDocument second(text, document, diagnostics);
  bool in_second = false;
  try {
    YAML::Parser parser(stream);
    Collector collector(text, document, diagnostics);
    if (!parser.HandleNextDocument(collector)) return true;
    in_second = true;
    parser.HandleNextDocument(second);
    return true;
  } catch (const Stop&) {
    if (in_second) {
      diagnostics->Add("E002", "", {second.line, 1},
                       "document must be a single YAML mapping, got several documents",
                       "put each playbook into its own file");
    }
  } catch (const YAML::Exception& error) {
    ReportSyntax(error, text, diagnostics);
  } catch (const std::exception& error) {
    diagnostics->Add("E005", "", {}, fmt::format("YAML: {} at 0:0", error.what()),
                     "check the syntax of the document");
  }
  return false;
}

}  // namespace

const Node* Node::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

Node* Node::Find(std::string_view key) {
  return const_cast<Node*>(static_cast<const Node*>(this)->Find(key));
}

std::string_view Node::TypeName() const {
  if (is_map()) return "map";
  if (is_list()) return "list";
  return scalar.TypeName();
}

bool ParseYaml(std::string_view text, Node* root, Diagnostics* diagnostics) {
  // Base64 is a third longer than its content; the limit itself is for the document.
  constexpr std::size_t kEncodedBytesMax = kDocumentBytesMax / 3 * 4 + 8;
  std::string decoded;
  if (text.size() <= kEncodedBytesMax && DecodeBase64Document(text, &decoded)) text = decoded;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.size() > kDocumentBytesMax) {
    diagnostics->Add(
        "E006", "", {1, 1},
        fmt::format("document size in bytes exceeded: {} > {}", text.size(), kDocumentBytesMax),
        "split the playbook, or move data and code out of it");
    return false;
  }
  if (!CheckText(text, diagnostics)) return false;
  RawDocument document;
  if (!ReadEvents(text, &document, diagnostics)) return false;
  if (document.nodes.empty()) {
    diagnostics->Add("E002", "", {1, 1}, "document must be a single YAML mapping, got nothing",
                     "the document is empty; start with 'apiVersion: noetl.io/v2'");
    return false;
  }
  AttachComments(text, &document);
  return ConvertDocument(document, text.size(), root, diagnostics);
}

Json NodeToJson(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kScalar: return node.scalar;
    case Node::Kind::kList: {
      std::vector<Json> items;
      items.reserve(node.items.size());
      for (const Node& item : node.items) items.push_back(NodeToJson(item));
      return Json::Array(std::move(items));
    }
    case Node::Kind::kMap: {
      Json::Members members;
      members.reserve(node.entries.size());
      for (const auto& [key, value] : node.entries)
        members.emplace_back(key.text, NodeToJson(value));
      return Json::Object(std::move(members));
    }
  }
  return {};
}

}  // namespace noetl::playbook
