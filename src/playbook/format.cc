#include "playbook/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_io.h"
#include "base/text.h"
#include "playbook/places.h"

namespace noetl::playbook {
namespace {

// A plain or quoted key longer than this has to be written in the `? key` form: readers look no
// further than 1,024 characters for the colon.
constexpr std::size_t kShortKeyBytesMax = 1'000;

// Fixed places of keys. "*" stands for all other keys, in the order in which they were written;
// without it they come last. Maps that are not listed here (workload, input, set, headers) are the
// author's: their order has meaning and stays.
struct KeyOrder {
  std::string_view place;
  std::string_view keys;
};
constexpr KeyOrder kKeyOrders[] = {
    {"root", "apiVersion kind metadata executor workload keychain workbook workflow"},
    {"metadata", "name path version description labels tags"},
    {"executor", "profile version requires spec"},
    {"executor.spec", "entry_step final_step no_next_is_error pool timeout policy"},
    {"keychain", "name kind scope provider auth credential"},
    {"workbook", "name desc assert tool"},
    {"step", "step desc when spec loop input tool set output next"},
    {"step.spec", "timeout on_error policy"},
    {"step.spec.policy", "admit lifecycle failure emit"},
    {"loop", "in cursor iterator spec"},
    {"loop.spec", "mode max_in_flight policy frame"},
    {"loop.cursor", "kind auth claim options"},
    {"next", "spec arcs"},
    {"next.spec", "mode on_no_match policy"},
    {"arc", "step when set args spec"},
    {"tool", "name kind auth method url input * set retry timeout spec output"},
    {"tool.spec", "timeout * policy"},
    {"policy", "mode on_unmatched rules"},
    {"rule", "when else then"},
    {"admit", "mode rules"},
    {"admit.rule", "when else then"},
    {"rule.then", "then do to attempts backoff delay message allow set"},
    {"output", "store"},
};

std::string_view ChildPlace(std::string_view place, std::string_view key) {
  // `{label: {kind: ...}}` in a tool list.
  if (place == "tool.labelled") return "tool";
  // `else: {then: {...}}` and `else: {do: ...}`.
  if (key == "else" && (place == "rule" || place == "admit.rule")) return "rule.then";
  const PlaceBelow* below = FindPlaceBelow(place, key);
  return below ? below->child : "";
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = Trim(text)).empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

using Entry = Node::Entry;

std::vector<const Entry*> Ordered(const Node& map, std::string_view place) {
  std::vector<const Entry*> entries;
  for (const Entry& entry : map.entries) entries.push_back(&entry);
  for (const KeyOrder& order : kKeyOrders) {
    if (order.place != place) continue;
    const auto keys = Words(order.keys);
    const auto others = std::ranges::find(keys, "*");
    std::ranges::stable_sort(entries, {}, [&](const Entry* entry) {
      const auto found = std::ranges::find(keys, entry->first.text);
      return (found == keys.end() ? others : found) - keys.begin();
    });
  }
  return entries;
}

// ---- scalars ----

bool IsNumberText(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  const std::string lower = ToLower(text);
  if (lower == ".inf" || lower == ".nan") return true;
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) {
    return false;
  }
  const auto all_of = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == std::string_view::npos;
  };
  if (lower.starts_with("0x"))
    return all_of(std::string_view(lower).substr(2), "0123456789abcdef_");
  if (lower.starts_with("0o") || lower.starts_with("0b")) {
    return all_of(std::string_view(lower).substr(2), "01234567_");
  }
  std::string digits(text);
  std::erase(digits, '_');
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return error != std::errc::invalid_argument && stop == end;
}

// Text that other YAML readers take for a time, a date or a number to base 60.
bool LooksLikeTime(std::string_view text) {
  return text.size() >= 3 && std::isdigit(static_cast<unsigned char>(text[0])) &&
         text.find_first_of(":-") != std::string_view::npos &&
         text.find_first_not_of("0123456789:-. TtZz+") == std::string_view::npos;
}

bool IsReservedWord(std::string_view text) {
  static constexpr std::string_view kWords[] = {"null", "true", "false", "yes", "no",
                                                "on",   "off",  "~",     "<<",  "="};
  return std::ranges::find(kWords, ToLower(text)) != std::end(kWords);
}

// Bytes that only an escape can carry: controls, and the line breaks that some readers fold.
bool NeedsEscape(std::string_view text, bool line_breaks_too) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n' ? line_breaks_too : (byte < 0x20 && byte != '\t') || byte == 0x7f) return true;
    const std::string_view rest = text.substr(i);
    if (byte == 0xc2 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) < 0xa0) return true;
    if (rest.starts_with("\u2028") || rest.starts_with("\u2029") || rest.starts_with("\ufeff")) {
      return true;
    }
  }
  return false;
}

