#include "api/subscription_spec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace noetl::api {
namespace {

using playbook::Diagnostic;
using playbook::Node;
using Words = std::initializer_list<std::string_view>;

// A dispatch of more messages at once would not fit a request.
constexpr std::int64_t kBatchMax = 1000;

// Of a path, whatever slashes it ends with.
std::string_view LastPart(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

class Checker {
 public:
  explicit Checker(const Node& document) : document_(document) {}

  std::vector<Diagnostic> Run() {
    const Node* spec = Map(document_, "spec", "spec", true);
    if (spec == nullptr) return std::move(problems_);
    Word(*spec, "source", "spec.source", {"pubsub", "nats", "kafka", "webhook"}, true);
    const std::string mode = Word(*spec, "mode", "spec.mode", {"pull", "push"}, true);
    if (mode == "pull") {
      Word(*spec, "activation", "spec.activation", {"continuous", "scheduled"}, false);
    }
    if (mode == "push") CheckIngress(*spec);
    CheckDispatch(*spec);
    if (const Node* dedup = Map(*spec, "dedup", "spec.dedup", false)) {
      Bool(*dedup, "enabled", "spec.dedup.enabled");
      Positive(*dedup, "window_secs", "spec.dedup.window_secs", INT64_MAX);
    }
    if (const Node* limits = Map(*spec, "limits", "spec.limits", false)) {
      Positive(*limits, "max_in_flight", "spec.limits.max_in_flight", INT64_MAX);
      Positive(*limits, "max_dispatch_per_sec", "spec.limits.max_dispatch_per_sec", INT64_MAX);
    }
    CheckHeaders(*spec);
    CheckSpool(*spec);
    return std::move(problems_);
  }

 private:
  void Add(std::string_view path, const Node& at, std::string message) {
    problems_.push_back({.code = "E090",
                         .path = std::string(path),
                         .position = at.position,
                         .message = std::move(message)});
  }

  // The value, or nullptr for absent and null.
  static const Node* Value(const Node& map, std::string_view key) {
    const Node* value = map.Find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const Node* Map(const Node& map, std::string_view key, std::string_view path, bool required) {
    const Node* value = Value(map, key);
    if (value == nullptr) {
      if (required) Add(path, map, fmt::format("{} is missing", path));
      return nullptr;
    }
    if (value->is_map()) return value;
    Add(path, *value, fmt::format("{} must be a map, got {}", path, value->TypeName()));
    return nullptr;
  }

  // The text; empty when it is absent or wrong (which is reported).
  std::string Text(const Node& map, std::string_view key, std::string_view path, bool required) {
    const Node* value = Value(map, key);
    if (value != nullptr && value->is_string() && !value->text.empty()) return value->text;
    if (value != nullptr) {
      Add(path, *value, fmt::format("{} must be a text that is not empty", path));
    } else if (required) {
      Add(path, map, fmt::format("{} is missing", path));
    }
    return {};
  }

  std::string Word(const Node& map, std::string_view key, std::string_view path, Words words,
                   bool required) {
    const std::string text = Text(map, key, path, required);
    if (text.empty() || std::ranges::find(words, text) != words.end()) return text;
    Add(path, *Value(map, key),
        fmt::format("{} must be one of {}, got '{}'", path, fmt::join(words, ", "), text));
    return {};
  }

  void Bool(const Node& map, std::string_view key, std::string_view path) {
    const Node* value = Value(map, key);
    if (value == nullptr || (value->is_scalar() && value->scalar.is_bool())) return;
    Add(path, *value, fmt::format("{} must be true or false", path));
  }

  void Positive(const Node& map, std::string_view key, std::string_view path, std::int64_t max) {
    const Node* value = Value(map, key);
    if (value == nullptr) return;
    const bool number = value->is_scalar() && value->scalar.is_number();
    if (number && value->scalar.AsDouble() > 0 &&
        value->scalar.AsDouble() <= static_cast<double>(max)) {
      return;
    }
    Add(path, *value,
        max == INT64_MAX ? fmt::format("{} must be a number above 0", path)
                         : fmt::format("{} must be a number from 1 to {}", path, max));
  }

  void CheckIngress(const Node& spec) {
    const Node* ingress = Map(spec, "ingress", "spec.ingress", true);
    if (ingress == nullptr) return;
    const std::string path = Text(*ingress, "gateway_path", "spec.ingress.gateway_path", true);
    if (!path.empty() && !path.starts_with('/')) {
      Add("spec.ingress.gateway_path", *ingress->Find("gateway_path"),
          "spec.ingress.gateway_path must start with '/'");
    } else if (!path.empty() && LastPart(path).empty()) {
      Add("spec.ingress.gateway_path", *ingress->Find("gateway_path"),
          "spec.ingress.gateway_path must end with the name of the listener");
    }
    const Node* verify = Map(*ingress, "verify", "spec.ingress.verify", true);
    if (verify == nullptr) return;
    struct Rule {
      std::string_view type;
      std::array<std::string_view, 2> needs;
    };
    constexpr Rule kRules[] = {{"hmac_sha256", {"header", "secret"}},
                               {"bearer", {"secret", ""}},
                               {"pubsub_oidc", {"audience", "service_account"}}};
    const std::string type = Word(*verify, "type", "spec.ingress.verify.type",
                                  {"hmac_sha256", "bearer", "pubsub_oidc"}, true);
    for (const Rule& rule : kRules) {
      if (rule.type != type) continue;
      for (const std::string_view need : rule.needs) {
        if (!need.empty()) Text(*verify, need, fmt::format("spec.ingress.verify.{}", need), true);
      }
    }
  }

  void CheckDispatch(const Node& spec) {
    const Node* dispatch = Map(spec, "dispatch", "spec.dispatch", true);
    if (dispatch == nullptr) return;
    Text(*dispatch, "playbook", "spec.dispatch.playbook", true);
    Bool(*dispatch, "batch_dispatch", "spec.dispatch.batch_dispatch");
    Positive(*dispatch, "batch_max", "spec.dispatch.batch_max", kBatchMax);
  }

  void CheckHeaders(const Node& spec) {
    const Node* headers = Map(spec, "headers", "spec.headers", false);
    const Node* directives = headers == nullptr ? nullptr : Value(*headers, "directives");
    if (directives == nullptr) return;
    if (!directives->is_list()) {
      return Add("spec.headers.directives", *directives, "spec.headers.directives must be a list");
    }
    for (std::size_t i = 0; i < directives->items.size(); ++i) {
      const Node& item = directives->items[i];
      const std::string path = fmt::format("spec.headers.directives[{}]", i);
      if (!item.is_map()) {
        Add(path, item, fmt::format("{} must be a map", path));
        continue;
      }
      Text(item, "header", path + ".header", true);
      Text(item, "controls", path + ".controls", true);
    }
  }

  void CheckSpool(const Node& spec) {
    const Node* spool = Map(spec, "spool", "spec.spool", false);
    if (spool == nullptr) return;
    const std::string mode =
        Word(*spool, "mode", "spec.spool.mode", {"off", "buffer_and_ack", "hybrid"}, false);
    if (mode.empty() || mode == "off") return;
    std::string backend = Word(*spool, "backend", "spec.spool.backend",
                               {"nats_object", "local_disk", "gcs", "s3"}, false);
    const bool disk = backend == "local_disk";
    Text(*spool, disk ? "path" : "bucket", disk ? "spec.spool.path" : "spec.spool.bucket", true);
    const std::string ordering =
        Word(*spool, "ordering", "spec.spool.ordering", {"global", "per_key", "none"}, false);
    const Node* drain = Map(*spool, "drain", "spec.spool.drain", false);
    const Node* recovery = drain == nullptr ? nullptr : Value(*drain, "on_recovery");
    if (ordering == "global" && recovery != nullptr && recovery->text == "interleave") {
      Add("spec.spool.drain.on_recovery", *recovery,
          "spec.spool.ordering global cannot go with drain.on_recovery interleave");
    }
  }

  const Node& document_;
  std::vector<Diagnostic> problems_;
};

// The `spec` of a document that follows its rules.
Result<Json> ReadSpec(std::string_view content) {
  Node root;
  playbook::Diagnostics diagnostics;
  if (!playbook::ParseYaml(content, &root, &diagnostics) || !root.is_map())
    return Fail("invalid", "the document of the subscription is not YAML");
  const std::vector<Diagnostic> problems = CheckSubscription(root);
  if (!problems.empty())
    return Fail("invalid", fmt::format("the document of the subscription breaks its rules: {}",
                                       problems.front().message));
  return playbook::NodeToJson(*root.Find("spec"));
}

bool IsPushed(const Json& spec) { return spec["mode"].AsString() == "push"; }

}  // namespace

std::vector<Diagnostic> CheckSubscription(const Node& document) { return Checker(document).Run(); }

std::string ListenerOf(std::string_view content) {
  const Result<Json> spec = ReadSpec(content);
  if (!spec || !IsPushed(*spec)) return {};
  return std::string(LastPart((*spec)["ingress"]["gateway_path"].AsString()));
}

Result<IngressSpec> ReadIngress(std::string_view content) {
  NOETL_ASSIGN(const Json spec, ReadSpec(content));
  if (!IsPushed(spec))
    return Fail("invalid", "spec.mode is not push: nothing is pushed to this subscription");
  const Json& verify = spec["ingress"]["verify"];
  const Json& dispatch = spec["dispatch"];
  IngressSpec ingress{.source = spec["source"].ToString(),
                      .verify_type = verify["type"].ToString(),
                      .header = verify["header"].ToString(),
                      .secret = verify["secret"].ToString(),
                      .audience = verify["audience"].ToString(),
                      .service_account = verify["service_account"].ToString(),
                      .playbook = dispatch["playbook"].ToString(),
                      .payload_from = dispatch["payload_from"].ToString(),
                      .execution_pool = dispatch["execution_pool"].ToString(),
                      .directives = spec["headers"]["directives"]};
  if (ingress.payload_from.empty()) ingress.payload_from = "message.json";
  return ingress;
}

}  // namespace noetl::api
