// Looks behind the references of a replayed state: is each payload still there, and what is it?
//
// The answer tells digest, size and shape of each payload, never the payload. It is added to a
// sealed state and is no part of what is sealed. Each payload is asked for once, one at a time. A
// resolver belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace noetl::engine::replay {

// More would make one request read a whole store.
inline constexpr std::size_t kPayloadsMax = 256;
inline constexpr std::size_t kPayloadBytesMax = 64u << 20;
inline constexpr std::size_t kAllPayloadBytesMax = 256u << 20;

// What a reference says of where its payload is: a text, or the map that a store understands.
using PayloadLoader = std::function<Result<Json>(const Json& target)>;

// The state with `payload_resolution` and `payload_resolution_summary`. `over_time` ends the
// reading early: what was not read then is unresolved.
Json ResolvePayloads(const Json& body, const PayloadLoader& load,
                     const std::function<bool()>& over_time);

// Where a payload is; empty: the reference does not say it.
std::string LocatorOf(const Json& reference);

}  // namespace noetl::engine::replay
