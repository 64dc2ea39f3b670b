#include "sim/text_stage.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_io.h"
#include "engine/fold.h"

namespace noetl::sim {

using engine::Event;
using engine::EventType;

namespace {

// After so many units the states are compared only now and then: a comparison costs as much as the
// state is large, and long loops have large states.
constexpr std::int64_t kCompareAlwaysUnits = 1'000;
constexpr std::int64_t kCompareEveryUnits = 100;
constexpr std::size_t kBreachesMax = 5;

// Where two values differ first, for people.
std::string FirstDifference(const Json& a, const Json& b, const std::string& path) {
  if (a.is_object() && b.is_object()) {
    for (const JsonMember& member : a.members()) {
      const Json* other = b.Find(member.key());
      const std::string below = fmt::format("{}.{}", path, member.key());
      if (!other) return below + " is only in the first";
      if (!(member.value == *other)) return FirstDifference(member.value, *other, below);
    }
    return path + " has more members in the second";
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(a.At(i) == b.At(i)))
        return FirstDifference(a.At(i), b.At(i), fmt::format("{}[{}]", path, i));
    }
  }
  return fmt::format("{}: {} against {}", path, WriteJson(a).substr(0, 200),
                     WriteJson(b).substr(0, 200));
}

// The event as it comes back from the store.
Result<Event> Stored(const Event& event) {
  NOETL_ASSIGN(std::string text, WriteStoredJson(engine::EventToJson(event)));
  NOETL_ASSIGN(Json row, ParseJson(text));
  return engine::EventFromJson(row);
}

}  // namespace

bool IssuedCommand::Is(const Place& place, std::string_view main_path) const {
  const std::string_view wanted = place.path.empty() ? main_path : std::string_view(place.path);
  return path == wanted && step == place.step && (place.run == 0 || place.run == run) &&
         (place.frame < 0 || place.frame == frame) && (place.index < 0 || place.index == index) &&
         claim == (place.label == "claim");
}

std::string IssuedCommand::Text(std::string_view main_path) const {
  std::string text = path == main_path ? step : fmt::format("{}:{}", path, step);
  if (claim) return text + ".claim";
  if (frame >= 0) return text + fmt::format("[{}.{}]", frame, index);
  return index >= 0 ? text + fmt::format("[{}]", index) : text;
}

Stage::Stage(World::Options options, ScriptedTools* tools) : tools_(tools) {
  options.on_commit = [this](const Execution& execution, const engine::Unit& unit) {
    OnCommit(execution, unit);
  };
  world_ = std::make_unique<World>(std::move(options), tools);
}

Status Stage::Start(std::string_view path, Json input) {
  main_path_ = std::string(path);
  NOETL_ASSIGN(main_, world_->Start(path, std::move(input)));
  return {};
}

std::int64_t Stage::MostOpen(const std::string& step) const {
  const auto found = most_open_.find(step);
  return found == most_open_.end() ? 0 : found->second;
}

void Stage::OnCommit(const Execution& execution, const engine::Unit& unit) {
  for (const Event& event : unit.events) {
    if (event.type != EventType::kCommandIssued) continue;
    const Json& cursor = event.meta["cursor"];
    commands_.push_back({.id = std::string(engine::CommandIdOf(event)),
                         .execution_id = execution.id,
                         .path = execution.playbook->path,
                         .step = event.node_name,
                         .run = event.meta["run"].AsInt(),
                         .frame = cursor["frame"].AsInt(-1),
                         .index = event.meta["iteration_index"].AsInt(-1),
                         .claim = cursor["phase"].AsString() == "claim"});
  }
  if (execution.playbook->path == main_path_) {
    std::map<std::string, std::int64_t> open;
    for (const auto& [id, command] : execution.state.commands()) ++open[command.step];
    for (const auto& [step, count] : open) most_open_[step] = std::max(most_open_[step], count);
  }
  Shadow& shadow = shadows_[execution.id];
  for (const Event& event : unit.events) {
    Result<Event> stored = Stored(event);
    if (!stored) {
      breaches_.push_back(fmt::format("event {} {} cannot be stored: {}", event.seq,
                                      event.type_name, stored.error().message));
      return;
    }
    engine::Fold(shadow.folded, *stored);
    engine::Fold(shadow.restored, *stored);
  }
  ++shadow.units;
  if (shadow.units <= kCompareAlwaysUnits || shadow.units % kCompareEveryUnits == 0)
    Compare(execution, shadow);
  if (shadow.units > kCompareAlwaysUnits) return;
  Result<engine::State> restored = engine::ReadSnapshot(engine::WriteSnapshot(shadow.restored));
  if (restored) shadow.restored = *std::move(restored);
  else
    breaches_.push_back(fmt::format("the snapshot at seq {} is refused: {}", execution.state.seq,
                                    restored.error().message));
}

void Stage::Compare(const Execution& execution, const Shadow& shadow) {
  if (breaches_.size() >= kBreachesMax) return;
  const Json state = execution.state.ToJson();
  const struct {
    std::string_view name;
    const engine::State& other;
  } others[] = {{"folding the log from the start", shadow.folded},
                {"a snapshot after every unit", shadow.restored}};
  for (const auto& [name, other] : others) {
    const Json json = other.ToJson();
    if (CanonicalJson(json) == CanonicalJson(state)) continue;
    breaches_.push_back(fmt::format("{} gives another state at seq {} of {}: {}", name,
                                    execution.state.seq, execution.playbook->path,
                                    FirstDifference(state, json, "state")));
  }
}

void Stage::CheckAtEnd() {
  for (const auto& [id, execution] : world_->executions()) Compare(*execution, shadows_[id]);
}

}  // namespace noetl::sim
