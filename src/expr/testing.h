// Helpers of the tests in this folder: templates in, short texts out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_io.h"
#include "expr/template.h"
#include "expr/tree.h"

namespace noetl::expr::testing {

// A payload with accessor names of its own, as a step's result has.
class FakeView : public View {
 public:
  explicit FakeView(Json payload) : payload_(std::move(payload)) {}
  Result<Value> Get(std::string_view key) const override {
    if (const Json* found = payload_.Find(key)) return Value(*found);
    if (key == "data") return Value(payload_);
    return Value();
  }
  Result<Json> Whole() const override { return payload_; }

 private:
  Json payload_;
};

// A view whose body has to be loaded first.
class RemoteView : public View {
 public:
  Result<Value> Get(std::string_view key) const override {
    if (key == "_ref") return Value(Json("noetl://body"));
    return Fail("needs_reference", "noetl://body");
  }
  Result<Json> Whole() const override { return Fail("needs_reference", "noetl://body"); }
};

// The scope of most tests: a bit of everything.
class RichScope : public Scope {
 public:
  Result<Value> Lookup(std::string_view name) const override {
    if (name == "step") return Value(std::shared_ptr<const View>(view_));
    if (name == "empty_step") return Value(std::shared_ptr<const View>(empty_));
    if (name == "remote") return Value(std::shared_ptr<const View>(remote_));
    if (name == "event") return Value(std::shared_ptr<const View>(event_));
    if (name == "broken") return Fail("E999", "the scope failed");
    const Json* found = names_.Find(name);
    return found != nullptr ? Value(*found) : Value();
  }
  std::optional<std::string> Now() const override { return "2024-05-06T07:08:09Z"; }
  Result<Value> Token(std::string_view alias) const override {
    return Value(Json("tok-" + std::string(alias)));
  }

 private:
  class EventView : public View {
   public:
    Result<Value> Get(std::string_view key) const override {
      if (key == "name") return Value::Alias({"call.done", "step.done", "step.exit"});
      return Value();
    }
    Result<Json> Whole() const override { return Json::Object({{"name", "call.done"}}); }
  };

  std::shared_ptr<const View> view_ =
      std::make_shared<const FakeView>(*ParseJson(R"({"a": 1, "rows": [1, 2, 3], "who": "me"})"));
  std::shared_ptr<const View> empty_ = std::make_shared<const FakeView>(Json::Object());
  std::shared_ptr<const View> remote_ = std::make_shared<const RemoteView>();
  std::shared_ptr<const View> event_ = std::make_shared<const EventView>();
  Json names_ = *ParseJson(R"({
    "i": 7, "f": 12.5, "s": "text", "t": true, "n": null, "blank": "", "num": "4", "big": 9223372036854775807,
    "l": [3, 1, 2], "words": ["b", "A", "c"], "m": {"x": 1, "items": "key", "y": {"z": [10, 20]}},
    "people": [{"n": "Ann", "a": 31, "ok": true}, {"n": "bo", "a": 17, "ok": false}],
    "none_list": [], "none_map": {}, "html": "<a & 'b'>", "multi": "one\ntwo\n", "uni": "h\u00e9llo \u20ac"})");
};

// JSON of what `source` renders to, or "CODE message".
inline std::string Rendered(std::string_view source, const Scope& scope = RichScope(),
                            Output output = Output::kText, const Dialect& dialect = {}) {
  auto compiled = Template::Compile(source, dialect);
  if (!compiled) {
    return "compile " + compiled.error().error.code + " " + compiled.error().error.message;
  }
  const Result<Json> value = compiled->Render(scope, output);
  if (!value) return value.error().code + " " + value.error().message;
  return WriteJson(*value);
}

// The same for an expression without braces.
inline std::string Evaluated(std::string_view expression, const Dialect& dialect = {}) {
  auto compiled = Template::CompileExpression(expression, dialect);
  if (!compiled) {
    return "compile " + compiled.error().error.code + " " + compiled.error().error.message;
  }
  const Result<Value> value = compiled->Evaluate(RichScope());
  if (!value) return value.error().code + " " + value.error().message;
  if (value->is_undefined()) return "undefined";
  const Result<Json> plain = value->Plain();
  if (!plain) return plain.error().code + " " + plain.error().message;
  return WriteJson(*plain);
}

// What `when` decides: "true", "false" or an error.
inline std::string Decided(const Json& when, const Scope& scope = RichScope()) {
  const auto condition = Condition::Compile(when, Dialect{});
  if (!condition) {
    return "compile " + condition.error().error.code + " " + condition.error().error.message;
  }
  const Result<bool> holds = condition->Evaluate(scope);
  if (!holds) return holds.error().code + " " + holds.error().message;
  return *holds ? "true" : "false";
}

}  // namespace noetl::expr::testing
