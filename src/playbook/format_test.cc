#include "playbook/format.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "playbook/diagnostics.h"
#include "playbook/keys.h"
#include "playbook/normalise.h"
#include "playbook/yaml.h"

namespace noetl::playbook {
namespace {

Node Parse(const std::string& text) {
  Node root;
  Diagnostics diagnostics;
  const bool parsed = ParseYaml(text, &root, &diagnostics);
  EXPECT_TRUE(parsed) << text;
  for (const Diagnostic& diagnostic : diagnostics.list()) {
    EXPECT_FALSE(diagnostic.is_error()) << diagnostic.message << "\n" << text;
  }
  return root;
}

Node Scalar(Json value, std::string text = "") {
  Node node;
  node.scalar = std::move(value);
  node.text = std::move(text);
  return node;
}

Node Key(const std::string& name) { return Scalar(Json(name), name); }

std::string Format(const std::string& text) { return FormatYaml(Parse(text)); }

std::string FormatCanonical(const std::string& text, Json* canonical = nullptr) {
  Diagnostics diagnostics;
  const Node node = Normalise(Parse(text), &diagnostics);
  if (canonical) *canonical = NodeToJson(node);
  return FormatYaml(node);
}

TEST(FormatTest, KeysHaveFixedPlaces) {
  EXPECT_EQ(Format(R"(
workflow:
- next: {arcs: [{when: "{{ a }}", step: b}], spec: {mode: exclusive}}
  set: {z: 1, a: 2}
  tool:
    spec: {policy: {rules: [{then: {set: {x: 1}, do: continue}, when: a}]}}
    url: http://x
    zeta: 1
    kind: http
  loop: {spec: {max_in_flight: 2, mode: parallel}, iterator: i, in: "{{ xs }}"}
  step: a
- step: b
kind: Playbook
workload: {z: 1, a: []}
metadata: {path: p, name: n}
apiVersion: noetl.io/v10
)"),
            R"(apiVersion: noetl.io/v10
kind: Playbook

metadata:
  name: n
  path: p

workload:
  z: 1
  a: []

workflow:
  - step: a
    loop:
      in: "{{ xs }}"
      iterator: i
      spec:
        mode: parallel
        max_in_flight: 2
    tool:
      kind: http
      url: http://x
      zeta: 1
      spec:
        policy:
          rules:
            - when: a
              then:
                do: continue
                set:
                  x: 1
    set:
      z: 1
      a: 2
    next:
      spec:
        mode: exclusive
      arcs:
        - step: b
          when: "{{ a }}"

  - step: b
)");
}

TEST(FormatTest, LabelledTasksAndElseRules) {
  EXPECT_EQ(
      Format("workflow:\n- tool:\n  - fetch: {spec: {policy: {rules: [{else: {set: {a: 1}, do: "
             "jump}}]}}, kind: noop}\n  step: s\n"),
      R"(workflow:
  - step: s
    tool:
      - fetch:
          kind: noop
          spec:
            policy:
              rules:
                - else:
                    do: jump
                    set:
                      a: 1
)");
}

TEST(FormatTest, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(Format(R"(
plain: 'just words'
url: "https://example.com/a?b=c#d"
flag: "--verbose"
number: "12"
float: '1e5'
hex: "0x1F"
word: "yes"
none: "null"
tilde: "~"
empty: ""
date: "2024-01-31"
version: "1.2.3"
colon: "a: b"
hash: "a #b"
template: "{{ x == 'a' }}"
quotes: '{{ x == "a" }}'
both: '{{ x == "a" and y == ''b'' }}'
back: 'C:\dir'
space: " a"
dash: "- a"
star: "*a"
bang: "!a"
tab: "a\tb"
control: "a\x01b"
line: "one\u2028two"
unicode: "größe ✓"
"on": 1
"12": 2
"a: b": 3
)"),
            R"(plain: just words
url: https://example.com/a?b=c#d
flag: "--verbose"
number: "12"
float: "1e5"
hex: "0x1F"
word: "yes"
none: "null"
tilde: "~"
empty: ""
date: "2024-01-31"
version: 1.2.3
colon: "a: b"
hash: "a #b"
template: "{{ x == 'a' }}"
quotes: '{{ x == "a" }}'
both: "{{ x == \"a\" and y == 'b' }}"
back: C:\dir
space: " a"
dash: "- a"
star: "*a"
bang: "!a"
tab: "a\tb"
control: "a\x01b"
line: "one\u2028two"
unicode: größe ✓
"on": 1
"12": 2
"a: b": 3
)");
}

TEST(FormatTest, ScalarsKeepTheirText) {
  EXPECT_EQ(
      Format("a: 1.0\nb: 1e3\nc: 0x10\nd: +5\ne: ~\nf:\ng: True\nh: .5\ni: yes\nj: 007\n"),
      "a: 1.0\nb: 1e3\nc: 0x10\nd: +5\ne: null\nf: null\ng: true\nh: .5\ni: \"yes\"\nj: 007\n");
}

TEST(FormatTest, SynthesisedScalarsAreWritten) {
  Node root;
  root.kind = Node::Kind::kMap;
  const auto add = [&](const std::string& name, Json value, const std::string& text) {
    root.entries.emplace_back(Key(name), Scalar(std::move(value), text));
  };
  add("no_text", Json(7), "");
  add("other_text", Json(5), "4");
  add("truth", Json(true), "");
  add("nothing", Json(), "");
  add("words", Json("true"), "");
  EXPECT_EQ(FormatYaml(root),
            "no_text: 7\nother_text: 5\ntruth: true\nnothing: null\nwords: \"true\"\n");
}

TEST(FormatTest, LinesBecomeLiteralBlocks) {
  EXPECT_EQ(Format(R"(
code: "a = 1\nif a:\n    b = 2\n"
kept: "one\n\ntwo"
folded: >
  a
  b
list: ["x\ny\n"]
leading: "  a\nb\n"
trailing: "a\nb\n\n"
breaks: "\n\n"
carriage: "a\r\nb"
)"),
            R"(code: |
  a = 1
  if a:
      b = 2
kept: |-
  one

  two
folded: |
  a b

list:
  - |
    x
    y
leading: "  a\nb\n"
trailing: "a\nb\n\n"
breaks: "\n\n"
carriage: "a\r\nb"
)");
}

TEST(FormatTest, NestedListsAndEmptyContainers) {
  EXPECT_EQ(Format("a: [[1, [2, {b: 3, c: [ ]}]], [], {}]\n"),
            "a:\n  - - 1\n    - - 2\n      - b: 3\n        c: []\n  - []\n  - {}\n");
}

TEST(FormatTest, CommentsStayWithTheirNodes) {
  const std::string text = R"(# head of the file
# second line
apiVersion: noetl.io/v2
kind: Playbook  # the kind

# about metadata
metadata:  # beside metadata
  # above name
  name: n  # beside name
  path: p

workload:
  token: ""  # ui:secret

workflow:
  # the first step
  - step: start  # entry
    # above tool
    tool:
      kind: noop  # does nothing
      result: |  # text
        # not a comment
        x

  # the second
  - step: end

# the last words
)";
  const std::string once = Format(text);
  EXPECT_EQ(Format(once), once);
  for (const std::string comment :
       {"# head of the file\n# second line\napiVersion", "kind: Playbook  # the kind",
        "# about metadata\nmetadata:  # beside metadata\n  # above name\n  name: n  # beside name",
        "token: \"\"  # ui:secret", "  # the first step\n  - step: start  # entry",
        "    # above tool\n    tool:", "kind: noop  # does nothing", "result: |  # text",
        "  # the second\n  - step: end", "# the last words\n"}) {
    EXPECT_NE(once.find(comment), once.npos) << comment << "\n---\n" << once;
  }
}

TEST(FormatTest, CommentsMoveWithTheirKeys) {
  EXPECT_EQ(Format("metadata:\n  # why this path\n  path: p\n  # the name\n  name: n\n"),
            "metadata:\n  # the name\n  name: n\n  # why this path\n  path: p\n");
}

TEST(FormatTest, VeryLongKeys) {
  const std::string key(1'500, 'k');
  const std::string text = Format("? " + key + "\n: 1\n");
  EXPECT_EQ(NodeToJson(Parse(text)), Json::Object({{key, Json(1)}}));
  EXPECT_EQ(Format(text), text);
}

// ---- properties ----

// inRange scales with the size parameter; nominal size gives the whole range from the first case.
int Between(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high));
}

