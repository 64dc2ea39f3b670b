#include "worker/subscription/spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace noetl::worker {
namespace {

// What one fetch may ask for, and how long it may wait: the loop looks at its state in between.
constexpr std::int64_t kBatchMax = 1'000;
constexpr std::int64_t kTimeoutMsMax = 5'000;
// A week: the next redelivery would not come in time anyway.
constexpr std::int64_t kMillisMax = std::int64_t{7} * 86'400'000;
constexpr std::int64_t kCountMax = 1'000'000;

struct ControlWord {
  std::string_view word;
  Control control;
};
constexpr std::array kControls = {
    ControlWord{"dispatch.playbook", Control::kPlaybook},
    ControlWord{"dispatch.execution_pool", Control::kPool},
    ControlWord{"priority", Control::kPriority},
    ControlWord{"idempotency_key", Control::kIdempotencyKey},
    ControlWord{"content_type", Control::kContentType},
    ControlWord{"schema_hint", Control::kSchemaHint},
};

template <typename T>
struct Choice {
  std::string_view word;
  T value;
};
constexpr std::array kPayloads = {Choice{"message.json", PayloadFrom::kJson},
                                  Choice{"message.body", PayloadFrom::kBody},
                                  Choice{"message.attributes", PayloadFrom::kAttributes}};
constexpr std::array kModes = {Choice{"off", SpoolSpec::Mode::kOff},
                               Choice{"buffer_and_ack", SpoolSpec::Mode::kBufferAndAck},
                               Choice{"hybrid", SpoolSpec::Mode::kHybrid}};
constexpr std::array kOrderings = {Choice{"global", SpoolSpec::Ordering::kGlobal},
                                   Choice{"per_key", SpoolSpec::Ordering::kPerKey},
                                   Choice{"none", SpoolSpec::Ordering::kNone}};
constexpr std::array kOnFull = {Choice{"stop_acking", SpoolSpec::OnFull::kStopAcking},
                                Choice{"drop_to_dlq", SpoolSpec::OnFull::kDropToDlq},
                                Choice{"alert_only", SpoolSpec::OnFull::kAlertOnly}};
constexpr std::array kProbes = {Choice{"passive", DownstreamSpec::Probe::kPassive},
                                Choice{"http", DownstreamSpec::Probe::kHttp},
                                Choice{"tcp", DownstreamSpec::Probe::kTcp},
                                Choice{"nats", DownstreamSpec::Probe::kTcp}};
constexpr std::array kRecoveries = {Choice{"ordered_then_live", false}, Choice{"interleave", true}};
constexpr std::array kTraces = {Choice{"none", false}, Choice{"w3c", true}};

// A map of the document that knows its place and where problems go. Absent is the same as empty.
class Section {
 public:
  Section(const Json& map, std::string path, std::vector<SpecProblem>* problems)
      : map_(map), path_(std::move(path)), problems_(problems) {}

  Section Map(std::string_view key) const {
    const Json& value = map_[key];
    if (!value.is_null() && !value.is_object()) Add(key, "must be a map");
    return Section(value, Path(key), problems_);
  }

  std::string Text(std::string_view key, bool required = false) const {
    const Json& value = map_[key];
    if (value.is_string() && !value.AsString().empty()) return value.ToString();
    if (!value.is_null()) Add(key, "must be a text that is not empty");
    else if (required) Add(key, "is missing");
    return {};
  }

  bool Bool(std::string_view key, bool fallback) const {
    const Json& value = map_[key];
    if (!value.is_null() && !value.is_bool()) Add(key, "must be true or false");
    return value.AsBool(fallback);
  }

  std::int64_t Int(std::string_view key, std::int64_t fallback, std::int64_t least,
                   std::int64_t most) const {
    const Json& value = map_[key];
    if (value.is_null()) return fallback;
    if (value.is_int() && value.AsInt() >= least && value.AsInt() <= most) return value.AsInt();
    Add(key, fmt::format("must be a whole number from {} to {}", least, most));
    return fallback;
  }

  // 0: it is absent.
  double Rate(std::string_view key) const {
    const Json& value = map_[key];
    if (value.is_null()) return 0;
    if (value.is_number() && value.AsDouble() > 0) return value.AsDouble();
    Add(key, "must be a number above 0");
    return 0;
  }

  template <typename T, std::size_t N>
  T Word(std::string_view key, const std::array<Choice<T>, N>& choices, T fallback) const {
    const std::string word = Text(key);
    if (word.empty()) return fallback;
    const auto found = std::ranges::find(choices, word, &Choice<T>::word);
    if (found != choices.end()) return found->value;
    std::vector<std::string_view> words;
    for (const Choice<T>& choice : choices) words.push_back(choice.word);
    Add(key, fmt::format("must be one of {}, got '{}'", fmt::join(words, ", "), word));
    return fallback;
  }

