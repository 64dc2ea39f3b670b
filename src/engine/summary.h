// What stays inline of a result that is stored elsewhere.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/json.h"

namespace noetl::engine {

inline constexpr std::size_t kSummaryBytesMax = 4'096;
inline constexpr int kSummaryDepthMax = 8;
inline constexpr std::size_t kSummaryTextMax = 512;
// Fields that the author selected are kept in full up to this many bytes together.
inline constexpr std::size_t kSelectedBytesMax = 65'536;

// A navigable summary: every map key as far as the budget goes, lists reduced to their first
// element, long texts to {_len}, what is too deep or empty to {_count[, _keys]}; {_truncated: true}
// marks a cut.
Json Summarise(const Json& value);

// The reference object of a stored result: {kind, ref, store, scope, meta, extracted, selected?}.
// `select` is the output block's list [{path, as}] of fields that stay readable in full.
Json MakeReference(std::string_view ref, const Json& body, const Json& select);

// The value at a path such as "$.a.b[0]" or "a.b"; nullptr when there is none.
const Json* FindPath(const Json& value, std::string_view path);

}  // namespace noetl::engine
