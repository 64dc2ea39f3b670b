#include "worker/subscription/message.h"

#include <algorithm>

#include "base/crypto.h"
#include "base/json_io.h"
#include "base/text.h"

namespace noetl::worker {
namespace {

struct Field {
  std::string name;
  std::vector<Json> values;
};

Json HeadersJson(const Message& message, bool lower) {
  std::vector<Field> fields;
  for (const auto& [name, value] : message.headers) {
    std::string key = lower ? ToLower(name) : name;
    auto field = std::ranges::find(fields, key, &Field::name);
    if (field == fields.end()) field = fields.insert(fields.end(), Field{.name = std::move(key)});
    field->values.emplace_back(BodyText(value));
  }
  JsonObjectBuilder json;
  for (Field& field : fields) {
    const bool one = field.values.size() == 1;
    json.Add(field.name, one ? field.values.front() : Json::Array(std::move(field.values)));
  }
  return json.Build();
}

}  // namespace

std::string BodyText(const std::string& data) {
  return FirstInvalidUtf8(data) ? crypto::Base64Encode(data) : data;
}

Json MessageJson(const Message& message) {
  Result<Json> data = ParseJson(message.data);
  return Json::Object({{"id", message.id},
                       {"data", data ? *std::move(data) : Json(BodyText(message.data))},
                       {"headers", HeadersJson(message, true)},
                       {"attributes", HeadersJson(message, false)},
                       {"metadata", message.metadata}});
}

}  // namespace noetl::worker
