#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "engine/result.h"
#include "engine/result_parts.h"

namespace noetl::engine {
namespace {

using expr::Value;
using expr::View;
// What a key leads to; nullopt: there is surely no such key.
using Found = Result<std::optional<Value>>;

// Names that stand for the payload itself when the payload has no such key, at any depth.
constexpr std::array<std::string_view, 4> kSelfNames = {"data", "result", "output", "context"};

bool IsSelfName(std::string_view key) {
  return std::ranges::find(kSelfNames, key) != kSelfNames.end();
}

// The element an index key means; a negative one counts from the end.
const Json* Element(const Json& list, std::string_view key) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size()) return nullptr;
  const auto size = static_cast<std::int64_t>(list.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &list.items()[static_cast<std::size_t>(index)] : nullptr;
}

const Json* Member(const Json& value, std::string_view key) {
  return value.is_array() ? Element(value, key) : value.Find(key);
}

// A map of nothing but markers stands for a value that the summary left out.
bool IsCollapsed(const Json& value) {
  constexpr std::array<std::string_view, 4> kMarkers = {"_len", "_count", "_keys", "_truncated"};
  return value.is_object() && !value.empty() &&
         std::ranges::all_of(value.members(), [&](const JsonMember& member) {
           return std::ranges::find(kMarkers, member.key()) != kMarkers.end();
         });
}

// One node of a payload: the value itself, or a node of the summary of a payload that is stored.
struct Node {
  Json value;
  std::string ref = {};  // set: `value` is only a summary, the truth is at `path` of this body
  const Bodies* bodies = nullptr;
  std::vector<std::string> path = {};

  bool is_summary() const { return !ref.empty(); }
  // Asks for the body, or says that it is gone.
  std::unexpected<Error> NeedsBody() const {
    if (bodies != nullptr) {
      if (const Result<const Json*> body = bodies->Find(ref); !body)
        return std::unexpected(body.error());
    }
    return Fail(kNeedsReference, ref);
  }
};

Result<std::optional<Node>> Child(const Node& node, std::string_view key) {
  const Json* found = Member(node.value, key);
  if (!node.is_summary()) {
    return found ? std::optional(Node{.value = *found, .bodies = node.bodies}) : std::nullopt;
  }
  // A summary keeps the first element of a list and every key of a map unless it says otherwise.
  if (node.value.is_array() && key != "0") found = nullptr;
  if (found != nullptr && !IsCollapsed(*found)) {
    Node child = node;
    child.value = *found;
    child.path.emplace_back(key);
    return child;
  }
  const bool surely_absent = found == nullptr && node.value.is_object() &&
                             !node.value.Has("_truncated") && !IsCollapsed(node.value);
  if (surely_absent) return std::nullopt;
  return node.NeedsBody();
}

Result<Json> WholeOf(const Node& node) {
  if (!node.is_summary()) return node.value;
  NOETL_ASSIGN(const Json* body, LoadBody(node.bodies, node.ref));
  for (const std::string& key : node.path) {
    body = Member(*body, key);
    if (body == nullptr) return Json();
  }
  return *body;
}

// HTTP envelopes are known by their shape as well: inside a pipeline the kind is not at hand.
bool IsHttp(std::string_view kind, const Json& payload) {
  if (!payload.is_object() || !(payload.Has("data") || payload.Has("body"))) return false;
  return kind == "http" || (payload.Has("status_code") && payload.Has("headers"));
}

Value ToValue(Node node, bool fallbacks);

// The child under `key`; for an HTTP envelope also the child of its body.
Found RealKey(const Node& node, std::string_view key, bool http) {
  NOETL_ASSIGN(std::optional<Node> child, Child(node, key));
  if (!child && http) {
    NOETL_ASSIGN(std::optional<Node> body, Child(node, node.value.Has("data") ? "data" : "body"));
    if (body && body->value.is_object()) {
      NOETL_ASSIGN(child, Child(*body, key));
    }
  }
  if (!child) return std::nullopt;
  return ToValue(*std::move(child), IsSelfName(key));
}

// Rows of a payload that is a list.
Found ListKey(const Node& node, std::string_view key) {
  if (!node.value.is_array()) return std::nullopt;
  if (key == "rows") return ToValue(node, false);
  if (key != "row_count") return std::nullopt;
  NOETL_ASSIGN(const Json whole, WholeOf(node));
  return Value(Json(whole.size()));
}

class NodeView : public View, public std::enable_shared_from_this<NodeView> {
 public:
  NodeView(Node node, bool fallbacks, bool http)
      : node_(std::move(node)), fallbacks_(fallbacks), http_(http) {}

