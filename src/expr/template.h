// The template language: compile once, evaluate many times.
//
// A `Template` is an immutable compiled program for one YAML string; copies share it and any thread
// may evaluate it. Evaluation is pure: names, the clock and the environment come from the `Scope`.
// It is bounded (limits below); a template that exceeds a bound fails with E420.
//
// Compile-time codes: E400 unsupported statement, E401 unknown filter or test, E403 unknown
// function, E404 syntax. Run-time codes: E410 arithmetic on undefined, E411 wrong types, E412 other
// evaluation error (division by zero, bad JSON), E420 limit, "needs_reference" (see value.h).
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "expr/value.h"

namespace noetl::expr {

inline constexpr std::int64_t kOperationsMax = 1'000'000;
inline constexpr std::size_t kOutputBytesMax = 64u << 20;
inline constexpr int kDepthMax = 100;
inline constexpr std::int64_t kRangeMax = 100'000;
// A longer template source is refused at compile time.
inline constexpr std::size_t kSourceBytesMax = 4u << 20;

// Where names come from. Implemented by the engine and the pipeline.
class Scope {
 public:
  virtual ~Scope() = default;
  // The value of a bare root name; undefined when nothing has that name.
  virtual Result<Value> Lookup(std::string_view name) const = 0;
  // UTC ISO-8601 for now(). nullopt: now() is not available here (E402 at run time).
  virtual std::optional<std::string> Now() const { return std::nullopt; }
  // NOETL_TEMPLATE_RETYPE=legacy: rendered text that spells a number, a truth value, null or JSON
  // becomes that value, as the original did.
  virtual bool RetypesText() const { return false; }
  // token(alias). Fails with E403 where tokens are not available.
  virtual Result<Value> Token(std::string_view alias) const;
};

// A scope over one JSON object, for tests and simple uses.
class JsonScope : public Scope {
 public:
  explicit JsonScope(Json names) : names_(std::move(names)) {}
  Result<Value> Lookup(std::string_view name) const override;

 private:
  Json names_;
};

// Where a template may differ by profile.
struct Dialect {
  // v2 accepts `.get()`, `.items()` and a few other methods; v10 refuses them (E403).
  bool methods = true;
};

// One path from a root name: "start.rows" has root "start" and path {"rows"}. A dynamic part or a
// call ends the path and sets `open`.
struct RootPath {
  std::string root;
  std::vector<std::string> path;
  bool open = false;
  bool guarded = false;    // behind `default`, `is defined` and the like
  std::size_t offset = 0;  // of the root in the source

  bool operator==(const RootPath&) const = default;
};

// What a template can be known to do without running it.
struct Analysis {
  std::vector<RootPath> roots;  // free names only, in source order, without duplicates
  std::vector<std::string> filters;
  std::vector<std::string> tests;
  std::vector<std::string> methods;  // method calls accepted by the v2 dialect (W408)
  bool uses_now = false;
  bool uses_token = false;
  bool UsesRoot(std::string_view name) const;
};

// How text output of a template that is not a lone expression is treated.
enum class Output {
  kText,        // stays text
  kStructured,  // text that looks like a JSON list or map and parses becomes that value
};

class Template {
 public:
  // What is wrong with a source, and where in it.
  struct CompileError {
    Error error;
    std::size_t offset = 0;
  };
  static std::expected<Template, CompileError> Compile(std::string_view source,
                                                       const Dialect& dialect = {});
  // Compiles `source` as one expression without delimiters.
  static std::expected<Template, CompileError> CompileExpression(std::string_view source,
                                                                 const Dialect& dialect = {});

  // Whether a string holds template delimiters at all.
  static bool LooksLikeTemplate(std::string_view source);

  const std::string& source() const;
  // No delimiters: evaluation gives the source itself.
  bool is_literal() const;
  // Exactly one `{{ expr }}` and nothing else but white space.
  bool is_single() const;
  const Analysis& analysis() const;

  // The typed value of a single expression (views and undefined kept); text for anything else.
  Result<Value> Evaluate(const Scope& scope) const;
  // The value to put into a rendered field: undefined is null, views are their payload.
  Result<Json> Render(const Scope& scope, Output output) const;
  // Playbook-language 4.
  Result<bool> Truth(const Scope& scope) const;

 private:
  struct Program;
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

// A name of the filter, test and function tables, for suggestions and docs.
std::vector<std::string_view> FilterNames();
std::vector<std::string_view> TestNames();
std::vector<std::string_view> FunctionNames();

}  // namespace noetl::expr
