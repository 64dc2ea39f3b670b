// One row per filter and test: what it makes of undefined, null, a wrong type and a normal value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "expr/registry.h"
#include "expr/testing.h"

namespace noetl::expr {
namespace {

using testing::Evaluated;
using ::testing::StartsWith;

struct Row {
  std::string_view name;       // as called, with arguments
  std::string_view undefined;  // results; an error is given by its code
  std::string_view null;
  std::string_view wrong_input;
  std::string_view wrong;
  std::string_view normal_input;
  std::string_view normal;
};

const Row kFilterRows[] = {
    {"abs", "E410", "E411", "'a'", "E411", "-5", "5"},
    {"attr('x')", "undefined", "undefined", "5", "undefined", "m", "1"},
    {"b64decode", R"("")", R"("")", "'*'", "E412", "'aMOp'", R"("hé")"},
    {"b64encode", R"("")", R"("")", "5", R"("NQ==")", "'hé'", R"("aMOp")"},
    {"batch(2)", "[]", "[]", "5", "E411", "l", "[[3,1],[2]]"},
    {"bool", "false", "false", "[]", "false", "'no'", "false"},
    {"capitalize", R"("")", R"("")", "true", R"("True")", "'fOO bAR'", R"("Foo bar")"},
    {"chain([9])", "[9]", "[9]", "5", "E411", "l", "[3,1,2,9]"},
    {"default('d')", R"("d")", R"("d")", "false", "false", "'x'", R"("x")"},
    {"dictsort", "[]", "[]", "5", "E411", "{'b': 1, 'A': 2}", R"([["A",2],["b",1]])"},
    {"escape", R"("")", R"("")", "5", R"("5")", "html", R"("&lt;a &amp; &#39;b&#39;&gt;")"},
    {"first", "undefined", "undefined", "5", "E411", "l", "3"},
    {"float", "0.0", "0.0", "'x'", "0.0", "'2.5'", "2.5"},
    {"format(1)", R"("")", R"("")", "5", R"("5")", "'%03d'", R"("001")"},
    {"fromjson", "E410", "E411", "'{'", "E412", R"('{"a":[1]}')", R"({"a":[1]})"},
    {"get('x', 9)", "9", "9", "5", "9", "m", "1"},
    {"groupby('ok')", "[]", "[]", "5", "E411", "[{'ok': 2}, {'ok': 1}]",
     R"([[1,[{"ok":1}]],[2,[{"ok":2}]]])"},
    {"indent(2)", R"("")", R"("")", "5", R"("5")", "multi", R"("one\n  two\n")"},
    {"int", "0", "0", "'x'", "0", "'3.9'", "3"},
    {"items", "[]", "[]", "5", "E411", "{'a': 1}", R"([["a",1]])"},
    {"join('-')", R"("")", R"("")", "5", "E411", "l", R"("3-1-2")"},
    {"keys", "[]", "[]", "5", "E411", "m", R"(["x","items","y"])"},
    {"last", "undefined", "undefined", "5", "E411", "l", "2"},
    {"length", "0", "0", "5", "0", "uni", "7"},
    {"lines", "[]", "[]", "5", R"(["5"])", "multi", R"(["one","two"])"},
    {"list", "[]", "[]", "5", "E411", "'ab'", R"(["a","b"])"},
    {"lower", R"("")", R"("")", "true", R"("true")", "'ÀB'", R"("àb")"},
    {"map('upper')", "[]", "[]", "5", "E411", "words", R"(["B","A","C"])"},
    {"max", "undefined", "undefined", "5", "E411", "l", "3"},
    {"min", "undefined", "undefined", "[1, 'a']", "E411", "l", "1"},
    {"pprint", R"("null")", R"("null")", "5", R"("5")", "{'a': 1}", R"("{\n  \"a\": 1\n}")"},
    {"reject('odd')", "[]", "[]", "5", "E411", "l", "[2]"},
    {"rejectattr('ok')", "[]", "[]", "5", "E411", "people", R"([{"n":"bo","a":17,"ok":false}])"},
    {"replace('t', 'T')", R"("")", R"("")", "5", R"("5")", "s", R"("TexT")"},
    {"reverse", "[]", "[]", "5", "E411", "uni", R"("€ olléh")"},
    {"round(1)", "E410", "E411", "'a'", "E411", "2.45", "2.5"},
    {"safe", "undefined", "null", "5", "5", "html", R"("<a & 'b'>")"},
    {"select('odd')", "[]", "[]", "5", "E411", "l", "[3,1]"},
    {"selectattr('ok')", "[]", "[]", "5", "E411", "people", R"([{"n":"Ann","a":31,"ok":true}])"},
    {"slice(2)", "[[],[]]", "[[],[]]", "5", "E411", "l", "[[3,1],[2]]"},
    {"sort", "[]", "[]", "[1, 'a']", "E411", "words", R"(["A","b","c"])"},
    {"split(',')", R"([""])", R"([""])", "5", R"(["5"])", "'a,b,'", R"(["a","b",""])"},
    {"sqlident", "E410", "E412", "5", R"("\"5\"")", "'s.t\"x'", R"("\"s\".\"t\"\"x\"")"},
    {"sqlquote", R"("NULL")", R"("NULL")", "5", R"("5")", "\"it's\"", R"("'it''s'")"},
    {"string", R"("")", R"("")", "[1, true, none]", R"("[1,true,null]")", "50.0", R"("50.0")"},
    {"sum", "0", "0", "['a']", "E411", "l", "6"},
    {"title", R"("")", R"("")", "5", R"("5")", "'foo bAR'", R"("Foo Bar")"},
    {"tojson", R"("null")", R"("null")", "5", R"("5")", "m.y", R"("{\"z\":[10,20]}")"},
    {"trim", R"("")", R"("")", "5", R"("5")", "'  a b '", R"("a b")"},
    {"unique", "[]", "[]", "5", "E411", "[1, 1.0, 'A', 'a', '1']", R"([1,"A","1"])"},
    {"upper", R"("")", R"("")", "true", R"("TRUE")", "uni", R"("HÉLLO €")"},
    {"urlencode", R"("")", R"("")", "[5]", "E411", "'a b/ü'", R"("a%20b/%C3%BC")"},
    {"values", "[]", "[]", "5", "E411", "{'a': 1, 'b': [2]}", "[1,[2]]"},
    {"zip([7, 8])", "[]", "[]", "5", "E411", "l", "[[3,7],[1,8]]"},
};

const Row kTestRows[] = {
    {"defined", "false", "true", "[]", "true", "5", "true"},
    {"divisibleby(3)", "false", "false", "'a'", "false", "9", "true"},
    {"endingwith('xt')", "false", "false", "5", "false", "s", "true"},
    {"eq(7)", "false", "false", "'7'", "false", "i", "true"},
    {"even", "false", "false", "'a'", "false", "4", "true"},
    {"false", "false", "false", "0", "false", "false", "true"},
    {"filter", "false", "false", "5", "false", "'upper'", "true"},
    {"float", "false", "false", "5", "false", "f", "true"},
    {"ge(7)", "false", "E411", "[]", "E411", "i", "true"},
    {"gt(6)", "false", "E411", "[]", "E411", "i", "true"},
    {"in([7])", "false", "false", "'7'", "false", "i", "true"},
    {"integer", "false", "false", "5.0", "false", "i", "true"},
    {"iterable", "false", "false", "5", "false", "m", "true"},
    {"le(7)", "false", "E411", "[]", "E411", "i", "true"},
    {"lower", "false", "false", "5", "false", "s", "true"},
    {"lt(8)", "false", "E411", "{}", "E411", "i", "true"},
    {"mapping", "false", "false", "[]", "false", "m", "true"},
    {"ne(7)", "true", "true", "'7'", "true", "i", "false"},
    {"none", "false", "true", "0", "false", "n", "true"},
    {"number", "false", "false", "true", "false", "f", "true"},
    {"odd", "false", "false", "'a'", "false", "-3", "true"},
    {"boolean", "false", "false", "0", "false", "t", "true"},
    {"sameas(7)", "false", "false", "7.0", "false", "i", "true"},
    {"sequence", "false", "false", "m", "false", "l", "true"},
    {"startingwith('te')", "false", "false", "5", "false", "s", "true"},
    {"string", "false", "false", "5", "false", "s", "true"},
    {"test", "false", "false", "5", "false", "'odd'", "true"},
    {"true", "false", "false", "1", "false", "t", "true"},
    {"undefined", "true", "false", "5", "false", "nothing.there", "true"},
    {"upper", "false", "false", "5", "false", "'AB'", "true"},
};

void CheckCell(const std::string& expression, std::string_view expected) {
  const std::string got = Evaluated(expression);
  if (expected.starts_with("E4")) {
    EXPECT_THAT(got, StartsWith(std::string(expected) + " ")) << expression;
  } else {
    EXPECT_EQ(got, expected) << expression;
  }
}

void CheckRow(const Row& row, std::string_view link) {
  CheckCell(fmt::format("missing.path {} {}", link, row.name), row.undefined);
  CheckCell(fmt::format("none {} {}", link, row.name), row.null);
  CheckCell(fmt::format("{} {} {}", row.wrong_input, link, row.name), row.wrong);
  CheckCell(fmt::format("{} {} {}", row.normal_input, link, row.name), row.normal);
}

TEST(FilterTable, EveryCell) {
  std::set<std::string_view> covered;
  for (const Row& row : kFilterRows) {
    CheckRow(row, "|");
    covered.insert(row.name.substr(0, row.name.find('(')));
  }
  for (const Callable& filter : FilterTable()) {
    EXPECT_TRUE(covered.contains(filter.name)) << "no row for filter " << filter.name;
  }
}

TEST(TestTable, EveryCell) {
  std::set<std::string_view> covered;
  for (const Row& row : kTestRows) {
    CheckRow(row, "is");
    covered.insert(row.name.substr(0, row.name.find('(')));
  }
  for (const Callable& test : TestTable()) {
    EXPECT_TRUE(covered.contains(test.name)) << "no row for test " << test.name;
  }
}

struct Example {
  std::string_view expression;
  std::string_view expected;
};

// Arguments, keywords, aliases and corners beyond the four columns above.
const Example kFilterExamples[] = {
    {"'x' | int(5)", "5"},
    {"'x' | int(default=6)", "6"},
    {"true | int", "1"},
    {"' 42 ' | int", "42"},
    {"-3.9 | int", "-3"},
    {"1e30 | int", "0"},
    {"'x' | int(nothing)", "undefined"},
    {"'1e3' | float", "1000.0"},
    {"'nan' | float(1)", "1"},
    {"'' | default('d')", R"("")"},
    {"'' | default('d', true)", R"("d")"},
    {"0 | d('d', boolean=true)", R"("d")"},
    {"nothing | default", R"("")"},
    {"nothing | default(m.x)", "1"},
    {"step | default('d') | length", "3"},
    {"m.y | tojson(2)", R"("{\n  \"z\": [\n    10,\n    20\n  ]\n}")"},
    {"'aaa' | replace('a', 'b', 2)", R"("bba")"},
    {"'ab' | replace('', '-')", R"("-a-b-")"},
    {"'xxaxx' | trim('x')", R"("a")"},
    {"l | count", "3"},
    {"m | len", "3"},
    {"-2.5 | round", "-3.0"},
    {"2.1 | round(method='ceil')", "3.0"},
    {"2.9 | round(0, 'floor')", "2.0"},
    {"2 | round", "2"},
    {"1234 | round(-2)", "1200.0"},
    {"2 | round(0, 'up')", "E411 round: the method is 'common', 'ceil' or 'floor'"},
    {"'a b  c' | split", R"(["a","b","","c"])"},
    {"'a-b-c' | split('-', 1)", R"(["a","b-c"])"},
    {"'abc' | split('')", R"(["a","b","c"])"},
    {"people | join(', ', attribute='n')", R"("Ann, bo")"},
    {"[1, none, true, 'x'] | join(',')", R"("1,,True,x")"},
    {"l | get(-1)", "2"},
    {"m | get('nope')", "null"},
    {"m | get('nope') is defined", "true"},
    {"l | sort", "[1,2,3]"},
    {"l | sort(reverse=true)", "[3,2,1]"},
    {"l | sort(true)", "[3,2,1]"},
    {"words | sort(case_sensitive=true)", R"(["A","b","c"])"},
    {"people | sort(attribute='a') | map(attribute='n')", R"(["bo","Ann"])"},
    {"[true, false] | sort", "[false,true]"},
    {"[none, none] | sort", "[null,null]"},
    {"[[2, 'b'], [1, 'z'], [2, 'a']] | sort", R"([[1,"z"],[2,"a"],[2,"b"]])"},
    {"words | max", R"("c")"},
    {"people | min(attribute='a') | get('n')", R"("bo")"},
    {"people | sum(attribute='a')", "48"},
    {"people | sum('a', start=2)", "50"},
    {"[[1], [2]] | sum(start=[])", "[1,2]"},
    {"l | batch(2, 0)", "[[3,1],[2,0]]"},
    {"l | batch(0)", "E411 a count from 1 to 100000 is needed"},
    {"l | slice(2, 'x')", R"([[3,1],[2,"x"]])"},
    {"{'a': 1, 'b': 2} | chain({'b': 3})", R"({"a":1,"b":3})"},
    {"l | zip('ab', [true, false])", R"([[3,"a",true],[1,"b",false]])"},
    {"people | map(attribute='q', default=0)", "[0,0]"},
    {"people | map(attribute='n') | map('replace', 'n', 'N')", R"(["ANN","bo"])"},
    {"[{'y': {'z': [5]}}] | map(attribute='y.z.0')", "[5]"},
    {"['a', '', 'b'] | select", R"(["a","b"])"},
    {"l | select('gt', 1)", "[3,2]"},
    {"l | reject('==', 3)", "[1,2]"},
    {"people | selectattr('a', 'lt', 18) | map(attribute='n')", R"(["bo"])"},
    {"people | selectattr('q', 'defined')", "[]"},
    {"people | rejectattr('q', 'defined') | length", "2"},
    {"words | unique(case_sensitive=true) | length", "3"},
    {"['a', 'A'] | unique(true)", R"(["a","A"])"},
    {"people | unique(attribute='ok') | length", "2"},
    {"{'b': 1, 'a': 2} | dictsort(by='value')", R"([["b",1],["a",2]])"},
    {"{'b': 1, 'a': 2} | dictsort(reverse=true)", R"([["b",1],["a",2]])"},
    {"{'b': 1} | dictsort(by='x')", "E411 dictsort: by is 'key' or 'value'"},
    {"'a\nb' | indent(2, true)", R"("  a\n  b")"},
    {"'a\n\nb' | indent('>', blank=true)", R"("a\n>\n>b")"},
    {"'%s is %d%% of %.2f' | format('x', 5, 1.005)", R"("x is 5% of 1.00")"},
    {"'%(a)s-%(b)05.1f' | format(a='k', b=2.25)", R"("k-002.2")"},
    {"'%-4s|%4s|%+d' | format('a', 'b', 3)", R"("a   |   b|+3")"},
    {"'%x %X %o %e' | format(255, 255, 8, 12345.678)", R"("ff FF 10 1.234568e+04")"},
    {"'%.2s' | format('héllo')", R"("hé")"},
    {"'%s' | format", "E412 format: not enough values"},
    {"'%d' | format('a')", "E411 format: %d needs a number, not string"},
    {"'%q' | format(1)", "E412 format: unknown conversion after '%'"},
    {"{'a b': 'c&d', 'n': 1} | urlencode", R"("a%20b=c%26d&n=1")"},
    {"[['k', 'v w']] | urlencode", R"("k=v%20w")"},
    {"'/w==' | b64decode", "E412 b64decode: the content is not UTF-8 text"},
    {"'YWI' | b64decode", R"("ab")"},
    {"'YWI=x' | b64decode", "E412 b64decode: the text is not base64"},
    {"html | e", R"("&lt;a &amp; &#39;b&#39;&gt;")"},
    {"true | sqlquote", R"("TRUE")"},
    {"'a\\\\b' | sqlq", R"(" E'a\\\\b'")"},
    {"m.y | sqlquote", R"("'{\"z\":[10,20]}'")"},
    {"'col' | ident", R"("\"col\"")"},
    {"'a..b' | sqlident", "E412 sqlident: a part of the name is empty"},
    {"'ÀÉ ß Ÿ Ж Σ ŁŻ' | lower", R"("àé ß ÿ ж σ łż")"},
    {"'àé ÿ ж ς łż' | upper", R"("ÀÉ Ÿ Ж Σ ŁŻ")"},
    {"'no' | bool or 'x' | bool", "true"},
    {"9223372036854775807 | abs", "9223372036854775807"},
    {"none_list | first | default('e')", R"("e")"},
    {"'' | lines", "[]"},
    {"'a\r\nb' | lines", R"(["a","b"])"},
};

TEST(FilterTable, ArgumentsAndCorners) {
  for (const Example& example : kFilterExamples) {
    EXPECT_EQ(Evaluated(example.expression), example.expected) << example.expression;
  }
}

const Example kTestExamples[] = {
    {"4 is divisibleby 2", "true"},
    {"4 is divisibleby(0)", "E412 division by zero"},
    {"i is not divisibleby 2 and true", "true"},
    {"i is equalto 7.0", "true"},
    {"i is == 7", "true"},
    {"i is sameas i", "true"},
    {"m is sameas m", "true"},
    {"[] is sameas []", "false"},
    {"n is not none", "false"},
    {"nothing is not none", "true"},
    {"nothing is not defined", "true"},
    {"n is defined", "true"},
    {"i is in l", "false"},
    {"1 is in l", "true"},
    {"'ex' is in s", "true"},
    {"event.name is string", "true"},
    {"step is mapping", "true"},
    {"step is defined", "true"},
    {"remote is defined", "true"},
    {"remote is mapping", "needs_reference noetl://body"},
    {"'none' is filter", "false"},
    {"1 is true", "false"},
    {"'abc' is lower and 'ABC' is upper", "true"},
    {"'123' is lower", "false"},
};

TEST(TestTable, ArgumentsAndCorners) {
  for (const Example& example : kTestExamples) {
    EXPECT_EQ(Evaluated(example.expression), example.expected) << example.expression;
  }
}

TEST(Tables, NamesAreUniqueAndDocumented) {
  for (const auto table : {FilterTable(), TestTable(), FunctionTable(), MethodTable()}) {
    std::set<std::string_view> names;
    for (const Callable& row : table) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
      for (const std::string_view alias : row.aliases) {
        EXPECT_TRUE(alias.empty() || names.insert(alias).second) << alias;
      }
      EXPECT_FALSE(row.doc.empty()) << row.name;
      EXPECT_TRUE(row.usage.find(row.name) != std::string_view::npos) << row.name;
      EXPECT_LE(row.min, row.max);
    }
  }
}

TEST(Tables, FunctionsAndMethods) {
  const Example kExamples[] = {
      {"range(3)", "[0,1,2]"},
      {"range(1, 4)", "[1,2,3]"},
      {"range(5, 0, -2)", "[5,3,1]"},
      {"range(9223372036854775805, 9223372036854775807, 5)", "[9223372036854775805]"},
      {"range(0, 3, 0)", "E412 range: the step is not zero"},
      {"range(100001)", "E420 range has more than 100000 numbers"},
      {"range('a')", "E411 range needs integers, not string"},
      {"range(nothing.x)", "E410 'nothing.x' is undefined"},
      {"dict(a=1, b=[2])", R"({"a":1,"b":[2]})"},
      {"dict({'a': 1}, a=2)", R"({"a":2})"},
      {"namespace(a=1).a", "1"},
      {"namespace(a=1)", R"({"a":1})"},
      {"now()", R"("2024-05-06T07:08:09Z")"},
      {"token('google')", R"("tok-google")"},
      {"token(google)", R"("tok-google")"},
      {"token(s)", R"("tok-text")"},
      {"token(5)", "E411 token needs the name of a credential, not int"},
      {"m.get('x')", "1"},
      {"m.get('q', 5)", "5"},
      {"m.get('q') is none", "true"},
      {"m.items", R"("key")"},
      {"m.items() | length", "3"},
      {"m.keys()", R"(["x","items","y"])"},
      {"m.keys", "undefined"},
      {"{'a': 1}.values()", "[1]"},
      {"s.upper()", R"("TEXT")"},
      {"s.upper().lower()", R"("text")"},
      {"' x '.strip()", R"("x")"},
      {"'-x-'.strip('-')", R"("x")"},
      {"' a  b '.split()", R"(["a","b"])"},
      {"'a,b'.split(',')", R"(["a","b"])"},
      {"s.replace('t', 'T')", R"("TexT")"},
      {"s.startswith('te')", "true"},
      {"s.endswith('te')", "false"},
      {"', '.join(words)", R"("b, A, c")"},
  };
  for (const Example& example : kExamples) {
    EXPECT_EQ(Evaluated(example.expression), example.expected) << example.expression;
  }
  EXPECT_THAT(Evaluated("s.upper()", Dialect{.methods = false}), StartsWith("compile E403 "));
  EXPECT_EQ(Evaluated("s.upper", Dialect{.methods = false}), "undefined");
  EXPECT_THAT(Evaluated("s.format(1)"), StartsWith("compile E403 unknown method 'format'"));
  EXPECT_THAT(Evaluated("lipsum(1)"), StartsWith("compile E403 unknown function 'lipsum'"));
  EXPECT_THAT(Evaluated("m.x(1)"), StartsWith("compile E403 "));
  EXPECT_THAT(Evaluated("(1)(2)"), StartsWith("compile E403 "));
}

TEST(Tables, ScopesWithoutClockAndTokens) {
  const JsonScope scope(Json::Object());
  EXPECT_THAT(testing::Rendered("{{ now() }}", scope), StartsWith("E402 "));
  EXPECT_THAT(testing::Rendered("{{ token('x') }}", scope), StartsWith("E403 "));
}

}  // namespace
}  // namespace noetl::expr
