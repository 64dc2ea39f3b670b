#include "expr/analysis.h"

#include <algorithm>

namespace noetl::expr {

namespace {

// A path that a condition has vouched for: what lies below it counts as guarded.
struct Guard {
  std::string_view root;
  std::vector<std::string> path;
};

class Analyser {
 public:
  void Run(const Block& block) {
    for (const Statement& statement : block) Visit(statement);
  }
  void Visit(const Node& node, bool guarded = false);
  Analysis Finish() && { return std::move(analysis_); }

 private:
  void Visit(const Statement& statement);
  void VisitChain(const Node& node, bool guarded);
  void VisitArguments(const CallArguments& arguments, bool guarded = false);
  void VisitScoped(const Block& block) {
    const std::size_t bound = bound_.size();
    Run(block);
    bound_.resize(bound);
  }
  void VisitFor(const Statement& statement);
  void VisitIf(const Statement& statement);
  void AddGuards(const Node& condition, bool holds);
  bool IsBound(std::string_view name) const {
    return std::find(bound_.begin(), bound_.end(), name) != bound_.end();
  }
  bool IsGuarded(const RootPath& path) const;
  void Record(RootPath path);
  static void Note(std::vector<std::string>& names, std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }

  Analysis analysis_;
  std::vector<std::string_view> bound_;
  std::vector<Guard> guards_;
};

// The path component of an item step with a literal key, or nullopt.
std::optional<std::string> StaticKey(const Step& step) {
  if (step.kind == StepKind::kAttribute) return step.name;
  if (step.kind != StepKind::kItem || step.item->kind != NodeKind::kLiteral) return std::nullopt;
  const Json& key = step.item->literal;
  if (!key.is_string() && !key.is_int()) return std::nullopt;
  return TextForm(key);
}

// Steps of the chain that belong to its static path.
std::size_t ReadPath(const Node& chain, RootPath* path) {
  std::size_t used = 0;
  for (; used < chain.steps.size(); ++used) {
    const auto key = StaticKey(chain.steps[used]);
    if (!key) break;
    path->path.push_back(*key);
  }
  return used;
}

// Whether a step behind a path makes an undefined value harmless.
bool HandlesUndefined(const Step& step) {
  const std::string_view name = step.callable != nullptr ? step.callable->name : "";
  if (step.kind == StepKind::kFilter) return name == "default";
  if (step.kind != StepKind::kTest) return false;
  return name == "defined" || name == "undefined" || name == "none";
}

void Analyser::Record(RootPath path) {
  if (IsBound(path.root)) return;
  path.guarded = path.guarded || IsGuarded(path);
  for (RootPath& known : analysis_.roots) {
    if (known.root != path.root || known.path != path.path || known.open != path.open) continue;
    known.guarded = known.guarded && path.guarded;
    return;
  }
  analysis_.roots.push_back(std::move(path));
}

bool Analyser::IsGuarded(const RootPath& path) const {
  for (const Guard& guard : guards_) {
    if (guard.root == path.root && guard.path.size() <= path.path.size() &&
        std::equal(guard.path.begin(), guard.path.end(), path.path.begin())) {
      return true;
    }
  }
  return false;
}

// What is known to be there when `condition` holds (or fails).
void Analyser::AddGuards(const Node& condition, bool holds) {
  if (condition.kind == NodeKind::kNot) return AddGuards(*condition.items[0], !holds);
  if (condition.kind == (holds ? NodeKind::kAnd : NodeKind::kOr)) {
    for (const Node* item : condition.items) AddGuards(*item, holds);
    return;
  }
  if (condition.kind == NodeKind::kName) {
    if (holds) guards_.push_back({condition.name, {}});
    return;
  }
  if (condition.kind != NodeKind::kChain || condition.items[0]->kind != NodeKind::kName) return;
  RootPath path;
  const std::size_t used = ReadPath(condition, &path);
  bool present = holds;
  if (used < condition.steps.size()) {
    const Step& last = condition.steps[used];
    if (used + 1 != condition.steps.size() || last.kind != StepKind::kTest ||
        !HandlesUndefined(last)) {
      return;
    }
    present = (holds != last.negated) == (last.callable->name == "defined");
  }
  if (present) guards_.push_back({condition.items[0]->name, std::move(path.path)});
}

void Analyser::VisitChain(const Node& node, bool guarded) {
  std::size_t used = 0;
  if (!node.items.empty() && node.items[0]->kind == NodeKind::kName) {
    RootPath path{.root = node.items[0]->name, .offset = node.items[0]->offset};
    used = ReadPath(node, &path);
    if (used < node.steps.size()) {
      const Step& next = node.steps[used];
      path.open = next.kind == StepKind::kItem || next.kind == StepKind::kSlice ||
                  next.kind == StepKind::kMethod;
      guarded = guarded || HandlesUndefined(next);
    }
    path.guarded = guarded;
    Record(std::move(path));
  } else if (!node.items.empty()) {
    Visit(*node.items[0], !node.steps.empty() && HandlesUndefined(node.steps[0]));
  }
  for (const Step& step : node.steps) {
    if (step.item != nullptr) Visit(*step.item);
    for (const Node* bound : step.bounds) {
      if (bound != nullptr) Visit(*bound);
    }
    if (step.kind == StepKind::kFilter) Note(analysis_.filters, step.callable->name);
    if (step.kind == StepKind::kTest) Note(analysis_.tests, step.callable->name);
    if (step.kind == StepKind::kMethod) Note(analysis_.methods, step.callable->name);
    VisitArguments(step.arguments);
  }
}

void Analyser::VisitArguments(const CallArguments& arguments, bool guarded) {
  for (const Node* slot : arguments.slots) {
    if (slot != nullptr) Visit(*slot, guarded);
  }
  for (const auto& [name, value] : arguments.keywords) Visit(*value, guarded);
}

// `guarded`: an undefined result of this node is taken care of by whoever uses it.
void Analyser::Visit(const Node& node, bool guarded) {
  const std::size_t guards = guards_.size();
  switch (node.kind) {
    case NodeKind::kLiteral: break;
    case NodeKind::kName:
      Record({.root = node.name, .guarded = guarded, .offset = node.offset});
      break;
    case NodeKind::kChain: VisitChain(node, guarded); break;
    case NodeKind::kCall:
      if (node.callable->name == "now") analysis_.uses_now = true;
      if (node.callable->name == "token") analysis_.uses_token = true;
      // token(alias) takes the bare name for an alias when there is no such value.
      VisitArguments(node.arguments, node.callable->name == "token");
      break;
    case NodeKind::kConditional:
      Visit(*node.items[1], true);
      AddGuards(*node.items[1], true);
      Visit(*node.items[0], guarded);
      guards_.resize(guards);
      AddGuards(*node.items[1], false);
      if (node.items.size() > 2) Visit(*node.items[2], guarded);
      break;
    case NodeKind::kAnd:
    case NodeKind::kOr:
      for (const Node* item : node.items) {
        // All but the last only decide; in `a or b` an undefined `a` gives way to `b`.
        Visit(*item, guarded || item != node.items.back());
        AddGuards(*item, node.kind == NodeKind::kAnd);
      }
      break;
    case NodeKind::kNot: Visit(*node.items[0], true); break;
    default:
      for (const Node* item : node.items) Visit(*item);
      break;
  }
  guards_.resize(guards);
}

void Analyser::VisitIf(const Statement& statement) {
  const std::size_t guards = guards_.size();
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) Visit(*branch.condition, true);
    const std::size_t failed = guards_.size();
    if (branch.condition != nullptr) AddGuards(*branch.condition, true);
    // A name set in one branch may still come from outside after it.
    VisitScoped(branch.body);
    guards_.resize(failed);
    if (branch.condition != nullptr) AddGuards(*branch.condition, false);
  }
  guards_.resize(guards);
}

