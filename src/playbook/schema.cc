#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "playbook/format.h"
#include "playbook/keys.h"
#include "playbook/model.h"
#include "playbook/places.h"

namespace noetl::playbook {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Json StringList(const std::vector<std::string_view>& words) {
  std::vector<Json> items;
  for (const std::string_view word : words) items.emplace_back(word);
  return Json::Array(std::move(items));
}

Json Ref(std::string_view place) {
  return Json::Object({{"$ref", "#/$defs/" + std::string(place)}});
}

Json TypeIs(std::string_view types) {
  const auto words = Split(types, '|');
  return Json::Object({{"type", words.size() == 1 ? Json(words[0]) : StringList(words)}});
}

// Fields that the server renders may hold a template where another type is meant; scalars where
// text is meant are taken as written.
Json TypeSchema(KeyType type) {
  switch (type) {
    case KeyType::kAny: return Json::Object();
    case KeyType::kString:
    case KeyType::kText: return TypeIs("string|number|boolean");
    case KeyType::kBool: return TypeIs("boolean|string");
    case KeyType::kInt: return TypeIs("integer|string");
    case KeyType::kNumber: return TypeIs("number|string");
    case KeyType::kMap: return TypeIs("object|null");
    case KeyType::kList: return TypeIs("array|null");
    case KeyType::kStringList:
      return TypeIs("array|string|null").With("items", TypeIs("string|number|boolean"));
    case KeyType::kDuration: return TypeIs("number|string|object");
    case KeyType::kCondition: return TypeIs("string|boolean|number|null");
  }
  return Json::Object();
}

Json ListOf(Json item) { return Json::Object({{"type", "array"}, {"items", std::move(item)}}); }

Json AnyOf(std::vector<Json> choices) {
  return Json::Object({{"anyOf", Json::Array(std::move(choices))}});
}

// The value of a key that leads to another place. `next` also has its short forms, and a task may
// be written as {label: {kind: ...}}.
Json BelowSchema(const PlaceBelow& below) {
  const Json one = Ref(below.child);
  if (below.child == "next") {
    return AnyOf(
        {one, TypeIs("string"), ListOf(AnyOf({TypeIs("string"), Ref("arc")})), TypeIs("null")});
  }
  if (below.form == PlaceBelow::Form::kMapOrList) {
    const Json labelled = Json::Object({{"type", "object"},
                                        {"minProperties", 1},
                                        {"maxProperties", 1},
                                        {"additionalProperties", one}});
    return AnyOf({one, ListOf(AnyOf({one, labelled})).With("minItems", 1)});
  }
  if (below.place == "root" && below.key == "workflow") return ListOf(one).With("minItems", 1);
  if (below.place == "root" && below.key == "workbook")
    return AnyOf({ListOf(one), TypeIs("object")});
  return AnyOf({below.form == PlaceBelow::Form::kList ? ListOf(one) : one, TypeIs("null")});
}

Json KeySchema(std::string_view place, const Key& key) {
  const PlaceBelow* below = FindPlaceBelow(place, key.name);
  Json schema = below ? BelowSchema(*below) : TypeSchema(key.type);
  if (!below && !key.values.empty()) {
    schema = Json::Object({{"enum", StringList(Split(key.values, '|'))}});
  }
  if (!key.meaning.empty()) schema = schema.With("description", key.meaning);
  return schema;
}

// Authors may write every kind but the internal ones.
Json KindSchema() {
  std::vector<std::string_view> kinds;
  for (const ToolKind& kind : ToolKinds()) {
    if (!kind.internal) kinds.push_back(kind.name);
  }
  return Json::Object({{"enum", StringList(kinds)}});
}

// "a|b&c": one of a and b, and c.
Json RequiredFields(std::string_view required) {
  std::vector<Json> groups;
  for (const std::string_view group : Split(required, '&')) {
    std::vector<Json> choices;
    for (const std::string_view field : Split(group, '|')) {
      choices.push_back(Json::Object({{"required", StringList({field})}}));
    }
    groups.push_back(choices.size() == 1 ? choices[0] : AnyOf(std::move(choices)));
  }
  return Json::Object({{"allOf", Json::Array(std::move(groups))}});
}

Json RequiredByKind() {
  std::vector<Json> rules;
  for (const ToolKind& kind : ToolKinds()) {
    if (kind.internal || kind.required.empty()) continue;
    const Json is_kind = Json::Object({{"const", kind.name}});
    rules.push_back(
        Json::Object({{"if", Json::Object({{"properties", Json::Object({{"kind", is_kind}})},
                                           {"required", StringList({"kind"})}})},
                      {"then", RequiredFields(kind.required)}}));
  }
  return Json::Array(std::move(rules));
}

Json PlaceSchema(std::string_view place) {
  Json::Members properties;
  std::vector<std::string_view> required;
  for (const Key& key : KeysOf(place)) {
    properties.emplace_back(key.name, KeySchema(place, key));
    if (key.required) required.push_back(key.name);
  }
  const bool is_tool = place == "tool";
  Json members = Json::Object(std::move(properties));
  if (is_tool) {
    const Json described = members["kind"].With("enum", KindSchema()["enum"]).Without("type");
    members = members.With("kind", described);
  }
  Json schema = Json::Object({{"type", "object"}, {"properties", members}});
  if (!required.empty()) schema = schema.With("required", StringList(required));
  // A tool passes fields that it does not know to its executor; the author's keys in metadata,
  // executor and keychain entries are kept.
  static constexpr std::string_view kOpenPlaces[] = {
      "tool",          "tool.spec",        "metadata",    "executor",
      "executor.spec", "keychain",         "retry",       "output",
      "output.store",  "loop.spec.policy", "loop.cursor", "step.spec.policy",
      "next.spec",     "workbook"};
  const bool open = std::ranges::find(kOpenPlaces, place) != std::end(kOpenPlaces);
  if (!open) schema = schema.With("additionalProperties", false);
  if (is_tool) {
    // A workbook task may supply what the tool leaves out.
    schema = schema.With("allOf", RequiredByKind());
  }
  return schema;
}

}  // namespace

Json PlaybookSchema() {
  Json::Members places;
  const auto add = [&](std::string_view place) {
    for (const JsonMember& member : places) {
      if (member.key() == place) return;
    }
    places.emplace_back(place, PlaceSchema(place));
  };
  for (const PlaceBelow& below : AllPlacesBelow()) add(below.child);
  Json schema = Json::Object({{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                              {"$id", "https://noetl.io/schema/playbook.json"},
                              {"title", "NoETL playbook"}});
  return schema.Merge(PlaceSchema("root")).With("$defs", Json::Object(std::move(places)));
}

}  // namespace noetl::playbook