  Result<Value> Get(std::string_view key) const override {
    NOETL_ASSIGN(std::optional<Value> found, RealKey(node_, key, http_));
    if (found) return *found;
    if (fallbacks_) {
      if (IsSelfName(key)) return Value(std::shared_ptr<const View>(shared_from_this()));
      NOETL_ASSIGN(found, ListKey(node_, key));
      if (found) return *found;
    }
    if (node_.is_summary()) return node_.NeedsBody();
    return Value();
  }
  Result<Json> Whole() const override { return WholeOf(node_); }
  // Empty lists are collapsed in a summary, so what it shows of one is never misleading here.
  bool Truthy() const override { return expr::Truthy(Value(node_.value)); }

 private:
  Node node_;
  bool fallbacks_;
  bool http_;
};

Value MakeView(Node node, bool fallbacks, std::string_view kind) {
  const bool http = fallbacks && IsHttp(kind, node.value);
  return Value(
      std::shared_ptr<const View>(std::make_shared<NodeView>(std::move(node), fallbacks, http)));
}

// Plain values stay plain; summaries and maps with fallbacks become views.
Value ToValue(Node node, bool fallbacks) {
  const bool lazy = node.is_summary() && node.value.is_container();
  if (lazy || (fallbacks && node.value.is_object()))
    return MakeView(std::move(node), fallbacks, "");
  return Value(std::move(node.value));
}

class StoredView : public View {
 public:
  StoredView(std::string ref, const Bodies* bodies) : ref_(std::move(ref)), bodies_(bodies) {}

  Result<Value> Get(std::string_view key) const override {
    if (key == "_ref") return Value(Json(ref_));
    NOETL_ASSIGN(const Json* body, LoadBody(bodies_, ref_));
    const Json* found = Member(*body, key);
    return found ? Value(*found) : Value();
  }
  Result<Json> Whole() const override {
    NOETL_ASSIGN(const Json* body, LoadBody(bodies_, ref_));
    return *body;
  }
  // Only large values are stored, and those are not empty.
  bool Truthy() const override { return true; }

 private:
  std::string ref_;
  const Bodies* bodies_;
};

// `S.results` of a pipeline: label to payload view.
class LabelsView : public View {
 public:
  explicit LabelsView(Node labels) : labels_(std::move(labels)) {}

  Result<Value> Get(std::string_view key) const override {
    NOETL_ASSIGN(std::optional<Node> payload, Child(labels_, key));
    if (payload) return MakeView(*std::move(payload), true, "");
    if (labels_.is_summary()) return labels_.NeedsBody();
    return Value();
  }
  Result<Json> Whole() const override { return WholeOf(labels_); }
  bool Truthy() const override { return !labels_.value.empty(); }

 private:
  Node labels_;
};

class ResultView : public View, public std::enable_shared_from_this<ResultView> {
 public:
  ResultView(std::shared_ptr<const StepResult> result, const Bodies* bodies)
      : result_(std::move(result)),
        bodies_(bodies),
        root_{.value = result_->data, .bodies = bodies} {
    const std::string_view ref = result_->ref();
    if (ref.empty()) return;
    // A body that is known to be gone is reported by the read that needs it.
    if (Result<const Json*> body = LoadBody(bodies, ref); body) {
      root_.value = **body;
    } else {
      root_.ref = ref;
    }
  }

  Result<Value> Get(std::string_view key) const override {
    if (const Json* known = Handle(key); known != nullptr) return Value(*known);
    NOETL_ASSIGN(std::optional<Value> found, Payload(key));
    if (!found) {
      NOETL_ASSIGN(found, Accessor(key));
    }
    if (found) return *found;
    if (root_.is_summary()) return root_.NeedsBody();
    // A field that was selected under another name is no key of the body.
    if (const Json* selected = result_->reference["selected"].Find(key)) return Value(*selected);
    return Value();
  }
  Result<Json> Whole() const override { return PayloadOf(*result_, bodies_); }

  const StepResult& result() const { return *result_; }
  bool is_http() const { return IsHttp(result_->tool_kind, root_.value); }

 private:
  bool is_pipeline() const { return result_->order.is_array(); }

