// Whatever the text, compiling and running it ends in a value or an error.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/text.h"
#include "expr/registry.h"
#include "expr/testing.h"

namespace noetl::expr {
namespace {

// The words that random sources are made of: likely to form templates, likely to break them.
std::vector<std::string> Vocabulary() {
  std::vector<std::string> words = {"{{",      "}}",        "{%",
                                    "%}",      "{{-",       "-}}",
                                    "{#",      "#}",        "(",
                                    ")",       "[",         "]",
                                    "{",       "}",         ",",
                                    ":",       ".",         "|",
                                    "~",       "+",         "-",
                                    "*",       "/",         "//",
                                    "%",       "**",        "==",
                                    "!=",      "<",         "<=",
                                    ">",       ">=",        "=",
                                    "if",      "else",      "elif",
                                    "endif",   "for",       "in",
                                    "endfor",  "set",       "endset",
                                    "filter",  "endfilter", "raw",
                                    "endraw",  "not",       "and",
                                    "or",      "is",        "true",
                                    "none",    "0",         "1",
                                    "-1",      "2.5",       "9223372036854775807",
                                    "'a'",     "\"é\"",     "`b`",
                                    "'",       "i",         "f",
                                    "s",       "l",         "m",
                                    "n",       "people",    "words",
                                    "step",    "event",     "remote",
                                    "nothing", "loop",      "x",
                                    "y",       ".x",        ".y",
                                    ".z",      "[0]",       "[-1:]",
                                    "(1)",     "()",        "('a', 1)",
                                    "\n",      " "};
  for (const auto table : {FilterTable(), TestTable(), FunctionTable(), MethodTable()}) {
    for (const Callable& row : table) words.emplace_back(row.name);
  }
  return words;
}

void Exercise(const std::string& source) {
  const testing::RichScope scope;
  if (const auto compiled = Template::Compile(source)) {
    RC_ASSERT(compiled->source() == source);
    const Result<Json> value = compiled->Render(scope, Output::kStructured);
    // Evaluation is pure: the same again.
    const Result<Json> again = compiled->Render(scope, Output::kStructured);
    RC_ASSERT(value.has_value() == again.has_value());
    if (value) RC_ASSERT(WriteJson(*value) == WriteJson(*again));
    else RC_ASSERT(!value.error().code.empty());
  } else {
    RC_ASSERT(compiled.error().offset <= source.size());
    RC_ASSERT(!compiled.error().error.message.empty());
  }
  if (const auto condition = Condition::Compile(Json(source), Dialect{})) {
    (void)condition->Evaluate(scope);
  }
}

TEST(Property, RandomWordsNeverCrash) {
  const std::vector<std::string> words = Vocabulary();
  EXPECT_TRUE(rc::check("random words", [&words] {
    const auto picks = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(words));
    std::string expression;
    for (const std::string& word : picks) expression += word + " ";
    Exercise(expression);
    Exercise("{{ " + expression + "}}");
    Exercise("{% for x in l %}{{ " + expression + "}}{% endfor %}");
  }));
}

TEST(Property, RandomFilterChainsEvaluate) {
  std::vector<std::string> filters;
  for (const Callable& row : FilterTable()) {
    std::string call(row.name);
    if (row.min == 1) call += "('x')";
    if (row.min == 2) call += "('a', 'b')";
    filters.push_back(call);
  }
  const std::vector<std::string> inputs = {"i",       "f",          "s",      "t",         "n",
                                           "l",       "m",          "people", "words",     "step",
                                           "nothing", "event.name", "uni",    "none_list", "num"};
  EXPECT_TRUE(rc::check("random chains", [&] {
    std::string source = *rc::gen::elementOf(inputs);
    for (const std::string& filter :
         *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(filters))) {
      source += " | " + filter;
    }
    RC_ASSERT(Template::CompileExpression(source).has_value());
    Exercise("{{ " + source + " }}");
  }));
}

TEST(Property, RandomBytesNeverCrash) {
  EXPECT_TRUE(rc::check("random bytes", [] {
    const auto bytes = *rc::gen::arbitrary<std::string>();
    Exercise(bytes);
    Exercise("{{" + bytes + "}}");
    Exercise("{%" + bytes + "%}");
  }));
}

// Whatever a text holds, quoting it as a literal gives it back.
TEST(Property, LiteralsRoundTrip) {
  EXPECT_TRUE(rc::check("literals", [] {
    const auto numbers = *rc::gen::arbitrary<std::vector<std::int64_t>>();
    std::vector<Json> items(numbers.begin(), numbers.end());
    const std::string text = WriteJson(Json::Array(items));
    RC_ASSERT(testing::Rendered("{{ " + text + " }}") == text);
  }));
}

}  // namespace
}  // namespace noetl::expr