  std::vector<std::string> Texts(std::string_view key) const {
    std::vector<std::string> texts;
    const Json& list = map_[key];
    if (!list.is_null() && !list.is_array()) Add(key, "must be a list of texts");
    for (const Json& item : list.items()) {
      if (item.is_string()) texts.push_back(item.ToString());
      else Add(key, "must be a list of texts");
    }
    return texts;
  }

  std::vector<Section> Maps(std::string_view key) const {
    std::vector<Section> sections;
    const Json& list = map_[key];
    if (!list.is_null() && !list.is_array()) Add(key, "must be a list of maps");
    for (std::size_t i = 0; i < list.items().size(); ++i)
      sections.emplace_back(list.At(i), fmt::format("{}[{}]", Path(key), i), problems_);
    return sections;
  }

  void Add(std::string_view key, std::string_view problem) const {
    problems_->push_back({Path(key), fmt::format("{} {}", Path(key), problem)});
  }
  const Json& json() const { return map_; }
  bool Has(std::string_view key) const { return !map_[key].is_null(); }

 private:
  std::string Path(std::string_view key) const { return fmt::format("{}.{}", path_, key); }

  Json map_;
  std::string path_;
  std::vector<SpecProblem>* problems_;
};

// ---- source

void ReadNats(const Section& section, SubscriptionSpec* spec) {
  spec->nats = {.url = section.Text("url"),
                .user = section.Text("user"),
                .password = section.Text("password"),
                .token = section.Text("token"),
                .stream = section.Text("stream", true),
                .consumer = section.Text("consumer", true),
                .subject = section.Text("subject")};
  // They are parts of subjects of NATS.
  for (const std::string_view key : {"stream", "consumer"}) {
    if (section.json()[key].AsString().find_first_of(". *>/\\\t\r\n") != std::string_view::npos)
      section.Add(key, "must be a name of NATS: no dots, blanks, slashes, * or >");
  }
}

bool IsUrlCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("/-._~%+").contains(c);
}

void ReadPubSub(const Section& section, SubscriptionSpec* spec) {
  spec->pubsub.subscription = section.Text("subscription", true);
  const std::string& name = spec->pubsub.subscription;
  const bool good = name.starts_with("projects/") && name.contains("/subscriptions/") &&
                    std::ranges::all_of(name, IsUrlCharacter);
  if (!name.empty() && !good) section.Add("subscription", "must be projects/P/subscriptions/S");
  if (const std::string endpoint = section.Text("endpoint"); !endpoint.empty())
    spec->pubsub.endpoint = endpoint;
  spec->pubsub.token = section.Text("token");
}

void ReadSource(const Section& section, SubscriptionSpec* spec) {
  spec->source = section.Text("source", true);
  spec->auth = section.Text("auth");
  if (spec->source == "webhook" || section.json()["mode"].AsString() == "push") {
    return section.Add(spec->source == "webhook" ? "source" : "mode",
                       "needs no listener: a gateway takes what is pushed to spec.ingress."
                       "gateway_path and starts the run; this command serves nats and pubsub");
  }
  if (section.json()["activation"].AsString() == "scheduled") {
    section.Add("activation", "'scheduled' cannot be served by this program; it serves continuous");
  }
  if (spec->source == "nats") return ReadNats(section, spec);
  if (spec->source == "pubsub") return ReadPubSub(section, spec);
  if (!spec->source.empty()) {
    section.Add("source", fmt::format("'{}' cannot be served by this program; it serves nats and "
                                      "pubsub",
                                      spec->source));
  }
}

// ---- dispatch

std::optional<Control> ControlOf(std::string_view word) {
  const auto* const found = std::ranges::find(kControls, word, &ControlWord::word);
  if (found == kControls.end()) return std::nullopt;
  return found->control;
}

void ReadDirective(const Section& section, SubscriptionSpec* spec) {
  Directive directive{.header = ToLower(section.Text("header", true))};
  const std::string word = section.Text("controls", true);
  const std::optional<Control> control = ControlOf(word);
  if (!control) {
    std::vector<std::string_view> words;
    for (const ControlWord& each : kControls) words.push_back(each.word);
    if (!word.empty())
      section.Add("controls",
                  fmt::format("must be one of {}, got '{}'", fmt::join(words, ", "), word));
    return;
  }
  directive.control = *control;
  directive.allowed = section.Texts("allowed");
  const bool choosy = *control == Control::kPlaybook || *control == Control::kPool;
  if (choosy && directive.allowed.empty())
    section.Add("allowed", fmt::format("is missing: say what a message may choose for {}", word));
  const Section map = section.Map("map");
  for (const JsonMember& member : map.json().members()) {
    if (member.value.is_string())
      directive.pools[std::string(member.key())] = member.value.ToString();
    else map.Add(member.key(), "must be the name of a pool");
  }
  if (*control == Control::kPriority && directive.pools.empty())
    section.Add("map", "is missing: it says which pool a priority means");
  spec->directives.push_back(std::move(directive));
}

