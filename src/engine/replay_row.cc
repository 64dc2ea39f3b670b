#include "engine/replay_row.h"

#include <initializer_list>
#include <span>

#include <fmt/format.h>

#include "base/json_io.h"

namespace noetl::engine::replay {

namespace {

std::optional<std::string> SomeText(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

std::string_view Strip(std::string_view prefix, std::string_view text) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return text;
}

// Any value as a text: a text stands for itself, everything else is written.
std::string Text(const Json& value) {
  return value.is_string() ? value.ToString() : CanonicalJson(value);
}

// ---- rows from JSON

std::unexpected<Error> BadMember(std::string_view name, std::string_view wanted) {
  return Fail("bad_row", fmt::format("`{}` must be {}", name, wanted));
}

Status ReadText(const Json& row, std::string_view name, std::optional<std::string>& out) {
  const Json& value = row[name];
  if (value.is_null()) return {};
  if (!value.is_string()) return BadMember(name, "a text");
  out = value.ToString();
  return {};
}

Status ReadId(const Json& row, std::string_view name, std::optional<std::string>& out) {
  const Json& value = row[name];
  if (value.is_null()) return {};
  if (!value.is_string() && !value.is_integer()) return BadMember(name, "a number or a text");
  out = Text(value);
  return {};
}

// ---- summaries

// The first candidate with the right type; others are passed over.
std::optional<std::string> FirstText(std::initializer_list<const Json*> candidates) {
  for (const Json* candidate : candidates) {
    if (candidate->is_string()) return candidate->ToString();
  }
  return std::nullopt;
}

std::optional<std::int64_t> FirstInt(std::initializer_list<const Json*> candidates) {
  for (const Json* candidate : candidates) {
    if (candidate->is_int()) return candidate->AsInt();
  }
  return std::nullopt;
}

}  // namespace

Row RowOf(const Event& event) {
  Row row;
  row.event_id = event.event_id;
  row.event_type = event.type_name;
  row.node_name = SomeText(event.node_name);
  row.status = event.status;
  if (const std::int64_t number = CommandNumber(CommandIdOf(event)); number != 0)
    row.command_id = fmt::format("{}", number);
  row.worker_id = SomeText(event.worker_id);
  row.meta = event.meta;
  row.result = event.result;
  return row;
}

Result<Row> RowFromJson(const Json& json) {
  if (!json.is_object()) return Fail("bad_row", "a row must be a map");
  Row row;
  if (!json["event_id"].is_int()) return BadMember("event_id", "an integer");
  row.event_id = json["event_id"].AsInt();
  std::optional<std::string> event_type, status;
  NOETL_TRY(ReadText(json, "event_type", event_type));
  NOETL_TRY(ReadText(json, "status", status));
  row.event_type = std::move(event_type).value_or("");
  row.status = std::move(status).value_or("");
  NOETL_TRY(ReadText(json, "node_name", row.node_name));
  NOETL_TRY(ReadId(json, "stage_id", row.stage_id));
  NOETL_TRY(ReadId(json, "frame_id", row.frame_id));
  NOETL_TRY(ReadId(json, "command_id", row.command_id));
  NOETL_TRY(ReadText(json, "worker_id", row.worker_id));
  NOETL_TRY(ReadText(json, "aggregate_type", row.aggregate_type));
  NOETL_TRY(ReadText(json, "aggregate_id", row.aggregate_id));
  row.meta = json["meta"];
  row.result = json["result"];
  return row;
}

// ---- RowView

const Json* RowView::Member(const Json& object, std::string_view key) const {
  const Json* value = object.Find(key);
  return value != nullptr && (strict_ || !value->is_null()) ? value : nullptr;
}

std::optional<std::string> RowView::TextOf(const Json& object, std::string_view key) const {
  const Json* value = Member(object, key);
  if (value == nullptr) return std::nullopt;
  return Text(*value);
}

std::optional<std::string> RowView::MetaText(std::string_view key) const {
  return TextOf(row_.meta, key);
}

std::optional<std::int64_t> RowView::MetaInt(std::string_view key) const {
  const Json& value = row_.meta[key];
  if (!value.is_int()) return std::nullopt;
  return value.AsInt();
}

const Json& RowView::Business() const {
  static const Json kNone;
  const Json& business = row_.meta["business_object"];
  return business.is_object() ? business : kNone;
}

const Json& RowView::Reference() const { return row_.result["reference"]; }

std::optional<std::string> RowView::Aggregate(std::string_view type) const {
  if (row_.aggregate_type != type || !row_.aggregate_id) return std::nullopt;
  return std::string(Strip(fmt::format("{}/", type), *row_.aggregate_id));
}

std::optional<std::string> RowView::Stage() const {
  if (Usable(row_.stage_id)) return row_.stage_id;
  if (auto id = Aggregate("stage"); Usable(id)) return id;
  if (auto id = MetaText("stage_id"); Usable(id)) return id;
  return std::nullopt;
}

std::optional<std::string> RowView::Frame() const {
  if (Usable(row_.frame_id)) return row_.frame_id;
  if (auto id = Aggregate("frame"); Usable(id)) return id;
  if (auto id = MetaText("frame_id"); Usable(id)) return id;
  return std::nullopt;
}

std::optional<std::string> RowView::Command() const {
  if (Usable(row_.command_id)) return row_.command_id;
  if (auto id = MetaText("command_id"); Usable(id)) return id;
  return std::nullopt;
}

std::optional<std::string> RowView::Loop() const {
  for (std::string_view key : {"loop_id", "loop_event_id", "__loop_epoch_id"}) {
    if (auto id = MetaText(key); Usable(id)) return id;
  }
  return std::nullopt;
}

// "business_object/<type>/<id...>"; with fewer pieces the whole id counts.
std::optional<ObjectIdentity> RowView::AggregateObject() const {
  if (row_.aggregate_type != "business_object" || !Usable(row_.aggregate_id)) return std::nullopt;
  std::string_view rest = Strip("business_object/", *row_.aggregate_id);
  ObjectIdentity found;
  int pieces = 0;
  while (!rest.empty()) {
    const std::string_view piece = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(piece.size() + 1, rest.size()));
    if (piece.empty()) continue;
    if (++pieces == 1) {
      found.type = piece;
    } else {
      if (pieces > 2) found.id += '/';
      found.id += piece;
    }
  }
  if (pieces >= 2) return found;
  return ObjectIdentity{"business_object", *row_.aggregate_id};
}

