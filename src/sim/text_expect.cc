#include "sim/text_expect.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::sim {
namespace {

using engine::Event;
using engine::EventType;
using Problem = std::optional<std::string>;

std::string Differ(std::string_view expected, std::string_view got) {
  return fmt::format("\n  expected: {}\n  got:      {}", expected, got);
}

Problem Same(std::string_view expected, std::string_view got) {
  if (expected == got) return std::nullopt;
  return Differ(expected, got);
}

// Both values, and the place of the first difference when they are long.
Problem SameJson(const Json& expected, const Json& got) {
  if (expected == got) return std::nullopt;
  return Differ(WriteJson(expected), WriteJson(got));
}

// Lists of words; shows from where they differ.
Problem SameWords(const std::vector<std::string>& expected, const std::vector<std::string>& got) {
  if (expected == got) return std::nullopt;
  std::size_t i = 0;
  while (i < expected.size() && i < got.size() && expected[i] == got[i]) ++i;
  return fmt::format(
      "{}\n  differs at {}: expected {}, got {}",
      Differ(fmt::format("{}", fmt::join(expected, " ")), fmt::format("{}", fmt::join(got, " "))),
      i + 1, i < expected.size() ? expected[i] : "the end", i < got.size() ? got[i] : "the end");
}

const Execution& Main(const Outcome& outcome) { return outcome.stage->main(); }

// The terminal event, or an empty one while the run goes on.
const Event& Terminal(const Outcome& outcome) {
  static const Event kNone;
  for (const Event& event : Main(outcome).log) {
    if (engine::IsTerminal(event.type)) return event;
  }
  return kNone;
}

std::vector<std::string> Texts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& item : list.items()) texts.push_back(item.ToString());
  return texts;
}

std::int64_t CountEvents(const Outcome& outcome, EventType type, std::string_view node) {
  return std::ranges::count_if(Main(outcome).log, [&](const Event& event) {
    return event.type == type && event.node_name == node;
  });
}

// ---- events

std::string EventLine(const Event& event, bool with_status) {
  std::string line =
      fmt::format("{} {}", event.type_name, event.node_name.empty() ? "-" : event.node_name);
  if (with_status && !event.status.empty()) line += " " + event.status;
  return line;
}

bool Matches(const Event& event, const std::string& line) {
  const auto words = Words(line);
  return EventLine(event, words.size() > 2) == fmt::format("{}", fmt::join(words, " "));
}

Problem CheckEvents(const Expectation& expectation, const Outcome& outcome) {
  const auto& log = Main(outcome).log;
  const auto& lines = expectation.lines;
  std::size_t i = 0;
  while (i < lines.size() && i < log.size() && Matches(log[i], lines[i].text)) ++i;
  if (i == lines.size() && i == log.size()) return std::nullopt;
  std::string around;
  for (std::size_t k = i; k < std::min(i + 6, log.size()); ++k)
    around += "\n            " + EventLine(log[k], true);
  return fmt::format("event {}\n  expected: {}{}\n  got:      {}{}", i + 1,
                     i < lines.size() ? lines[i].text : "the end of the log",
                     i < lines.size() ? fmt::format(" (line {})", lines[i].number) : "",
                     i < log.size() ? "" : "the end of the log",
                     around.empty() ? "" : around.substr(13));
}

Problem CheckContains(const Expectation& expectation, const Outcome& outcome) {
  const auto& log = Main(outcome).log;
  auto from = log.begin();
  for (const TextLine::More& line : expectation.lines) {
    const auto found = std::find_if(from, log.end(),
                                    [&](const Event& event) { return Matches(event, line.text); });
    if (found == log.end()) {
      const bool before =
          std::any_of(log.begin(), from, [&](const Event& e) { return Matches(e, line.text); });
      return fmt::format("line {}: '{}' is {}", line.number, line.text,
                         before ? "only before the line above it" : "not in the log");
    }
    from = found + 1;
  }
  return std::nullopt;
}

Problem CheckAbsent(const Expectation& expectation, const Outcome& outcome) {
  for (const TextLine::More& line : expectation.lines) {
    for (const Event& event : Main(outcome).log) {
      if (Matches(event, line.text)) {
        return fmt::format("line {}: '{}' is in the log (seq {})", line.number, line.text,
                           event.seq);
      }
    }
  }
  return std::nullopt;
}

