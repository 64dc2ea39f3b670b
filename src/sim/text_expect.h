// What a text test expects, and whether it holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "playbook/diagnostics.h"
#include "sim/text_file.h"
#include "sim/text_stage.h"

namespace noetl::sim {

struct Expectation {
  int number = 0;        // line
  std::string name;      // "payload"
  std::string argument;  // "fetch", or empty
  std::string value;
  Json json;  // of values that are JSON
  std::vector<TextLine::More> lines;
};

// Errors have the code "malformed".
Result<std::vector<Expectation>> ParseExpectations(const TextSection& section,
                                                   std::string_view file);

// What there is to look at: the document's problems, and the stage unless the document was refused
// or the run could not start (then `refusal` says why).
struct Outcome {
  const std::vector<playbook::Diagnostic>& diagnostics;
  bool accepted = true;
  const Stage* stage = nullptr;
  std::string refusal;
};

// What is wrong, with expected and actual values; nullopt when the expectation holds.
std::optional<std::string> Check(const Expectation& expectation, const Outcome& outcome);

}  // namespace noetl::sim
