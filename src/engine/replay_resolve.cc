#include "engine/replay_resolve.h"

#include <set>
#include <utility>
#include <vector>

#include "base/json_io.h"
#include "base/sha256.h"
#include "engine/replay_flat_values.h"
#include "engine/replay_seal.h"

namespace noetl::engine::replay {

namespace {

// "rows_ref" and others that hold where a payload is.
Json PlaceIn(const Json& object) {
  return FirstTrue({object["ref"], object["uri"], object["locator"]});
}

Json TargetOf(const Json& reference, const std::string& locator) {
  if (!reference.is_object()) return locator;
  const Json& kind = reference["kind"];
  for (std::string_view whole : {"temp_ref", "result_ref", "manifest"}) {
    if (kind.is_string() && kind.AsString() == whole) return reference;
  }
  return reference["rows_ref"].is_object() ? reference["rows_ref"] : Json(locator);
}

std::string_view ValueType(const Json& payload) {
  switch (payload.type()) {
    case Json::Type::kNull: return "NoneType";
    case Json::Type::kBool: return "bool";
    case Json::Type::kDouble: return "float";
    case Json::Type::kString: return "str";
    case Json::Type::kArray: return "list";
    case Json::Type::kObject: return "dict";
    default: return "int";
  }
}

Json RowCount(const Json& payload) {
  if (payload.is_array()) return Json(payload.size());
  const Json& rows = payload["rows"];
  return rows.is_array() ? Json(rows.size()) : Json();
}

Json Unresolved(std::string_view ref, std::string_view error) {
  return Json::Object({{"ref", ref},
                       {"resolved", false},
                       {"checksum", Json()},
                       {"size_bytes", Json()},
                       {"row_count", Json()},
                       {"value_type", Json()},
                       {"error", error}});
}

class Resolver {
 public:
  Resolver(const PayloadLoader& load, const std::function<bool()>& over_time)
      : load_(load), over_time_(over_time) {}

  // One row of the answer; `owner` names the entity, if any.
  void Add(std::string_view scope, const Json& event_id, const Json& reference,
           std::string_view owner_key = "", std::string_view owner = "") {
    JsonObjectBuilder row;
    row.Add("scope", scope).Add("event_id", event_id);
    if (!owner_key.empty()) row.Add(owner_key, owner);
    const Json& resolution = Resolve(reference);
    resolved_ += resolution["resolved"].AsBool();
    if (Truthy(resolution["ref"])) refs_.insert(resolution["ref"].ToString());
    row.Add("reference_summary", FlatSummary(reference)).Add("resolution", resolution);
    rows_.push_back(row.Build());
  }

  Json AddTo(const Json& body) && {
    const Json rows = Json::Array(std::move(rows_));
    const Json summary = Json::Object({{"total", rows.size()},
                                       {"resolved", resolved_},
                                       {"unresolved", rows.size() - resolved_},
                                       {"unique_refs", refs_.size()},
                                       {"all_resolved", rows.size() == resolved_}});
    std::vector<Json> refs(refs_.begin(), refs_.end());
    const std::string digest =
        FlatDigest(summary.With("unique_refs", Json::Array(std::move(refs))).With("rows", rows));
    return body.With("payload_resolution", rows)
        .With("payload_resolution_summary", summary.With("checksum", digest));
  }

 private:
  const Json& Resolve(const Json& reference) {
    static const Json kNoLocator = Unresolved("", "payload reference has no resolvable locator");
    const std::string locator = LocatorOf(reference);
    if (locator.empty()) return kNoLocator;
    const auto [place, made] = known_.try_emplace(locator);
    if (made) place->second = Load(reference, locator);
    return place->second;
  }

  Json Load(const Json& reference, const std::string& locator) {
    if (known_.size() > kPayloadsMax || bytes_ > kAllPayloadBytesMax || over_time_())
      return Unresolved(locator, "resolution budget exhausted");
    const Result<Json> payload = load_(TargetOf(reference, locator));
    if (!payload) return Unresolved(locator, payload.error().message);
    const std::string text = CanonicalJsonFlat(*payload);
    bytes_ += text.size();
    if (text.size() > kPayloadBytesMax) return Unresolved(locator, "the payload is too large");
    return Json::Object({{"ref", locator},
                         {"resolved", true},
                         {"checksum", Sha256Hex(text)},
                         {"size_bytes", text.size()},
                         {"row_count", RowCount(*payload)},
                         {"value_type", ValueType(*payload)},
                         {"error", Json()}});
  }

  const PayloadLoader& load_;
  const std::function<bool()>& over_time_;
  std::map<std::string, Json> known_;
  std::size_t bytes_ = 0;
  std::vector<Json> rows_;
  std::size_t resolved_ = 0;
  std::set<std::string> refs_;
};

}  // namespace

std::string LocatorOf(const Json& reference) {
  if (reference.is_string()) return reference.ToString();
  if (!reference.is_object()) return "";
  Json place;
  if (reference["kind"] == Json("payload_store"))
    place = FirstTrue({reference["uri"], reference["sha256"]});
  if (!Truthy(place)) place = PlaceIn(reference);
  if (!Truthy(place)) place = PlaceIn(reference["rows_ref"]);
  return Truthy(place) ? FlatText(place) : "";
}

Json ResolvePayloads(const Json& body, const PayloadLoader& load,
                     const std::function<bool()>& over_time) {
  Resolver resolver(load, over_time);
  for (const Json& entry : body["execution"]["payload_refs"].items())
    resolver.Add("execution", entry["event_id"], entry["reference"]);
  for (const JsonMember& member : body["frames"].members()) {
    const Json& frame = member.value;
    if (frame["output_ref"].is_null()) continue;
    resolver.Add("frame", frame["terminal_event_id"], frame["output_ref"], "frame_id",
                 frame["frame_id"].AsString());
  }
  for (const JsonMember& member : body["business_objects"].members()) {
    for (const Json& entry : member.value["payload_refs"].items())
      resolver.Add("business_object", entry["event_id"], entry["reference"], "object_key",
                   member.key());
  }
  return std::move(resolver).AddTo(body);
}

}  // namespace noetl::engine::replay
