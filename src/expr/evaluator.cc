#include "expr/evaluator.h"

#include <array>

#include <fmt/format.h>

#include "expr/ops.h"

namespace noetl::expr {

namespace {

// `loop` inside a `for`.
class LoopView : public View {
 public:
  LoopView(const std::vector<Json>& items, std::size_t index) : size_(items.size()), index_(index) {
    if (index > 0) previous_ = Value(items[index - 1]);
    if (index + 1 < size_) next_ = Value(items[index + 1]);
  }

  Result<Value> Get(std::string_view key) const override {
    if (key == "previtem") return previous_;
    if (key == "nextitem") return next_;
    // A name of its own keeps the object alive for as long as `found` points into it.
    const Json numbers = Numbers();
    const Json* found = numbers.Find(key);
    return found != nullptr ? Value(*found) : Value();
  }
  Result<Json> Whole() const override { return Numbers(); }

 private:
  Json Numbers() const {
    return Json::Object({{"index", index_ + 1},
                         {"index0", index_},
                         {"first", index_ == 0},
                         {"last", index_ + 1 == size_},
                         {"length", size_},
                         {"revindex", size_ - index_},
                         {"revindex0", size_ - index_ - 1}});
  }

  std::size_t size_;
  std::size_t index_;
  Value previous_;
  Value next_;
};

// Names the undefined value after the path that led to it.
void NameUndefined(Value& value, const std::shared_ptr<const std::string>& path) {
  if (value.is_undefined() && path != nullptr) value = Value(Undefined{path});
}

}  // namespace

const Value& Call::Arg(std::size_t index) const {
  static const Value kAbsent;
  return Has(index) ? values[index] : kAbsent;
}

const Value* Call::Keyword(std::string_view name) const {
  for (const auto& [key, value] : keywords) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct Evaluator::ArgumentStore {
  static constexpr std::size_t kInline = 3;
  std::array<Value, kInline> few;
  std::vector<Value> many;
  std::vector<std::pair<std::string_view, Value>> keywords;
  std::uint32_t present = 0;
};

bool Evaluator::Refuse(Error error) {
  error_ = std::move(error);
  return false;
}

bool Evaluator::Evaluate(const Node& node, Value& out) {
  if (!run_.Step()) return Refuse(Runtime::OverBudget().error());
  if (EvaluateKind(node, out)) [[likely]]
    return true;
  if (!located_) {
    located_ = true;
    error_offset_ = node.offset;
  }
  return false;
}

bool Evaluator::EvaluateKind(const Node& node, Value& out) {
  switch (node.kind) {
    case NodeKind::kLiteral: out = Value(node.literal); return true;
    case NodeKind::kName: return EvaluateName(node, out);
    case NodeKind::kChain: return EvaluateChain(node, out);
    case NodeKind::kNegate:
    case NodeKind::kPlus:
      return Evaluate(*node.items[0], out) &&
             Take(Negate(out, node.kind == NodeKind::kNegate), out);
    case NodeKind::kNot:
      if (!Evaluate(*node.items[0], out)) return false;
      out = Value(Json(!OperandTruth(out)));
      return true;
    case NodeKind::kArithmetic: return EvaluateArithmetic(node, out);
    case NodeKind::kConcat: return EvaluateConcat(node, out);
    case NodeKind::kCompare: return EvaluateCompare(node, out);
    case NodeKind::kAnd:
    case NodeKind::kOr: return EvaluateLogic(node, out);
    case NodeKind::kConditional: return EvaluateConditional(node, out);
    case NodeKind::kList: return EvaluateList(node, out);
    case NodeKind::kMap: return EvaluateMap(node, out);
    case NodeKind::kCall: return EvaluateCall(*node.callable, node.arguments, Value(), out);
  }
  return false;
}

bool Evaluator::EvaluateName(const Node& node, Value& out) {
  if (const Value* local = run_.FindLocal(node.name)) {
    out = *local;
  } else if (!Take(run_.scope().Lookup(node.name), out)) {
    return false;
  }
  NameUndefined(out, node.path);
  return true;
}

bool Evaluator::EvaluateChain(const Node& node, Value& out) {
  return Evaluate(*node.items[0], out) && ApplySteps(node, out);
}

bool Evaluator::ApplySteps(const Node& chain, Value& value) {
  for (const struct Step& step : chain.steps) {
    if (!run_.Step()) return Refuse(Runtime::OverBudget().error());
    if (ApplyStep(step, value)) continue;
    if (!located_) {
      located_ = true;
      error_offset_ = step.offset;
    }
    return false;
  }
  return true;
}

bool Evaluator::ApplyStep(const struct Step& step, Value& value) {
  switch (step.kind) {
    case StepKind::kAttribute: {
      if (value.is_json()) {
        // The common case, without a Result in between. The copy keeps the member alive while its
        // parent is replaced.
        const Json* found = value.json().Find(step.name);
        value = found != nullptr ? Value(Json(*found)) : Value();
      } else if (!Take(GetAttribute(value, step.name), value)) {
        return false;
      }
      NameUndefined(value, step.path);
      return true;
    }
    case StepKind::kItem: {
      Value key;
      if (!Evaluate(*step.item, key) || !Take(GetItem(run_, value, key), value)) return false;
      NameUndefined(value, step.path);
      return true;
    }
    case StepKind::kSlice: return ApplySlice(step, value);
    case StepKind::kMethod:
    case StepKind::kFilter: {
      Value result;
      if (!EvaluateCall(*step.callable, step.arguments, value, result)) return false;
      value = std::move(result);
      return true;
    }
    case StepKind::kTest: {
      Value result;
      if (!EvaluateCall(*step.callable, step.arguments, value, result)) return false;
      const bool holds = result.json().AsBool();
      value = Value(Json(holds != step.negated));
      return true;
    }
  }
  return false;
}

bool Evaluator::ApplySlice(const struct Step& step, Value& value) {
  std::array<Value, 3> bounds;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (step.bounds[i] != nullptr && !Evaluate(*step.bounds[i], bounds[i])) return false;
  }
  return Take(Slice(run_, value, bounds[0], bounds[1], bounds[2]), value);
}

bool Evaluator::EvaluateArithmetic(const Node& node, Value& out) {
  if (!Evaluate(*node.items[0], out)) return false;
  for (std::size_t i = 0; i < node.ops.size(); ++i) {
    Value right;
    if (!Evaluate(*node.items[i + 1], right)) return false;
    if (!Take(Arithmetic(run_, node.ops[i], out, right), out)) return false;
  }
  return true;
}

bool Evaluator::EvaluateConcat(const Node& node, Value& out) {
  std::string text;
  for (const Node* item : node.items) {
    if (!Evaluate(*item, out) || !Check(run_.AppendText(text, out))) return false;
  }
  out = Value(Json(text));
  return true;
}

bool Evaluator::EvaluateCompare(const Node& node, Value& out) {
  Value left;
  if (!Evaluate(*node.items[0], left)) return false;
  for (std::size_t i = 0; i < node.ops.size(); ++i) {
    Value right;
    if (!Evaluate(*node.items[i + 1], right)) return false;
    Result<bool> holds = Compare(run_, node.ops[i], left, right);
    if (!holds) return Refuse(std::move(holds.error()));
    if (!*holds) {
      out = Value(Json(false));
      return true;
    }
    left = std::move(right);
  }
  out = Value(Json(true));
  return true;
}

bool Evaluator::EvaluateLogic(const Node& node, Value& out) {
  const bool stop_at = node.kind == NodeKind::kOr;
  for (const Node* item : node.items) {
    if (!Evaluate(*item, out)) return false;
    if (OperandTruth(out) == stop_at) return true;
  }
  return true;
}

bool Evaluator::EvaluateConditional(const Node& node, Value& out) {
  if (!Evaluate(*node.items[1], out)) return false;
  if (OperandTruth(out)) return Evaluate(*node.items[0], out);
  if (node.items.size() > 2) return Evaluate(*node.items[2], out);
  out = Value();
  return true;
}

bool Evaluator::EvaluateList(const Node& node, Value& out) {
  std::vector<Json> items;
  items.reserve(node.items.size());
  for (const Node* item : node.items) {
    if (!Evaluate(*item, out)) return false;
    Result<Json> plain = out.Plain();
    if (!plain) return Refuse(std::move(plain.error()));
    items.push_back(std::move(*plain));
  }
  return Take(run_.MadeList(std::move(items)), out);
}

bool Evaluator::EvaluateMap(const Node& node, Value& out) {
  Json::Members members;
  members.reserve(node.items.size() / 2);
  for (std::size_t i = 0; i < node.items.size(); i += 2) {
    Value key;
    if (!Evaluate(*node.items[i], key) || !Evaluate(*node.items[i + 1], out)) return false;
    Result<Json> name = key.Plain();
    if (!name) return Refuse(std::move(name.error()));
    if (name->is_container()) {
      return Refuse({"E411", fmt::format("a {} cannot be the key of a map", name->TypeName())});
    }
    Result<Json> plain = out.Plain();
    if (!plain) return Refuse(std::move(plain.error()));
    members.emplace_back(name->is_string() ? std::move(*name) : Json(TextForm(*name)),
                         std::move(*plain));
  }
  return Take(run_.Made(Json::Object(std::move(members))), out);
}

bool Evaluator::EvaluateCall(const Callable& callable, const CallArguments& arguments,
                             const Value& input, Value& out) {
  ArgumentStore store;
  const std::size_t count = arguments.slots.size();
  if (count > ArgumentStore::kInline) store.many.resize(count);
  Value* values = count > ArgumentStore::kInline ? store.many.data() : store.few.data();
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments.slots[i] == nullptr) continue;
    if (!Evaluate(*arguments.slots[i], values[i])) return false;
    if (i < kNamedArgumentsMax) store.present |= 1u << i;
  }
  store.keywords.reserve(arguments.keywords.size());
  for (const auto& [name, node] : arguments.keywords) {
    Value value;
    if (!Evaluate(*node, value)) return false;
    store.keywords.emplace_back(name, std::move(value));
  }
  Call call{run_, input, std::span<const Value>(values, count), store.present, store.keywords};
  return Take(callable.function(call), out);
}

