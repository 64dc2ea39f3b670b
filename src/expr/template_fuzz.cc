// Compiles any bytes as a template, as an expression and as a condition, and runs what compiles.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "expr/testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace noetl;
  using namespace noetl::expr;
  static const expr::testing::RichScope scope;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  for (const bool methods : {true, false}) {
    const Dialect dialect{.methods = methods};
    if (const auto compiled = Template::Compile(source, dialect)) {
      (void)compiled->Render(scope, Output::kStructured);
      (void)compiled->Truth(scope);
    }
    if (const auto compiled = Template::CompileExpression(source, dialect)) {
      (void)compiled->Evaluate(scope);
    }
  }
  if (const auto condition = Condition::Compile(Json(source), Dialect{})) {
    (void)condition->Evaluate(scope);
  }
  return 0;
}
