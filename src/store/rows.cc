#include "store/rows.h"

#include <array>

namespace noetl::store {

namespace {

constexpr std::array<std::string_view, 6> kCommandStatusNames = {
    "PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"};

// What a row costs besides its texts: numbers, headers and index entries, measured on the tables.
constexpr std::size_t kEventOverheadBytes = 160;
constexpr std::size_t kRowOverheadBytes = 96;

}  // namespace

std::string_view CommandStatusName(CommandStatus status) {
  return kCommandStatusNames[static_cast<std::size_t>(status)];
}

std::optional<CommandStatus> CommandStatusOf(std::string_view name) {
  for (std::size_t i = 0; i < kCommandStatusNames.size(); ++i) {
    if (kCommandStatusNames[i] == name) return static_cast<CommandStatus>(i);
  }
  return std::nullopt;
}

std::size_t UnitRows::Bytes() const {
  std::size_t bytes = kRowOverheadBytes;
  for (const EventRow& row : events) {
    bytes += kEventOverheadBytes + row.context.size() + row.result.size() + row.meta.size() +
             row.event.error.size();
  }
  bytes += (commands.size() + command_changes.size() + timers.size() + fired_timers.size() +
            consumed_messages.size()) *
           kRowOverheadBytes;
  for (const BodyRow& row : bodies) bytes += kRowOverheadBytes + row.data.size();
  for (const LoopRow& row : loop_rows) bytes += kRowOverheadBytes + row.data.size();
  for (const MessageRow& row : messages) bytes += kRowOverheadBytes + row.payload.size();
  for (const LogChunk& row : logs) bytes += kRowOverheadBytes + row.text.size();
  if (snapshot) bytes += kRowOverheadBytes + snapshot->text.size();
  return bytes;
}

}  // namespace noetl::store
