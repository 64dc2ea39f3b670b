#include "engine/replay_flat.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/replay_flat_seal.h"
#include "engine/replay_flat_values.h"

namespace noetl::engine::replay {

namespace {

// Entities in the order in which they were first named. The references of an object are kept beside
// it: adding one must not copy the others.
struct FlatEntity {
  Json members;
  std::vector<Json> payload_refs;
};

class FlatMap {
 public:
  // The entity, made by `make` when it is new.
  template <typename Make>
  FlatEntity& At(const std::string& id, Make make) {
    const auto [place, made] = index_.try_emplace(id, entities_.size());
    if (made) entities_.emplace_back(id, FlatEntity{make(), {}});
    return entities_[place->second].second;
  }

  void Load(const Json& map, bool with_refs) {
    for (const JsonMember& member : map.members()) {
      FlatEntity& entity = At(std::string(member.key()), [&] { return member.value; });
      if (!with_refs) continue;
      for (const Json& entry : member.value["payload_refs"].items())
        entity.payload_refs.push_back(entry);
    }
  }

  Json Build(bool with_refs) const {
    Json::Members members;
    members.reserve(entities_.size());
    for (const auto& [id, entity] : entities_) {
      members.emplace_back(
          id, with_refs ? entity.members.With("payload_refs", Json::Array(entity.payload_refs))
                        : entity.members);
    }
    return Json::Object(std::move(members));
  }

 private:
  std::vector<std::pair<std::string, FlatEntity>> entities_;
  std::unordered_map<std::string, std::size_t> index_;
};

// A row with the questions that the fold asks.
class FlatRow {
 public:
  explicit FlatRow(const Json& row)
      : row_(row),
        meta_(row["meta"].is_object() ? row["meta"] : Json::Object()),
        business_(meta_["business_object"].is_object() ? meta_["business_object"] : Json::Object()),
        type_(FlatText(FirstTrue({row["event_type"], Json("")}))) {
    const Json& id = row["event_id"];
    if (id.is_integer()) {
      id_ = id;
    } else if (id.is_string()) {
      id_ = ReadInteger(id.AsString()).value_or(Json());
    }
  }

  const Json& operator[](std::string_view column) const { return row_[column]; }
  const Json& meta(std::string_view key) const { return meta_[key]; }
  bool MetaHas(std::string_view key) const { return meta_.Has(key); }
  const Json& business(std::string_view key) const { return business_[key]; }
  const std::string& type() const { return type_; }
  const Json& id() const { return id_; }

  Json Reference() const {
    if (!row_["payload_ref"].is_null()) return row_["payload_ref"];
    return row_["result"]["reference"];
  }

  // Null: none. An empty text names nobody, but is kept where another entity refers to it.
  Json Stage() const { return Entity("stage", "stage_id"); }
  Json Frame() const { return Entity("frame", "frame_id"); }
  Json Command() const {
    return TextOrNullOf(row_["command_id"].is_null() ? meta_["command_id"] : row_["command_id"]);
  }
  Json Loop() const {
    for (std::string_view key : {"loop_id", "loop_event_id", "__loop_epoch_id"}) {
      if (!meta_[key].is_null()) return FlatText(meta_[key]);
    }
    return {};
  }

  // Type and id; nulls: none.
  std::pair<Json, Json> Object() const {
    Json type = FirstTrue({business_["object_type"], business_["type"],
                           meta_["business_object_type"], meta_["object_type"]});
    Json id = FirstTrue(
        {business_["object_id"], business_["id"], meta_["business_object_id"], meta_["object_id"]});
    if (row_["aggregate_type"] == Json("business_object") && !row_["aggregate_id"].is_null()) {
      const std::string whole = FlatText(row_["aggregate_id"]);
      const auto [first, rest] = Pieces(whole);
      const bool both = !rest.empty();
      type = FirstTrue({type, both ? Json(first) : Json("business_object")});
      id = FirstTrue({id, both ? Json(rest) : Json(whole)});
    }
    if (type.is_null() || id.is_null()) return {};
    return {FlatText(type), FlatText(id)};
  }

 private:
  Json Entity(std::string_view type, std::string_view key) const {
    if (!row_[key].is_null()) return FlatText(row_[key]);
    if (row_["aggregate_type"] == Json(type) && Truthy(row_["aggregate_id"])) {
      std::string id = FlatText(row_["aggregate_id"]);
      if (id.starts_with(fmt::format("{}/", type))) id.erase(0, type.size() + 1);
      return id;
    }
    return TextOrNullOf(meta_[key]);
  }

