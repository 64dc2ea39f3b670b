#include "playbook/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/template.h"
#include "playbook/keys.h"

namespace noetl::playbook {
namespace {

constexpr std::size_t kShownBytesMax = 60;

std::string_view Expected(KeyType type) {
  switch (type) {
    case KeyType::kAny: return "a value";
    case KeyType::kString:
    case KeyType::kText: return "a string";
    case KeyType::kBool: return "true or false";
    case KeyType::kInt: return "an integer";
    case KeyType::kNumber: return "a number";
    case KeyType::kMap: return "a map";
    case KeyType::kList: return "a list";
    case KeyType::kStringList: return "a list of strings";
    case KeyType::kDuration: return "a duration (seconds, or text like 90s, 5m, 2h)";
    case KeyType::kCondition: return "a condition (text, true or false)";
  }
  return "a value";
}

bool IsDuration(const Node& node) {
  if (!node.is_scalar()) return false;
  if (node.scalar.is_number()) return node.scalar.AsDouble() >= 0;
  return node.is_string() &&
         (expr::Template::LooksLikeTemplate(node.text) || ParseDurationMs(node.text).has_value());
}

bool Fits(const Node& node, KeyType type) {
  switch (type) {
    case KeyType::kAny: return true;
    case KeyType::kString:
    case KeyType::kText:
    case KeyType::kCondition: return node.is_scalar();
    case KeyType::kBool: return node.is_scalar() && node.scalar.is_bool();
    case KeyType::kInt: return node.is_scalar() && node.scalar.is_int();
    case KeyType::kNumber: return node.is_scalar() && node.scalar.is_number();
    case KeyType::kMap: return node.is_map();
    case KeyType::kList: return node.is_list();
    case KeyType::kStringList:
      return node.is_scalar() ||
             (node.is_list() && std::all_of(node.items.begin(), node.items.end(),
                                            [](const Node& item) { return item.is_scalar(); }));
    case KeyType::kDuration: return IsDuration(node);
  }
  return true;
}

std::vector<std::string_view> Words(std::string_view values) {
  std::vector<std::string_view> words;
  while (!values.empty()) {
    const std::size_t bar = values.find('|');
    words.push_back(values.substr(0, bar));
    values = bar == std::string_view::npos ? std::string_view() : values.substr(bar + 1);
  }
  return words;
}

// Codes for a word that is not allowed, where it is not E013. Empty: the caller checks it.
struct WordCode {
  std::string_view place;
  std::string_view key;
  std::string_view code;
};
constexpr WordCode kWordCodes[] = {
    {"next.spec", "mode", "E270"},
    {"next.spec", "on_no_match", "E270"},
    {"loop.spec", "mode", "E265"},
    {"loop.spec.frame", "process", "E265"},
    {"policy", "on_unmatched", "E450"},
    {"rule.then", "backoff", "E450"},
    {"rule.then", "do", ""},
    {"root", "apiVersion", ""},
    {"root", "kind", ""},
    {"keychain", "residency", "E140"},
    {"keychain", "scope", "E140"},
};

std::string_view CodeForWord(std::string_view place, std::string_view key) {
  for (const WordCode& word : kWordCodes) {
    if (word.place == place && word.key == key) return word.code;
  }
  return "E013";
}

// Keys whose type the caller checks, under a code of its own.
bool HasOwnTypeCheck(std::string_view place, std::string_view key) {
  if (place == "root") return key == "workflow" || key == "metadata" || key == "workbook";
  if (place == "policy") return key == "rules";
  return place == "loop" && key == "iterator";
}

std::string Comma(std::span<const std::string_view> words) {
  std::string out;
  for (std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

void CheckWord(Reporter* report, const Node& value, const Key& key, std::string_view place) {
  const std::string_view code = CodeForWord(place, key.name);
  if (key.values.empty() || code.empty()) return;
  const auto words = Words(key.values);
  if (std::find(words.begin(), words.end(), value.text) != words.end()) return;
  report->Add(code, value,
              fmt::format("{} must be one of {}, got {} ({})", value.path, Comma(words),
                          value.TypeName(), ShowValue(value)) +
                  DidYouMean(value.text, words),
              fmt::format("write one of {}", Comma(words)));
}

}  // namespace

void Reporter::Add(std::string_view code, const Node& at, std::string message, std::string hint) {
  diagnostics_->Add(code, at.path, at.position, std::move(message), std::move(hint));
}

void Reporter::ByProfile(std::string_view number, const Node& at, std::string message,
                         std::string hint) {
  Add((strict() ? "E" : "W") + std::string(number), at, std::move(message), std::move(hint));
}

void Reporter::WrongType(const Node& at, std::string_view expected) {
  Add("E013", at,
      fmt::format("{} must be {}, got {} ({})", at.path.empty() ? "document" : at.path, expected,
                  at.TypeName(), ShowValue(at)),
      fmt::format("write {}", expected));
}

bool Reporter::CheckKeys(const Node& map, std::string_view place, std::string_view where,
                         Unknown unknown) {
  if (!map.is_map()) {
    WrongType(map, "a map");
    return false;
  }
  const auto keys = KeysOf(place);
  for (const auto& [name, value] : map.entries) {
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name.text; });
    if (key == keys.end()) {
      if (unknown == Unknown::kAllow) continue;
      std::vector<std::string_view> names;
      for (const Key& k : keys) names.push_back(k.name);
      const std::string near = DidYouMean(name.text, names);
      ByProfile("100", name, fmt::format("unknown key '{}' in {}{}", name.text, where, near),
                near.empty() ? fmt::format("{} takes: {}", where, Comma(names))
                             : "rename the key, or remove it");
      continue;
    }
    // A key without a value is an absent key.
    if (value.is_null() || HasOwnTypeCheck(place, name.text)) continue;
    // A map of variables may also be computed as a whole.
    const bool computed =
        name.text == "input" && value.is_string() && expr::Template::LooksLikeTemplate(value.text);
    if (!Fits(value, key->type) && !computed) {
      WrongType(value, Expected(key->type));
    } else {
      CheckWord(this, value, *key, place);
    }
  }
  return true;
}

std::string ShowValue(const Node& node) {
  if (node.is_map())
    return fmt::format("{} key{}", node.entries.size(), node.entries.size() == 1 ? "" : "s");
  if (node.is_list())
    return fmt::format("{} item{}", node.items.size(), node.items.size() == 1 ? "" : "s");
  if (node.is_null()) return "null";
  std::string text = node.text.substr(0, node.text.find('\n'));
  if (text.size() > kShownBytesMax) {
    text.resize(kShownBytesMax);
    while (!text.empty() && FirstInvalidUtf8(text)) text.pop_back();
    text += "...";
  }
  return node.is_string() ? "'" + text + "'" : text;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates) {
  const auto near = NearestName(word, candidates);
  return near ? fmt::format("; did you mean '{}'?", *near) : std::string();
}

std::string DidYouMean(std::string_view word, std::span<const std::string> candidates) {
  const auto near = NearestName(word, candidates);
  return near ? fmt::format("; did you mean '{}'?", *near) : std::string();
}

std::string JoinNames(std::span<const std::string> names) {
  constexpr std::size_t kNamesShownMax = 20;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kNamesShownMax; ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kNamesShownMax) out += ", ...";
  return out;
}