// ---- the run

Problem CheckStatus(const Expectation& expectation, const Outcome& outcome) {
  if (!outcome.stage) {
    if (expectation.value == "REFUSED" && outcome.accepted) return std::nullopt;
    return Differ(expectation.value, "REFUSED: " + outcome.refusal);
  }
  std::string got(Main(outcome).state.StatusText());
  if (got != expectation.value && !Terminal(outcome).error.empty()) {
    got += fmt::format(" ({})", Terminal(outcome).error);
    const std::string& first = Main(outcome).state.first_error;
    if (!first.empty()) got += fmt::format(": {}", first);
  }
  return Same(expectation.value, got);
}

Problem CheckSequence(const Expectation& expectation, const Outcome& outcome) {
  return SameWords(Words(expectation.value),
                   Words(outcome.stage->world().SequenceText(Main(outcome))));
}

Problem SameResult(const Json& expected, const Result<Json>& got) {
  if (!got) return Differ(WriteJson(expected), fmt::format("an error: {}", got.error().message));
  return SameJson(expected, *got);
}

Problem CheckResult(const Expectation& expectation, const Outcome& outcome) {
  return SameResult(expectation.json, outcome.stage->world().ResultOf(Main(outcome)));
}

Problem CheckCtx(const Expectation& expectation, const Outcome& outcome) {
  return SameJson(expectation.json, Main(outcome).state.ctx);
}

Problem CheckPayload(const Expectation& expectation, const Outcome& outcome) {
  return SameResult(expectation.json,
                    outcome.stage->world().PayloadOf(Main(outcome), expectation.argument));
}

Problem CheckError(const Expectation& expectation, const Outcome& outcome) {
  std::string error = outcome.stage ? Terminal(outcome).error : outcome.refusal;
  const std::string_view first =
      outcome.stage ? Terminal(outcome).meta["first_error"].AsString() : "";
  if (!first.empty()) error += fmt::format(": {}", first);
  if (error.find(expectation.value) != std::string::npos) return std::nullopt;
  return Differ("a text with " + expectation.value, error.empty() ? "no error" : error);
}

Problem CheckFailedSteps(const Expectation& expectation, const Outcome& outcome) {
  return SameWords(Words(expectation.value), Texts(Terminal(outcome).meta["failed_steps"]));
}

Problem CheckDeniedSteps(const Expectation& expectation, const Outcome& outcome) {
  return SameWords(Words(expectation.value), Texts(Terminal(outcome).meta["denied_steps"]));
}

Problem SameNumber(const Expectation& expectation, std::int64_t got) {
  return Same(expectation.value, std::to_string(got));
}

Problem CheckSoftErrors(const Expectation& expectation, const Outcome& outcome) {
  return SameNumber(expectation, Terminal(outcome).meta["soft_error_count"].AsInt());
}

Problem CheckReason(const Expectation& expectation, const Outcome& outcome) {
  return Same(expectation.value, Terminal(outcome).meta["reason"].AsString());
}

Problem CheckWarnings(const Expectation& expectation, const Outcome& outcome) {
  std::vector<std::string> got;
  for (const Event& event : Main(outcome).log) {
    if (event.type == EventType::kRunWarning)
      got.push_back(event.result["context"]["code"].ToString());
  }
  return SameWords(Words(expectation.value), got);
}

Problem CheckRuns(const Expectation& expectation, const Outcome& outcome) {
  return SameNumber(expectation, CountEvents(outcome, EventType::kStepEnter, expectation.argument));
}

Problem CheckCommands(const Expectation& expectation, const Outcome& outcome) {
  return SameNumber(expectation,
                    CountEvents(outcome, EventType::kCommandIssued, expectation.argument));
}

Problem CheckMaxOpen(const Expectation& expectation, const Outcome& outcome) {
  return SameNumber(expectation, outcome.stage->MostOpen(expectation.argument));
}

