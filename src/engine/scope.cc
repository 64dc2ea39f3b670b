#include "engine/scope.h"

#include <span>

namespace noetl::engine {
namespace {

using expr::Value;
using expr::View;

Value MakeValue(std::shared_ptr<const View> view) { return Value(std::move(view)); }

Value StepByName(const Scope::Sources& sources, std::string_view name) {
  if (sources.steps == nullptr) return Value();
  auto result = sources.steps->Find(name);
  return result ? StepView(std::move(result), sources.bodies) : Value();
}

// A context value, which may have been stored elsewhere because of its size.
Value CtxValue(const Json& value, const Bodies* bodies) {
  const std::string_view ref = ReferenceOf(value);
  return ref.empty() ? Value(value) : ReferenceView(std::string(ref), bodies);
}

// `ctx`: the context over the workload over the steps.
class CtxView : public View {
 public:
  explicit CtxView(const Scope::Sources& sources) : sources_(sources) {}

  Result<Value> Get(std::string_view key) const override {
    if (const Json* found = sources_.ctx.Find(key)) return CtxValue(*found, sources_.bodies);
    if (const Json* found = sources_.workload.Find(key)) return Value(*found);
    return StepByName(sources_, key);
  }
  // Without the steps' payloads, so that it stays bounded.
  Result<Json> Whole() const override {
    Json whole = sources_.workload.is_object() ? sources_.workload : Json::Object();
    for (const JsonMember& member : sources_.ctx.members()) {
      NOETL_ASSIGN(Json value, CtxValue(member.value, sources_.bodies).Plain());
      whole = whole.With(member.key(), std::move(value));
    }
    return whole;
  }
  bool Truthy() const override { return !sources_.ctx.empty() || !sources_.workload.empty(); }

 private:
  // By value: a view may outlive a rewind or a new context of its scope.
  Scope::Sources sources_;
};

// `steps['any/name']`.
class StepsView : public View {
 public:
  explicit StepsView(const Scope::Sources& sources) : sources_(sources) {}

  Result<Value> Get(std::string_view key) const override { return StepByName(sources_, key); }
  // A stored payload is shown as its reference: counting steps must not load them all.
  Result<Json> Whole() const override {
    JsonObjectBuilder whole;
    for (const std::string& name : Names()) {
      const auto result = sources_.steps->Find(name);
      if (result == nullptr) continue;
      Result<Json> payload = result->ref().empty() ? RecordedPayloadOf(*result, sources_.bodies)
                                                   : Json::Object({{"_ref", result->ref()}});
      whole.Add(name, payload ? *std::move(payload) : result->data);
    }
    return whole.Build();
  }
  bool Truthy() const override { return !Names().empty(); }

 private:
  std::vector<std::string> Names() const {
    return sources_.steps ? sources_.steps->Names() : std::vector<std::string>();
  }
  Scope::Sources sources_;
};

class NamedStepView : public View {
 public:
  NamedStepView(std::string name, Json scratch)
      : name_(std::move(name)), scratch_(std::move(scratch)) {}

  Result<Value> Get(std::string_view key) const override {
    const Json* found = scratch_.Find(key);
    return found ? Value(*found) : Value();
  }
  Result<Json> Whole() const override { return Json(name_); }

 private:
  std::string name_;
  Json scratch_;
};

}  // namespace

void Scope::Bind(std::string_view name, Value value) {
  bound_.emplace_back(name, std::move(value));
}

void Scope::BindAll(const Json& names) {
  for (const JsonMember& member : names.members()) Bind(member.key(), Value(member.value));
}

Result<Value> Scope::Lookup(std::string_view name) const {
  for (auto bound = bound_.rbegin(); bound != bound_.rend(); ++bound) {
    if (bound->first == name) return bound->second;
  }
  if (name == "workload") return Value(sources_.workload);
  if (name == "ctx") return MakeValue(std::make_shared<CtxView>(sources_));
  if (name == "steps") return MakeValue(std::make_shared<StepsView>(sources_));
  if (const Json* found = sources_.identity.Find(name)) return Value(*found);
  if (const Json* found = sources_.ctx.Find(name)) return CtxValue(*found, sources_.bodies);
  if (Value step = StepByName(sources_, name); !step.is_undefined()) return step;
  if (const Json* found = sources_.workload.Find(name)) return Value(*found);
  // Last, so that they shadow no name of the author's.
  if (name == "path" || name == "version") {
    if (const Json* found = sources_.identity["playbook"].Find(name)) return Value(*found);
  }
  return Value();
}

Result<Value> Scope::Token(std::string_view alias) const {
  return tokens_ ? tokens_(alias) : expr::Scope::Token(alias);
}

Json SetPath(const Json& root, std::span<const std::string> path, Json value) {
  if (path.empty()) return value;
  const Json map = root.is_object() ? root : Json::Object();
  return map.With(path[0], SetPath(map[path[0]], path.subspan(1), std::move(value)));
}

Json IterationNames(std::string_view iterator, const Json& item, std::int64_t index,
                    std::int64_t total) {
  const bool first = index == 0;
  const bool last = index + 1 == total;
  // Where the iterator has the name of a counter, the later member wins: the iterator.
  Json iter = Json::Object({{"_index", index},
                            {"index", index},
                            {"_total", total},
                            {"total", total},
                            {"_first", first},
                            {"_last", last},
                            {iterator, item}});
  Json loop = Json::Object({{"index", index}, {"first", first}, {"last", last}, {"length", total}});
  return Json::Object({{"_index", index},
                       {"_total", total},
                       {"loop_index", index},
                       {"iter", std::move(iter)},
                       {"loop", std::move(loop)},
                       {iterator, item}});
}

Value NamedStep(std::string name, Json scratch) {
  return MakeValue(std::make_shared<NamedStepView>(std::move(name), std::move(scratch)));
}

}  // namespace noetl::engine