rc::Gen<std::string> AnyText() {
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(std::vector<std::string>{
          "a",       "b",      "Z",      "0",      "7",    ".",    "-",    "_",   " ",   "  ", "\n",
          "\n\n",    "\t",     ":",      ": ",     "#",    " #",   "'",    "\"",  "\\",  "{",  "}",
          "{{ x }}", "[",      "]",      ",",      "&",    "*",    "!",    "|",   ">",   "%",  "@",
          "`",       "?",      "~",      "=",      "<<",   "null", "true", "no",  "e5",  "0x", "ü",
          "✓",       "\u2028", "\ufeff", "\u0085", "\x01", "\x7f", "\r",   "---", "...", "- "})),
      [](const std::vector<std::string>& parts) {
        std::string text;
        for (const std::string& part : parts) text += part;
        return text;
      });
}

Node AnyNode(int depth) {
  const int kind = Between(0, depth > 0 ? 9 : 6);
  if (kind == 0) return Scalar(Json());
  if (kind == 1) return Scalar(Json(*rc::gen::arbitrary<bool>()));
  if (kind == 2) return Scalar(Json(*rc::gen::arbitrary<std::int64_t>()));
  if (kind == 3) return Scalar(Json(static_cast<double>(Between(-999, 999)) / 8));
  if (kind < 6) return Scalar(Json(*rc::gen::resize(6, AnyText())));
  Node node;
  const int size = Between(0, 4);
  if (kind == 6) {
    node.kind = Node::Kind::kList;
    for (int i = 0; i < size; ++i) node.items.push_back(AnyNode(depth - 1));
    return node;
  }
  node.kind = Node::Kind::kMap;
  for (int i = 0; i < size; ++i) {
    const std::string name = *rc::gen::resize(3, AnyText());
    if (node.Find(name) != nullptr) continue;
    node.entries.emplace_back(Key(name), AnyNode(depth - 1));
  }
  return node;
}

