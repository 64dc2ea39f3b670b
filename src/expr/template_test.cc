#include "expr/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include <fmt/format.h>

#include "expr/testing.h"

namespace noetl::expr {
namespace {

using testing::Evaluated;
using ::testing::HasSubstr;
using testing::Rendered;
using testing::RichScope;
using ::testing::StartsWith;

struct Example {
  std::string_view source;
  std::string_view expected;
};

template <typename Examples>
void CheckExpressions(const Examples& examples) {
  for (const Example& example : examples) {
    EXPECT_EQ(Evaluated(example.source), example.expected) << example.source;
  }
}

template <typename Examples>
void CheckTemplates(const Examples& examples) {
  for (const Example& example : examples) {
    EXPECT_EQ(Rendered(example.source), example.expected) << example.source;
  }
}

TEST(Template, Precedence) {
  const Example kExamples[] = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"2 ** 3 ** 2", "64"},
      {"-2 ** 2", "4"},
      {"2 * 3 ** 2", "18"},
      {"1 + '2' | int", "3"},
      {"-1 | abs", "1"},
      {"1 ~ 2 + 3", "E411 cannot compute string + int (use ~ to join text)"},
      {"1 ~ 2 * 3", R"("16")"},
      {"'a' ~ 1 == 'a1'", "true"},
      {"l | length == 3", "true"},
      {"not l | length == 3", "false"},
      {"not false and false", "false"},
      {"true or false and false", "true"},
      {"1 < 2 < 3", "true"},
      {"1 < 3 < 2", "false"},
      {"1 in [1] == true", "false"},
      {"1 in l and 5 not in l", "true"},
      {"not 5 in l", "true"},
      {"'a' if false else 'b' if false else 'c'", R"("c")"},
      {"1 if 0", "undefined"},
      {"10 - 2 - 3", "5"},
      {"2 * 3 % 4", "2"},
      {"i is defined and nothing is undefined", "true"},
      {"m.y.z | first + 1", "11"},
      {"[1, 2,][1]", "2"},
      {"(1,)", "[1]"},
      {"()", "[]"},
      {"(m.y).z[1]", "20"},
      {"(words | first).x", "undefined"},
      {"'a' 'b'", R"("ab")"},
      {"s and i", "7"},
      {"blank or s", R"("text")"},
      {"nothing and s", "undefined"},
      {"- - 3", "3"},
      {"+3", "3"},
  };
  CheckExpressions(kExamples);
}