// Compared at the precision that is written: 5s holds for 5.003 s.
Problem CheckTime(const Expectation& expectation, const Outcome& outcome) {
  const engine::State& state = Main(outcome).state;
  const std::int64_t took_ms =
      ((state.terminal() ? state.ended_at_us : outcome.stage->world().now_us()) -
       state.started_at_us) /
      1'000;
  const std::int64_t wanted_ms = *ParseDurationMs(expectation.value);
  std::string_view unit = expectation.value;
  unit.remove_prefix(std::min(unit.find_first_not_of("0123456789."), unit.size()));
  const bool fraction = expectation.value.find('.') != std::string::npos;
  const std::int64_t precision_ms =
      fraction || unit == "ms" ? 1 : *ParseDurationMs(fmt::format("1{}", unit));
  if (took_ms / precision_ms == wanted_ms / precision_ms) return std::nullopt;
  return Differ(expectation.value, fmt::format("{} ms", took_ms));
}

Problem CheckChild(const Expectation& expectation, const Outcome& outcome) {
  const Execution* last = nullptr;
  for (const auto& [id, execution] : outcome.stage->world().executions()) {
    if (execution->playbook->path == expectation.argument && id != Main(outcome).id)
      last = execution.get();
  }
  if (!last) return fmt::format("no run of '{}' was started", expectation.argument);
  const std::string_view value = expectation.value;
  const std::size_t blank = std::min(value.find(' '), value.size());
  const std::string_view what = value.substr(0, blank);
  const std::string rest(Trim(value.substr(blank)));
  if (what == "status") return Same(rest, last->state.StatusText());
  if (what == "sequence")
    return SameWords(Words(rest), Words(outcome.stage->world().SequenceText(*last)));
  const auto wanted = ParseJson(rest);
  if (!wanted) return fmt::format("'{}' is not JSON: {}", rest, wanted.error().message);
  return SameResult(*wanted, outcome.stage->world().ResultOf(*last));
}

// ---- the document

std::string Listed(const std::vector<playbook::Diagnostic>& diagnostics) {
  std::string text;
  for (const playbook::Diagnostic& diagnostic : diagnostics) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "\n            ", diagnostic.code,
                        diagnostic.message);
  }
  return text.empty() ? "no problem at all" : text;
}

Problem HasCodes(const Expectation& expectation, const Outcome& outcome) {
  for (const std::string& code : Words(expectation.value)) {
    const bool found =
        std::ranges::any_of(outcome.diagnostics, [&](const auto& d) { return d.code == code; });
    if (!found) return Differ(code, Listed(outcome.diagnostics));
  }
  return std::nullopt;
}

Problem CheckInvalid(const Expectation& expectation, const Outcome& outcome) {
  if (outcome.accepted)
    return Differ("the document is refused", "it is accepted; " + Listed(outcome.diagnostics));
  return HasCodes(expectation, outcome);
}

Problem CheckMessage(const Expectation& expectation, const Outcome& outcome) {
  for (const playbook::Diagnostic& diagnostic : outcome.diagnostics) {
    const std::string text = fmt::format("{} {}", diagnostic.message, diagnostic.hint);
    if (text.find(expectation.value) != std::string::npos) return std::nullopt;
  }
  return Differ("a message with " + expectation.value, Listed(outcome.diagnostics));
}

// ---- the table

enum class Kind { kWord, kWords, kText, kNumber, kJson, kDuration, kLines, kChild };
struct Rule {
  std::string_view name;
  Kind kind;
  bool argument;  // a step or path between the name and the colon
  bool document;  // holds for documents that were refused, too
  Problem (*check)(const Expectation& expectation, const Outcome& outcome);
};
constexpr std::array<Rule, 22> kRules = {{
    {"status", Kind::kWord, false, true, CheckStatus},
    {"sequence", Kind::kWords, false, false, CheckSequence},
    {"result", Kind::kJson, false, false, CheckResult},
    {"ctx", Kind::kJson, false, false, CheckCtx},
    {"payload", Kind::kJson, true, false, CheckPayload},
    {"error", Kind::kText, false, true, CheckError},
    {"failed_steps", Kind::kWords, false, false, CheckFailedSteps},
    {"denied_steps", Kind::kWords, false, false, CheckDeniedSteps},
    {"soft_errors", Kind::kNumber, false, false, CheckSoftErrors},
    {"reason", Kind::kWord, false, false, CheckReason},
    {"warnings", Kind::kWords, false, false, CheckWarnings},
    {"runs", Kind::kNumber, true, false, CheckRuns},
    {"commands", Kind::kNumber, true, false, CheckCommands},
    {"max_open", Kind::kNumber, true, false, CheckMaxOpen},
    {"events", Kind::kLines, false, false, CheckEvents},
    {"contains", Kind::kLines, false, false, CheckContains},
    {"absent", Kind::kLines, false, false, CheckAbsent},
    {"time", Kind::kDuration, false, false, CheckTime},
    {"child", Kind::kChild, true, false, CheckChild},
    {"invalid", Kind::kWords, false, true, CheckInvalid},
    {"diagnostics", Kind::kWords, false, true, HasCodes},
    {"message", Kind::kText, false, true, CheckMessage},
}};