  // The first piece between slashes and the others joined, a leading "business_object" left out.
  static std::pair<std::string, std::string> Pieces(std::string_view text) {
    std::vector<std::string_view> pieces;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, text.find('/'));
      text.remove_prefix(std::min(piece.size() + 1, text.size()));
      if (!piece.empty()) pieces.push_back(piece);
    }
    if (!pieces.empty() && pieces.front() == "business_object") pieces.erase(pieces.begin());
    if (pieces.empty()) return {};
    return {std::string(pieces[0]),
            fmt::format("{}", fmt::join(pieces.begin() + 1, pieces.end(), "/"))};
  }

  const Json& row_;
  Json meta_;
  Json business_;
  std::string type_;
  Json id_;
};

using Update = std::initializer_list<std::pair<std::string_view, Json>>;

void Set(Json& members, Update update) {
  for (const auto& [key, value] : update) members = members.With(key, value);
}

// The counter of this name: what the row reports unless that is zero, else what it was.
Result<Json> Reported(const FlatRow& row, const Json& members, std::string_view key) {
  return FlatInt(FirstTrue({row.meta(key), members[key], Json(0)}));
}

Json StatusOr(const FlatRow& row, std::string_view meaning) {
  return FirstTrue({row["status"], Json(meaning)});
}

// ---- stages

Json NewStage(const FlatRow& row, const Json& id) {
  return Json::Object({{"stage_id", id},
                       {"status", "UNKNOWN"},
                       {"kind", row.meta("kind")},
                       {"step_name", FirstTrue({row["node_name"], row.meta("step_name")})},
                       {"parent_stage_id", row.meta("parent_stage_id")},
                       {"loop_event_id", Json()},
                       {"opened_event_id", Json()},
                       {"closed_event_id", Json()},
                       {"frame_count", 0},
                       {"row_count", 0},
                       {"events_emitted", 0},
                       {"failed_count", 0},
                       {"last_event_id", Json()}});
}

Status ApplyStage(FlatMap& stages, const FlatRow& row) {
  const Json id = row.Stage();
  if (!Truthy(id)) return {};
  Json& stage = stages.At(id.ToString(), [&] { return NewStage(row, id); }).members;
  Set(stage, {{"last_event_id", row.id()}});
  if (const Json& parent = row.meta("parent_stage_id"); !parent.is_null())
    Set(stage, {{"parent_stage_id", FlatText(parent)}});
  if (const Json loop = row.Loop(); Truthy(loop)) Set(stage, {{"loop_event_id", loop}});
  if (row.type() == "stage.opened") {
    Set(stage, {{"status", "OPEN"}, {"opened_event_id", row.id()}});
  } else if (row.type() == "stage.closed") {
    Set(stage, {{"status", StatusOr(row, "CLOSED")}, {"closed_event_id", row.id()}});
    for (std::string_view key : {"frame_count", "row_count", "events_emitted", "failed_count"}) {
      NOETL_ASSIGN(Json counter, Reported(row, stage, key));
      Set(stage, {{key, std::move(counter)}});
    }
  } else if (Truthy(row["status"])) {
    Set(stage, {{"status", FlatText(row["status"])}});
  }
  return {};
}

// ---- frames

Json NewFrame(const FlatRow& row, const Json& id) {
  return Json::Object({{"frame_id", id},
                       {"stage_id", row.Stage()},
                       {"parent_frame_id", row.meta("parent_frame_id")},
                       {"command_id", Json()},
                       {"claimed_event_id", Json()},
                       {"terminal_event_id", Json()},
                       {"status", "UNKNOWN"},
                       {"row_count", 0},
                       {"attempts", 0},
                       {"last_event_id", Json()},
                       {"output_ref", Json()},
                       {"output_ref_summary", FlatSummary(Json())},
                       {"cursor", Json::Object()},
                       {"events_emitted", 0}});
}

Status EndFrame(Json& frame, const FlatRow& row, std::string_view meaning) {
  const Json reference = row.Reference();
  Set(frame, {{"status", StatusOr(row, meaning)},
              {"output_ref", reference},
              {"output_ref_summary", FlatSummary(reference)},
              {"cursor", FirstTrue({row.meta("cursor"), frame["cursor"], Json::Object()})},
              {"terminal_event_id", row.id()}});
  NOETL_ASSIGN(Json emitted, Reported(row, frame, "events_emitted"));
  Set(frame, {{"events_emitted", std::move(emitted)}});
  return {};
}