void Analyser::VisitFor(const Statement& statement) {
  Visit(*statement.expression);
  const std::size_t bound = bound_.size();
  bound_.insert(bound_.end(), statement.targets.begin(), statement.targets.end());
  if (statement.condition != nullptr) Visit(*statement.condition, true);
  bound_.push_back("loop");
  Run(statement.body);
  bound_.resize(bound);
  VisitScoped(statement.otherwise);
}

void Analyser::Visit(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText: break;
    case StatementKind::kOutput: Visit(*statement.expression); break;
    case StatementKind::kIf: VisitIf(statement); break;
    case StatementKind::kFor: VisitFor(statement); break;
    case StatementKind::kSet:
      Visit(*statement.expression);
      bound_.insert(bound_.end(), statement.targets.begin(), statement.targets.end());
      break;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
      VisitScoped(statement.body);
      VisitChain(*statement.expression, false);
      bound_.insert(bound_.end(), statement.targets.begin(), statement.targets.end());
      break;
  }
}

}  // namespace

Analysis Analyse(const Node* expression, const Block* block) {
  Analyser analyser;
  if (expression != nullptr) analyser.Visit(*expression);
  if (block != nullptr) analyser.Run(*block);
  return std::move(analyser).Finish();
}

bool Analysis::UsesRoot(std::string_view name) const {
  return std::any_of(roots.begin(), roots.end(),
                     [name](const RootPath& path) { return path.root == name; });
}

}  // namespace noetl::expr