TEST(FormatTest, AnyTreeReadsBackEqual) {
  EXPECT_TRUE(rc::check([] {
    Node root;
    root.kind = Node::Kind::kMap;
    for (const std::string name : {"a", "b", "c", "d", "e"}) {
      root.entries.emplace_back(Key(name), AnyNode(4));
    }
    root.entries.emplace_back(Key("text"), Scalar(Json(*AnyText())));
    const std::string text = FormatYaml(root);
    RC_LOG(text);
    Node back;
    Diagnostics diagnostics;
    RC_ASSERT(ParseYaml(text, &back, &diagnostics));
    RC_ASSERT(CanonicalJson(NodeToJson(back)) == CanonicalJson(NodeToJson(root)));
    RC_ASSERT(FormatYaml(back) == text);
  }));
}

TEST(FormatTest, CommentsAnywhereAreKeptAndStable) {
  EXPECT_TRUE(rc::check([] {
    // Comments at random lines of a document in canonical form.
    static const std::vector<std::string> kLines = {"apiVersion: noetl.io/v2",
                                                    "kind: Playbook",
                                                    "metadata:",
                                                    "  name: n",
                                                    "  path: p",
                                                    "workload:",
                                                    "  a: 1",
                                                    "  list:",
                                                    "    - 1",
                                                    "    - x: 1",
                                                    "      y: 2",
                                                    "workflow:",
                                                    "  - step: start",
                                                    "    tool:",
                                                    "      kind: noop",
                                                    "    next:",
                                                    "      arcs:",
                                                    "        - step: end",
                                                    "  - step: end"};
    std::string text;
    int comments = 0;
    for (const std::string& line : kLines) {
      const int choice = Between(0, 4);
      const std::string indent = line.substr(0, line.find_first_not_of(' '));
      if (choice == 1) text += indent + "# c" + std::to_string(comments++) + "\n";
      text += line;
      if (choice == 2) text += "  # c" + std::to_string(comments++);
      text += "\n";
    }
    const std::string once = FormatYaml(Parse(text));
    RC_LOG(once);
    for (int i = 0; i < comments; ++i) {
      const bool found = once.find("# c" + std::to_string(i) + "\n") != once.npos;
      RC_ASSERT(found);
    }
    RC_ASSERT(FormatYaml(Parse(once)) == once);
  }));
}

// Formatting changes nothing that a playbook means.
void ExpectSameMeaning(const std::string& text) {
  Json before;
  Json after;
  const std::string once = FormatCanonical(text, &before);
  const std::string twice = FormatCanonical(once, &after);
  EXPECT_EQ(once, twice);
  EXPECT_EQ(CanonicalJson(before), CanonicalJson(after)) << once;
}

TEST(FormatTest, PlaybooksMeanTheSame) {
  ExpectSameMeaning(R"(
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: legacy, path: t/legacy }
vars: { unit: C }
workload: { t: 31 }
workbook:
  - name: classify
    tool: { kind: python, input: { t: 0 }, code: "result = {'hot': t > 25}\nprint(t)\n" }
workflow:
  - step: start
    tool: { kind: workbook, name: classify, input: { t: "{{ t }}" } }
    vars: { was_hot: "{{ start.hot }}" }
    next:
      - { step: hot, when: "{{ start.hot }}", args: { why: "{{ start.t }}{{ unit }}" } }
      - { step: end }
  - step: hot
    args: { base: 1 }
    tool:
      - { name: one, kind: noop, eval: [ { expr: "{{ outcome.status == 'error' }}", do: fail } ] }
      - two: { kind: noop, result: [1, "2", null, { a: ~ }] }
    next: [end]
  - step: end
)");
}

TEST(FormatTest, ExampleFilesMeanTheSame) {
  const std::filesystem::path folder = std::string(NOETL_SOURCE_DIR) + "/examples";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".yaml") continue;
    std::ifstream stream(file.path());
    ExpectSameMeaning({std::istreambuf_iterator<char>(stream), {}});
  }
}

}  // namespace
}  // namespace noetl::playbook
