#include "expr/value.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "expr/runtime.h"

namespace noetl::expr {

Result<Json> Value::Plain() const {
  if (is_json()) return json();
  if (const View* held = view()) return held->Whole();
  if (const AliasString* names = alias()) {
    return names->names.empty() ? Json("") : Json(names->names[0]);
  }
  if (const Namespace* held = space()) return held->Plain();
  return Json();
}

bool TextIsFalse(std::string_view text) {
  static constexpr std::array<std::string_view, 11> kFalseWords = {
      "", "false", "0", "0.0", "no", "none", "null", "off", "undefined", "{}", "[]"};
  const std::string_view trimmed = Trim(text);
  // No false word is longer: long text need not be copied to lower case.
  if (trimmed.size() > std::string_view("undefined").size()) return false;
  const std::string lower = ToLower(trimmed);
  return std::find(kFalseWords.begin(), kFalseWords.end(), lower) != kFalseWords.end();
}

bool Truthy(const Value& value) {
  if (value.is_undefined()) return false;
  if (const View* view = value.view()) return view->Truthy();
  if (const AliasString* alias = value.alias()) {
    return !alias->names.empty() && !TextIsFalse(alias->names[0]);
  }
  if (value.space() != nullptr) return true;
  const Json& json = value.json();
  switch (json.type()) {
    case Json::Type::kNull: return false;
    case Json::Type::kBool: return json.AsBool();
    case Json::Type::kString: return !TextIsFalse(json.AsString());
    case Json::Type::kArray:
    case Json::Type::kObject: return !json.empty();
    default: return json.AsDouble() != 0;
  }
}

std::string TextForm(const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull: return "";
    case Json::Type::kBool: return value.AsBool() ? "True" : "False";
    case Json::Type::kInt: return fmt::format_int(value.AsInt()).str();
    case Json::Type::kDouble: return DoubleText(value.AsDouble());
    case Json::Type::kString:
    case Json::Type::kBigInt: return value.ToString();
    default: return WriteJson(value);
  }
}

}  // namespace noetl::expr
