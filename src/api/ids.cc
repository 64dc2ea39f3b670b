#include "api/ids.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace noetl::api {

namespace {

// The largest integer that every number up to it survives in a double.
constexpr std::int64_t kExactMax = std::int64_t{1} << 53;

bool NamesIds(std::string_view key) {
  return key == "id" || key.ends_with("_id") || key.ends_with("_ids");
}

bool BeyondDouble(const Json& value) {
  if (!value.is_int()) return true;  // wider than 64 bits with sign
  return value.AsInt() > kExactMax || value.AsInt() < -kExactMax;
}

std::string DigitsOf(const Json& value) {
  if (value.is_int()) return fmt::format("{}", value.AsInt());
  if (value.type() == Json::Type::kUint) return fmt::format("{}", value.AsUint());
  return value.ToString();  // kBigInt
}

std::optional<Json> Changed(const Json& value, bool is_id);

std::optional<Json> ChangedArray(const Json& value, bool is_id) {
  std::vector<Json> items;
  const auto old = value.items();
  for (std::size_t i = 0; i < old.size(); ++i) {
    std::optional<Json> item = Changed(old[i], is_id && !old[i].is_container());
    if (item && items.empty()) {
      items.reserve(old.size());
      items.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(i));
      items.push_back(std::move(*item));
    } else if (item) {
      items.push_back(std::move(*item));
    } else if (!items.empty()) {
      items.push_back(old[i]);
    }
  }
  if (items.empty()) return std::nullopt;
  return Json::Array(std::move(items));
}

std::optional<Json> ChangedObject(const Json& value) {
  Json::Members members;
  const auto old = value.members();
  for (std::size_t i = 0; i < old.size(); ++i) {
    std::optional<Json> member = Changed(old[i].value, NamesIds(old[i].key()));
    if (member && members.empty()) {
      members.reserve(old.size());
      members.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (member) {
      members.emplace_back(old[i].key_json(), std::move(*member));
    } else if (!members.empty()) {
      members.push_back(old[i]);
    }
  }
  if (members.empty()) return std::nullopt;
  return Json::Object(std::move(members));
}

// Nullopt: nothing in it is an id.
std::optional<Json> Changed(const Json& value, bool is_id) {
  if (value.is_array()) return ChangedArray(value, is_id);
  if (value.is_object()) return ChangedObject(value);
  if (!value.is_integer() || !(is_id || BeyondDouble(value))) return std::nullopt;
  return Json(DigitsOf(value));
}

}  // namespace

Json IdsAsText(const Json& value) {
  std::optional<Json> changed = Changed(value, false);
  return changed ? std::move(*changed) : value;
}

}  // namespace noetl::api
