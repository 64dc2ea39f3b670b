#include "engine/replay_flat_seal.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/replay_flat_values.h"
#include "engine/replay_seal.h"

namespace noetl::engine::replay {

namespace {

// How a member becomes one of the row that is hashed.
enum class Form : std::uint8_t {
  kRaw,
  kText,  // as a text
  kTextOrNull,
  kInt,  // as an integer, 0 when it is not true
  kIntOrNull,
  kMap,  // an empty map when it is not true
  kBool,
  kSummary,  // of the reference in this member
  kCount,    // of the items of this member
};

struct Column {
  std::string_view name;
  Form form = Form::kRaw;
  std::string_view from = "";  // empty: the same name
};

constexpr Column kStageColumns[] = {
    {"stage_id", Form::kText},
    {"status"},
    {"kind"},
    {"step_name"},
    {"parent_stage_id", Form::kTextOrNull},
    {"loop_event_id", Form::kTextOrNull},
    {"opened_event_id", Form::kIntOrNull},
    {"closed_event_id", Form::kIntOrNull},
    {"frame_count", Form::kInt},
    {"row_count", Form::kInt},
    {"events_emitted", Form::kInt},
    {"failed_count", Form::kInt},
    {"last_event_id", Form::kIntOrNull},
};
constexpr Column kFrameColumns[] = {
    {"frame_id", Form::kText},
    {"stage_id", Form::kTextOrNull},
    {"parent_frame_id", Form::kTextOrNull},
    {"command_id", Form::kTextOrNull},
    {"claimed_event_id", Form::kIntOrNull},
    {"terminal_event_id", Form::kIntOrNull},
    {"status"},
    {"row_count", Form::kInt},
    {"cursor", Form::kMap},
    {"events_emitted", Form::kInt},
    {"output_ref_summary"},
};
constexpr Column kCommandColumns[] = {
    {"command_id", Form::kText},
    {"stage_id", Form::kTextOrNull},
    {"frame_id", Form::kTextOrNull},
    {"parent_command_id", Form::kTextOrNull},
    {"worker_id", Form::kTextOrNull},
    {"worker_locator", Form::kTextOrNull},
    {"locality", Form::kMap},
    {"source_locality", Form::kMap},
    {"placement", Form::kMap},
    {"fanout_reduce", Form::kMap},
    {"status"},
    {"issued_event_id", Form::kIntOrNull},
    {"claimed_event_id", Form::kIntOrNull},
    {"started_event_id", Form::kIntOrNull},
    {"terminal_event_id", Form::kIntOrNull},
};
constexpr Column kObjectColumns[] = {
    {"object_key", Form::kText},
    {"object_type", Form::kText},
    {"object_id", Form::kText},
    {"status"},
    {"version", Form::kInt},
    {"event_count", Form::kInt},
    {"first_event_id", Form::kIntOrNull},
    {"last_event_id", Form::kIntOrNull},
    {"deleted_event_id", Form::kIntOrNull},
    {"last_event_type"},
    {"last_payload_ref_summary", Form::kSummary, "last_payload_ref"},
    {"payload_ref_count", Form::kCount, "payload_refs"},
    {"attributes", Form::kMap},
};
constexpr Column kLoopColumns[] = {
    {"loop_id", Form::kText},
    {"step_name"},
    {"total", Form::kIntOrNull},
    {"done", Form::kInt},
    {"failed", Form::kInt},
    {"completed", Form::kBool},
    {"last_event_id", Form::kIntOrNull},
};

enum class Order : std::uint8_t { kNumbersFirst, kText };

struct Surface {
  std::string_view member;
  std::span<const Column> columns;
  Order order;
};

constexpr Surface kSurfaces[] = {
    {"stages", kStageColumns, Order::kNumbersFirst},
    {"frames", kFrameColumns, Order::kNumbersFirst},
    {"commands", kCommandColumns, Order::kNumbersFirst},
    {"business_objects", kObjectColumns, Order::kText},
    {"loops", kLoopColumns, Order::kText},
};

Result<Json> Convert(const Json& value, Form form) {
  switch (form) {
    case Form::kRaw: return value;
    case Form::kText: return Json(FlatText(value));
    case Form::kTextOrNull: return TextOrNullOf(value);
    case Form::kInt: return FlatInt(FirstTrue({value, Json(0)}));
    case Form::kIntOrNull: return FlatIntOrNull(value);
    case Form::kMap: return FirstTrue({value, Json::Object()});
    case Form::kBool: return Json(Truthy(value));
    case Form::kSummary: return FlatSummary(value["reference"]);
    case Form::kCount: return Json(value.size());
  }
  return value;
}

Result<Json> RowOfEntity(const Json& entity, std::span<const Column> columns) {
  Json::Members members;
  members.reserve(columns.size());
  for (const Column& column : columns) {
    const std::string_view from = column.from.empty() ? column.name : column.from;
    NOETL_ASSIGN(Json value, Convert(entity[from], column.form));
    members.emplace_back(column.name, std::move(value));
  }
  return Json::Object(std::move(members));
}

// Ids that are integers come first, by value; others follow by their bytes.
bool Before(const std::pair<std::optional<Json>, Json>& a,
            const std::pair<std::optional<Json>, Json>& b) {
  if (a.first && b.first) return CompareInts(*a.first, *b.first) < 0;
  if (a.first.has_value() != b.first.has_value()) return a.first.has_value();
  return a.second.members()[0].value.AsString() < b.second.members()[0].value.AsString();
}

Result<Json> SurfaceRows(const Json& map, const Surface& surface) {
  std::vector<std::pair<std::optional<Json>, Json>> rows;
  rows.reserve(map.size());
  for (const JsonMember& member : map.members()) {
    NOETL_ASSIGN(Json row, RowOfEntity(member.value, surface.columns));
    std::optional<Json> number;
    if (surface.order == Order::kNumbersFirst)
      number = ReadInteger(row.members()[0].value.AsString());
    rows.emplace_back(std::move(number), std::move(row));
  }
  std::ranges::stable_sort(rows, Before);
  std::vector<Json> sorted;
  sorted.reserve(rows.size());
  for (auto& [number, row] : rows) sorted.push_back(std::move(row));
  return Json::Array(std::move(sorted));
}

Result<Json> ExecutionRow(const Json& state) {
  const Json& execution = state["execution"];
  const auto references = execution["payload_refs"].items();
  const Json last = references.empty() ? Json() : references.back()["reference"];
  NOETL_ASSIGN(Json id, FlatInt(state["execution_id"]));
  NOETL_ASSIGN(Json count, FlatInt(FirstTrue({state["event_count"], Json(0)})));
  NOETL_ASSIGN(Json last_id, FlatIntOrNull(state["last_event_id"]));
  return Json::Object(
      {{"execution_id", std::move(id)},
       {"tenant_id", FlatText(FirstTrue({state["tenant_id"], Json("default")}))},
       {"organization_id", FlatText(FirstTrue({state["organization_id"], Json("default")}))},
       {"projection", FlatText(FirstTrue({state["projection"], Json("all")}))},
       {"status", execution["status"]},
       {"last_node_name", execution["last_node_name"]},
       {"event_count", std::move(count)},
       {"last_event_id", std::move(last_id)},
       {"last_event_type", state["last_event_type"]},
       {"payload_ref_count", references.size()},
       {"last_payload_ref_summary", FlatSummary(last)},
       {"upcaster_registry_digest", state["upcaster_registry_digest"]}});
}

}  // namespace

Result<Json> SealFlat(const Json& state) {
  JsonObjectBuilder digests;
  NOETL_ASSIGN(const Json execution, ExecutionRow(state));
  digests.Add("execution", FlatDigest(Json::Object({{"executions", Json::Array({execution})}})));
  for (const Surface& surface : kSurfaces) {
    NOETL_ASSIGN(Json rows, SurfaceRows(state[surface.member], surface));
    digests.Add(surface.member, FlatDigest(Json::Object({{surface.member, std::move(rows)}})));
  }
  return state.With("checksum_algorithm", "sha256")
      .With("checksum", FlatDigest(state))
      .With("projection_checksums", digests.Build());
}

}  // namespace noetl::engine::replay
