// What result.cc and result_view.cc share: how a stored body is reached. Pure; any thread.
#pragma once

#include <string_view>

#include "engine/result.h"

namespace noetl::engine {

inline constexpr std::string_view kNeedsReference = "needs_reference";

// The body behind a reference, or the error "needs_reference" with the reference as message.
Result<const Json*> LoadBody(const Bodies* bodies, std::string_view ref);

inline bool IsLoop(StepResult::Shape shape) {
  return shape == StepResult::Shape::kLoop || shape == StepResult::Shape::kCursor;
}

// The reference in the place of a loop's list of results; beside it stand a count and the first
// element.
inline std::string_view LoopRowsRef(const Json& results) {
  return results.is_object() ? results["_ref"].AsString() : std::string_view();
}

}  // namespace noetl::engine
