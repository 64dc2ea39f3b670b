// Two looks at the text itself: what yaml-cpp must not see, and the comments it throws away.
#include <fmt/format.h>

#include "base/text.h"

#include <algorithm>
#include "playbook/yaml_raw.h"

namespace noetl::playbook {
namespace {

Position PositionAt(std::string_view text, std::size_t offset) {
  Position position{1, 1};
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++position.column;
    }
  }
  return position;
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::size_t LineEnd(std::string_view text, std::size_t offset) {
  const std::size_t newline = text.find('\n', offset);
  return newline == std::string_view::npos ? text.size() : newline;
}

std::size_t Indent(std::string_view text, std::size_t line_start) {
  std::size_t i = line_start;
  while (i < text.size() && text[i] == ' ') ++i;
  return i - line_start;
}

bool IsBlankLine(std::string_view text, std::size_t line_start) {
  const std::string_view line = text.substr(line_start, LineEnd(text, line_start) - line_start);
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// One past the closing quote of the quoted scalar at `offset`.
std::size_t QuotedEnd(std::string_view text, std::size_t offset) {
  const char quote = text[offset];
  for (std::size_t i = offset + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '\'' && i + 1 < text.size() && text[i + 1] == '\'') {
        ++i;
      } else {
        return i + 1;
      }
    }
  }
  return text.size();
}

// The line start that follows the content of a block scalar whose header ends at `header_end`:
// content lines are blank or indented at least like the first one. `limit`: where the next node
// starts.
std::size_t BlockEnd(std::string_view text, std::size_t header_end, std::size_t limit) {
  std::size_t line = std::min(header_end + 1, text.size());
  std::size_t content_indent = 0;
  while (line < text.size()) {
    const std::size_t end = LineEnd(text, line);
    if (!IsBlankLine(text, line)) {
      if (limit <= end) return line;
      const std::size_t indent = Indent(text, line);
      if (content_indent == 0) content_indent = indent;
      if (indent < content_indent || indent == 0) return line;
    }
    line = end + 1;
  }
  return text.size();
}

// Follows flow collections without yaml-cpp, whose scanner keeps every token of an unfinished one
// in memory. Block scalars, quotes and comments are stepped over; a
// bracket counts where a value may start, so that brackets inside prose do not.
class FlowScanner {
 public:
  explicit FlowScanner(std::string_view text) : text_(text) {}

  bool too_deep() const { return depth_ > kDocumentDepthMax; }

  // Offset of the bracket or comma that is too much, or npos.
  std::size_t FindTooMuch() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        value_may_start_ = true;
      } else if (IsBlank(c) || c == '\r') {
        ++at_;
      } else if (c == '#' && (at_ == 0 || IsBlank(text_[at_ - 1]) || text_[at_ - 1] == '\n')) {
        at_ = LineEnd(text_, at_);
      } else if (!Token(c)) {
        return at_;
      }
    }
    return std::string_view::npos;
  }

 private:
  // Steps over one token; false when it is one too many.
  bool Token(char c) {
    const bool start = value_may_start_ || depth_ > 0;
    if ((c == '"' || c == '\'') && value_may_start_) {
      at_ = QuotedEnd(text_, at_);
      value_may_start_ = false;
    } else if ((c == '[' || c == '{') && start) {
      if (++depth_ > kDocumentDepthMax) return false;
      Step(true);
    } else if ((c == ']' || c == '}') && depth_ > 0) {
      --depth_;
      Step(false);
    } else if ((c == '|' || c == '>') && value_may_start_ && depth_ == 0) {
      at_ = BlockEnd(text_, LineEnd(text_, at_), std::string_view::npos);
      value_may_start_ = true;
    } else if (c == ',' && depth_ > 0) {
      if (++values_ > kNodesMax) return false;
      Step(true);
    } else if (c == ':' || c == '-' || c == '?') {
      const bool separator = at_ + 1 >= text_.size() || IsBlank(text_[at_ + 1]) ||
                             text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r' || depth_ > 0;
      Step(separator && (c == ':' || value_may_start_));
    } else if ((c == '!' || c == '&') && value_may_start_) {
      while (at_ < text_.size() && !IsBlank(text_[at_]) && text_[at_] != '\n') ++at_;
    } else {
      Step(false);
    }
    return true;
  }

  void Step(bool value_may_start) {
    ++at_;
    value_may_start_ = value_may_start;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t values_ = 0;
  bool value_may_start_ = true;
};

struct Comment {
  std::size_t offset;
  int line;
  bool own_line;
  std::string text;
};

// Lists the comments of a document whose nodes are known.
class CommentScanner {
 public:
  CommentScanner(std::string_view text, const RawDocument& document)
      : text_(text), nodes_(document.nodes) {}

  std::vector<Comment> Scan() {
    while (at_ < text_.size()) {
      SkipPassedNodes();
      if (next_ < nodes_.size() && nodes_[next_].offset == at_ && SkipScalar()) continue;
      const char c = text_[at_];
      if (c == '#' && (at_ == 0 || IsBlank(text_[at_ - 1]) || text_[at_ - 1] == '\n')) {
        Take();
      } else {
        Advance(at_ + 1);
      }
    }
    return std::move(comments_);
  }

