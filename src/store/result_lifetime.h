// How long a result that was put is kept. Pure, any thread.
//
// Scope "step": until its run has ended. "execution" and "workflow": as long as the run is kept.
// "permanent": for ever, also when the run is purged. An expiry ends any but a permanent one earlier.
#pragma once

#include <array>
#include <string_view>

#include "store/server_rows.h"

namespace noetl::store {

inline constexpr std::array<std::string_view, 4> kResultScopes = {"step", "execution", "workflow",
                                                                  "permanent"};
inline constexpr std::string_view kStepScope = kResultScopes[0];
inline constexpr std::string_view kPermanentScope = kResultScopes[3];

// The same content is put again: it is kept as long as the longer of the two wants. One that has
// expired by asked.created_at_us counts as new. True when `stored` has changed.
bool ExtendLifetime(ResultRow& stored, const ResultRow& asked);

}  // namespace noetl::store
