// The one value type for events, templates and state.
//
// A `Json` is immutable and structurally shared: copying one costs a reference count, "changing"
// one (`With`, `Without`, `Append`) makes a new node that shares all children with the old. Objects
// keep the order in which their members were written. Strings of up to 14 bytes live inside the
// value. Safe to read from many threads; reference counts are atomic.
//
// Parsing and writing are in json_io.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace noetl {

class Json;
struct JsonMember;

class Json {
 public:
  // kUint holds only integers above INT64_MAX. kBigInt holds the digits of an integer that fits no
  // machine word; only the exact parser of json_io.h makes it.
  enum class Type : std::uint8_t {
    kNull,
    kBool,
    kInt,
    kUint,
    kDouble,
    kBigInt,
    kString,
    kArray,
    kObject
  };
  using Members = std::vector<JsonMember>;

  Json() noexcept { std::memset(this, 0, sizeof(Json)); }
  Json(std::nullptr_t) noexcept : Json() {}
  Json(bool value) noexcept : Json() {
    type_ = Type::kBool;
    Store(static_cast<std::int64_t>(value));
  }
  template <std::signed_integral T>
  Json(T value) noexcept : Json() {
    type_ = Type::kInt;
    Store(static_cast<std::int64_t>(value));
  }
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) noexcept : Json() {
    const auto wide = static_cast<std::uint64_t>(value);
    type_ = wide <= INT64_MAX ? Type::kInt : Type::kUint;
    Store(wide);
  }
  Json(double value) noexcept : Json() {
    type_ = Type::kDouble;
    Store(value);
  }
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}

  static Json Array(std::vector<Json> items = {});
  // Later duplicates replace the value of earlier ones and keep the earlier place.
  static Json Object();
  static Json Object(Members members);
  static Json Object(std::initializer_list<JsonMember> members);
  static Json BigInt(std::string_view digits);

  Json(const Json& other) noexcept { Copy(other); }
  Json(Json&& other) noexcept {
    std::memcpy(static_cast<void*>(this), &other, sizeof(Json));
    std::memset(static_cast<void*>(&other), 0, sizeof(Json));
  }
  Json& operator=(const Json& other) noexcept {
    // The copy comes first: `other` may live inside the node that is let go.
    Json copy(other);
    std::swap_ranges(reinterpret_cast<char*>(this), reinterpret_cast<char*>(this) + sizeof(Json),
                     reinterpret_cast<char*>(&copy));
    return *this;
  }
  Json& operator=(Json&& other) noexcept {
    Json taken(std::move(other));
    std::swap_ranges(reinterpret_cast<char*>(this), reinterpret_cast<char*>(this) + sizeof(Json),
                     reinterpret_cast<char*>(&taken));
    return *this;
  }
  ~Json() { Release(); }

  Type type() const { return type_; }
  bool is_null() const { return type_ == Type::kNull; }
  bool is_bool() const { return type_ == Type::kBool; }
  // An integer of any width.
  bool is_integer() const {
    return type_ == Type::kInt || type_ == Type::kUint || type_ == Type::kBigInt;
  }
  bool is_int() const { return type_ == Type::kInt; }
  bool is_double() const { return type_ == Type::kDouble; }
  bool is_number() const { return is_integer() || is_double(); }
  bool is_string() const { return type_ == Type::kString; }
  bool is_array() const { return type_ == Type::kArray; }
  bool is_object() const { return type_ == Type::kObject; }
  bool is_container() const { return is_array() || is_object(); }

  // Typed reads. Asking for a type that the value does not have gives the fallback.
  bool AsBool(bool fallback = false) const {
    return is_bool() ? Load<std::int64_t>() != 0 : fallback;
  }
  std::int64_t AsInt(std::int64_t fallback = 0) const {
    return is_int() ? Load<std::int64_t>() : fallback;
  }
  std::uint64_t AsUint(std::uint64_t fallback = 0) const;
  // Any number as a double.
  double AsDouble(double fallback = 0) const;
  // The text of a string (or the digits of a kBigInt). Points into this value; empty otherwise.
  std::string_view AsString() const;
  std::string ToString() const { return std::string(AsString()); }

  // Elements of an array, members of an object; empty for other types.
  std::span<const Json> items() const;
  std::span<const JsonMember> members() const;
  // Items of an array or members of an object; 0 for other types.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // The member's value, or nullptr. O(1) for small objects, O(log n) for large ones.
  const Json* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // The member or element, or a null Json.
  const Json& operator[](std::string_view key) const;
  const Json& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  const Json& At(std::size_t index) const;

  // Functional updates. On a value of another type they start from an empty container.
  Json With(std::string_view key, Json value) const;
  Json Without(std::string_view key) const;
  Json Append(Json item) const;
  // Members of `over` replace or extend members of this one (shallow).
  Json Merge(const Json& over) const;

  // Same type and content. Member order does not matter, 1 and 1.0 differ.
  bool operator==(const Json& other) const;

  // The same node or the same scalar: equal without looking inside.
  bool Same(const Json& other) const { return std::memcmp(this, &other, sizeof(Json)) == 0; }

  // "null", "bool", "int", "float", "string", "list" or "map", as users know them.
  std::string_view TypeName() const;

 private:
  struct Node;
  struct StringNode;
  struct ArrayNode;
  struct ObjectNode;

  static constexpr std::uint8_t kOnHeap = 0xff;
  static constexpr std::size_t kInlineMax = 14;

  bool OnHeap() const { return length_ == kOnHeap; }
  // An object whose keys are known to differ.
  static Json Unique(Members members);
  template <typename T>
  T Load() const {
    T value;
    std::memcpy(&value, bytes_ + 6, sizeof(T));
    return value;
  }
  template <typename T>
  void Store(T value) {
    std::memcpy(bytes_ + 6, &value, sizeof(T));
  }
  Node* node() const { return Load<Node*>(); }
  void Adopt(Type type, Node* node) {
    type_ = type;
    length_ = kOnHeap;
    Store(node);
  }
  void Copy(const Json& other) noexcept {
    std::memcpy(static_cast<void*>(this), &other, sizeof(Json));
    if (OnHeap()) Retain();
  }
  void Release() noexcept {
    if (OnHeap()) Drop();
  }
  void Retain() const noexcept;
  void Drop() noexcept;

  // 16 bytes: type, inline length (or kOnHeap), then 14 bytes that hold an inline string, or in
  // their last 8 a scalar or a node pointer.
  alignas(8) Type type_;
  std::uint8_t length_;
  char bytes_[kInlineMax];
};

