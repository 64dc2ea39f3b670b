#include "engine/replay_state.h"

#include <concepts>
#include <utility>

#include <fmt/format.h>

namespace noetl::engine::replay {

namespace {

// ---- writing: one list of members a type serves writing and reading

// Members() of each type names them in the order in which they are shown. `member(name, field)` is
// called with a field that must be there unless it is optional or has a default.
template <typename M>
void Members(M& member, PayloadSummary& it) {
  member("sha256", it.sha256);
  member("schema_digest", it.schema_digest);
  member("row_count", it.row_count);
  member("media_type", it.media_type);
  member("ref", it.ref);
}

template <typename M>
void Members(M& member, PayloadRef& it) {
  member("event_id", it.event_id);
  member("reference", it.reference);
  member("summary", it.summary);
}

template <typename M>
void Members(M& member, Execution& it) {
  member("status", it.status);
  member("last_node_name", it.last_node_name);
  member("payload_refs", it.payload_refs);
}

template <typename M>
void Members(M& member, Stage& it) {
  member("stage_id", it.stage_id);
  member("status", it.status);
  member("kind", it.kind);
  member("step_name", it.step_name);
  member("parent_stage_id", it.parent_stage_id);
  member("loop_event_id", it.loop_event_id);
  member("opened_event_id", it.opened_event_id);
  member("closed_event_id", it.closed_event_id);
  member("frame_count", it.frame_count);
  member("row_count", it.row_count);
  member("events_emitted", it.events_emitted);
  member("failed_count", it.failed_count);
  member("last_event_id", it.last_event_id);
}

template <typename M>
void Members(M& member, Frame& it) {
  member("frame_id", it.frame_id);
  member("stage_id", it.stage_id);
  member("parent_frame_id", it.parent_frame_id);
  member("command_id", it.command_id);
  member("claimed_event_id", it.claimed_event_id);
  member("terminal_event_id", it.terminal_event_id);
  member("status", it.status);
  member("row_count", it.row_count);
  member("attempts", it.attempts);
  member("last_event_id", it.last_event_id);
  member("events_emitted", it.events_emitted);
  member.Some("output_ref", it.output_ref);
  member("output_ref_summary", it.output_ref_summary);
}

template <typename M>
void Members(M& member, Command& it) {
  member("command_id", it.command_id);
  member("stage_id", it.stage_id);
  member("frame_id", it.frame_id);
  member("parent_command_id", it.parent_command_id);
  member("worker_id", it.worker_id);
  member("worker_locator", it.worker_locator);
  member("status", it.status);
  member("issued_event_id", it.issued_event_id);
  member("claimed_event_id", it.claimed_event_id);
  member("started_event_id", it.started_event_id);
  member("terminal_event_id", it.terminal_event_id);
  member("last_event_id", it.last_event_id);
}

template <typename M>
void Members(M& member, BusinessObject& it) {
  member("object_key", it.object_key);
  member("object_type", it.object_type);
  member("object_id", it.object_id);
  member("status", it.status);
  member("version", it.version);
  member("event_count", it.event_count);
  member("first_event_id", it.first_event_id);
  member("last_event_id", it.last_event_id);
  member("deleted_event_id", it.deleted_event_id);
  member("last_event_type", it.last_event_type);
  member.Map("attributes", it.attributes);
  member("payload_refs", it.payload_refs);
  member("last_payload_ref", it.last_payload_ref);
}

template <typename M>
void Members(M& member, Loop& it) {
  member("loop_id", it.loop_id);
  member("step_name", it.step_name);
  member("total", it.total);
  member("done", it.done);
  member("failed", it.failed);
  member("completed", it.completed);
  member("last_event_id", it.last_event_id);
}

template <typename M>
void Members(M& member, Checksum& it) {
  member("type", it.type);
  member("value", it.value);
}

template <typename M>
void Members(M& member, Snapshot& it) {
  member("aggregate_id", it.aggregate_id);
  member("aggregate_type", it.aggregate_type);
  member("version", it.version);
  member("checksum", it.checksum);
  member.Map("meta", it.meta);
}

template <typename M>
void Members(M& member, State& it) {
  member("tenant_id", it.tenant_id);
  member("organization_id", it.organization_id);
  member("execution_id", it.execution_id);
  member("projection", it.projection);
  member("event_count", it.event_count);
  member("last_event_id", it.last_event_id);
  member("last_event_type", it.last_event_type);
  member("execution", it.execution);
  member("stages", it.stages);
  member("frames", it.frames);
  member("commands", it.commands);
  member("business_objects", it.business_objects);
  member("loops", it.loops);
  member("upcaster_registry_digest", it.upcaster_registry_digest);
  member("replay_snapshot", it.replay_snapshot);
}

class Writer {
 public:
  template <typename T>
  static Json Write(const T& value) {
    if constexpr (std::constructible_from<Json, const T&>) {
      return Json(value);
    } else {
      Writer writer;
      // Members() serves the reader too; the writer changes nothing.
      Members(writer, const_cast<T&>(value));
      return Json::Object(std::move(writer.members_));
    }
  }
  template <typename T>
  static Json Write(const std::vector<T>& list) {
    std::vector<Json> items;
    items.reserve(list.size());
    for (const T& item : list) items.push_back(Write(item));
    return Json::Array(std::move(items));
  }
  template <typename T>
  static Json Write(const ById<T>& map) {
    Json::Members members;
    members.reserve(map.size());
    for (const auto& [id, entity] : map) members.emplace_back(id, Write(entity));
    return Json::Object(std::move(members));
  }

