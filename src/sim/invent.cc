#include "sim/invent.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "expr/template.h"

namespace noetl::sim {
namespace {

// Invented lists and rows stay short: each element may become a loop iteration.
constexpr std::uint64_t kListMax = 3;
constexpr std::size_t kLiteralsMax = 16;
constexpr int kShapeDepthMax = 8;

// Names that stand for the payload itself.
constexpr std::array<std::string_view, 6> kPayloadNames = {"data", "result", "response",
                                                           "body", "output", "payload"};
// Parts of a result that the engine makes.
constexpr std::array<std::string_view, 8> kEngineNames = {
    "stats", "count", "status", "error", "_ref", "failed_task", "execution_id", "_meta"};

template <std::size_t N>
bool IsIn(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Quoted texts and numbers of a template.
std::vector<Json> LiteralsOf(std::string_view source) {
  std::vector<Json> literals;
  for (std::size_t i = 0; i < source.size() && literals.size() < kLiteralsMax; ++i) {
    const char c = source[i];
    if (c == '\'' || c == '"') {
      const std::size_t end = source.find(c, i + 1);
      if (end == std::string_view::npos) break;
      literals.emplace_back(source.substr(i + 1, end - i - 1));
      i = end;
    } else if (c >= '0' && c <= '9') {
      double number = 0;
      const auto [end, error] = std::from_chars(&source[i], source.data() + source.size(), number);
      if (error == std::errc()) {
        const bool whole = number == static_cast<double>(static_cast<std::int64_t>(number));
        literals.push_back(whole ? Json(static_cast<std::int64_t>(number)) : Json(number));
        i = static_cast<std::size_t>(end - source.data()) - 1;
      }
    } else if (IsNameCharacter(c)) {
      while (i + 1 < source.size() && IsNameCharacter(source[i + 1])) ++i;
    }
  }
  return literals;
}

// ---- guessing by name

enum class Guess { kBool, kNumber, kText, kList, kAny };
struct NameRule {
  std::string_view part;  // of the name
  Guess guess;
};
constexpr std::array<NameRule, 26> kNameRules = {{
    {"is_", Guess::kBool},     {"has_", Guess::kBool},     {"more", Guess::kBool},
    {"done", Guess::kBool},    {"ok", Guess::kBool},       {"valid", Guess::kBool},
    {"enabled", Guess::kBool}, {"ready", Guess::kBool},    {"found", Guess::kBool},
    {"count", Guess::kNumber}, {"total", Guess::kNumber},  {"score", Guess::kNumber},
    {"price", Guess::kNumber}, {"amount", Guess::kNumber}, {"page", Guess::kNumber},
    {"size", Guess::kNumber},  {"code", Guess::kNumber},   {"name", Guess::kText},
    {"text", Guess::kText},    {"url", Guess::kText},      {"status", Guess::kText},
    {"state", Guess::kText},   {"message", Guess::kText},  {"rows", Guess::kList},
    {"items", Guess::kList},   {"results", Guess::kList},
}};

Guess GuessOf(std::string_view name) {
  for (const NameRule& rule : kNameRules) {
    if (name.find(rule.part) != std::string_view::npos) return rule.guess;
  }
  if (name.ends_with("_id") || name == "id" || name.size() == 1) return Guess::kNumber;
  if (name.size() > 3 && name.ends_with('s')) return Guess::kList;
  return Guess::kAny;
}

Json Plain(Guess guess, RandomSource& random);

Json List(RandomSource& random, const std::function<Json()>& element) {
  std::vector<Json> items;
  for (std::uint64_t n = random.Below(kListMax + 1); n > 0; --n) items.push_back(element());
  return Json::Array(std::move(items));
}

Json Plain(Guess guess, RandomSource& random) {
  constexpr std::array<std::string_view, 4> kTexts = {"alpha", "beta", "gamma", ""};
  switch (guess) {
    case Guess::kBool: return random.Below(2) == 0;
    case Guess::kNumber: return static_cast<std::int64_t>(random.Below(5));
    case Guess::kText: return kTexts[random.Below(kTexts.size())];
    case Guess::kList: return List(random, [&] { return Plain(Guess::kNumber, random); });
    case Guess::kAny: break;
  }
  constexpr std::array<Guess, 4> kGuesses = {Guess::kBool, Guess::kNumber, Guess::kNumber,
                                             Guess::kText};
  return Plain(kGuesses[random.Below(kGuesses.size())], random);
}

// One of the literals, or a value just beside it.
Json NearLiteral(const Json& literal, RandomSource& random) {
  if (literal.is_int()) return literal.AsInt() + static_cast<std::int64_t>(random.Below(3)) - 1;
  if (literal.is_double()) return literal.AsDouble() * (0.5 + random.Unit());
  return random.Below(3) == 0 ? Json("other") : literal;
}

Json Draw(const Shape& shape, std::string_view name, RandomSource& random);

Json DrawFields(const Shape& shape, RandomSource& random) {
  JsonObjectBuilder map;
  for (const auto& [name, field] : shape.fields) map.Add(name, Draw(field, name, random));
  return map.Build();
}

Json Draw(const Shape& shape, std::string_view name, RandomSource& random) {
  if (shape.list) {
    return List(random, [&] {
      return shape.fields.empty() ? Plain(Guess::kNumber, random) : DrawFields(shape, random);
    });
  }
  if (!shape.fields.empty()) return DrawFields(shape, random);
  if (!shape.literals.empty())
    return NearLiteral(shape.literals[random.Below(shape.literals.size())], random);
  return Plain(GuessOf(name), random);
}

}  // namespace

Shape& Shape::At(std::span<const std::string> path) {
  Shape* shape = this;
  int depth = 0;
  for (const std::string& part : path) {
    if (++depth > kShapeDepthMax) break;
    if (IsNumber(part)) shape->list = true;
    else shape = &shape->fields[part];
  }
  return *shape;
}

// Walks the canonical document; knows in which step and task each template stands.
class Shapes::Learner {
 public:
  Learner(const playbook::Playbook& playbook, Shapes* shapes)
      : playbook_(playbook), shapes_(shapes) {}

