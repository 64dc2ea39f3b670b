// Ids for readers that round large numbers, such as browsers: as text instead of as numbers.
//
// Pure functions, any thread.
#pragma once

#include "base/json.h"

namespace noetl::api {

// The same value with every id as a text: members named `id`, `..._id` and `..._ids`, and integers
// beyond 2^53 wherever they stand. What has no id in it is shared with the argument, not copied.
Json IdsAsText(const Json& value);

}  // namespace noetl::api
