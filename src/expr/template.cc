#include "expr/template.h"

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "expr/analysis.h"
#include "expr/evaluator.h"
#include "expr/parser.h"

namespace noetl::expr {

struct Template::Program {
  std::string source;
  bool literal = false;
  bool has_lines = false;
  Arena arena;
  Block block;
  const Node* single = nullptr;
  Analysis analysis;
};

namespace {

bool IsBlank(std::string_view text) { return Trim(text).empty(); }

// The expression of a template that is one `{{ expr }}` and white space.
const Node* LoneExpression(const Block& block) {
  const Node* found = nullptr;
  for (const Statement& statement : block) {
    if (statement.kind == StatementKind::kText && IsBlank(statement.text)) continue;
    if (statement.kind != StatementKind::kOutput || found != nullptr) return nullptr;
    found = statement.expression;
  }
  return found;
}

std::string_view WithoutLastNewline(std::string_view source) {
  if (source.ends_with('\n')) source.remove_suffix(1);
  if (source.ends_with('\r')) source.remove_suffix(1);
  return source;
}

// Refuses what no parser should see.
std::optional<Template::CompileError> CheckSource(std::string_view source) {
  if (source.size() > kSourceBytesMax) {
    return Template::CompileError{
        {"E420", fmt::format("a template is longer than {} bytes", kSourceBytesMax)}, 0};
  }
  if (const auto bad = FirstInvalidUtf8(source)) {
    return Template::CompileError{{"E404", fmt::format("invalid UTF-8 at byte {}", *bad)}, *bad};
  }
  return std::nullopt;
}

// Text that looks like a JSON list or map and is one.
std::optional<Json> ParseStructure(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const bool looks = (trimmed.starts_with('{') && trimmed.ends_with('}')) ||
                     (trimmed.starts_with('[') && trimmed.ends_with(']'));
  if (!looks) return std::nullopt;
  Result<Json> parsed = ParseJson(trimmed);
  return parsed ? std::optional<Json>(std::move(*parsed)) : std::nullopt;
}

// Legacy retyping: JSON, truth values, numbers, null.
Json Retype(const Json& rendered) {
  const std::string_view text = Trim(rendered.AsString());
  if (auto parsed = ParseStructure(text)) return *std::move(parsed);
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (text.empty() || text == "null" || text == "None") return Json();
  // A JSON number is what the original read as one; "007" and "1_000" are not.
  const bool numeric = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
  if (Result<Json> number = ParseJson(text); numeric && number && number->is_number())
    return *number;
  return rendered;
}

}  // namespace

Result<Value> Scope::Token(std::string_view) const {
  return Fail("E403", "token() is not available here");
}

Result<Value> JsonScope::Lookup(std::string_view name) const {
  const Json* found = names_.Find(name);
  return found != nullptr ? Value(*found) : Value();
}

bool Template::LooksLikeTemplate(std::string_view source) { return HasDelimiters(source); }

std::expected<Template, Template::CompileError> Template::Compile(std::string_view source,
                                                                  const Dialect& dialect) {
  auto program = std::make_shared<Program>();
  program->source = std::string(source);
  if (!HasDelimiters(source)) {
    program->literal = true;
    return Template(std::move(program));
  }
  if (auto problem = CheckSource(source)) return std::unexpected(std::move(*problem));
  program->has_lines = source.find('\n') != std::string_view::npos;
  Parser parser(WithoutLastNewline(program->source), Lexer::Mode::kTemplate, dialect,
                &program->arena);
  if (!parser.ParseTemplate(&program->block)) {
    return std::unexpected(CompileError{parser.error().error, parser.error().offset});
  }
  if (!parser.saw_comment_or_raw()) program->single = LoneExpression(program->block);
  program->analysis = Analyse(nullptr, &program->block);
  return Template(std::move(program));
}

std::expected<Template, Template::CompileError> Template::CompileExpression(
    std::string_view source, const Dialect& dialect) {
  auto program = std::make_shared<Program>();
  program->source = std::string(source);
  if (auto problem = CheckSource(source)) return std::unexpected(std::move(*problem));
  Parser parser(program->source, Lexer::Mode::kExpression, dialect, &program->arena);
  program->single = parser.ParseBareExpression();
  if (program->single == nullptr) {
    return std::unexpected(CompileError{parser.error().error, parser.error().offset});
  }
  program->analysis = Analyse(program->single, nullptr);
  return Template(std::move(program));
}

const std::string& Template::source() const { return program_->source; }
bool Template::is_literal() const { return program_->literal; }
bool Template::is_single() const { return program_->single != nullptr; }
const Analysis& Template::analysis() const { return program_->analysis; }

Result<Value> Template::Evaluate(const Scope& scope) const {
  const Program& program = *program_;
  if (program.literal) return Value(Json(program.source));
  Evaluator evaluator(scope);
  Value value;
  std::string text;
  const bool ok = program.single != nullptr ? evaluator.Evaluate(*program.single, value)
                                            : evaluator.Execute(program.block, text);
  if (!ok) {
    Error error = std::move(evaluator.error());
    // A message about one line of many says which; codes of the engine stay untouched.
    const auto offset = evaluator.error_offset();
    if (program.has_lines && offset && error.code.starts_with("E4")) {
      error.message += Where(program.source, *offset);
    }
    return std::unexpected(std::move(error));
  }
  if (program.single == nullptr) return Value(Json(text));
  if (value.is_json()) NOETL_TRY(evaluator.run().CheckWritable(value.json()));
  return value;
}

Result<Json> Template::Render(const Scope& scope, Output output) const {
  NOETL_ASSIGN(const Value value, Evaluate(scope));
  if (scope.RetypesText() && !is_literal()) {
    NOETL_ASSIGN(Json plain, value.Plain());
    return plain.is_string() ? Retype(plain) : plain;
  }
  if (output == Output::kStructured && !is_single() && !is_literal()) {
    if (auto parsed = ParseStructure(value.json().AsString())) return std::move(*parsed);
  }
  return value.Plain();
}

Result<bool> Template::Truth(const Scope& scope) const {
  NOETL_ASSIGN(const Value value, Evaluate(scope));
  return Truthy(value);
}

}  // namespace noetl::expr