  void Run() {
    const Json& workflow = playbook_.canonical["workflow"];
    for (std::size_t i = 0; i < workflow.size() && i < playbook_.steps.size(); ++i) {
      step_ = &playbook_.steps[i];
      label_.clear();
      LearnLoop();
      for (const JsonMember& member : workflow.At(i).members()) {
        if (member.key() == "tool") WalkTool(member.value);
        else Walk(member.value, member.key());
      }
    }
  }

 private:
  void WalkTool(const Json& tool) {
    if (!tool.is_array()) return Walk(tool, "tool");
    for (std::size_t i = 0; i < tool.size() && i < step_->tasks.size(); ++i) {
      label_ = step_->tasks[i].name;
      Walk(tool.At(i), "tool");
    }
    label_.clear();
  }

  void Walk(const Json& value, std::string_view key) {
    for (const Json& item : value.items()) Walk(item, key);
    for (const JsonMember& member : value.members()) Walk(member.value, member.key());
    if (!value.is_string()) return;
    const std::string_view source = value.AsString();
    const bool braces = expr::Template::LooksLikeTemplate(source);
    if (!braces && key != "when") return;
    auto compiled =
        braces ? expr::Template::Compile(source) : expr::Template::CompileExpression(source);
    if (!compiled) return;
    const std::vector<Json> literals = LiteralsOf(source);
    for (const expr::RootPath& root : compiled->analysis().roots) Note(root, literals);
  }

  // The elements of a list that a loop goes over have the fields that the loop's templates read.
  void LearnLoop() {
    iterator_shape_ = nullptr;
    if (!step_->loop) return;
    for (const expr::Tree::Leaf& leaf : step_->loop->in.Leaves()) {
      for (const expr::RootPath& root : leaf.compiled.analysis().roots) {
        if (Shape* shape = Find(root)) {
          shape->list = true;
          iterator_shape_ = shape;
        }
      }
    }
    if (step_->loop->mode == playbook::Loop::Mode::kCursor) {
      iterator_shape_ = &shapes_->shapes_[step_->name + ".claim"];
    }
  }

