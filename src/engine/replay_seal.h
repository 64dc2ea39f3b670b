// How a replayed state is written and sealed.
//
// The canonical form has members sorted by the bytes of their keys at every depth; a seal is the
// SHA-256 of it. `Seal` adds one checksum a projection and one of the whole. Pure functions, any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_io.h"
#include "engine/replay_state.h"

namespace noetl::engine::replay {

// A value of the log lies a few maps deeper in the state than in its event, and has to be hashed
// and shown there too.
inline constexpr std::size_t kStateDepthMax = kJsonDepthMax + 8;

// A projection: how requests name it, and its member of the state.
struct Projection {
  std::string_view name;
  std::string_view member;
};
inline constexpr Projection kProjections[] = {
    {"execution", "execution"}, {"stage", "stages"}, {"frame", "frames"},
    {"command", "commands"},    {"loop", "loops"},   {"business_object", "business_objects"},
};

// The state with `checksum` and `projection_checksums`, members in the order in which they are
// shown.
Json Seal(const State& state);

// Whether the checksum of a sealed state is that of its content. Members that are shown but never
// sealed must have been taken off.
bool IsSealed(const Json& body);

// 64 hexadecimal digits. A deeper value than kStateDepthMax is a broken invariant.
std::string CanonicalDigest(const Json& value);
// The same of the flat form: only ASCII, and numbers as that dialect spells them.
std::string FlatDigest(const Json& value);
std::string CanonicalState(const Json& value);
// Members in their own order.
std::string WriteState(const Json& value);

}  // namespace noetl::engine::replay