  // What the reference itself tells, never needing the body.
  const Json* Handle(std::string_view key) const {
    if (result_->ref().empty()) return nullptr;
    if (key == "_ref") return result_->reference.Find("ref");
    if (key == "_uri") return result_->reference.Find("uri");
    if (key == "_store") return result_->reference.Find("store");
    if (key == "_preview") {
      const Json* preview = result_->reference.Find("preview");
      return preview ? preview : &result_->data;
    }
    return root_.is_summary() ? result_->reference["selected"].Find(key) : nullptr;
  }

  Found Payload(std::string_view key) const {
    if (is_pipeline()) return PipelineKey(key);
    if (IsLoop(result_->shape) && key == "results") return LoopResults();
    return RealKey(root_, key, is_http());
  }

  // A label, else the field of the latest task that has it.
  Found PipelineKey(std::string_view key) const {
    NOETL_ASSIGN(std::optional<Node> payload, Child(root_, key));
    if (payload) return MakeView(*std::move(payload), true, "");
    const auto order = result_->order.items();
    for (std::size_t i = order.size(); i-- > 0;) {
      NOETL_ASSIGN(std::optional<Node> task, Child(root_, order[i].AsString()));
      if (!task || !task->value.is_object()) continue;
      NOETL_ASSIGN(std::optional<Node> field, Child(*task, key));
      if (field) return ToValue(*std::move(field), IsSelfName(key));
    }
    return std::nullopt;
  }

  Found LoopResults() const {
    NOETL_ASSIGN(std::optional<Node> results, Child(root_, "results"));
    if (!results) return std::nullopt;
    const std::string_view ref = LoopRowsRef(results->value);
    if (!ref.empty()) return ReferenceView(std::string(ref), bodies_);
    return ToValue(*std::move(results), false);
  }

  // Names that are readable without being keys of the payload.
  Found Accessor(std::string_view key) const {
    if (key == "data" && IsLoop(result_->shape)) {
      NOETL_ASSIGN(std::optional<Value> results, LoopResults());
      if (results) return results;
    }
    if (IsSelfName(key)) return Value(std::shared_ptr<const View>(shared_from_this()));
    NOETL_ASSIGN(std::optional<Value> found, ListKey(root_, key));
    if (found) return found;
    if (is_pipeline()) {
      if (key == "results")
        return Value(std::shared_ptr<const View>(std::make_shared<LabelsView>(root_)));
      if (key == "_prev") return Previous();
    }
    if (key == "meta" && !result_->meta.is_null()) return Value(result_->meta);
    if (result_->failed) {
      NOETL_ASSIGN(found, FailureAccessor(key));
      if (found) return found;
    }
    if (const Json* extra = result_->accessors.Find(key)) return Value(*extra);
    return std::nullopt;
  }

  Found Previous() const {
    const auto order = result_->order.items();
    if (order.empty()) return Value(Json());
    NOETL_ASSIGN(std::optional<Node> last, Child(root_, order.back().AsString()));
    if (!last) return std::nullopt;
    return MakeView(*std::move(last), true, "");
  }

  Found FailureAccessor(std::string_view key) const {
    if (key == "error") return Value(Json(result_->error));
    if (key != "labeled_results" && key != "failed_label") return std::nullopt;
    NOETL_ASSIGN(std::optional<Node> failed, Child(root_, "failed_task"));
    if (!failed) return std::nullopt;
    if (key == "failed_label") return Value(failed->value);
    NOETL_ASSIGN(const Json whole, WholeOf(root_));
    return Value(whole.Without("failed_task"));
  }

  std::shared_ptr<const StepResult> result_;
  const Bodies* bodies_;
  Node root_;
};

// The parts of an envelope that can be told from the error object when the tool gave none.
Json PartOfError(std::string_view part, const Json& error) {
  if (part == "http" && error.Has("http_status")) {
    return Json::Object({{"status", error["http_status"]}});
  }
  if (part == "pg" && error.Has("pg_code")) {
    return Json::Object({{"code", error["pg_code"]}, {"sqlstate", error["pg_code"]}});
  }
  if (part == "py" && error.Has("exception_type")) {
    return Json::Object(
        {{"exception_type", error["exception_type"]}, {"traceback", error["traceback"]}});
  }
  return Json();
}

bool IsPart(std::string_view key) { return key == "http" || key == "pg" || key == "py"; }

class StepEnvelopeView : public View {
 public:
  explicit StepEnvelopeView(std::shared_ptr<const ResultView> step) : step_(std::move(step)) {}

