#include "engine/summary.h"

#include <algorithm>
#include <charconv>

#include "base/json_io.h"
#include "base/sha256.h"

namespace noetl::engine {

namespace {

class Summary {
 public:
  Json Of(const Json& value, int depth) {
    if (value.is_string()) {
      const std::size_t bytes = value.AsString().size();
      return Spend(bytes > kSummaryTextMax ? Json::Object({{"_len", bytes}}) : value);
    }
    if (value.is_array()) {
      if (value.empty() || depth >= kSummaryDepthMax)
        return Spend(Json::Object({{"_count", value.size()}}));
      Spend(Json::Array());
      return Json::Array({Of(value.At(0), depth + 1)});
    }
    if (!value.is_object()) return Spend(value);
    if (depth >= kSummaryDepthMax) {
      return Spend(Json::Object({{"_count", value.size()}, {"_keys", true}}));
    }
    Spend(Json::Object());
    JsonObjectBuilder kept;
    for (const JsonMember& member : value.members()) {
      const std::size_t key_bytes = member.key().size() + 4;
      if (spent_ + key_bytes >= kSummaryBytesMax) {
        kept.Add("_truncated", true);
        break;
      }
      spent_ += key_bytes;
      kept.Add(member.key(), Of(member.value, depth + 1));
    }
    return kept.Build();
  }

 private:
  Json Spend(Json value) {
    spent_ += JsonSize(value);
    return value;
  }
  std::size_t spent_ = 0;
};

}  // namespace

Json Summarise(const Json& value) { return Summary().Of(value, 0); }

const Json* FindPath(const Json& value, std::string_view path) {
  const Json* at = &value;
  if (path.starts_with('$')) path.remove_prefix(1);
  while (at && !path.empty()) {
    if (path[0] == '[') {
      const std::size_t end = path.find(']');
      std::size_t index = 0;
      const auto [stop, error] = std::from_chars(path.data() + 1, path.data() + path.size(), index);
      if (end == std::string_view::npos || error != std::errc() || stop != path.data() + end)
        return nullptr;
      at = index < at->items().size() ? &at->items()[index] : nullptr;
      path.remove_prefix(end + 1);
      continue;
    }
    if (path[0] == '.') path.remove_prefix(1);
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    at = at->Find(path.substr(0, end));
    path.remove_prefix(end);
  }
  return at;
}

Json MakeReference(std::string_view ref, const Json& body, const Json& select) {
  JsonObjectBuilder kept;
  std::size_t bytes = 0;
  for (const Json& field : select.items()) {
    const Json* value = FindPath(body, field["path"].AsString());
    if (!value) continue;
    const std::size_t size = JsonSize(*value);
    bytes += size;
    kept.Add(field["as"].AsString(),
             bytes <= kSelectedBytesMax ? *value : Json::Object({{"_len", size}}));
  }
  const std::string text = WriteJson(body);
  JsonObjectBuilder reference;
  reference.Add("kind", "result_ref")
      .Add("ref", ref)
      .Add("store", "db")
      .Add("scope", "execution")
      .Add("meta", Json::Object({{"bytes", text.size()},
                                 {"sha256", Sha256Hex(text)},
                                 {"media_type", "application/json"},
                                 {"content_type", "application/json"}}))
      .Add("extracted", Summarise(body));
  if (!select.empty()) reference.Add("selected", kept.Build());
  return reference.Build();
}

}  // namespace noetl::engine
