// Values bound to the places a statement names.
//
// A list answers $1, $2 ...; a map answers :name and %(name)s. Places inside quotes and comments
// are text. Each statement gets exactly the values it uses, numbered from $1, so that one list or
// map can serve a whole script. Values travel as text of no declared type: the server infers it
// from where they stand. Pure functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::pg {

// The protocol counts parameters in 16 bits.
inline constexpr std::size_t kParametersMax = 65'535;

using Value = std::optional<std::string>;  // nullopt: NULL

struct BoundStatement {
  std::string sql;
  std::vector<Value> values;
};

// null is NULL, text is itself, numbers and booleans as JSON writes them, lists and maps as JSON
// text. Error "params": U+0000, which no text of the server can hold.
Result<Value> ToParameter(const Json& value);

// Error "params": a place without a value, a value that cannot be sent, or too many places.
// `used` collects the positions of a list that found a place.
Result<BoundStatement> Bind(std::string_view statement, const Json& params,
                            std::set<std::size_t>* used = nullptr);

}  // namespace noetl::pg