std::optional<ObjectIdentity> RowView::Object() const {
  const Json& business = Business();
  const auto first = [&](std::string_view in_business, std::string_view short_name,
                         std::string_view in_meta,
                         std::string_view plain) -> std::optional<std::string> {
    const std::pair<const Json*, std::string_view> places[] = {{&business, in_business},
                                                               {&business, short_name},
                                                               {&row_.meta, in_meta},
                                                               {&row_.meta, plain}};
    for (const auto& [object, key] : places) {
      if (auto found = TextOf(*object, key); Usable(found)) return found;
    }
    return std::nullopt;
  };
  std::optional<std::string> type =
      first("object_type", "type", "business_object_type", "object_type");
  std::optional<std::string> id = first("object_id", "id", "business_object_id", "object_id");
  if (!type || !id) {
    // The halves may come from different places.
    const std::optional<ObjectIdentity> aggregate = AggregateObject();
    if (!aggregate) return std::nullopt;
    if (!type) type = aggregate->type;
    if (!id) id = aggregate->id;
  }
  return ObjectIdentity{*std::move(type), *std::move(id)};
}

PayloadSummary SummaryOf(const Json& reference) {
  PayloadSummary summary;
  if (!reference.is_object()) return summary;
  // Members of what is no map are null.
  const Json& rows = reference["rows_ref"];
  const Json& meta = rows["meta"];
  const Json& ipc = rows["ipc"];
  summary.sha256 =
      FirstText({&reference["sha256"], &meta["sha256"], &ipc["sha256"], &reference["digest"]});
  summary.schema_digest =
      FirstText({&reference["schema_digest"], &meta["schema_digest"], &ipc["schema_digest"]});
  summary.row_count = FirstInt({&reference["row_count"], &meta["row_count"], &ipc["row_count"]});
  summary.media_type =
      FirstText({&reference["media_type"], &meta["media_type"], &ipc["media_type"]});
  summary.ref = FirstText({&reference["ref"], &rows["ref"], &reference["uri"]});
  return summary;
}

}  // namespace noetl::engine::replay