TEST(Template, Numbers) {
  const Example kExamples[] = {
      {"7 / 2", "3.5"},
      {"6 / 2", "3.0"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7.5 // 2", "3.0"},
      {"-7.5 % 2", "0.5"},
      {"2 ** -1", "0.5"},
      {"2 ** 62", "4611686018427387904"},
      {"2 ** 64", "1.8446744073709552e+19"},
      {"big + 1", "9.223372036854776e+18"},
      {"-9223372036854775808 // -1", "9.223372036854776e+18"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"-9223372036854775808 % -1", "0"},
      {"big * 2", "1.8446744073709552e+19"},
      {"1 / 0", "E412 division by zero"},
      {"1 // 0", "E412 division by zero"},
      {"1 % 0", "E412 division by zero"},
      {"1.0 % 0", "E412 division by zero"},
      {"0 ** -1", "E412 division by zero"},
      {"1e308 * 10", "E412 the result is not a finite number"},
      {"(-8) ** 0.5", "E412 the result is not a finite number"},
      {"1_000 + 0x10 + 0b11 + 0o17", "1034"},
      {"1.5e2", "150.0"},
      {"1 == 1.0", "true"},
      {"9007199254740993 == 9007199254740992.0", "false"},
      {"'5' == 5", "false"},
      {"true == 1", "false"},
      {"'10' > 9", "true"},
      {"9 < ' 10 '", "true"},
      {"'10' < '9'", "true"},
      {"'x' > 9", "E411 cannot order string and int"},
      {"n > 9", "E411 cannot order null and int"},
      {"[1, 2] < [1, 3]", "true"},
      {"[1] < [1, 0]", "true"},
      {"[1, 'a'] == [1.0, 'a']", "true"},
      {"{'a': 1, 'b': 2} == {'b': 2.0, 'a': 1}", "true"},
      {"'ab' * 2", R"("abab")"},
      {"2 * [1]", "[1,1]"},
      {"'ab' * -1", R"("")"},
      {"[1] + [2]", "[1,2]"},
      {"'a' + 'b'", R"("ab")"},
      {"'a' + 1", "E411 cannot compute string + int (use ~ to join text)"},
      {"t + 1", "E411 cannot compute bool + int"},
      {"n + 1", "E411 cannot compute null + int"},
      {"m + m", "E411 cannot compute map + map"},
      {"-s", "E411 cannot negate string"},
  };
  CheckExpressions(kExamples);
}

TEST(Template, StringsAndParts) {
  const Example kExamples[] = {
      {R"('a\n\t\'\\\x41\u20ac\q')", R"("a\n\t'\\A€\\q")"},
      {R"("\U0001F600" == "\ud83d\ude00")", "true"},
      {R"(`raw \n`)", R"("raw \\n")"},
      {"uni[1]", R"("é")"},
      {"uni[-1]", R"("€")"},
      {"uni[99]", "undefined"},
      {"uni[0:2]", R"("hé")"},
      {"l[-1]", "2"},
      {"l[9]", "undefined"},
      {"l['x']", "undefined"},
      {"l[1:]", "[1,2]"},
      {"l[:-1]", "[3,1]"},
      {"l[::-1]", "[2,1,3]"},
      {"l[::2]", "[3,2]"},
      {"l[5:]", "[]"},
      {"l[-9:9]", "[3,1,2]"},
      {"l[1::9223372036854775807]", "[1]"},
      {"l[::0]", "E412 the step of a slice is not zero"},
      {"l['a':]", "E411 the bounds of a slice are integers"},
      {"m['y']['z'].0", "10"},
      {"m[s ~ '']", "undefined"},
      {"i.x", "undefined"},
      {"n.x", "undefined"},
      {"5[0]", "undefined"},
      {"{5: 'a'}[5]", R"("a")"},
      {"{[1]: 2}", "E411 a list cannot be the key of a map"},
      {"step", R"({"a":1,"rows":[1,2,3],"who":"me"})"},
      {"step.data.a", "1"},
      {"step.rows | length", "3"},
      {"step['a'] + 1", "2"},
      {"step == {'a': 1, 'rows': [1, 2, 3], 'who': 'me'}", "true"},
      {"'a' in step", "true"},
      {"step | tojson", R"("{\"a\":1,\"rows\":[1,2,3],\"who\":\"me\"}")"},
      {"[step.a, empty_step]", "[1,{}]"},
      {"remote.x", "needs_reference noetl://body"},
      {"remote._ref", R"("noetl://body")"},
      {"remote == 1", "needs_reference noetl://body"},
      {"'x' if remote else 'y'", R"("x")"},
      {"broken.x", "E999 the scope failed"},
  };
  CheckExpressions(kExamples);
}

TEST(Template, AliasStrings) {
  const Example kExamples[] = {
      {"event.name", R"("call.done")"},
      {"event.name == 'call.done'", "true"},
      {"event.name == 'step.exit'", "true"},
      {"'step.done' == event.name", "true"},
      {"event.name != 'step.done'", "false"},
      {"event.name == 'loop.done'", "false"},
      {"event.name in ['x', 'step.exit']", "true"},
      {"event.name not in ['x']", "true"},
      {"event.name in {'step.done': 1}", "true"},
      {"event.name in 'a step.exit b'", "true"},
      {"'exit' in event.name", "true"},
      {"event.name == event.name", "true"},
      {"event.name == none", "false"},
      {"event.name ~ '!'", R"("call.done!")"},
      {"event.name | upper", R"("CALL.DONE")"},
      {"[event.name]", R"(["call.done"])"},
  };
  CheckExpressions(kExamples);
}

TEST(Template, UndefinedRules) {
  const Example kExamples[] = {
      {"nothing", "undefined"},
      {"nothing.a.b[3]['c']", "undefined"},
      {"nothing == nothing", "true"},
      {"nothing == none", "true"},
      {"none == nothing.x", "true"},
      {"nothing == ''", "false"},
      {"nothing != 0", "true"},
      {"nothing < 1", "false"},
      {"nothing >= 1", "false"},
      {"1 > nothing", "false"},
      {"nothing in [none]", "false"},
      {"1 in nothing", "false"},
      {"1 not in nothing", "true"},
      {"'[' ~ nothing ~ ']'", R"("[]")"},
      {"not nothing", "true"},
      {"[nothing]", "[null]"},
      {"{'a': nothing}", R"({"a":null})"},
      {"nothing + 1", "E410 'nothing' is undefined"},
      {"1 + start.rows", "E410 'start.rows' is undefined"},
      {"start.rows[3].id * 2", "E410 'start.rows[3].id' is undefined"},
      {"start['a b'].c - 1", "E410 'start['a b'].c' is undefined"},
      {"start[i].c - 1", "E410 'start[...].c' is undefined"},
      {"m.q / 1", "E410 'm.q' is undefined"},
      {"-m.q", "E410 'm.q' is undefined"},
      {"l[7] + 1", "E410 'l[7]' is undefined"},
      {"(none_list | first) + 1", "E410 a value is undefined"},
  };
  CheckExpressions(kExamples);
}

TEST(Template, NativeAndText) {
  const Example kExamples[] = {
      {"plain", R"("plain")"},
      {"{ not a template }", R"("{ not a template }")"},
      {"{{ unclosed", R"("{{ unclosed")"},
      {"}} {{", R"("}} {{")"},
      {"{# only a comment #}", R"("{# only a comment #}")"},
      {"{{ i }}", "7"},
      {"  {{ i }}\n", "7"},
      {"{{- i -}}", "7"},
      {"{{ f }}", "12.5"},
      {"{{ l }}", "[3,1,2]"},
      {"{{ t }}", "true"},
      {"{{ '007' }}", R"("007")"},
      {"{{ 'true' }}", R"("true")"},
      {"{{ nothing.deep }}", "null"},
      {"{{ '}}' }}", R"("}}")"},
      {"{{ '{{' }}", R"("{{")"},
      {"{{`{{json .}}`}}", R"("{{json .}}")"},
      {"{{ {'a': {'b': 1}} }}", R"({"a":{"b":1}})"},
      {"{{{'a': 1}}}", R"({"a":1})"},
      {"{{ {} }}", "{}"},
      {"{{ i }}{{ i }}", R"("77")"},
      {"{{ i }}{# c #}", R"("7")"},
      {"<{{ f }} {{ 50.0 }} {{ t }} {{ n }} {{ nothing }}>", R"("<12.5 50.0 True  >")"},
      {"x{{ m }}", R"("x{\"x\":1,\"items\":\"key\",\"y\":{\"z\":[10,20]}}")"},
      {"x{{ step.rows }}", R"("x[1,2,3]")"},
      {"{{ l | tojson }}", R"("[3,1,2]")"},
      {"VALUES ({{ i * 1.0 }}, '{{ s }}', {{ nothing.x | tojson }})",
       R"x("VALUES (7.0, 'text', null)")x"},
  };
  CheckTemplates(kExamples);
  EXPECT_EQ(Rendered("[{{ i }}]", RichScope(), Output::kStructured), "[7]");
  EXPECT_EQ(Rendered(" {\"a\": {{ i }} }\n", RichScope(), Output::kStructured), R"({"a":7})");
  EXPECT_EQ(Rendered("[{{ s }}]", RichScope(), Output::kStructured), R"("[text]")");
  EXPECT_EQ(Rendered("{{ '[1]' }}", RichScope(), Output::kStructured), R"("[1]")");
}

TEST(Template, KindsOfTemplates) {
  EXPECT_TRUE(Template::Compile("plain")->is_literal());
  EXPECT_FALSE(Template::Compile("plain")->is_single());
  EXPECT_TRUE(Template::Compile(" {{ a }} ")->is_single());
  EXPECT_FALSE(Template::Compile("{{ a }} b")->is_single());
  EXPECT_FALSE(Template::Compile("{% if a %}{{ a }}{% endif %}")->is_single());
  EXPECT_TRUE(Template::CompileExpression("a")->is_single());
  EXPECT_EQ(Template::Compile(" {{ a }} ")->source(), " {{ a }} ");
  EXPECT_TRUE(Template::LooksLikeTemplate("{% x %}"));
  EXPECT_FALSE(Template::LooksLikeTemplate("{% x"));
  EXPECT_FALSE(Template::LooksLikeTemplate("%} {%"));
}

TEST(Template, Statements) {
  const Example kExamples[] = {
      {"{% if i > 5 %}big{% elif i > 2 %}mid{% else %}low{% endif %}", R"("big")"},
      {"{% if i > 9 %}big{% elif i > 2 %}mid{% else %}low{% endif %}", R"("mid")"},
      {"{% if nothing %}big{% elif n %}mid{% else %}low{% endif %}", R"("low")"},
      {"{% if nothing %}x{% endif %}", R"("")"},
      {"{% for x in l %}{{ x }},{% endfor %}", R"("3,1,2,")"},
      {"{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
       R"("1/2:3 2/2:2 ")"},
      {"{% for x in l %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}"
       "{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
       R"("0TrueFalse31;1FalseFalse232;2FalseTrue11;")"},
      {"{% for x in none_list %}a{% else %}none{% endfor %}", R"("none")"},
      {"{% for x in nothing %}a{% else %}none{% endfor %}", R"("none")"},
      {"{% for k, v in m.y | items %}{{ k }}={{ v }}{% endfor %}", R"("z=[10,20]")"},
      {"{% for (k, v) in [[1, 2]] %}{{ k + v }}{% endfor %}", R"("3")"},
      {"{% for k in m %}{{ k }} {% endfor %}", R"("x items y ")"},
      {"{% for c in 'ab' %}<{{ c }}>{% endfor %}", R"("<a><b>")"},
      {"{% for a in [1, 2] %}{% for b in [1, 2] %}{{ a * b }}{{ loop.last }} {% endfor %}"
       "{{ loop.index }};{% endfor %}",
       R"("1False 2True 1;2False 4True 2;")"},
      {"{% for x in 5 %}{% endfor %}", "E411 cannot iterate over int"},
      {"{% for a, b in [[1]] %}{% endfor %}", "E411 cannot unpack 1 value(s) into 2 names"},
      {"{% set x = i + 1 %}{{ x }}", R"("8")"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", R"("12")"},
      {"{% set a = 1, 2 %}{{ a }}", R"("[1,2]")"},
      {"{% set x %}<{{ i }}>{% endset %}{{ x | length }}", R"("3")"},
      {"{% set x | upper %}abc{% endset %}{{ x }}", R"("ABC")"},
      {"{% set i = 1 %}{% for q in [1] %}{% set i = 2 %}{{ i }}{% endfor %}{{ i }}", R"("21")"},
      {"{% if true %}{% set q = 5 %}{% endif %}{{ q }}", R"("5")"},
      {"{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}"
       "{{ ns.n }}",
       R"("6")"},
      {"{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.me = ns %}{{ ns }}",
       R"("{\"me\":{\"me\":{}}}")"},
      {"{% set m.x = 5 %}", "E411 'm' is not a namespace(): its attributes cannot be set"},
      {"{% filter upper | replace('B', 'x') %}a{{ 'b' }}{% endfilter %}", R"("Ax")"},
      {"{% raw %}{{ x }} {% if %}{% endraw %}{{ i }}", R"("{{ x }} {% if %}7")"},
      {"{%- raw -%} a {%- endraw -%} b{{ i }}", R"("ab7")"},
      {"{% if true %}{{ i }}{% endif %}", R"("7")"},
  };
  CheckTemplates(kExamples);
}

TEST(Template, WhiteSpace) {
  const Example kExamples[] = {
      {"a {{- i }} b", R"("a7 b")"},
      {"a {{ i -}} b", R"("a 7b")"},
      {"a\n  {%- if t -%}\n  x\n  {%- endif %}\nb", R"("ax\nb")"},
      {"a {#- c -#} b{{ i }}", R"("ab7")"},
      {"x {{ i }}\n", R"("x 7")"},
      {"x {{ i }}\n\n", R"("x 7\n")"},
      {"x {{ i }}\r\n", R"("x 7")"},
      {"{%+ if t +%} y {% endif %}", R"(" y ")"},
      {"{{-1}}", "1"},
      {"{{ -1 }}", "-1"},
  };
  CheckTemplates(kExamples);
}

TEST(Template, CompileErrorsHaveCodesAndOffsets) {
  struct Row {
    std::string_view source;
    std::string_view code;
    std::size_t offset;
    std::string_view message;
  };
  const Row kRows[] = {
      {"{{ 1 + }}", "E404", 7, "unexpected '}}' at col 8"},
      {"a\n{{ % }}", "E404", 5, "unexpected '%' at line 2 col 4"},
      {"{{ a b }}", "E404", 5, "unexpected 'b'"},
      {"{{ 'abc }}", "E404", 3, "missing end of the string"},
      {"{{ $x }}", "E404", 3, "unexpected '$'"},
      {"{{ a && b }}", "E404", 5, "write 'and'"},
      {"{{ a || b }}", "E404", 5, "write 'or'"},
      {"{{ !a }}", "E404", 3, "write 'not'"},
      {"{{ a ? b : c }}", "E404", 5, "a if condition else b"},
      {"{{.Names}}", "E404", 2, "{% raw %}"},
      {"{{ }}", "E404", 3, "expected a value"},
      {"{{ a.}}", "E404", 5, "a name after '.'"},
      {"{{ (1, 2 }}", "E404", 9, ""},
      {"{{ [1 }}", "E404", 6, ""},
      {"{{ {'a'} }}", "E404", 7, "expected ':'"},
      {"{{ 12abc }}", "E404", 3, "malformed number"},
      {"{{ 1e999 }}", "E404", 3, "malformed number"},
      {R"({{ '\u12' }})", "E404", 4, "malformed escape"},
      {R"({{ '\ud800' }})", "E404", 4, "malformed escape"},
      {"{{ x }} {{ y", "E404", 12, "missing '}}'"},
      {"{{ x }} {# y", "E404", 8, "missing '#}'"},
      {"{% raw %} {{ x }}", "E404", 0, "missing '{% endraw %}'"},
      {"{% if x %}", "E404", 10, "expected '{% endif %}'"},
      {"{% endif %}", "E404", 3, "unexpected 'endif'"},
      {"{% if x %}{% endfor %}", "E404", 13, "unexpected 'endfor'"},
      {"{% for x %}{% endfor %}", "E404", 9, "expected 'in'"},
      {"{% set 5 = 1 %}", "E404", 7, "expected a name"},
      {"{{ x | defualt(1) }}", "E401", 7, "unknown filter 'defualt' (did you mean 'default'?)"},
      {"{{ x is defind }}", "E401", 8, "unknown test 'defind' (did you mean 'defined'?)"},
      {"{{ x | map('uper') }}", "E401", 11, "unknown filter 'uper' (did you mean 'upper'?)"},
      {"{{ x | selectattr('a', 'ood') }}", "E401", 23, "unknown test 'ood'"},
      {"{{ rang(3) }}", "E403", 3, "unknown function 'rang' (did you mean 'range'?)"},
      {"{{ x.foo(3) }}", "E403", 5, "unknown method 'foo'"},
      {"{% include 'x' %}", "E400", 3, "statement 'include' is not supported"},
      {"{% macro x() %}{% endmacro %}", "E400", 3, "'macro'"},
      {"{% fro x in y %}", "E400", 3, "did you mean 'for'?"},
      {"{{ x | replace('a') }}", "E404", 14, "needs 2 argument(s)"},
      {"{{ x | upper(1) }}", "E404", 12, "takes at most 0"},
      {"{{ x | int(base=2) }}", "E404", 10, "has no argument 'base'"},
      {"{{ x | int(1, default=2) }}", "E404", 10, "got 'default' twice"},
      {"{{ x | first.name }}", "E404", 12, "in parentheses"},
      {"{{ not }}", "E404", 7, ""},
      {"{{ a if }}", "E404", 8, ""},
      {"{{ \xff }}", "E404", 3, "invalid UTF-8"},
  };
  for (const Row& row : kRows) {
    const auto compiled = Template::Compile(row.source);
    ASSERT_FALSE(compiled) << row.source;
    EXPECT_EQ(compiled.error().error.code, row.code) << row.source;
    EXPECT_EQ(compiled.error().offset, row.offset)
        << row.source << ": " << compiled.error().error.message;
    EXPECT_THAT(compiled.error().error.message, HasSubstr(std::string(row.message)));
  }
}

TEST(Template, RunTimeErrorsNameTheLine) {
  EXPECT_EQ(Rendered("one\ntwo {{ i }} {{ s + 1 }}\n"),
            "E411 cannot compute string + int (use ~ to join text) at line 2 col 18");
  EXPECT_EQ(Rendered("a {{ nothing.x + 1 }}"), "E410 'nothing.x' is undefined");
  EXPECT_EQ(Rendered("one\n{{ remote.x }} "), "needs_reference noetl://body");
}

TEST(Template, Limits) {
  const std::string_view kOverLimit[] = {
      "{% for a in range(1000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}",
      "{{ 'x' * 100000001 }}",
      "{{ [1, 2] * 100000000 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{% set a = 'x' * 60000000 %}{{ a }}{{ a }}",
      "{% set a = 'x' * 60000000 %}{{ a ~ a }}",
      "{% set a = 'xxxxxx' * 10000000 %}{{ a | replace('xxxxxx', 'yyyyyyyyyyyy') }}",
      "{% set a = 'x' * 5000000 %}{% for i in range(100000) %}{{ a | length }}{% endfor %}",
      "{% set a = 'x' * 50000000 %}{{ ([a] * 1000) | tojson }}",
      "{{ ['x' * 50000000] * 1000 }}",
      "{% set a = 'x' * 5000000 %}{{ ([a] * 1000) | sort | length }}",
      "{{ range(100000) | map('string') | map('length') | map('string') | map('length') "
      "| map('string') | map('length') | map('string') | map('length') | map('string') | "
      "map('length') }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}",
      "{{ [[[[[[[[[[[[[1]]]]]]]]]]]]] | map('map', 'map', 'map', 'map', 'map', 'map', 'map', "
      "'map', "
      "'map', 'map', 'map', 'string') }}",
      "{% set b = range(1000) | map(attribute='q', default=people) | list %}"
      "{% set c = range(1000) | map(attribute='q', default=b) | list %}{{ c | length }}",
  };
  for (const std::string_view source : kOverLimit) {
    EXPECT_THAT(Rendered(source), StartsWith("E420 ")) << source;
  }
  EXPECT_EQ(Rendered("{{ range(100000) | length }}"), "100000");
  EXPECT_EQ(Rendered("{% for i in range(10000) %}{% if loop.last %}{{ i }}{% endif %}{% endfor %}"),
            R"("9999")");
}

std::string Repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Template, HostileInputsFailInOrder) {
  const std::size_t kMany = 100'000;
  const std::string kSources[] = {
      "{{ " + Repeated("(", kMany) + "1" + Repeated(")", kMany) + " }}",
      "{{ " + Repeated("[", kMany) + Repeated("]", kMany) + " }}",
      "{{ " + Repeated("{'a':", kMany) + " }}",
      "{{ " + Repeated("-", kMany) + "1 }}",
      "{{ " + Repeated("not ", kMany) + "1 }}",
      "{{ " + Repeated("a[", kMany) + " }}",
      "{{ " + Repeated("1 if 1 else ", kMany) + "1 }}",
      "{{ " + Repeated("range(", kMany) + " }}",
      "{{ " + Repeated("a | default(", kMany) + " }}",
      Repeated("{% if 1 %}", kMany),
      Repeated("{% for a in b %}", kMany),
      Repeated("{% filter upper %}", kMany),
      Repeated("{{", kMany) + "}}",
      "{{ [" + Repeated("1,", 1'000'000) + "] }}",
      std::string(kSourceBytesMax + 1, ' ') + "{{ 1 }}",
  };
  for (const std::string& source : kSources) {
    const auto compiled = Template::Compile(source);
    ASSERT_FALSE(compiled) << source.substr(0, 30);
    EXPECT_THAT(compiled.error().error.code, ::testing::AnyOf("E404", "E420"))
        << source.substr(0, 30);
  }
}

TEST(Template, LongFlatChainsWork) {
  const std::size_t kMany = 5'000;
  EXPECT_EQ(Rendered("{{ 1" + Repeated(" + 1", kMany) + " }}"), "5001");
  EXPECT_EQ(Rendered("{{ nothing" + Repeated(".a", kMany) + " is defined }}"), "false");
  EXPECT_EQ(Rendered("{{ 1" + Repeated(" and 1", kMany) + " }}"), "1");
  EXPECT_EQ(Rendered("{{ 'a'" + Repeated(" | upper", kMany) + " }}"), R"("A")");
  EXPECT_EQ(Rendered("{{ ('a'" + Repeated(" ~ 'a'", kMany) + ") | length }}"), "5001");
  EXPECT_EQ(Rendered("{{ 1" + Repeated(" == 1", kMany) + " }}"), "true");
  EXPECT_EQ(Rendered("{{ " + Repeated("(", 90) + "1" + Repeated(")", 90) + " }}"), "1");
}

std::string Roots(std::string_view source) {
  const auto compiled = Template::Compile(source);
  if (!compiled) return compiled.error().error.message;
  std::string out;
  for (const RootPath& root : compiled->analysis().roots) {
    if (!out.empty()) out += ' ';
    out += root.root;
    for (const std::string& part : root.path) out += "." + part;
    if (root.open) out += "*";
    if (root.guarded) out += "?";
  }
  return out;
}

TEST(Template, AnalysisOfRoots) {
  const Example kExamples[] = {
      {"{{ a.b['c'].d }}", "a.b.c.d"},
      {"{{ a.rows[0].id }}", "a.rows.0.id"},
      {"{{ a[b].c }}", "a* b"},
      {"{{ a.b[1:2] }}", "a.b*"},
      {"{{ a.get('x') }}", "a*"},
      {"{{ a.b | length + c }}", "a.b c"},
      {"{{ a.b }} {{ a.b }} {{ a.c }}", "a.b a.c"},
      {"{{ a | default(b) }}", "a? b"},
      {"{{ a.x | d('') }}", "a.x?"},
      {"{{ a | default(1) }}{{ a }}", "a"},
      {"{{ a is defined }} {{ b is not none }} {{ c is undefined }}", "a? b? c?"},
      {"{{ a.x if a else b.x }}", "a? a.x? b.x"},
      {"{{ a.x if a is defined else b.x }}", "a? a.x? b.x"},
      {"{{ b.x if a is none else a.x }}", "a? b.x a.x?"},
      {"{{ a and a.x }}", "a? a.x?"},
      {"{{ a or b }}", "a? b"},
      {"{{ not a }}", "a?"},
      {"{% if a %}{{ a.b }}{% else %}{{ c }}{% endif %}", "a? a.b? c"},
      {"{% if not a %}{% else %}{{ a.b }}{% endif %}{{ a.c }}", "a? a.b? a.c"},
      {"{% for x in a.rows %}{{ x.y }}{{ loop.index }}{{ b }}{% endfor %}{{ x }}", "a.rows b x"},
      {"{% for x in a if x.ok and c %}{% endfor %}", "a c?"},
      {"{% set x = a %}{{ x.y }}", "a"},
      {"{% if c %}{% set x = a %}{% endif %}{{ x }}", "c? a x"},
      {"{% set x %}{{ a }}{% endset %}{{ x }}", "a"},
      {"{% filter replace(a, 'b') %}{{ b }}{% endfilter %}", "b a"},
      {"{{ [a, {b: c}] }}", "a b c"},
      {"{{ token(google) }}", "google?"},
      {"{{ a == 1 and b > 2 }}", "a b"},
      {"{{ (a.b).c }}", "a.b.c"},
      {"{{ (a + b).c }}", "a b"},
      {"{{ true }} {{ 'x' }} {{ range(3) }}", ""},
      {"plain", ""},
  };
  for (const Example& example : kExamples) {
    EXPECT_EQ(Roots(example.source), example.expected) << example.source;
  }
}

TEST(Template, AnalysisOfNames) {
  const auto compiled = Template::Compile(
      "{{ a | d(1) | int }}{{ a is none }}{{ a.keys() }}{{ now() }}{{ token('x') }}");
  ASSERT_TRUE(compiled);
  const Analysis& analysis = compiled->analysis();
  EXPECT_EQ(analysis.filters, (std::vector<std::string>{"default", "int"}));
  EXPECT_EQ(analysis.tests, std::vector<std::string>{"none"});
  EXPECT_EQ(analysis.methods, std::vector<std::string>{"keys"});
  EXPECT_TRUE(analysis.uses_now);
  EXPECT_TRUE(analysis.uses_token);
  EXPECT_TRUE(analysis.UsesRoot("a"));
  EXPECT_FALSE(analysis.UsesRoot("b"));
  EXPECT_EQ(Template::Compile("x {{ 1 + abc.d }}")->analysis().roots[0].offset, 9u);
}

// The templates of the twelve conformance playbooks.
TEST(Template, ConformanceTemplatesCompile) {
  const std::string_view kSources[] = {
      "{{ execution_id }}",
      "{{ price }}",
      "{{ qty | int }}",
      "{{ workload.tags[0] | upper }}",
      "{{ tags | join('+') }}/{{ note | default('none given') }}",
      "{{ no_such_name.deep.path }}",
      "{{ order_id is number }}",
      "{{ output.data.price * output.data.qty }}",
      "{{ ctx.total }}",
      "{{ 'yes' if ctx.total > 40 else 'no' }}",
      "VALUES ({{ ctx.total }}, '{{ start.first }}', {{ start.missing | tojson }})",
      "{{ {'t': ctx.total, 'tags': tags} }}",
      "{{ render.data.total }}",
      "{{ render.result.big }}",
      "{{ start.score >= 90 }}",
      "{{ output.data.score }}",
      "{{ ctx.route.from }}",
      "{{ high.who if high else (mid.who if mid else low.who) }}",
      "{{ with_c }}",
      "{{ a.v + 10 }}",
      "{{ a2.v + b.v + (c.v | default(0)) }}",
      "{{ not dry_run }}",
      "{{ publish.published | default('skipped') }}",
      "{{ workload.approved }}",
      "{{ audit.rows > 0 }}",
      "{{ steps | length }}",
      "{{ people }}",
      "{{ iter.p.n }}",
      "{{ p.a >= 18 }}",
      "{{ iter._index }}",
      "{{ _total }}",
      "{{ iter._last }}",
      "{{ event.name == 'loop.done' }}",
      "{{ iter.kv.key ~ '=' ~ iter.kv.value }}",
      "{{ 2 }}",
      "{{ iter.k * 10 }}",
      "{{ workload.none }}",
      "{{ start.results | selectattr('adult') | map(attribute='name') | list }}",
      "{{ pairs.data }}",
      "{{ nothing.stats.total }}",
      "{{ cap | int }}",
      "{{ iter.d }}",
      "{{ output.status == 'error' }}",
      "{{ divide.stats.failed }}",
      "{{ divide.results[0].q }}",
      "{{ divide.results[-1].q }}",
      "{{ ctx.page < last_page }}",
      "{{ ctx.seen + [fetch.page] }}",
      "{{ ctx.page + 1 }}",
      "{{ not check.more }}",
      "{{ (poll.n | default(0)) + 1 }}",
      "{{ pages[iter.i] }}",
      "{{ iter.i + 1 < (pages | length) }}",
      "{{ output }}",
      "{{ iter.acc + output.data.items }}",
      "{{ _prev.more }}",
      "{{ fetch.more == page.more }}",
      "{{ _task }}",
      "{{ start.fetch['items'] }}",
      "{{ start.results.task_2.me }}",
      "{{ start.never is defined }}",
      "{{ _attempt < 3 }}",
      "{{ output.error.message == 'boom' }}",
      "{{ event.name == 'call.error' }}",
      "{{ ctx.tries }}:{{ steps.risky.failed_task }}",
      "{{ start.t }}{{ unit }}",
      "{{ outcome.status == 'error' }}",
      "{{ n * n }}",
      "{{ parent_execution_id is not none }}",
      "{{ start.results | map(attribute='sq') | list }}",
      "{{ start.results[0].parent }}",
      "{{ fire.execution_id != execution_id }}",
      "{{ drain.stats.failed == 0 }}",
      "FOR UPDATE SKIP LOCKED LIMIT {{ __frame_max_rows }})\nRETURNING id\n",
      "{{ iter.task_row.id }}",
      "{{ seed.row_count }}",
      "'{{ x | replace(\"'\", \"''\") }}'",
      "{% if x is none %}NULL{% else %}'{{ x }}'{% endif %}",
  };
  for (const std::string_view source : kSources) {
    for (const bool methods : {true, false}) {
      const auto compiled = Template::Compile(source, Dialect{.methods = methods});
      EXPECT_TRUE(compiled) << source;
    }
  }
}

TEST(Template, ATypicalConditionIsFast) {
  const auto condition =
      Condition::Compile("{{ m.x >= 1 and s == 'text' and l | length > 2 }}", {});
  ASSERT_TRUE(condition);
  const RichScope scope;
  const int kRounds = 20'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(*condition->Evaluate(scope));
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  RecordProperty("microseconds", fmt::format("{}", spent.count() / kRounds));
  // Generous: this also runs unoptimised and under sanitizers on busy machines.
  EXPECT_LT(spent.count() / kRounds, 500.0);
}

}  // namespace
class RetypingScope : public JsonScope {
 public:
  using JsonScope::JsonScope;
  bool RetypesText() const override { return true; }
};

TEST(Template, LegacyRetypingIsAnOption) {
  const Json names = Json::Object({{"id", "42"},
                                   {"half", "0.5"},
                                   {"no", "False"},
                                   {"nil", "None"},
                                   {"zip", "007"},
                                   {"list", "[1, 2]"},
                                   {"word", "abc"}});
  const auto render = [&](std::string_view source, const Scope& scope) {
    return *Template::Compile(source)->Render(scope, Output::kText);
  };
  const RetypingScope legacy(names);
  EXPECT_EQ(render("{{ id }}", legacy), Json(42));
  EXPECT_EQ(render("{{ half }}", legacy), Json(0.5));
  EXPECT_EQ(render("{{ no }}", legacy), Json(false));
  EXPECT_EQ(render("{{ nil }}", legacy), Json());
  EXPECT_EQ(render("{{ zip }}", legacy), Json("007"));
  EXPECT_EQ(render("{{ list }}", legacy), Json::Array({1, 2}));
  EXPECT_EQ(render("{{ word }}", legacy), Json("abc"));
  EXPECT_EQ(render("{{ id }}{{ id }}", legacy), Json(4242));
  EXPECT_EQ(render("42", legacy), Json("42"));  // not a template
  EXPECT_EQ(render("{{ id }}", JsonScope(names)), Json("42"));
}

}  // namespace noetl::expr