  Result<Value> Get(std::string_view key) const override {
    const StepResult& result = step_->result();
    if (key == "status") return StatusAlias(!result.failed);
    if (key == "error") return result.failed ? Value(Error()) : Value();
    if (key == "ref") return result.ref().empty() ? Value() : Value(Json(result.ref()));
    if (key == "meta" && !result.meta.is_null()) return Value(result.meta);
    if (IsPart(key)) return Part(key);
    return step_->Get(key);
  }
  // As in a task's `set`, the bare name is the payload.
  Result<Json> Whole() const override { return step_->Whole(); }

 private:
  Json Error() const { return ErrorObject(step_->result().error, step_->result().error_info); }

  Result<Value> Part(std::string_view key) const {
    const StepResult& result = step_->result();
    if (const Json* given = result.accessors.Find(key)) return Value(*given);
    if (key == "http" && step_->is_http()) {
      NOETL_ASSIGN(const Value status, step_->Get("status_code"));
      NOETL_ASSIGN(const Json number, status.Plain());
      const Json* headers = result.data.Find("headers");
      return Value(Json::Object({{"status", number}, {"headers", headers ? *headers : Json()}}));
    }
    const Json part = result.failed ? PartOfError(key, Error()) : Json();
    return part.is_null() ? Value() : Value(part);
  }

  std::shared_ptr<const ResultView> step_;
};

class TaskEnvelopeView : public View {
 public:
  explicit TaskEnvelopeView(const TaskEnvelope& envelope)
      : envelope_(envelope), payload_(PayloadView(envelope.payload, envelope.tool_kind)) {
    for (std::string_view part : {"http", "pg", "py"}) {
      if (envelope_.extra.Has(part)) continue;
      Json made = part == "http" ? HttpPart() : Json();
      if (made.is_null()) made = PartOfError(part, envelope_.error);
      if (!made.is_null()) envelope_.extra = envelope_.extra.With(part, std::move(made));
    }
  }

  Result<Value> Get(std::string_view key) const override {
    if (key == "status") return StatusAlias(envelope_.ok);
    // `outcome.result` and `response` are older names.
    if (key == "data" || key == "result" || key == "response") return payload_;
    if (key == "error") return envelope_.ok ? Value() : Value(envelope_.error);
    if (key == "meta") return Value(envelope_.meta);
    if (const Json* given = envelope_.extra.Find(key)) return Value(*given);
    if (IsPart(key) || key == "ref") return Value();
    return payload_.view()->Get(key);
  }
  Result<Json> Whole() const override {
    Json whole = Json::Object({{"status", envelope_.ok ? "ok" : "error"},
                               {"data", envelope_.payload},
                               {"meta", envelope_.meta}});
    if (!envelope_.ok) whole = whole.With("error", envelope_.error);
    return whole.Merge(envelope_.extra);
  }

 private:
  Json HttpPart() const {
    const Json& payload = envelope_.payload;
    if (!IsHttp(envelope_.tool_kind, payload) || !payload.Has("status_code")) return Json();
    return Json::Object({{"status", payload["status_code"]}, {"headers", payload["headers"]}});
  }

  TaskEnvelope envelope_;
  Value payload_;
};

}  // namespace

Value ReferenceView(std::string ref, const Bodies* bodies) {
  return Value(std::shared_ptr<const View>(std::make_shared<StoredView>(std::move(ref), bodies)));
}

Value StepView(std::shared_ptr<const StepResult> result, const Bodies* bodies) {
  return Value(
      std::shared_ptr<const View>(std::make_shared<ResultView>(std::move(result), bodies)));
}

Value PayloadView(Json payload, std::string_view tool_kind) {
  return MakeView(Node{.value = std::move(payload)}, true, tool_kind);
}

Value StepOutputView(std::shared_ptr<const StepResult> result, const Bodies* bodies) {
  auto step = std::make_shared<ResultView>(std::move(result), bodies);
  return Value(std::shared_ptr<const View>(std::make_shared<StepEnvelopeView>(std::move(step))));
}

Value TaskOutputView(const TaskEnvelope& envelope) {
  return Value(std::shared_ptr<const View>(std::make_shared<TaskEnvelopeView>(envelope)));
}

Value StatusAlias(bool ok) {
  return ok ? Value::Alias({"ok", "success"}) : Value::Alias({"error", "failed"});
}

}  // namespace noetl::engine
