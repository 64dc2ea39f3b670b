// Values inside a template.
//
// A template value is JSON plus three things JSON does not have: *undefined* (a name that leads
// nowhere; it remembers which, for error messages), *views* (a step's result with accessor
// fallbacks, resolved lazily) and *alias strings* (`event.name`, `output.status`: text that equals
// any of several spellings). Cheap to copy. Immutable, except that a namespace() made inside a
// template may be written by that template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::expr {

class Value;

// A lazily read object. Implementations are immutable and outlive no evaluation by themselves:
// values share ownership. A read may fail with code "needs_reference" and the reference as message:
// the caller loads that body and evaluates again.
class View {
 public:
  virtual ~View() = default;
  // The attribute or item `key`; undefined when there is none.
  virtual Result<Value> Get(std::string_view key) const = 0;
  // The whole payload: for text, tojson, comparison, iteration, length and arithmetic.
  virtual Result<Json> Whole() const = 0;
  // Whether `if view` holds. A step that ran is true even when its payload is empty.
  virtual bool Truthy() const { return true; }
};

// Text with further spellings. `names[0]` is its text form; ==, != and `in` accept any of them.
struct AliasString {
  std::vector<std::string> names;
};

// The mutable object of `namespace(...)`.
struct Namespace;

struct Undefined {
  // The path that was looked up, for messages ("start.rows[3].id"); may be empty.
  std::shared_ptr<const std::string> path;
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Json json) : data_(std::move(json)) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(std::shared_ptr<const View> view) : data_(std::move(view)) {}
  Value(std::shared_ptr<const AliasString> alias) : data_(std::move(alias)) {}
  Value(std::shared_ptr<Namespace> space) : data_(std::move(space)) {}

  static Value Alias(std::vector<std::string> names) {
    return Value(std::make_shared<const AliasString>(AliasString{std::move(names)}));
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_json() const { return std::holds_alternative<Json>(data_); }
  // Undefined or null.
  bool is_missing() const { return is_undefined() || (is_json() && json().is_null()); }

  const Json& json() const { return std::get<Json>(data_); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  const View* view() const {
    auto held = std::get_if<std::shared_ptr<const View>>(&data_);
    return held ? held->get() : nullptr;
  }
  const AliasString* alias() const {
    auto held = std::get_if<std::shared_ptr<const AliasString>>(&data_);
    return held ? held->get() : nullptr;
  }
  Namespace* space() const {
    auto held = std::get_if<std::shared_ptr<Namespace>>(&data_);
    return held ? held->get() : nullptr;
  }

  // The value as JSON: undefined becomes null, a view its payload, an alias its first spelling.
  Result<Json> Plain() const;

 private:
  std::variant<Undefined, Json, std::shared_ptr<const View>, std::shared_ptr<const AliasString>,
               std::shared_ptr<Namespace>>
      data_;
};

// Truth of a value in a condition.
bool Truthy(const Value& value);
// Whether text (trimmed, any case) is one of the false words of rule 4.
bool TextIsFalse(std::string_view text);
// How a value reads inside text: "True", "50.0", "" for null, JSON for lists and maps.
std::string TextForm(const Json& value);

}  // namespace noetl::expr
