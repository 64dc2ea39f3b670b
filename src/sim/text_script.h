// The script of a text test: which call of a tool gets which answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/text_file.h"
#include "sim/world.h"

namespace noetl::sim {

// "demo/child:fetch@2[3].save": which calls or commands are meant. A part that is not given matches
// everything.
struct Place {
  std::string path;  // of the playbook
  std::string step;
  std::int64_t run = 0;     // 0: any
  std::int64_t frame = -1;  // cursor loops, "[frame.row]"
  std::int64_t index = -1;
  std::string label;  // task, or "claim"

  // How many parts are given: the most exact place wins.
  int exactness() const {
    return int{!path.empty()} + int{run != 0} + int{frame >= 0} + int{index >= 0} +
           int{!label.empty()};
  }
  bool operator==(const Place&) const = default;
};
// nullopt: not a place.
std::optional<Place> ParsePlace(std::string_view text);

struct Script {
  struct Line {
    Place place;
    int number = 0;
    std::vector<ToolAnswer> answers;
  };
  std::vector<Line> lines;
};
// Errors have the code "malformed".
Result<Script> ParseScript(const TextSection& section, std::string_view file);
// One answer: `ok {"a": 1} in 5s`.
Result<ToolAnswer> ParseAnswer(std::string_view text);

// Answers calls from a script; without a line by the tool's `stub` and the rules of noop.
class ScriptedTools : public Tools {
 public:
  explicit ScriptedTools(Script script) : script_(std::move(script)), used_(script_.lines.size()) {}

  ToolAnswer Call(const ToolCall& call) override;
  // The answer of the script, if a line is for this call.
  std::optional<ToolAnswer> Find(const ToolCall& call);

  // Calls that nothing answered; the test cannot go on.
  const std::vector<std::string>& unanswered() const { return unanswered_; }
  // Lines that were never used.
  std::vector<const Script::Line*> Unused() const;

 private:
  Script script_;
  std::vector<std::size_t> used_;  // answers given, a line
  std::vector<std::string> unanswered_;
};

// The answer of the tool's own `stub` field or of noop; nullopt for other tools.
std::optional<ToolAnswer> AnswerByDefinition(const ToolCall& call);
// "demo/child:fetch[2].save", as a script would name it.
std::string PlaceText(const ToolCall& call);

}  // namespace noetl::sim