bool Evaluator::Execute(const Block& block, std::string& out) {
  for (const Statement& statement : block) {
    if (!run_.Step()) return Refuse(Runtime::OverBudget().error());
    switch (statement.kind) {
      case StatementKind::kText:
        if (!Check(run_.AppendLiteral(out, statement.text))) return false;
        break;
      case StatementKind::kOutput: {
        Value value;
        if (!Evaluate(*statement.expression, value)) return false;
        if (!Check(run_.AppendText(out, value))) return false;
        break;
      }
      case StatementKind::kIf:
        if (!ExecuteIf(statement, out)) return false;
        break;
      case StatementKind::kFor:
        if (!ExecuteFor(statement, out)) return false;
        break;
      case StatementKind::kSet:
        if (!ExecuteSet(statement)) return false;
        break;
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
        if (!ExecuteCapture(statement, out)) return false;
        break;
    }
  }
  return true;
}

bool Evaluator::ExecuteIf(const Statement& statement, std::string& out) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      Value condition;
      if (!Evaluate(*branch.condition, condition)) return false;
      if (!OperandTruth(condition)) continue;
    }
    return Execute(branch.body, out);
  }
  return true;
}

bool Evaluator::KeepItem(const Statement& statement, const Json& item, bool* keep) {
  *keep = true;
  if (statement.condition == nullptr) return true;
  const std::size_t frame = run_.PushFrame();
  Value condition;
  const bool ok = Bind(statement.targets, Value(item)) && Evaluate(*statement.condition, condition);
  run_.PopFrame(frame);
  *keep = ok && OperandTruth(condition);
  return ok;
}

