#include "store/unit_check.h"

#include <fmt/format.h>

#include "store/reference.h"

namespace noetl::store {

namespace {

std::unexpected<Error> BadRow(const UnitRows& unit, std::string_view what) {
  return Fail("bad_row", fmt::format("execution {}: {}", unit.execution_id, what));
}

Status CheckEvents(const UnitRows& unit) {
  if (unit.events.empty()) return {};
  std::int64_t seq = unit.expected_head;
  for (const EventRow& row : unit.events) {
    if (row.event.execution_id != unit.execution_id) return BadRow(unit, "an event of another run");
    if (row.event.seq != ++seq) {
      return BadRow(unit, fmt::format("event {} has seq {}, expected {}", row.event.event_id,
                                      row.event.seq, seq));
    }
    if (row.event.event_id <= 0) return BadRow(unit, "an event without an id");
  }
  if (unit.execution.execution_id != unit.execution_id) {
    return BadRow(unit, "the execution row is that of another run");
  }
  for (const std::string& label : unit.execution.labels) {
    if (label.find('\0') != std::string::npos) return BadRow(unit, "a label with U+0000");
  }
  if (unit.execution.head != seq || unit.execution.chain != unit.events.back().chain) {
    return BadRow(unit, "the head is not that of the last event");
  }
  return {};
}

}  // namespace

Status CheckUnit(const UnitRows& unit) {
  if (unit.execution_id <= 0) return BadRow(unit, "no execution id");
  NOETL_TRY(CheckEvents(unit));
  for (const CommandRow& row : unit.commands) {
    if (row.command_id <= 0) return BadRow(unit, "a command without an id");
    if (row.execution_id != unit.execution_id) return BadRow(unit, "a command of another run");
  }
  for (const BodyRow& row : unit.bodies) {
    const std::optional<Reference> ref = ParseReference(row.ref);
    if (!ref || ref->kind != Reference::Kind::kResult) {
      return BadRow(unit, fmt::format("'{}' is not the reference of a result", row.ref));
    }
    if (ref->execution_id != unit.execution_id) return BadRow(unit, "a body of another run");
  }
  for (const MessageRow& row : unit.messages) {
    if (row.message_id <= 0) return BadRow(unit, "a message without an id");
  }
  if (unit.snapshot && unit.snapshot->execution_id != unit.execution_id) {
    return BadRow(unit, "a snapshot of another run");
  }
  for (const LogChunk& row : unit.logs) {
    if (row.execution_id != unit.execution_id) return BadRow(unit, "log text of another run");
  }
  return {};
}

bool HasTerminal(const UnitRows& unit) {
  return std::any_of(unit.events.begin(), unit.events.end(),
                     [](const EventRow& row) { return engine::IsTerminal(row.event.type); });
}

std::unexpected<Error> HeadConflict(const UnitRows& unit, std::int64_t stored_head) {
  return Fail("conflict", fmt::format("execution {}: its log has {} events, expected {}",
                                      unit.execution_id, stored_head, unit.expected_head));
}

std::unexpected<Error> EndedAlready(const UnitRows& unit) {
  return Fail("terminal", fmt::format("execution {} has ended already", unit.execution_id));
}

std::unexpected<Error> ListenerIsTaken(const CatalogEntry& entry, const CatalogEntry& holder) {
  return Fail("conflict", fmt::format("the listener '{}' of '{}' belongs to '{}' already; end "
                                      "spec.ingress.gateway_path with another name",
                                      entry.listener, entry.path, holder.path));
}

}  // namespace noetl::store