bool PlainIsSafe(std::string_view text) {
  if (text.empty() || Trim(text).size() != text.size() || NeedsEscape(text, true)) return false;
  const auto first = static_cast<unsigned char>(text[0]);
  const bool plain_start =
      std::isalnum(first) || first >= 0x80 || std::string_view("_/.$(<+^;").contains(text[0]) ||
      (first == '-' && text.size() > 1 && std::isalnum(static_cast<unsigned char>(text[1])));
  return plain_start && !text.ends_with(':') && !text.starts_with("...") &&
         text.find(": ") == text.npos && text.find(" #") == text.npos &&
         text.find('\t') == text.npos && !IsReservedWord(text) && !IsNumberText(text) &&
         !LooksLikeTime(text);
}

std::string DoubleQuoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::string_view rest = text.substr(i);
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x", out += kHex[byte >> 4], out += kHex[byte & 15];
    } else if (byte == 0xc2 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) < 0xa0) {
      const auto low = static_cast<unsigned char>(rest[1]);
      out += "\\x", out += kHex[low >> 4], out += kHex[low & 15];
      ++i;
    } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      out += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (rest.starts_with("\ufeff")) {
      out += "\\ufeff";
      i += 2;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string SingleQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

// One line for any string. Double quotes unless single quotes need fewer escapes.
std::string InlineString(std::string_view text) {
  if (PlainIsSafe(text)) return std::string(text);
  const auto singles = std::ranges::count(text, '\'');
  const auto doubles = std::ranges::count(text, '"') + std::ranges::count(text, '\\');
  if (doubles > singles && !NeedsEscape(text, true)) return SingleQuoted(text);
  return DoubleQuoted(text);
}

// Whether the string can be a literal block. Leading blanks would need an indentation mark and
// several final line breaks a "keep" mark that blank lines after the block would change.
bool FitsLiteral(std::string_view text) {
  if (text.find('\n') == text.npos || NeedsEscape(text, false)) return false;
  if (text[0] == ' ' || text[0] == '\t' || text[0] == '\n') return false;
  std::string_view last = text;
  if (last.ends_with('\n')) last.remove_suffix(1);
  last = last.substr(last.rfind('\n') + 1);
  return !Trim(last).empty();
}

// Whether the text as written still is this number (the normaliser may have put another value).
bool IsTextOf(std::string_view text, const Json& number) {
  if (!IsNumberText(text)) return false;
  const std::string lower = ToLower(text);
  if (lower.starts_with("0x") || lower.starts_with("0o")) return true;
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return lower.ends_with("inf") || lower.ends_with("nan");
  return value == number.AsDouble();
}

std::string InlineScalar(const Node& node) {
  const Json& value = node.scalar;
  if (value.is_string()) return InlineString(value.AsString());
  if (value.is_number() && IsTextOf(node.text, value)) return node.text;
  return WriteJson(value);
}

// ---- the writer ----

class Writer {
 public:
  std::string Document(const Node& root) {
    Comments(root, 0);
    IsBlock(root) && root.is_map() ? Map(root, "root", 0, false) : Value(root, "", 0, false);
    for (const std::string& comment : root.comments_below) out_ += CommentText(comment) + "\n";
    return std::move(out_);
  }

 private:
  static bool IsBlock(const Node& node) {
    return (node.is_map() && !node.entries.empty()) || (node.is_list() && !node.items.empty());
  }

  void Indent(int indent) { out_.append(static_cast<std::size_t>(indent), ' '); }

  static std::string CommentText(std::string_view comment) {
    comment = comment.substr(0, comment.find_last_not_of(" \t\r") + 1);
    return comment.empty() ? "#" : (comment[0] == ' ' ? "#" : "# ") + std::string(comment);
  }

  // Comments above nodes that start on the line to come.
  void Comments(const Node& node, int indent) {
    for (const std::string& comment : node.comments_above) {
      Indent(indent);
      out_ += CommentText(comment) + "\n";
    }
  }

  // Nodes that start on the current line leave the comments beside them here.
  void Beside(const Node& node) {
    if (!node.comment_beside.empty()) beside_.push_back(node.comment_beside);
  }

  void EndLine() {
    std::string all;
    for (const std::string& comment : beside_) {
      all += (all.empty() ? "" : " ") + std::string(Trim(comment));
    }
    if (!beside_.empty()) out_ += "  " + CommentText(all);
    beside_.clear();
    out_ += '\n';
  }

  // Comments of an entry, or of an item, stand above its line, whichever node carries them.
  void CommentsOfFirstLine(const Node& node, std::string_view place, int indent) {
    Comments(node, indent);
    if (!IsBlock(node)) return;
    if (node.is_list()) return CommentsOfFirstLine(node.items[0], place, indent);
    const Entry& first = *Ordered(node, ItemPlace(node, place))[0];
    Comments(first.first, indent);
    if (!IsBlock(first.second)) Comments(first.second, indent);
  }

  // Writes the value after "key:" or "-" and ends its line.
  void Value(const Node& node, std::string_view place, int indent, bool after_key) {
    Beside(node);
    if (node.is_map() && node.entries.empty()) {
      out_ += after_key ? " {}" : "{}";
    } else if (node.is_list() && node.items.empty()) {
      out_ += after_key ? " []" : "[]";
    } else if (node.is_map() || node.is_list()) {
      EndLine();
      Block(node, place, indent);
      return;
    } else if (node.is_string() && FitsLiteral(node.scalar.AsString())) {
      Literal(node.scalar.AsString(), indent, after_key);
      return;
    } else {
      if (after_key) out_ += ' ';
      out_ += InlineScalar(node);
    }
    EndLine();
  }

  // A comment above the first entry was given to the map; it goes where that entry goes.
  void Block(const Node& node, std::string_view place, int indent) {
    if (node.is_list()) {
      Comments(node, indent);
      List(node, place, indent, false);
      return;
    }
    const bool moved = Ordered(node, ItemPlace(node, place))[0] != &node.entries[0] &&
                       !node.comments_above.empty();
    if (!moved) {
      Comments(node, indent);
      Map(node, place, indent, false);
      return;
    }
    Node copy = node;
    auto& above = copy.entries[0].first.comments_above;
    above.insert(above.begin(), node.comments_above.begin(), node.comments_above.end());
    Map(copy, place, indent, false);
  }

  void Literal(std::string_view text, int indent, bool after_key) {
    out_ += after_key ? " |" : "|";
    if (!text.ends_with('\n')) out_ += '-';
    EndLine();
    if (text.ends_with('\n')) text.remove_suffix(1);
    while (true) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) Indent(indent);
      out_ += text.substr(0, end);
      out_ += '\n';
      if (end == text.size()) return;
      text.remove_prefix(end + 1);
    }
  }

  // A tool list may hold `{label: {kind: ...}}` items.
  static std::string_view ItemPlace(const Node& map, std::string_view place) {
    return place == "tool" && map.entries.size() == 1 && map.entries[0].second.is_map() &&
                   map.Find("kind") == nullptr
               ? "tool.labelled"
               : place;
  }

  // `started`: the first line has its indentation (it follows "- ").
  void Map(const Node& node, std::string_view place, int indent, bool started) {
    place = ItemPlace(node, place);
    bool first = true;
    for (const Entry* entry : Ordered(node, place)) {
      const auto& [key, value] = *entry;
      if (!started || !first) {
        if (place == "root" && !first && IsBlock(value)) out_ += '\n';
        Comments(key, indent);
        if (!IsBlock(value)) Comments(value, indent);
        Indent(indent);
      }
      first = false;
      Beside(key);
      const std::string text =
          key.scalar.is_string() || key.text.empty() ? InlineString(key.text) : key.text;
      if (text.size() > kShortKeyBytesMax) {
        out_ += "? " + text + "\n";
        Indent(indent);
      } else {
        out_ += text;
      }
      out_ += ':';
      Value(value, ChildPlace(place, key.text), indent + 2, true);
    }
  }

  void List(const Node& node, std::string_view place, int indent, bool started) {
    bool first = true;
    for (const Node& item : node.items) {
      if (!started || !first) {
        if (place == "step" && !first) out_ += '\n';
        CommentsOfFirstLine(item, place, indent);
        Indent(indent);
      }
      first = false;
      out_ += "- ";
      if (IsBlock(item)) {
        Beside(item);
        item.is_map() ? Map(item, place, indent + 2, true) : List(item, place, indent + 2, true);
      } else {
        Value(item, place, indent + 2, false);
      }
    }
  }

  std::string out_;
  std::vector<std::string> beside_;
};

}  // namespace

std::string FormatYaml(const Node& canonical) { return Writer().Document(canonical); }

}  // namespace noetl::playbook