const Rule* FindRule(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &Rule::name);
  return found == kRules.end() ? nullptr : &*found;
}

// Reads the value as its rule wants it; the message says what is wrong.
Problem ReadValue(const Rule& rule, const TextLine& line, Expectation* made) {
  std::int64_t number = 0;
  const std::string& value = made->value;
  switch (rule.kind) {
    case Kind::kJson: {
      auto parsed = ParseJson(value);
      if (!parsed) return fmt::format("the value is not JSON: {}", parsed.error().message);
      made->json = *std::move(parsed);
      return std::nullopt;
    }
    case Kind::kNumber:
      if (std::from_chars(value.data(), value.data() + value.size(), number).ptr !=
              value.data() + value.size() ||
          value.empty()) {
        return fmt::format("'{}' is not a number", value);
      }
      return std::nullopt;
    case Kind::kDuration:
      if (!ParseDurationMs(value)) return fmt::format("'{}' is not a duration", value);
      return std::nullopt;
    case Kind::kLines:
      made->lines = line.more;
      if (made->lines.empty()) return "indented lines 'TYPE NODE' must follow";
      return std::nullopt;
    case Kind::kChild: {
      const auto words = Words(value);
      if (words.size() < 2 ||
          (words[0] != "status" && words[0] != "result" && words[0] != "sequence")) {
        return "expected 'status STATUS', 'result JSON' or 'sequence ...'";
      }
      return std::nullopt;
    }
    case Kind::kWord:
    case Kind::kText:
      if (value.empty()) return "a value is missing";
      return std::nullopt;
    case Kind::kWords: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<Expectation>> ParseExpectations(const TextSection& section,
                                                   std::string_view file) {
  std::vector<Expectation> list;
  for (const TextLine& line : section.lines) {
    Expectation made{.number = line.number};
    std::string key;
    if (!SplitKey(line.Joined(), &key, &made.value))
      return Malformed(file, line.number, "expected 'NAME: VALUE'");
    const std::size_t blank = std::min(key.find(' '), key.size());
    made.name = key.substr(0, blank);
    made.argument = std::string(Trim(std::string_view(key).substr(blank)));
    const Rule* rule = FindRule(made.name);
    if (!rule) {
      std::vector<std::string_view> names;
      for (const Rule& candidate : kRules) names.push_back(candidate.name);
      const auto near = NearestName(made.name, names);
      return Malformed(file, line.number,
                       fmt::format("unknown expectation '{}'{}", made.name,
                                   near ? fmt::format("; did you mean '{}'?", *near) : ""));
    }
    if (rule->argument == made.argument.empty()) {
      return Malformed(file, line.number,
                       rule->argument
                           ? fmt::format("'{}' needs a name: '{} NAME: ...'", made.name, made.name)
                           : fmt::format("'{}' takes no name", made.name));
    }
    if (auto problem = ReadValue(*rule, line, &made)) return Malformed(file, line.number, *problem);
    list.push_back(std::move(made));
  }
  if (list.empty()) return Malformed(file, section.number, "nothing is expected");
  return list;
}

std::optional<std::string> Check(const Expectation& expectation, const Outcome& outcome) {
  const Rule& rule = *FindRule(expectation.name);
  if (!outcome.stage && !rule.document) return fmt::format("nothing ran: {}", outcome.refusal);
  auto problem = rule.check(expectation, outcome);
  if (!problem) return std::nullopt;
  const std::string name = expectation.argument.empty()
                               ? expectation.name
                               : fmt::format("{} {}", expectation.name, expectation.argument);
  return fmt::format("{}:{}{}", name, problem->starts_with('\n') ? "" : " ", *problem);
}

}  // namespace noetl::sim
