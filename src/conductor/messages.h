// Notes from one execution to another, as they are stored. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/unit.h"
#include "store/rows.h"

namespace noetl::conductor {

store::MessageRow MakeMessage(std::int64_t id, const engine::ChildStart& child);
store::MessageRow MakeMessage(std::int64_t id, const engine::ChildEnd& end);
// Asks a run to cancel itself, because the run that waits for it ended or was cancelled.
store::MessageRow MakeCancelMessage(std::int64_t id, std::int64_t execution_id,
                                    std::string_view reason);

// Fail with "corrupt".
Result<engine::ChildStart> ReadChildStart(const store::MessageRow& message);
Result<engine::ChildEnd> ReadChildEnd(const store::MessageRow& message);
Result<std::string> ReadCancelReason(const store::MessageRow& message);

}  // namespace noetl::conductor
