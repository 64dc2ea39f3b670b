// The drive of a text test: what happens in which order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/text_file.h"
#include "sim/text_stage.h"

namespace noetl::sim {

// Actions after which a run that goes on is taken for endless.
inline constexpr std::int64_t kActionsMax = 1'000'000;

// Does what the lines say. An error with code "malformed" when a line cannot be read, with code
// "failed" when it cannot be done or a check does not hold; both start with "file:line: ".
Status Drive(const TextSection& section, std::string_view file, Stage& stage);

// Everything that is left, in order. Fails when it never ends.
Status DriveRest(Stage& stage);

}  // namespace noetl::sim