  template <typename T>
  void operator()(std::string_view name, const T& value) {
    members_.emplace_back(name, Write(value));
  }
  template <typename T>
  void operator()(std::string_view name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
  }
  void Some(std::string_view name, const Json& value) {
    if (!value.is_null()) (*this)(name, value);
  }
  void Map(std::string_view name, const Json& value) { (*this)(name, value); }

 private:
  Json::Members members_;
};

// ---- reading

class Reader {
 public:
  Reader(const Json& object, std::string& problem) : object_(object), problem_(problem) {}

  template <typename T>
  static bool Read(const Json& value, T& out, std::string& problem) {
    if (!value.is_object()) return false;
    Reader reader(value, problem);
    Members(reader, out);
    return problem.empty();
  }
  static bool Read(const Json& value, std::string& out, std::string&) {
    out = value.AsString();
    return value.is_string();
  }
  static bool Read(const Json& value, std::int64_t& out, std::string&) {
    out = value.AsInt();
    return value.is_int();
  }
  static bool Read(const Json& value, std::uint64_t& out, std::string&) {
    out = value.AsUint();
    return value.type() == Json::Type::kUint || (value.is_int() && value.AsInt() >= 0);
  }
  static bool Read(const Json& value, bool& out, std::string&) {
    out = value.AsBool();
    return value.is_bool();
  }
  static bool Read(const Json& value, Json& out, std::string&) {
    out = value;
    return true;
  }
  template <typename T>
  static bool Read(const Json& value, std::vector<T>& out, std::string& problem) {
    for (const Json& item : value.items()) {
      if (!Read(item, out.emplace_back(), problem)) return false;
    }
    return value.is_array();
  }
  template <typename T>
  static bool Read(const Json& value, ById<T>& out, std::string& problem) {
    for (const JsonMember& member : value.members()) {
      if (!Read(member.value, out[std::string(member.key())], problem)) return false;
    }
    return value.is_object();
  }

  template <typename T>
  void operator()(std::string_view name, T& field) {
    Take(name, field, true);
  }
  template <typename T>
  void operator()(std::string_view name, std::vector<T>& field) {
    Take(name, field, false);
  }
  template <typename T>
  void operator()(std::string_view name, ById<T>& field) {
    Take(name, field, false);
  }
  void operator()(std::string_view name, PayloadSummary& field) { Take(name, field, false); }
  template <typename T>
  void operator()(std::string_view name, std::optional<T>& field) {
    if (object_[name].is_null()) return;
    Take(name, field.emplace(), true);
  }
  void Some(std::string_view name, Json& field) { field = object_[name]; }
  void Map(std::string_view name, Json& field) {
    Take(name, field, false);
    if (!field.is_object()) Problem(name);
  }

 private:
  template <typename T>
  void Take(std::string_view name, T& field, bool needed) {
    if (!problem_.empty()) return;
    const Json* value = object_.Find(name);
    if (value == nullptr) {
      if (needed) Problem(name);
    } else if (!Read(*value, field, problem_)) {
      Problem(name);
    }
  }
  void Problem(std::string_view name) {
    if (problem_.empty()) problem_ = name;
  }

  const Json& object_;
  std::string& problem_;
};

template <typename T>
Result<T> ReadWhole(const Json& value) {
  T out;
  std::string problem;
  if (Reader::Read(value, out, problem)) return out;
  if (problem.empty()) return Fail("bad_state", "a state must be a map");
  return Fail("bad_state", fmt::format("`{}` is missing or has the wrong type", problem));
}

}  // namespace

Json ToJson(const State& state) { return Writer::Write(state); }
Json ToJson(const PayloadSummary& summary) { return Writer::Write(summary); }

Result<State> StateFromJson(const Json& state) { return ReadWhole<State>(state); }
Result<Snapshot> SnapshotFromJson(const Json& seed) { return ReadWhole<Snapshot>(seed); }

}  // namespace noetl::engine::replay
