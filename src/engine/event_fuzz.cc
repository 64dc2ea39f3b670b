// Any bytes as a log: each line that is an event row is folded. The fold must not crash on a
// foreign or damaged log, its state must stay bounded by the log, and a snapshot of it must read
// back equal.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json_io.h"
#include "engine/events.h"
#include "engine/fold.h"
#include "engine/state.h"

namespace {

// More rows bring nothing new and only slow the fuzzer down.
constexpr int kRowsMax = 2'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace noetl;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  engine::State state;
  for (int rows = 0; rows < kRowsMax && !text.empty(); ++rows) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Result<Json> row = ParseJson(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!row) continue;
    Result<engine::Event> event = engine::EventFromJson(*row);
    if (!event) continue;
    Result<engine::Event> again = engine::EventFromJson(engine::EventToJson(*event));
    NOETL_CHECK(again.has_value() && *again == *event, "an event row comes back as it was");
    // Rows of a real log keep their numbers; others are put in line.
    if (event->seq <= state.seq) event->seq = state.seq + 1;
    engine::Fold(state, *event);
    engine::Fold(state, *event);
  }
  const std::string before = CanonicalJson(state.ToJson());
  Result<engine::State> read = engine::State::FromJson(state.ToJson());
  NOETL_CHECK(read.has_value(), "a state reads back");
  NOETL_CHECK(CanonicalJson(read->ToJson()) == before, "a state comes back as it was");
  return 0;
}
