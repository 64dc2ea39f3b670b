// Parts that the files of the decider share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/decide.h"

namespace noetl::engine {

// Results of steps as the state has them; while a run is being ended, its result comes first.
class Decider::StateSteps : public StepSource {
 public:
  explicit StateSteps(const State& state) : state_(state) {}

  std::shared_ptr<const StepResult> Find(std::string_view step) const override {
    if (over_ && step == over_step_) return over_;
    const StepState* found = state_.Find(step);
    return found ? found->result : nullptr;
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, step] : state_.steps()) {
      if (Find(name)) names.push_back(name);
    }
    return names;
  }

  void Overlay(std::string_view step, std::shared_ptr<const StepResult> result) {
    over_step_ = std::string(step);
    over_ = std::move(result);
  }

 private:
  const State& state_;
  std::string over_step_;
  std::shared_ptr<const StepResult> over_;
};

// Bodies that this unit itself will store, then those of the world. Rows of a loop that are still
// in the unit are laid over the stored ones.
class Decider::OwnBodies : public Bodies {
 public:
  OwnBodies(const Unit& unit, const State& state, const Bodies* world)
      : unit_(unit), state_(state), world_(world) {}

  Result<const Json*> Find(std::string_view ref) const override;

 private:
  Result<const Json*> FindLoop(std::string_view ref, std::string_view step, std::int64_t run) const;

  const Unit& unit_;
  const State& state_;
  const Bodies* world_;
  mutable std::map<std::string, Json, std::less<>> merged_;
  mutable std::size_t merged_rows_ = 0;
};

// The smallest result an event may have.
inline Json StatusResult(std::string_view status) { return Json::Object({{"status", status}}); }

inline bool NeedsReference(const Error& error) { return error.code == "needs_reference"; }

// "noetl://execution/<id>/loop/<step>/<run>"
std::string LoopRef(std::int64_t execution_id, std::string_view step, std::int64_t run);
// The context of an issued command: "noetl://execution/<id>/command/<event id>".
std::string CommandRef(std::int64_t execution_id, std::int64_t event_id);

}  // namespace noetl::engine