Status ApplyFrame(FlatMap& frames, const FlatRow& row) {
  const Json id = row.Frame();
  if (!Truthy(id)) return {};
  Json& frame = frames.At(id.ToString(), [&] { return NewFrame(row, id); }).members;
  Set(frame, {{"last_event_id", row.id()}});
  if (const Json stage = row.Stage(); !stage.is_null()) Set(frame, {{"stage_id", stage}});
  if (const Json& parent = row.meta("parent_frame_id"); !parent.is_null())
    Set(frame, {{"parent_frame_id", FlatText(parent)}});
  if (const Json command = row.Command(); Truthy(command)) Set(frame, {{"command_id", command}});
  if (row.type() == "frame.dispatched") {
    Json attempt = 1;
    if (row.MetaHas("attempt")) {
      NOETL_ASSIGN(attempt, FlatInt(row.meta("attempt")));
    }
    NOETL_ASSIGN(const Json before, FlatInt(frame["attempts"]));
    Set(frame, {{"status", "CLAIMED"},
                {"claimed_event_id", row.id()},
                {"attempts", CompareInts(attempt, before) > 0 ? attempt : before}});
  } else if (row.type() == "frame.started") {
    Set(frame, {{"status", "RUNNING"}});
  } else if (row.type() == "frame.abandoned") {
    Set(frame, {{"status", StatusOr(row, "ABANDONED")}});
  } else if (row.type() == "frame.committed") {
    NOETL_ASSIGN(Json count, Reported(row, frame, "row_count"));
    Set(frame, {{"row_count", std::move(count)}});
    return EndFrame(frame, row, "COMPLETED");
  } else if (row.type() == "frame.failed") {
    return EndFrame(frame, row, "FAILED");
  } else if (Truthy(row["status"])) {
    Set(frame, {{"status", FlatText(row["status"])}});
  }
  return {};
}

// ---- commands

struct FlatCommandRule {
  std::string_view type;
  std::string_view status;
  std::string_view member;
};

constexpr FlatCommandRule kCommandRules[] = {
    {"command.issued", "PENDING", "issued_event_id"},
    {"command.claimed", "CLAIMED", "claimed_event_id"},
    {"command.started", "RUNNING", "started_event_id"},
    {"command.completed", "COMPLETED", "terminal_event_id"},
    {"command.failed", "FAILED", "terminal_event_id"},
    {"command.cancelled", "CANCELLED", "terminal_event_id"},
};

constexpr std::string_view kCommandMaps[] = {"locality", "source_locality", "placement",
                                             "fanout_reduce"};

Json NewCommand(const FlatRow& row, const Json& id) {
  return Json::Object({{"command_id", id},
                       {"stage_id", row.Stage()},
                       {"frame_id", row.Frame()},
                       {"parent_command_id", Json()},
                       {"worker_id", Json()},
                       {"worker_locator", Json()},
                       {"locality", Json::Object()},
                       {"source_locality", Json::Object()},
                       {"placement", Json::Object()},
                       {"fanout_reduce", Json::Object()},
                       {"status", "UNKNOWN"},
                       {"issued_event_id", Json()},
                       {"claimed_event_id", Json()},
                       {"started_event_id", Json()},
                       {"terminal_event_id", Json()},
                       {"last_event_id", Json()}});
}

void ApplyCommand(FlatMap& commands, const FlatRow& row) {
  const Json id = row.Command();
  if (!Truthy(id)) return;
  Json& command = commands.At(id.ToString(), [&] { return NewCommand(row, id); }).members;
  Set(command, {{"last_event_id", row.id()}});
  if (const Json stage = row.Stage(); !stage.is_null()) Set(command, {{"stage_id", stage}});
  if (const Json frame = row.Frame(); Truthy(frame)) Set(command, {{"frame_id", frame}});
  for (std::string_view key : {"parent_command_id", "worker_locator"}) {
    if (!row.meta(key).is_null()) Set(command, {{key, FlatText(row.meta(key))}});
  }
  const Json worker = FirstTrue({row["worker_id"], row.meta("worker_id")});
  if (!worker.is_null()) Set(command, {{"worker_id", FlatText(worker)}});
  for (std::string_view key : kCommandMaps) {
    if (row.meta(key).is_object()) Set(command, {{key, row.meta(key)}});
  }
  const auto* rule = std::ranges::find(kCommandRules, row.type(), &FlatCommandRule::type);
  if (rule != std::end(kCommandRules)) {
    Set(command, {{"status", StatusOr(row, rule->status)}, {rule->member, row.id()}});
  } else if (row.type().starts_with("command.") && Truthy(row["status"])) {
    Set(command, {{"status", FlatText(row["status"])}});
  }
}

// ---- loops

