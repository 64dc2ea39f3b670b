#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "playbook/format.h"
#include "playbook/keys.h"
#include "playbook/model.h"
#include "playbook/places.h"

namespace noetl::playbook {
namespace {

// A validator for the part of JSON Schema that the playbook schema uses; a keyword it does not know
// fails the test.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  std::vector<std::string> Check(const Json& value) {
    problems_.clear();
    Check(root_, value, "$");
    return problems_;
  }

 private:
  static bool HasType(std::string_view type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "integer") return value.is_integer();
    if (type == "number") return value.is_number();
    EXPECT_EQ(type, "null");
    return value.is_null();
  }

  bool Holds(const Json& schema, const Json& value, const std::string& at) {
    Validator inner(root_);
    inner.Check(schema, value, at);
    return inner.problems_.empty();
  }

  void Fail(const std::string& at, const std::string& what) {
    problems_.push_back(at + ": " + what);
  }

  void Check(const Json& schema, const Json& value, const std::string& at) {
    for (const JsonMember& rule : schema.members()) {
      Rule(rule.key(), rule.value, schema, value, at);
    }
  }

  void Rule(std::string_view name, const Json& rule, const Json& schema, const Json& value,
            const std::string& at) {
    if (name == "$ref") {
      Check(root_["$defs"][rule.AsString().substr(8)], value, at);
    } else if (name == "type") {
      bool fits = rule.is_string() && HasType(rule.AsString(), value);
      for (const Json& type : rule.items()) fits = fits || HasType(type.AsString(), value);
      if (!fits) Fail(at, "type " + WriteJson(rule));
    } else if (name == "enum") {
      bool found = false;
      for (const Json& choice : rule.items()) found = found || choice == value;
      if (!found) Fail(at, "not one of " + WriteJson(rule));
    } else if (name == "const") {
      if (!(rule == value)) Fail(at, "not " + WriteJson(rule));
    } else if (name == "required") {
      for (const Json& key : rule.items()) {
        if (value.is_object() && !value.Has(key.AsString())) Fail(at, "needs " + key.ToString());
      }
    } else if (name == "anyOf") {
      bool any = false;
      for (const Json& choice : rule.items()) any = any || Holds(choice, value, at);
      if (!any) Fail(at, "no choice fits");
    } else if (name == "allOf") {
      for (const Json& part : rule.items()) Check(part, value, at);
    } else if (name == "if") {
      if (Holds(rule, value, at)) Check(schema["then"], value, at);
    } else {
      ContainerRule(name, rule, schema, value, at);
    }
  }

  void ContainerRule(std::string_view name, const Json& rule, const Json& schema, const Json& value,
                     const std::string& at) {
    if (name == "properties") {
      for (const JsonMember& member : value.members()) {
        if (const Json* known = rule.Find(member.key())) {
          Check(*known, member.value, at + "." + std::string(member.key()));
        }
      }
    } else if (name == "additionalProperties") {
      for (const JsonMember& member : value.members()) {
        if (schema["properties"].Has(member.key())) continue;
        if (rule == Json(false)) Fail(at, "unknown key " + std::string(member.key()));
        if (rule.is_object()) Check(rule, member.value, at + "." + std::string(member.key()));
      }
    } else if (name == "items") {
      for (const Json& item : value.items()) Check(rule, item, at + "[]");
    } else if (name == "minItems") {
      if (value.is_array() && value.size() < rule.AsUint()) Fail(at, "too few items");
    } else if (name == "minProperties") {
      if (value.is_object() && value.size() < rule.AsUint()) Fail(at, "too few keys");
    } else if (name == "maxProperties") {
      if (value.is_object() && value.size() > rule.AsUint()) Fail(at, "too many keys");
    } else {
      static constexpr std::string_view kNotes[] = {"$schema",     "$id",   "title",
                                                    "description", "$defs", "then"};
      EXPECT_NE(std::ranges::find(kNotes, name), std::end(kNotes)) << name;
    }
  }

  const Json& root_;
  std::vector<std::string> problems_;
};

std::vector<std::string> CheckText(const std::string& text) {
  static const Json kSchema = PlaybookSchema();
  const Loaded loaded = Load(text);
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    EXPECT_FALSE(diagnostic.is_error()) << diagnostic.message;
  }
  return loaded.ok() ? Validator(kSchema).Check(loaded.playbook->canonical)
                     : std::vector<std::string>{"not loaded"};
}

std::vector<std::string> CheckYaml(const std::string& text) {
  static const Json kSchema = PlaybookSchema();
  Node root;
  Diagnostics diagnostics;
  EXPECT_TRUE(ParseYaml(text, &root, &diagnostics));
  return Validator(kSchema).Check(NodeToJson(root));
}

const std::string kHead = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: n}\n";

TEST(SchemaTest, HasEveryKeyOfEveryPlace) {
  const Json schema = PlaybookSchema();
  EXPECT_EQ(schema["$schema"].AsString(), "https://json-schema.org/draft/2020-12/schema");
  const auto expect_keys = [](const Json& place, std::string_view name) {
    EXPECT_FALSE(KeysOf(name).empty()) << name;
    for (const Key& key : KeysOf(name)) {
      const Json* found = place["properties"].Find(key.name);
      ASSERT_NE(found, nullptr) << name << " " << key.name;
      EXPECT_EQ((*found)["description"].AsString(), key.meaning);
    }
  };
  expect_keys(schema, "root");
  for (const PlaceBelow& below : AllPlacesBelow()) {
    expect_keys(schema["$defs"][below.child], below.child);
  }
}

