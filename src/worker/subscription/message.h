// One message of a source, and how playbooks see it. Pure, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace noetl::worker {

struct Message {
  std::string id;    // unique in its source; the same when it is delivered again
  std::string data;  // as it came
  std::vector<std::pair<std::string, std::string>> headers;  // a name may come more than once
  Json metadata;                                             // of the source
  std::int64_t delivered = 1;                                // how often, with this time
  std::shared_ptr<void> handle;                              // the source's own, for its answer
};

// {id, data, headers, attributes, metadata}. `data` is the JSON value when it is JSON, else the text,
// else base64. Names of `headers` are in lower case, those of `attributes` as they came; one value is
// a text, several are a list.
Json MessageJson(const Message& message);

// The bytes as a text: themselves when they are UTF-8, else base64.
std::string BodyText(const std::string& data);

}  // namespace noetl::worker
