// Compiling templates, with positions inside the document for what is wrong.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/text.h"
#include "playbook/build.h"

namespace noetl::playbook {
namespace {

constexpr std::string_view kRawHint =
    "if the braces belong to another language, put the text between {% raw %} and {% endraw %}";

// The node at a path of expr::Tree ("headers.Authorization", "[2].url"). Keys may contain dots, so
// the longest key that fits is taken.
const Node* Navigate(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (node->is_list() && path.starts_with('[')) {
      const std::size_t close = path.find(']');
      const std::string digits(path.substr(1, close - 1));
      const std::size_t index = digits.empty() ? 0 : std::stoul(digits);
      if (close == std::string_view::npos || index >= node->items.size()) return node;
      node = &node->items[index];
      path.remove_prefix(close + 1);
      continue;
    }
    const Node* best = nullptr;
    std::size_t best_size = 0;
    for (const auto& [key, value] : node->entries) {
      if (!path.starts_with(key.text) || (best != nullptr && key.text.size() < best_size)) continue;
      const std::string_view rest = path.substr(key.text.size());
      if (!rest.empty() && rest.front() != '.' && rest.front() != '[') continue;
      best = &value;
      best_size = key.text.size();
    }
    if (best == nullptr) return node;
    node = best;
    path.remove_prefix(best_size);
  }
  return node;
}

// Where byte `offset` of the scalar's text is in the document, as well as can be known.
Position InsideScalar(const Node& node, std::size_t offset) {
  Position position = node.position;
  const std::string_view before = std::string_view(node.text).substr(0, offset);
  const auto lines = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  if (node.style == Node::Style::kLiteral) return {position.line + 1 + lines, 1};
  if (node.style == Node::Style::kFolded || lines > 0) return position;
  position.column +=
      static_cast<int>(CodePoints(before)) + (node.style == Node::Style::kQuoted ? 1 : 0);
  return position;
}

// The line of the source with a caret under the place.
std::string Caret(std::string_view source, std::size_t offset) {
  constexpr std::size_t kAroundMax = 40;
  offset = std::min(offset, source.size());
  std::size_t begin = offset == 0 ? 0 : source.rfind('\n', offset - 1) + 1;
  std::size_t end = std::min(source.find('\n', offset), source.size());
  if (offset - begin > kAroundMax) begin = offset - kAroundMax;
  if (end - offset > kAroundMax) end = offset + kAroundMax;
  const auto continuation = [&](std::size_t i) {
    return i < source.size() && (static_cast<unsigned char>(source[i]) & 0xC0) == 0x80;
  };
  while (begin < offset && continuation(begin)) ++begin;
  while (end < source.size() && continuation(end)) ++end;
  return fmt::format("{}\n{}^", source.substr(begin, end - begin),
                     std::string(CodePoints(source.substr(begin, offset - begin)), ' '));
}

void ReportTemplate(BuildContext* context, const Node& leaf, std::string_view source,
                    const expr::Template::CompileError& error, FieldRule rule) {
  const Position position = InsideScalar(leaf, error.offset);
  const bool syntax = error.error.code == "E404" || error.error.code == "E400";
  if (rule == FieldRule::kCode ||
      (rule == FieldRule::kCommand && syntax && !context->report.strict())) {
    context->report.diagnostics()->Add(
        "W413", leaf.path, position,
        fmt::format("{}: not a template ({}); the text is passed on unrendered", leaf.path,
                    error.error.message),
        std::string(kRawHint));
    if (context->roots != nullptr) context->roots->NeedAll();
    return;
  }
  std::string hint = Caret(source, error.offset);
  if (syntax) hint += "\n" + std::string(kRawHint);
  context->report.diagnostics()->Add(error.error.code, leaf.path, position,
                                     fmt::format("{}: {} (in {})", leaf.path, error.error.message,
                                                 ShowValue(StringNode(source, leaf))),
                                     std::move(hint));
}

// "a-b.x" reads as a subtraction: the name of the step must be looked up by text.
void WarnOddNames(BuildContext* context, const expr::Template& compiled, const Node& leaf) {
  const std::string& source = compiled.source();
  const auto quote_or_word = [](char c) {
    return c == '\'' || c == '"' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  for (const std::string& name : context->odd_names) {
    const std::size_t at = source.find(name);
    if (at == std::string::npos) continue;
    const std::size_t end = at + name.size();
    if (at > 0 && quote_or_word(source[at - 1])) continue;
    if (end < source.size() && quote_or_word(source[end])) continue;
    const std::size_t open = source.rfind("{{", at);
    if (open == std::string::npos || source.find("}}", open) < at) continue;
    context->report.Add(
        "W220", leaf,
        fmt::format("step name '{}' is not an identifier and cannot be a template root", name),
        fmt::format("write steps['{}']", name));
  }
}

void NoteTemplate(BuildContext* context, const expr::Template& compiled, const Node& leaf) {
  for (const expr::RootPath& root : compiled.analysis().roots) {
    if (root.root == "env" && !root.path.empty()) context->env_names.insert(root.path.front());
  }
  if (context->roots != nullptr) context->roots->Add(compiled.analysis());
  if (!context->odd_names.empty()) WarnOddNames(context, compiled, leaf);
}

// The text of a template with its {{ }} and {% %} parts cut out.
std::string OutsideBraces(std::string_view source) {
  std::string outside;
  for (std::size_t i = 0; i < source.size();) {
    const std::string_view rest = source.substr(i);
    const std::string_view close = rest.starts_with("{{")   ? "}}"
                                   : rest.starts_with("{%") ? "%}"
                                                            : "";
    if (close.empty()) {
      outside += source[i++];
      continue;
    }
    const std::size_t end = source.find(close, i + 2);
    if (end == std::string_view::npos) break;
    i = end + 2;
  }
  return outside;
}

bool ComparesText(std::string_view source) {
  if (source.find("{%") != std::string_view::npos) return false;
  const std::string outside = " " + OutsideBraces(source) + " ";
  for (std::string_view op :
       {"==", "!=", "<=", ">=", " < ", " > ", " in ", " and ", " or ", " not "}) {
    if (outside.find(op) != std::string::npos) return true;
  }
  return false;
}

// "{{ x }} == prod" as it should be written.
std::string Rewrite(std::string_view source) {
  const std::size_t open = source.find("{{");
  const std::size_t close = source.find("}}", open);
  if (open != 0 || close == std::string_view::npos) return "{{ x == 'prod' }}";
  const std::string_view inner = Trim(source.substr(2, close - 2));
  const std::string_view rest = Trim(source.substr(close + 2));
  const std::size_t space = rest.find(' ');
  if (space == std::string_view::npos || rest.find("{{") != std::string_view::npos) {
    return "{{ x == 'prod' }}";
  }
  const std::string_view op = rest.substr(0, space);
  const std::string_view word = Trim(rest.substr(space));
  const bool plain = word.find_first_of("'\"") == std::string_view::npos &&
                     !ParseDurationMs(word) && word != "true" && word != "false";
  return fmt::format("{{{{ {} {} {}{}{} }}}}", inner, op, plain ? "'" : "", word, plain ? "'" : "");
}

}  // namespace

expr::Tree CompileTree(BuildContext* context, const Node& node, FieldRule rule) {
  const Json json = NodeToJson(node);
  if (rule == FieldRule::kCode && context->report.strict()) {
    return expr::Tree::Compile(json, context->dialect, nullptr,
                               [](std::string_view) { return false; });
  }
  std::vector<expr::Tree::Problem> problems;
  expr::Tree tree = expr::Tree::Compile(json, context->dialect, &problems);
  for (const expr::Tree::Problem& problem : problems) {
    ReportTemplate(context, *Navigate(node, problem.path), problem.source, problem.error, rule);
  }
  if (tree.is_literal()) return tree;
  for (const expr::Tree::Leaf& leaf : tree.Leaves()) {
    NoteTemplate(context, leaf.compiled, *Navigate(node, leaf.path));
  }
  return tree;
}

expr::Condition CompileWhen(BuildContext* context, const Node* node) {
  if (node == nullptr) return {};
  if (!node->is_scalar()) {
    context->report.WrongType(*node, "a condition (text, true or false)");
    return {};
  }
  auto compiled = expr::Condition::Compile(node->scalar, context->dialect);
  if (!compiled) {
    ReportTemplate(context, *node, node->text, compiled.error(), FieldRule::kTemplate);
    return {};
  }
  const expr::Template* source = compiled->compiled();
  if (source == nullptr) return *std::move(compiled);
  NoteTemplate(context, *source, *node);
  if (node->is_string() && expr::Template::LooksLikeTemplate(node->text) && !source->is_single() &&
      ComparesText(node->text)) {
    const std::string right = Rewrite(Trim(node->text));
    context->report.Add("E441", *node,
                        fmt::format("write {}, not {}: text around the braces is always true",
                                    right, Trim(node->text)),
                        "put the whole comparison inside the braces");
  }
  return *std::move(compiled);
}

}  // namespace noetl::playbook