 private:
  void SkipPassedNodes() {
    while (next_ < nodes_.size() &&
           (nodes_[next_].offset < at_ || nodes_[next_].empty ||
            (nodes_[next_].offset == at_ && nodes_[next_].kind != RawNode::Kind::kScalar))) {
      ++next_;
    }
  }

  // Steps over a quoted or block scalar at the current place; false for other nodes.
  bool SkipScalar() {
    const RawNode& node = nodes_[next_];
    std::size_t value = at_;
    while (value < text_.size() && (text_[value] == '!' || text_[value] == '&')) {
      value = text_.find_first_of(" \t\r\n", value);
      value = value == std::string_view::npos ? text_.size()
                                              : text_.find_first_not_of(" \t\r\n", value);
      value = std::min(value, text_.size());
    }
    if (node.style == Node::Style::kQuoted && value < text_.size()) {
      Advance(QuotedEnd(text_, value));
      ++next_;
      return true;
    }
    if (node.style != Node::Style::kLiteral && node.style != Node::Style::kFolded) return false;
    ++next_;
    const std::size_t header_end = LineEnd(text_, value);
    const std::size_t hash = text_.substr(0, header_end).find(" #", value);
    if (hash != std::string_view::npos) {
      Advance(hash + 1);
      Take();
    }
    std::size_t limit = std::string_view::npos;
    for (std::size_t i = next_; i < nodes_.size() && limit == std::string_view::npos; ++i) {
      if (!nodes_[i].empty) limit = nodes_[i].offset;
    }
    Advance(BlockEnd(text_, header_end, limit));
    return true;
  }

  void Take() {
    const std::size_t end = LineEnd(text_, at_);
    const std::size_t line_start = text_.rfind('\n', at_) + 1;  // npos + 1 is 0
    const bool own_line = text_.substr(line_start, at_ - line_start).find_first_not_of(" \t") ==
                          std::string_view::npos;
    std::string_view body = text_.substr(at_ + 1, end - at_ - 1);
    while (body.ends_with('\r') || body.ends_with(' ') || body.ends_with('\t'))
      body.remove_suffix(1);
    comments_.push_back({at_, line_, own_line, std::string(body)});
    Advance(end);
  }

  void Advance(std::size_t to) {
    for (; at_ < to && at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
    }
  }

  std::string_view text_;
  const std::vector<RawNode>& nodes_;
  std::vector<Comment> comments_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  int line_ = 1;
};

// A comment behind "[1, 2]" belongs to the list, not to the 2.
std::size_t OutermostClosedFlow(const std::vector<RawNode>& nodes, std::size_t index) {
  while (nodes[index].parent >= 0) {
    const auto parent = static_cast<std::size_t>(nodes[index].parent);
    if (!nodes[parent].flow || nodes[parent].position.line != nodes[index].position.line) break;
    // The comment stands after node `index`; the parent is closed when it has no later node.
    if (static_cast<std::size_t>(nodes[parent].end) > static_cast<std::size_t>(nodes[index].end))
      break;
    index = parent;
  }
  return index;
}

}  // namespace

bool CheckText(std::string_view text, Diagnostics* diagnostics) {
  if (const auto bad = FirstInvalidUtf8(text)) {
    const Position at = PositionAt(text, *bad);
    diagnostics->Add("E005", "", at,
                     fmt::format("YAML: invalid UTF-8 at {}:{}", at.line, at.column),
                     "save the file as UTF-8 text");
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c >= 0x20 && c != 0x7F) || c == '\t' || c == '\n' || c == '\r') continue;
    const Position at = PositionAt(text, i);
    diagnostics->Add("E005", "", at,
                     fmt::format("YAML: control byte 0x{:02x} at {}:{}", c, at.line, at.column),
                     "remove the byte, or write it as an escape in a double-quoted string");
    return false;
  }
  FlowScanner scanner(text);
  const std::size_t at = scanner.FindTooMuch();
  if (at == std::string_view::npos) return true;
  if (scanner.too_deep()) {
    diagnostics->Add(
        "E006", "", PositionAt(text, at),
        fmt::format("nesting depth exceeded: {} > {}", kDocumentDepthMax + 1, kDocumentDepthMax),
        "flatten the document");
  } else {
    diagnostics->Add("E006", "", PositionAt(text, at),
                     fmt::format("number of values exceeded: {} > {}", kNodesMax + 1, kNodesMax),
                     "move bulk data out of the playbook");
  }
  return false;
}

void AttachComments(std::string_view text, RawDocument* document) {
  if (text.find('#') == std::string_view::npos) return;
  std::vector<RawNode>& nodes = document->nodes;
  std::size_t next = 0;             // the first node after the comment
  std::size_t last = nodes.size();  // the last node before it
  for (Comment& comment : CommentScanner(text, *document).Scan()) {
    while (next < nodes.size() && (nodes[next].empty || nodes[next].offset < comment.offset)) {
      if (!nodes[next].empty) last = next;
      ++next;
    }
    if (!comment.own_line && last < nodes.size() && nodes[last].position.line == comment.line) {
      RawNode& node = nodes[OutermostClosedFlow(nodes, last)];
      if (node.comment_beside.empty()) {
        node.comment_beside = std::move(comment.text);
        continue;
      }
    }
    if (next < nodes.size()) {
      nodes[next].comments_above.push_back(std::move(comment.text));
    } else {
      document->comments_below.push_back(std::move(comment.text));
    }
  }
}

}  // namespace noetl::playbook