static_assert(sizeof(Json) == 16);

struct JsonMember {
  JsonMember(std::string_view name, Json content) : key_(name), value(std::move(content)) {}
  JsonMember(Json name, Json content) : key_(std::move(name)), value(std::move(content)) {}
  JsonMember(const char* name, Json content)
      : JsonMember(std::string_view(name), std::move(content)) {}
  JsonMember(const std::string& name, Json content)
      : JsonMember(std::string_view(name), std::move(content)) {}

  std::string_view key() const { return key_.AsString(); }
  // The key as a string value, shared and not copied.
  const Json& key_json() const { return key_; }

 private:
  Json key_;

 public:
  Json value;
};

inline Json Json::Object() { return Object(Members()); }

// Collects members or items, then makes one immutable value.
class JsonObjectBuilder {
 public:
  JsonObjectBuilder& Add(std::string_view key, Json value) {
    members_.emplace_back(key, std::move(value));
    return *this;
  }
  // Adds the member unless the value is null.
  JsonObjectBuilder& AddSome(std::string_view key, Json value) {
    if (!value.is_null()) members_.emplace_back(key, std::move(value));
    return *this;
  }
  Json Build() { return Json::Object(std::move(members_)); }

 private:
  Json::Members members_;
};

}  // namespace noetl