void ApplyLoop(FlatMap& loops, const FlatRow& row) {
  const Json id = row.Loop();
  if (!Truthy(id)) return;
  const auto make = [&] {
    return Json::Object({{"loop_id", id},
                         {"step_name", row["node_name"]},
                         {"total", FirstTrue({row.meta("collection_size"), row.meta("total")})},
                         {"done", 0},
                         {"failed", 0},
                         {"completed", false},
                         {"last_event_id", Json()}});
  };
  Json& loop = loops.At(id.ToString(), make).members;
  const std::string& type = row.type();
  Set(loop, {{"last_event_id", row.id()}});
  if (type == "command.completed" || type == "loop.shard.done")
    Set(loop, {{"done", PlusOne(loop["done"])}});
  if (type == "command.failed" || type == "loop.shard.failed")
    Set(loop, {{"failed", PlusOne(loop["failed"])}});
  if (type == "loop.done" || type == "loop.fanin.completed") Set(loop, {{"completed", true}});
}

// ---- business objects

std::string FlatObjectStatus(const FlatRow& row) {
  if (!row["status"].is_null()) return FlatText(row["status"]);
  const std::string lower = ToLower(row.type());
  for (std::string_view ending : {".deleted", ".removed"}) {
    if (lower.ends_with(ending)) return "DELETED";
  }
  for (std::string_view ending : {".created", ".updated", ".upserted"}) {
    if (lower.ends_with(ending)) return "ACTIVE";
  }
  return "";
}

Json NewObject(const FlatRow& row, const std::string& key, const Json& type, const Json& id) {
  return Json::Object({{"object_key", key},
                       {"object_type", type},
                       {"object_id", id},
                       {"status", "UNKNOWN"},
                       {"version", 0},
                       {"event_count", 0},
                       {"first_event_id", row.id()},
                       {"last_event_id", Json()},
                       {"deleted_event_id", Json()},
                       {"last_event_type", Json()},
                       {"attributes", Json::Object()},
                       {"payload_refs", Json::Array()},
                       {"last_payload_ref", Json()}});
}

Status ApplyObject(FlatMap& objects, const FlatRow& row) {
  const auto [type, id] = row.Object();
  if (type.is_null()) return {};
  const std::string key = type.ToString() + "/" + id.ToString();
  FlatEntity& entity = objects.At(key, [&] { return NewObject(row, key, type, id); });
  Json& object = entity.members;
  NOETL_ASSIGN(const Json count, FlatInt(object["event_count"]));
  Set(object, {{"last_event_id", row.id()},
               {"last_event_type", row.type()},
               {"event_count", PlusOne(count)}});
  NOETL_ASSIGN(Json version,
               FlatInt(FirstTrue({row.business("version"), row.meta("business_object_version"),
                                  object["event_count"]})));
  Set(object, {{"version", std::move(version)}});
  if (const std::string status = FlatObjectStatus(row); !status.empty()) {
    Set(object, {{"status", status}});
    if (status == "DELETED") Set(object, {{"deleted_event_id", row.id()}});
  }
  if (row.business("state").is_object()) Set(object, {{"attributes", row.business("state")}});
  const Json patch = FirstTrue({row.business("patch"), row.business("attributes")});
  if (patch.is_object()) Set(object, {{"attributes", object["attributes"].Merge(patch)}});
  if (const Json reference = row.Reference(); !reference.is_null()) {
    entity.payload_refs.push_back(Json::Object(
        {{"event_id", row.id()}, {"reference", reference}, {"summary", FlatSummary(reference)}}));
    Set(object, {{"last_payload_ref", entity.payload_refs.back()}});
  }
  return {};
}

std::string_view ExecutionStatus(std::string_view type) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {"playbook.completed", "COMPLETED"},  {"workflow.completed", "COMPLETED"},
      {"execution.completed", "COMPLETED"}, {"playbook.failed", "FAILED"},
      {"workflow.failed", "FAILED"},        {"execution.failed", "FAILED"},
      {"command.failed", "FAILED"},         {"playbook.initialized", "RUNNING"},
      {"execution.started", "RUNNING"},     {"stage.opened", "RUNNING"},
      {"frame.dispatched", "RUNNING"},
  };
  for (const auto& [name, status] : kRules) {
    if (name == type) return status;
  }
  return "";
}

}  // namespace

// ---- FlatFold

struct FlatFold::State {
  Json head;  // what comes before `event_count`
  Json snapshot;
  Json event_count = 0;
  Json last_event_id;
  Json last_event_type;
  Json status = "UNKNOWN";
  Json last_node_name;
  std::vector<Json> payload_refs;
  FlatMap stages, frames, commands, objects, loops;
};