// A place that no key leads to would never be checked.
TEST(SchemaTest, EveryPlaceIsReached) {
  for (const std::string_view place : {"metadata",
                                       "executor",
                                       "executor.spec",
                                       "keychain",
                                       "workbook",
                                       "step",
                                       "step.spec",
                                       "step.spec.policy",
                                       "loop",
                                       "loop.spec",
                                       "loop.spec.policy",
                                       "loop.cursor",
                                       "loop.spec.frame",
                                       "next",
                                       "next.spec",
                                       "arc",
                                       "tool",
                                       "tool.spec",
                                       "policy",
                                       "rule",
                                       "rule.then",
                                       "retry",
                                       "output",
                                       "output.store",
                                       "admit",
                                       "admit.rule"}) {
    EXPECT_TRUE(PlaybookSchema()["$defs"].Has(place)) << place;
  }
  for (const PlaceBelow& below : AllPlacesBelow()) {
    bool known = false;
    for (const Key& key : KeysOf(below.place)) known = known || key.name == below.key;
    EXPECT_TRUE(known) << below.place << " " << below.key;
  }
}

TEST(SchemaTest, KindsAreListed) {
  const Json schema = PlaybookSchema();
  const Json& kinds = schema["$defs"]["tool"]["properties"]["kind"]["enum"];
  std::size_t authored = 0;
  for (const ToolKind& kind : ToolKinds()) authored += !kind.internal;
  EXPECT_EQ(kinds.size(), authored);
  EXPECT_EQ(schema["$defs"]["next.spec"]["properties"]["mode"]["enum"],
            Json::Array({"exclusive", "inclusive"}));
}

TEST(SchemaTest, AcceptsPlaybooks) {
  const std::string text = kHead + R"(
executor: {profile: distributed, spec: {entry_step: start, final_step: report, timeout: 2h}}
workload: {a: 1, b: "{{ a }}"}
keychain: [{name: k, kind: bearer, anything: 1}]
workflow:
  - step: start
    desc: words
    when: true
    spec:
      timeout: 30s
      policy:
        admit:
          rules: [{when: "{{ a }}", then: {allow: true}}, {else: {then: {allow: false}}}]
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel, max_in_flight: "{{ a }}"}}
    input: {x: 1}
    tool:
      - {name: one, kind: http, url: "http://x", anything: [1]}
      - two:
          kind: noop
          spec:
            policy:
              rules: [{when: "{{ a }}", then: {do: retry, attempts: 2}}, {else: {do: continue}}]
    set: {ctx.y: 1}
    output: {store: {kind: auto}}
    next: {spec: {mode: inclusive}, arcs: [{step: report, when: "{{ a }}", args: {q: 1}}]}
  - step: report
)";
  EXPECT_EQ(CheckText(text), std::vector<std::string>());
  EXPECT_EQ(CheckYaml(text), std::vector<std::string>());
  EXPECT_EQ(CheckYaml(kHead + "workflow: [{step: start, next: end}, {step: end}]\n"),
            std::vector<std::string>());
}

// Legacy forms are not part of the schema; what they are rewritten to is.
TEST(SchemaTest, AcceptsRewrittenLegacyForms) {
  EXPECT_EQ(CheckText(kHead + R"(
vars: {u: 1}
workflow:
  - step: start
    vars: {w: 1}
    tool: {kind: python, spec: {code: "result = 1"}, args: {b: 1}}
    next: [{step: a, when: "{{ u }}", args: {z: 1}}, {step: end}]
  - step: a
    args: {q: 1}
    tool: {kind: noop, eval: [{expr: "{{ outcome.status == 'error' }}", do: fail}]}
    next: [end]
  - step: end
)"),
            std::vector<std::string>());
}

TEST(SchemaTest, AcceptsTheExampleFiles) {
  const std::filesystem::path folder = std::string(NOETL_SOURCE_DIR) + "/examples";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".yaml") continue;
    std::ifstream stream(file.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (text.find("kind: Playbook") == text.npos) continue;
    EXPECT_EQ(CheckText(text), std::vector<std::string>()) << file.path();
  }
}

TEST(SchemaTest, RefusesMistakes) {
  const auto refuses = [](const std::string& text) {
    EXPECT_FALSE(CheckYaml(text).empty()) << text;
  };
  refuses("kind: Playbook\nmetadata: {name: n}\nworkflow: [{step: a}]\n");
  refuses(kHead + "workflow: []\n");
  refuses(kHead + "workflow: [{tool: {kind: noop}}]\n");
  refuses(kHead + "workflow: [{step: a, nxt: b}]\n");
  refuses(kHead + "workflow: [{step: a, tool: {kind: htp}}]\n");
  refuses(kHead + "workflow: [{step: a, tool: {kind: http}}]\n");
  refuses(kHead + "workflow: [{step: a, tool: {kind: task_sequence}}]\n");
  refuses(kHead + "workflow: [{step: a, tool: []}]\n");
  refuses(kHead + "workflow: [{step: a, next: {spec: {mode: some}, arcs: []}}]\n");
  refuses(kHead + "workflow: [{step: a, next: {arcs: [{when: x}]}}]\n");
  refuses(kHead + "workflow: [{step: a, loop: {in: [1]}}]\n");
}

}  // namespace
}  // namespace noetl::playbook
