// What stands out in a run: counts, slow nodes, retries, failures, and what to do about them.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "api/execution_json.h"
#include "base/json_io.h"
#include "base/redact.h"

namespace noetl::api {

namespace {

using engine::Event;
using engine::EventType;

constexpr std::int64_t kLongRunUs = 60'000'000;
constexpr double kDominantShare = 0.65;
constexpr std::size_t kTopNodes = 10;

struct Node {
  std::int64_t events = 0;
  std::int64_t total_us = 0;
  std::int64_t samples = 0;
};

struct Figures {
  std::map<std::string, std::int64_t> by_status;
  std::map<std::string, std::int64_t> by_type;
  std::map<std::string, Node> nodes;
  std::int64_t failed_events = 0;
  std::int64_t retries = 0;
  std::set<std::string> retry_nodes;
  std::string terminal;
};

// The time of a node is that of its commands, from issue to end.
Figures Count(std::span<const Event> events) {
  Figures figures;
  std::map<std::string, std::int64_t, std::less<>> issued;
  for (const Event& event : events) {
    ++figures.by_status[event.status.empty() ? "UNKNOWN" : event.status];
    ++figures.by_type[event.type_name];
    if (engine::IsTerminal(event.type)) figures.terminal = event.type_name;
    if (event.status == "FAILED" || event.type == EventType::kCallError) ++figures.failed_events;
    if (event.node_name.empty() || event.type == EventType::kPlaybookStarted) continue;
    Node& node = figures.nodes[event.node_name];
    ++node.events;
    const std::string command(engine::CommandIdOf(event));
    if (event.type == EventType::kCommandIssued) {
      issued[command] = event.created_at_us;
      if (event.meta["attempt"].AsInt(1) > 1) {
        ++figures.retries;
        figures.retry_nodes.insert(event.node_name);
      }
    }
    const bool ends =
        event.type == EventType::kCommandCompleted || event.type == EventType::kCommandFailed;
    if (const auto at = issued.find(command); ends && at != issued.end()) {
      node.total_us += std::max<std::int64_t>(event.created_at_us - at->second, 0);
      ++node.samples;
    }
  }
  return figures;
}

using NodeEntry = std::pair<std::string, Node>;

std::vector<NodeEntry> Top(const Figures& figures, std::int64_t Node::* figure) {
  std::vector<NodeEntry> nodes(figures.nodes.begin(), figures.nodes.end());
  std::ranges::stable_sort(nodes, [&](const NodeEntry& a, const NodeEntry& b) {
    return a.second.*figure > b.second.*figure;
  });
  if (nodes.size() > kTopNodes) nodes.resize(kTopNodes);
  return nodes;
}

Json Counts(const std::map<std::string, std::int64_t>& counts) {
  JsonObjectBuilder body;
  for (const auto& [name, count] : counts) body.Add(name, count);
  return body.Build();
}

Json Summary(const Figures& figures, std::int64_t event_count, std::int64_t duration_us) {
  std::vector<Json> busiest;
  for (const auto& [name, node] : Top(figures, &Node::events))
    busiest.push_back(Json::Object({{"node_name", name}, {"event_count", node.events}}));
  std::vector<Json> slowest;
  for (const auto& [name, node] : Top(figures, &Node::total_us)) {
    if (node.samples == 0) continue;
    slowest.push_back(Json::Object({{"node_name", name},
                                    {"total_duration_ms", node.total_us / 1'000},
                                    {"avg_duration_ms", node.total_us / node.samples / 1'000},
                                    {"samples", node.samples}}));
  }
  std::vector<Json> retry_nodes(figures.retry_nodes.begin(), figures.retry_nodes.end());
  return Json::Object(
      {{"event_count", event_count},
       {"duration_seconds", static_cast<double>(duration_us) / 1e6},
       {"status_counts", Counts(figures.by_status)},
       {"event_type_counts", Counts(figures.by_type)},
       {"failed_event_count", figures.failed_events},
       {"retry_attempts", figures.retries},
       {"retry_nodes", Json::Array(std::move(retry_nodes))},
       {"top_nodes_by_events", Json::Array(std::move(busiest))},
       {"slowest_nodes", Json::Array(std::move(slowest))},
       {"terminal_event_type", figures.terminal.empty() ? Json() : Json(figures.terminal)}});
}

struct Findings {
  std::vector<Json> findings;
  std::vector<Json> recommendations;

  void Add(std::string_view severity, std::string_view title, std::string detail, Json evidence,
           std::string_view recommendation) {
    findings.push_back(Json::Object({{"severity", severity},
                                     {"title", title},
                                     {"detail", std::move(detail)},
                                     {"evidence", std::move(evidence)}}));
    recommendations.emplace_back(recommendation);
  }
};

Findings Find(const Figures& figures, std::int64_t duration_us) {
  Findings found;
  if (figures.failed_events > 0) {
    found.Add(
        "high", "Failed events", fmt::format("{} events tell of a failure", figures.failed_events),
        Json::Object({{"failed_event_count", figures.failed_events}}),
        "Read the error of the first failed event; handle it with a policy rule or on_error.");
  }
  if (duration_us >= kLongRunUs) {
    found.Add("high", "Long run", fmt::format("The run took {}", HumanDuration(duration_us)),
              Json::Object({{"duration_seconds", static_cast<double>(duration_us) / 1e6}}),
              "Look at the slowest nodes; run independent work in parallel loops or branches.");
  }
  const std::vector<NodeEntry> slowest = Top(figures, &Node::total_us);
  std::int64_t all_us = 0;
  for (const auto& [name, node] : figures.nodes) all_us += node.total_us;
  if (all_us > 0 && figures.nodes.size() > 1) {
    const auto& [name, node] = slowest.front();
    const double share = static_cast<double>(node.total_us) / static_cast<double>(all_us);
    if (share >= kDominantShare) {
      found.Add("medium", "One node takes most of the time",
                fmt::format("{} takes {:.0f} % of the time of all nodes", name, share * 100),
                Json::Object({{"node_name", name}, {"share", share}}),
                "Split that node, or give it more parallelism.");
    }
  }
  if (figures.retries > 0) {
    found.Add("medium", "Retries", fmt::format("{} commands ran again", figures.retries),
              Json::Object({{"retry_attempts", figures.retries}}),
              "See why the first attempts ended: lost workers, time limits or errors.");
  }
  if (figures.terminal.empty()) {
    found.Add("medium", "No terminal event", "The run has not ended", Json::Object(),
              "When nothing happens any more, check that workers of its pool are online.");
  }
  return found;
}

Json Sample(std::span<const Event> events, std::int64_t count) {
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(count), events.size());
  std::vector<Json> sample;
  for (const Event& event : events.last(wanted))
    sample.push_back(EventBody(event, {.ids = Ids::kTexts, .redact = true, .payload = true}));
  return Json::Array(std::move(sample));
}

}  // namespace

Json AnalyzeRun(const store::ExecutionRow& row, std::span<const Event> events,
                const AnalyzeOptions& options, std::int64_t now_us) {
  const std::int64_t end = row.ended_at_us != 0 ? row.ended_at_us : now_us;
  const std::int64_t duration_us = std::max<std::int64_t>(end - row.started_at_us, 0);
  const Figures figures = Count(events);
  Json summary = Summary(figures, row.head, duration_us);
  Findings found = Find(figures, duration_us);
  std::string prompt = fmt::format(
      "Explain why run {} of playbook {} (status {}) behaved as it did, and what to change.\n"
      "Summary: {}\nFindings: {}\n",
      row.execution_id, row.path, row.status, WriteJson(summary),
      WriteJson(Json::Array(found.findings)));
  JsonObjectBuilder playbook;
  playbook.Add("path", row.path).Add("version", row.version);
  if (!options.playbook.empty()) playbook.Add("content", RedactText(options.playbook));
  return Json::Object({{"execution_id", std::to_string(row.execution_id)},
                       {"path", row.path},
                       {"status", row.status},
                       {"analyzed_events", static_cast<std::int64_t>(events.size())},
                       {"summary", std::move(summary)},
                       {"findings", Json::Array(std::move(found.findings))},
                       {"recommendations", Json::Array(std::move(found.recommendations))},
                       {"event_sample", Sample(events, options.sample)},
                       {"ai_prompt", std::move(prompt)},
                       {"playbook", playbook.Build()},
                       {"cloud", Json()}});
}

}  // namespace noetl::api