FlatFold::FlatFold(const Context& context, const FlatOptions& options)
    : state_(std::make_unique<State>()) {
  State& it = *state_;
  it.head = Json::Object({{"tenant_id", context.tenant_id},
                          {"organization_id", context.organization_id},
                          {"execution_id", context.execution_id},
                          {"projection", context.projection},
                          {"upcaster_registry_digest", options.upcaster_registry_digest}});
  if (const Json& base = options.base_state; Truthy(base)) {
    if (base.Has("event_count")) it.event_count = base["event_count"];
    it.last_event_id = base["last_event_id"];
    it.last_event_type = base["last_event_type"];
    const Json& execution = base["execution"];
    if (execution.Has("status")) it.status = execution["status"];
    it.last_node_name = execution["last_node_name"];
    for (const Json& entry : execution["payload_refs"].items()) it.payload_refs.push_back(entry);
    it.stages.Load(base["stages"], false);
    it.frames.Load(base["frames"], false);
    it.commands.Load(base["commands"], false);
    it.objects.Load(base["business_objects"], true);
    it.loops.Load(base["loops"], false);
    it.snapshot = base["replay_snapshot"];
  }
  if (const Json& seed = options.snapshot_seed; !seed.is_null()) {
    it.snapshot = Json::Object(
        {{"aggregate_id", seed["aggregate_id"]},
         {"aggregate_type", seed["aggregate_type"]},
         {"version", seed["version"]},
         {"checksum", seed["checksum"].is_object() ? seed["checksum"]["value"] : seed["checksum"]},
         {"meta", seed["meta"].is_object() ? seed["meta"] : Json::Object()}});
  }
}

FlatFold::~FlatFold() = default;
FlatFold::FlatFold(FlatFold&&) noexcept = default;
FlatFold& FlatFold::operator=(FlatFold&&) noexcept = default;

Status FlatFold::Apply(const Json& json) {
  State& it = *state_;
  const FlatRow row(json);
  NOETL_ASSIGN(const Json count, FlatInt(it.event_count));
  it.event_count = PlusOne(count);
  it.last_event_id = row.id();
  it.last_event_type = row.type();
  it.last_node_name = row["node_name"];
  if (const std::string_view status = ExecutionStatus(row.type()); !status.empty())
    it.status = status;
  if (const Json reference = row.Reference(); !reference.is_null()) {
    it.payload_refs.push_back(Json::Object({{"event_id", row.id()}, {"reference", reference}}));
  }
  NOETL_TRY(ApplyStage(it.stages, row));
  NOETL_TRY(ApplyFrame(it.frames, row));
  ApplyCommand(it.commands, row);
  NOETL_TRY(ApplyObject(it.objects, row));
  ApplyLoop(it.loops, row);
  return {};
}

Result<Json> FlatFold::Seal() const {
  const State& it = *state_;
  Json::Members members(it.head.members().begin(), it.head.members().end());
  members.emplace_back("event_count", it.event_count);
  members.emplace_back("last_event_id", it.last_event_id);
  members.emplace_back("last_event_type", it.last_event_type);
  members.emplace_back("execution", Json::Object({{"status", it.status},
                                                  {"last_node_name", it.last_node_name},
                                                  {"payload_refs", Json::Array(it.payload_refs)}}));
  members.emplace_back("stages", it.stages.Build(false));
  members.emplace_back("frames", it.frames.Build(false));
  members.emplace_back("commands", it.commands.Build(false));
  members.emplace_back("business_objects", it.objects.Build(true));
  members.emplace_back("loops", it.loops.Build(false));
  if (!it.snapshot.is_null()) members.emplace_back("replay_snapshot", it.snapshot);
  return SealFlat(Json::Object(std::move(members)));
}

Json FlatRowOf(const Event& event) {
  const Row row = RowOf(event);
  const auto some = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json();
  };
  return Json::Object({{"event_id", row.event_id},
                       {"event_type", row.event_type},
                       {"node_name", some(row.node_name)},
                       {"status", row.status.empty() ? Json() : Json(row.status)},
                       {"command_id", some(row.command_id)},
                       {"worker_id", some(row.worker_id)},
                       {"meta", row.meta},
                       {"result", row.result}});
}

Result<Json> FoldFlatRows(std::vector<Json> rows, const Context& context,
                          const FlatOptions& options) {
  const auto id = [](const Json& row) {
    const Json id = FlatRow(row).id();
    return id.is_null() ? Json(0) : id;
  };
  std::ranges::stable_sort(
      rows, [&](const Json& a, const Json& b) { return CompareInts(id(a), id(b)) < 0; });
  FlatFold fold(context, options);
  for (const Json& row : rows) NOETL_TRY(fold.Apply(row));
  return fold.Seal();
}

}  // namespace noetl::engine::replay
