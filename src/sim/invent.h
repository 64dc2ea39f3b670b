// Payloads for tools that nobody scripted, made up from what later templates read.
//
// `Shapes` is learned once from a playbook: for each step (and task) the fields that some template
// reads of it, and the literals they are compared with. `Invent` draws a payload of that shape, so
// that both sides of most conditions are met. Immutable after learning; one thread a random source.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "playbook/model.h"

namespace noetl::sim {

// What is known of one value.
struct Shape {
  std::map<std::string, Shape> fields;
  bool list = false;           // fields are those of the elements
  std::vector<Json> literals;  // values that templates mention beside it

  Shape& At(std::span<const std::string> path);
};

class Shapes {
 public:
  static Shapes Learn(const playbook::Playbook& playbook);

  // A payload of the step's tool; `label` names the task of a pipeline.
  Json Invent(std::string_view step, std::string_view label, std::string_view kind,
              RandomSource& random) const;
  // The rows of a cursor's claim, at most `rows_max`.
  Json InventRows(std::string_view step, std::int64_t rows_max, RandomSource& random) const;

 private:
  class Learner;
  std::map<std::string, Shape, std::less<>> shapes_;  // "step" or "step.label"
};

}  // namespace noetl::sim
