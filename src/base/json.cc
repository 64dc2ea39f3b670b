#include "base/json.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "base/check.h"

namespace noetl {

namespace {

// Objects with more members than this carry an index of member positions sorted by key.
constexpr std::size_t kIndexFromMembers = 12;

const Json& NullJson() {
  static const Json null;
  return null;
}

}  // namespace

struct Json::Node {
  explicit Node(Type kind) : type(kind) {}
  std::atomic<std::uint32_t> references{1};
  Type type;
};

struct Json::StringNode : Json::Node {
  StringNode(Type kind, std::string_view value) : Node(kind), text(value) {}
  std::string text;
};

struct Json::ArrayNode : Json::Node {
  explicit ArrayNode(std::vector<Json> values) : Node(Type::kArray), items(std::move(values)) {}
  std::vector<Json> items;
};

struct Json::ObjectNode : Json::Node {
  // For members that are known to have different keys.
  struct Unique {};
  ObjectNode(Members values, Unique) : Node(Type::kObject), members(std::move(values)) {
    if (members.size() > kIndexFromMembers) SortIndex();
  }

  explicit ObjectNode(Members values) : Node(Type::kObject), members(std::move(values)) {
    if (members.size() > kIndexFromMembers) BuildIndex();
    else DropDuplicatesSmall();
  }

  void BuildIndex() {
    SortIndex();
    // Equal keys are neighbours, first written first: the last value moves into the first place.
    bool duplicates = false;
    for (std::size_t i = 1; i < by_key.size(); ++i) {
      if (members[by_key[i - 1]].key() == members[by_key[i]].key()) duplicates = true;
    }
    if (!duplicates) return;
    std::vector<bool> dropped(members.size(), false);
    for (std::size_t i = 0; i < by_key.size();) {
      std::size_t end = i + 1;
      while (end < by_key.size() && members[by_key[end]].key() == members[by_key[i]].key()) ++end;
      if (end - i > 1) {
        members[by_key[i]].value = members[by_key[end - 1]].value;
        for (std::size_t k = i + 1; k < end; ++k) dropped[by_key[k]] = true;
      }
      i = end;
    }
    Members kept;
    kept.reserve(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!dropped[i]) kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
    by_key.clear();
    if (members.size() > kIndexFromMembers) SortIndex();
  }

  void SortIndex() {
    by_key.resize(members.size());
    std::iota(by_key.begin(), by_key.end(), 0u);
    std::sort(by_key.begin(), by_key.end(), [this](std::uint32_t a, std::uint32_t b) {
      const int order = members[a].key().compare(members[b].key());
      return order != 0 ? order < 0 : a < b;
    });
  }