void ReadDispatch(const Section& section, SubscriptionSpec* spec) {
  const Section dispatch = section.Map("dispatch");
  spec->playbook = dispatch.Text("playbook", true);
  spec->payload_from = dispatch.Word("payload_from", kPayloads, PayloadFrom::kJson);
  spec->pool = dispatch.Text("execution_pool");
  spec->batch_dispatch = dispatch.Bool("batch_dispatch", false);
  spec->batch_max = dispatch.Int("batch_max", spec->batch, 1, kBatchMax);
  const Section headers = section.Map("headers");
  for (const Section& directive : headers.Maps("directives")) ReadDirective(directive, spec);
  const Section trace = headers.Map("trace");
  spec->trace = trace.Word("propagate", kTraces, false);
  spec->baggage = trace.Texts("baggage_allowlist");
}

// ---- spool

void ReadCircuit(const Section& section, CircuitSpec* circuit) {
  circuit->trip_after = section.Int("trip_after", circuit->trip_after, 1, kCountMax);
  circuit->probe_after_ms = section.Int("probe_after_ms", circuit->probe_after_ms, 1, kMillisMax);
  circuit->probe_interval_ms =
      section.Int("probe_interval_ms", circuit->probe_interval_ms, 1, kMillisMax);
  std::set<std::string> names;
  for (const Section& each : section.Maps("downstream")) {
    DownstreamSpec downstream{.name = each.Text("name", true),
                              .probe = each.Word("type", kProbes, DownstreamSpec::Probe::kPassive)};
    downstream.target = each.Text("target", downstream.probe != DownstreamSpec::Probe::kPassive);
    if (!downstream.name.empty() && !names.insert(downstream.name).second)
      each.Add("name", fmt::format("'{}' is there twice", downstream.name));
    circuit->downstream.push_back(std::move(downstream));
  }
  if (circuit->downstream.empty()) circuit->downstream.push_back({.name = "default"});
}

void ReadSpool(const Section& section, SpoolSpec* spool) {
  spool->mode = section.Word("mode", kModes, SpoolSpec::Mode::kOff);
  ReadCircuit(section.Map("circuit"), &spool->circuit);
  if (!spool->on()) return;
  const std::string backend = section.Text("backend", true);
  if (!backend.empty() && backend != "local_disk") {
    section.Add("backend", fmt::format("'{}' cannot be used by this program; it keeps messages on "
                                       "local_disk",
                                       backend));
  } else {
    spool->path = section.Text("path", true);
  }
  spool->ordering = section.Word("ordering", kOrderings, spool->ordering);
  spool->ordering_key = section.Text("ordering_key");
  spool->hybrid_escalate_after_ms =
      section.Int("hybrid_escalate_after_ms", spool->hybrid_escalate_after_ms, 0, kMillisMax);
  const Section retention = section.Map("retention");
  spool->max_age_hours = retention.Rate("max_age_hours");
  spool->max_bytes = retention.Int("max_bytes", spool->max_bytes, 1, INT64_MAX);
  spool->on_full = retention.Word("on_full", kOnFull, spool->on_full);
  const Section drain = section.Map("drain");
  spool->drain_per_sec = drain.Rate("rate_per_sec");
  spool->max_replay_attempts =
      drain.Int("max_replay_attempts", spool->max_replay_attempts, 1, kCountMax);
  spool->interleave = drain.Word("on_recovery", kRecoveries, false);
  if (spool->interleave && spool->ordering == SpoolSpec::Ordering::kGlobal)
    drain.Add("on_recovery", "interleave cannot go with spec.spool.ordering global");
}

}  // namespace

std::string_view ControlName(Control control) {
  return std::ranges::find(kControls, control, &ControlWord::control)->word;
}

std::vector<SpecProblem> ReadSubscription(const Json& document, SubscriptionSpec* spec) {
  std::vector<SpecProblem> problems;
  const Json& metadata = document["metadata"];
  spec->path = std::string(Trim(metadata["path"].AsString()));
  if (spec->path.empty()) spec->path = std::string(Trim(metadata["name"].AsString()));
  if (spec->path.empty()) problems.push_back({"metadata", "metadata needs a path or a name"});
  const Section section(document["spec"], "spec", &problems);
  const Section runtime = section.Map("runtime");
  spec->batch = runtime.Int("batch", spec->batch, 1, kBatchMax);
  spec->timeout_ms = runtime.Int("timeout_ms", spec->timeout_ms, 1, kTimeoutMsMax);
  spec->max_deliver = runtime.Int("max_deliver", spec->max_deliver, 1, kCountMax);
  ReadSource(section, spec);
  ReadDispatch(section, spec);
  const Section dedup = section.Map("dedup");
  spec->dedup_by_key = dedup.Bool("enabled", false);
  spec->dedup_window_secs = dedup.Int("window_secs", spec->dedup_window_secs, 1, 30 * 86'400);
  const Section limits = section.Map("limits");
  spec->max_in_flight = limits.Int("max_in_flight", 0, 1, kCountMax);
  spec->max_dispatch_per_sec = limits.Rate("max_dispatch_per_sec");
  ReadSpool(section.Map("spool"), &spec->spool);
  return problems;
}

}  // namespace noetl::worker