Node StringNode(std::string_view text, const Node& at) {
  Node node;
  node.scalar = Json(text);
  node.text = std::string(text);
  node.position = at.position;
  node.path = at.path;
  return node;
}

Node MapNode(const Node& at) {
  Node node;
  node.kind = Node::Kind::kMap;
  node.position = at.position;
  node.path = at.path;
  return node;
}

Node ListNode(const Node& at) {
  Node node = MapNode(at);
  node.kind = Node::Kind::kList;
  return node;
}

Node& SetKey(Node* map, std::string_view key, Node value) {
  if (Node* present = map->Find(key)) {
    *present = std::move(value);
    return *present;
  }
  Node name = StringNode(key, value);
  return map->entries.emplace_back(std::move(name), std::move(value)).second;
}

void SetFirst(Node* map, std::string_view key, Node value) {
  Node name = StringNode(key, value);
  map->entries.emplace(map->entries.begin(), std::move(name), std::move(value));
}

std::optional<Node> TakeKey(Node* map, std::string_view key) {
  for (auto entry = map->entries.begin(); entry != map->entries.end(); ++entry) {
    if (entry->first.text != key) continue;
    Node value = std::move(entry->second);
    for (std::string& comment : entry->first.comments_above) {
      value.comments_above.push_back(std::move(comment));
    }
    map->entries.erase(entry);
    return value;
  }
  return std::nullopt;
}

void RenameKey(Node* map, std::string_view from, std::string_view to) {
  for (auto& [name, value] : map->entries) {
    if (name.text != from) continue;
    name.text = std::string(to);
    name.scalar = Json(to);
  }
}

Node* MapAt(Node* map, std::string_view key) {
  if (Node* present = map->Find(key)) {
    if (present->is_null()) *present = MapNode(*present);
    return present->is_map() ? present : nullptr;
  }
  return &SetKey(map, key, MapNode(*map));
}

const Node* FindKey(const Node& map, std::string_view key) {
  for (const auto& [name, value] : map.entries) {
    if (name.text == key) return &name;
  }
  return nullptr;
}

}  // namespace noetl::playbook