  void DropDuplicatesSmall() {
    for (std::size_t i = 1; i < members.size();) {
      std::size_t first = 0;
      while (first < i && !SameKey(members[first].key_json(), members[i].key_json())) ++first;
      if (first == i) {
        ++i;
        continue;
      }
      members[first].value = std::move(members[i].value);
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // Short keys are compared as two words, without a call.
  static bool SameKey(const Json& a, const Json& b) {
    return a.Same(b) || (a.OnHeap() && b.OnHeap() && a.AsString() == b.AsString());
  }

  const JsonMember* Find(std::string_view key) const {
    if (!by_key.empty()) return FindInIndex(key);
    if (key.size() <= kInlineMax) {
      const Json probe(key);
      for (const JsonMember& member : members) {
        if (member.key_json().Same(probe)) return &member;
      }
      return nullptr;
    }
    for (const JsonMember& member : members) {
      if (member.key() == key) return &member;
    }
    return nullptr;
  }

  const JsonMember* FindInIndex(std::string_view key) const {
    auto at = std::lower_bound(
        by_key.begin(), by_key.end(), key,
        [this](std::uint32_t index, std::string_view name) { return members[index].key() < name; });
    if (at == by_key.end() || members[*at].key() != key) return nullptr;
    return &members[*at];
  }

  Members members;
  std::vector<std::uint32_t> by_key;
};

Json::Json(std::string_view text) : Json() {
  type_ = Type::kString;
  if (text.size() <= kInlineMax) {
    length_ = static_cast<std::uint8_t>(text.size());
    if (!text.empty()) std::memcpy(bytes_, text.data(), text.size());
  } else {
    Adopt(Type::kString, new StringNode(Type::kString, text));
  }
}

Json Json::Array(std::vector<Json> items) {
  Json json;
  json.Adopt(Type::kArray, new ArrayNode(std::move(items)));
  return json;
}

Json Json::Object(Members members) {
  Json json;
  json.Adopt(Type::kObject, new ObjectNode(std::move(members)));
  return json;
}

Json Json::Object(std::initializer_list<JsonMember> members) { return Object(Members(members)); }

Json Json::BigInt(std::string_view digits) {
  Json json;
  json.Adopt(Type::kBigInt, new StringNode(Type::kBigInt, digits));
  return json;
}

void Json::Retain() const noexcept { node()->references.fetch_add(1, std::memory_order_relaxed); }

void Json::Drop() noexcept {
  Node* dead = node();
  if (dead->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  switch (dead->type) {
    case Type::kArray: delete static_cast<ArrayNode*>(dead); break;
    case Type::kObject: delete static_cast<ObjectNode*>(dead); break;
    default: delete static_cast<StringNode*>(dead); break;
  }
}

std::uint64_t Json::AsUint(std::uint64_t fallback) const {
  if (type_ == Type::kUint) return Load<std::uint64_t>();
  if (type_ == Type::kInt && Load<std::int64_t>() >= 0) return Load<std::uint64_t>();
  return fallback;
}

double Json::AsDouble(double fallback) const {
  switch (type_) {
    case Type::kInt: return static_cast<double>(Load<std::int64_t>());
    case Type::kUint: return static_cast<double>(Load<std::uint64_t>());
    case Type::kDouble: return Load<double>();
    case Type::kBigInt: return std::strtod(ToString().c_str(), nullptr);
    default: return fallback;
  }
}

std::string_view Json::AsString() const {
  if (type_ != Type::kString && type_ != Type::kBigInt) return {};
  if (!OnHeap()) return {bytes_, length_};
  return static_cast<const StringNode*>(node())->text;
}

std::span<const Json> Json::items() const {
  if (!is_array()) return {};
  return static_cast<const ArrayNode*>(node())->items;
}

std::span<const JsonMember> Json::members() const {
  if (!is_object()) return {};
  return static_cast<const ObjectNode*>(node())->members;
}

std::size_t Json::size() const {
  if (is_array()) return items().size();
  if (is_object()) return members().size();
  return 0;
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const JsonMember* member = static_cast<const ObjectNode*>(node())->Find(key);
  return member ? &member->value : nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  const Json* found = Find(key);
  return found ? *found : NullJson();
}

const Json& Json::At(std::size_t index) const {
  auto all = items();
  return index < all.size() ? all[index] : NullJson();
}

Json Json::Unique(Members members) {
  Json json;
  json.Adopt(Type::kObject, new ObjectNode(std::move(members), ObjectNode::Unique{}));
  return json;
}

Json Json::With(std::string_view key, Json value) const {
  const JsonMember* old = is_object() ? static_cast<const ObjectNode*>(node())->Find(key) : nullptr;
  Members copy;
  copy.reserve(size() + (old ? 0 : 1));
  copy.assign(members().begin(), members().end());
  if (old) copy[static_cast<std::size_t>(old - members().data())].value = std::move(value);
  else copy.emplace_back(key, std::move(value));
  return Unique(std::move(copy));
}

Json Json::Without(std::string_view key) const {
  Members copy;
  copy.reserve(size());
  for (const JsonMember& member : members()) {
    if (member.key() != key) copy.push_back(member);
  }
  return Unique(std::move(copy));
}

Json Json::Append(Json item) const {
  std::vector<Json> copy;
  copy.reserve(size() + 1);
  copy.assign(items().begin(), items().end());
  copy.push_back(std::move(item));
  return Array(std::move(copy));
}

Json Json::Merge(const Json& over) const {
  if (over.empty()) return is_object() ? *this : Object();
  Members all(members().begin(), members().end());
  all.insert(all.end(), over.members().begin(), over.members().end());
  return Object(std::move(all));
}

bool Json::operator==(const Json& other) const {
  if (type_ != other.type_) return false;
  switch (type_) {
    case Type::kNull: return true;
    case Type::kBool:
    case Type::kInt:
    case Type::kUint: return Load<std::uint64_t>() == other.Load<std::uint64_t>();
    case Type::kDouble: return Load<double>() == other.Load<double>();
    case Type::kBigInt:
    case Type::kString: return AsString() == other.AsString();
    case Type::kArray: {
      if (Same(other)) return true;
      auto a = items(), b = other.items();
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    case Type::kObject: {
      if (Same(other)) return true;
      if (size() != other.size()) return false;
      for (const JsonMember& member : members()) {
        const Json* twin = other.Find(member.key());
        if (!twin || !(*twin == member.value)) return false;
      }
      return true;
    }
  }
  return false;
}

std::string_view Json::TypeName() const {
  switch (type_) {
    case Type::kNull: return "null";
    case Type::kBool: return "bool";
    case Type::kInt:
    case Type::kUint:
    case Type::kBigInt: return "int";
    case Type::kDouble: return "float";
    case Type::kString: return "string";
    case Type::kArray: return "list";
    case Type::kObject: return "map";
  }
  return "null";
}

}  // namespace noetl