bool Evaluator::ExecuteFor(const Statement& statement, std::string& out) {
  Value collection;
  if (!Evaluate(*statement.expression, collection)) return false;
  Result<std::vector<Json>> all = Iterate(run_, collection);
  if (!all) return Refuse(std::move(all.error()));
  std::vector<Json> items;
  if (statement.condition == nullptr) {
    items = std::move(*all);
  } else {
    for (Json& item : *all) {
      bool keep = false;
      if (!KeepItem(statement, item, &keep)) return false;
      if (keep) items.push_back(std::move(item));
    }
  }
  if (items.empty()) return Execute(statement.otherwise, out);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!run_.Step()) return Refuse(Runtime::OverBudget().error());
    const std::size_t frame = run_.PushFrame();
    bool ok = true;
    if (statement.uses_loop) {
      run_.SetLocal("loop",
                    Value(std::shared_ptr<const View>(std::make_shared<const LoopView>(items, i))));
    }
    ok = Bind(statement.targets, Value(items[i])) && Execute(statement.body, out);
    run_.PopFrame(frame);
    if (!ok) return false;
  }
  return true;
}

bool Evaluator::Bind(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    run_.SetLocal(targets[0], value);
    return true;
  }
  Result<std::vector<Json>> parts = Iterate(run_, value);
  if (!parts) return Refuse(std::move(parts.error()));
  if (parts->size() != targets.size()) {
    return Refuse({"E411", fmt::format("cannot unpack {} value(s) into {} names", parts->size(),
                                       targets.size())});
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    run_.SetLocal(targets[i], Value(std::move((*parts)[i])));
  }
  return true;
}

bool Evaluator::Assign(const Statement& statement, const Value& value) {
  if (statement.attribute.empty()) return Bind(statement.targets, value);
  const Value* held = run_.FindLocal(statement.targets[0]);
  if (held == nullptr || held->space() == nullptr) {
    return Refuse({"E411", fmt::format("'{}' is not a namespace(): its attributes cannot be set",
                                       statement.targets[0])});
  }
  return Check(held->space()->Set(statement.attribute, value));
}

bool Evaluator::ExecuteSet(const Statement& statement) {
  Value value;
  return Evaluate(*statement.expression, value) && Assign(statement, value);
}

// `{% set x %}...{% endset %}` and `{% filter f %}...{% endfilter %}`.
bool Evaluator::ExecuteCapture(const Statement& statement, std::string& out) {
  std::string text;
  const std::size_t frame = run_.PushFrame();
  const bool ok = Execute(statement.body, text);
  run_.PopFrame(frame);
  if (!ok) return false;
  Value value{Json(text)};
  if (!ApplySteps(*statement.expression, value)) return false;
  if (statement.kind == StatementKind::kSetBlock) return Assign(statement, value);
  return Check(run_.AppendText(out, value));
}

}  // namespace noetl::expr
