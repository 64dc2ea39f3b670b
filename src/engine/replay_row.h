// One row of a log as replay reads it, and whom it speaks of.
//
// Pure functions, any thread. Two readings exist: the plain one, in which a null is no value and an
// empty text names nobody, and the strict one, which repeats the bytes of the server that this API
// comes from: there a null is the text "null" and an empty text is a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/replay_state.h"

namespace noetl::engine::replay {

struct Row {
  std::int64_t event_id = 0;
  std::string event_type;
  std::optional<std::string> node_name;
  std::string status;
  std::optional<std::string> stage_id;
  std::optional<std::string> frame_id;
  std::optional<std::string> command_id;
  std::optional<std::string> worker_id;
  std::optional<std::string> aggregate_type;
  std::optional<std::string> aggregate_id;
  Json meta;
  Json result;
};

// A stored event. Its command is the number inside the command's id.
Row RowOf(const Event& event);
// A row with the column names as keys; a missing key is null, ids may be numbers or texts.
// "bad_row" names the member with the wrong type.
Result<Row> RowFromJson(const Json& row);

struct ObjectIdentity {
  std::string type;
  std::string id;
  std::string Key() const { return type + "/" + id; }
};

// A row with the questions that the fold asks.
class RowView {
 public:
  RowView(const Row& row, bool strict) : row_(row), strict_(strict) {}

  const Row& row() const { return row_; }

  // Whom the row speaks of.
  std::optional<std::string> Stage() const;
  std::optional<std::string> Frame() const;
  std::optional<std::string> Command() const;
  std::optional<std::string> Loop() const;
  std::optional<ObjectIdentity> Object() const;

  // meta[key] as a text of any value, and as an integer of 64 bits.
  std::optional<std::string> MetaText(std::string_view key) const;
  std::optional<std::int64_t> MetaInt(std::string_view key) const;
  // meta.business_object when it is a map, else null.
  const Json& Business() const;
  // The member, or nullptr when there is none by the reading of this view.
  const Json* Member(const Json& object, std::string_view key) const;
  // result.reference; null: none.
  const Json& Reference() const;

 private:
  std::optional<std::string> TextOf(const Json& object, std::string_view key) const;
  bool Usable(const std::optional<std::string>& candidate) const {
    return candidate && (strict_ || !candidate->empty());
  }
  std::optional<std::string> Aggregate(std::string_view type) const;
  std::optional<ObjectIdentity> AggregateObject() const;

  const Row& row_;
  const bool strict_;
};

// Five bounded facts out of a reference of any shape.
PayloadSummary SummaryOf(const Json& reference);

}  // namespace noetl::engine::replay