  void Note(const expr::RootPath& root, const std::vector<Json>& literals) {
    Shape* shape = Find(root);
    if (!shape || !shape->fields.empty()) return;
    for (const Json& literal : literals) {
      if (shape->literals.size() < kLiteralsMax) shape->literals.push_back(literal);
    }
  }

  // Where the path leads to, or nullptr when it is not about a tool's payload.
  Shape* Find(const expr::RootPath& root) {
    std::vector<std::string> path = root.path;
    if (step_->loop && iterator_shape_ &&
        (root.root == step_->loop->iterator || root.root == "iter")) {
      if (root.root == "iter" && (path.empty() || path[0] != step_->loop->iterator)) return nullptr;
      if (root.root == "iter") path.erase(path.begin());
      return &iterator_shape_->At(path);
    }
    if (root.root == "output" || root.root == "outcome" || root.root == "_prev") {
      return Payload(*step_, root.root == "_prev" ? "" : label_, path);
    }
    for (const playbook::Task& task : step_->tasks) {
      if (!step_->single && root.root == task.name) return Payload(*step_, task.name, path);
    }
    std::string name = root.root;
    if (name == "steps" && !path.empty()) {
      name = path[0];
      path.erase(path.begin());
    }
    const playbook::Step* other = playbook_.Find(name);
    return other ? Payload(*other, "", path) : nullptr;
  }

  Shape* Payload(const playbook::Step& step, std::string label, std::vector<std::string> path) {
    while (!path.empty() && IsIn(kPayloadNames, path[0])) path.erase(path.begin());
    if (step.loop && !path.empty() && path[0] == "results") {
      path.erase(path.begin());
      if (!path.empty()) path.erase(path.begin());
    }
    if (!step.single && label.empty()) {
      if (!path.empty() && path[0] == "results") path.erase(path.begin());
      for (const playbook::Task& task : step.tasks) {
        if (!path.empty() && path[0] == task.name) label = task.name;
      }
      if (!label.empty()) path.erase(path.begin());
      // A flattened field may come from any task: the last one has it.
      else label = step.tasks.back().name;
    }
    if (path.empty() || IsIn(kEngineNames, path[0])) return nullptr;
    return &shapes_->shapes_[label.empty() || step.single ? step.name : step.name + "." + label].At(
        path);
  }

  const playbook::Playbook& playbook_;
  Shapes* shapes_;
  const playbook::Step* step_ = nullptr;
  std::string label_;
  Shape* iterator_shape_ = nullptr;
};

Shapes Shapes::Learn(const playbook::Playbook& playbook) {
  Shapes shapes;
  Learner(playbook, &shapes).Run();
  return shapes;
}

Json Shapes::Invent(std::string_view step, std::string_view label, std::string_view kind,
                    RandomSource& random) const {
  auto found = shapes_.find(fmt::format("{}.{}", step, label));
  if (found == shapes_.end()) found = shapes_.find(step);
  Json payload = found == shapes_.end() ? Json::Object({{"value", Plain(Guess::kNumber, random)}})
                                        : Draw(found->second, "", random);
  constexpr std::array<std::string_view, 4> kDatabases = {"postgres", "duckdb", "ducklake",
                                                          "snowflake"};
  if (IsIn(kDatabases, kind) && payload.is_object() && !payload.Has("rows")) {
    const Json rows =
        List(random, [&] { return Json::Object({{"id", Plain(Guess::kNumber, random)}}); });
    payload = payload.With("rows", rows).With("row_count", rows.size());
  }
  return payload;
}

Json Shapes::InventRows(std::string_view step, std::int64_t rows_max, RandomSource& random) const {
  std::vector<Json> rows;
  const auto found = shapes_.find(fmt::format("{}.claim", step));
  const auto bound = static_cast<std::uint64_t>(std::clamp<std::int64_t>(rows_max, 1, kListMax));
  for (std::uint64_t n = random.Below(bound + 1); n > 0; --n) {
    rows.push_back(found == shapes_.end() || found->second.fields.empty()
                       ? Json::Object({{"id", static_cast<std::int64_t>(random.Below(100))}})
                       : DrawFields(found->second, random));
  }
  return Json::Object({{"row_count", rows.size()}, {"rows", Json::Array(std::move(rows))}});
}

}  // namespace noetl::sim
