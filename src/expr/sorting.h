// Ordering and telling apart list elements, for the list filters.
#pragma once

#include <string>
#include <vector>

#include "expr/runtime.h"

namespace noetl::expr {

// An element's key and its place in the list it came from.
struct SortItem {
  Json key;
  std::size_t index = 0;
};

struct SortOptions {
  bool reverse = false;
  bool case_sensitive = false;
};

// Stable. Fails with E411 when two keys have no order.
Status SortItems(Runtime& run, std::vector<SortItem>* items, const SortOptions& options);
// Replaces text keys by their lower case form.
Status FoldCase(Runtime& run, std::vector<SortItem>* items);
// Text that is the same for equal values only: 1 and 1.0 are equal, 1 and "1" are not.
Result<std::string> IdentityOf(Runtime& run, const Json& value);
// The value itself when no attribute is asked for; dotted names and numbers lead inside.
Result<Value> AttributeOf(Runtime& run, const Value& item, const Value& attribute);

}  // namespace noetl::expr
