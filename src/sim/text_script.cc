#include "sim/text_script.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::sim {
namespace {

bool ParseNumber(std::string_view text, std::int64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0;
}

// Takes "in 5s" from the end of an answer.
Result<std::int64_t> TakeDuration(std::string* text) {
  const std::vector<std::string> words = Words(*text);
  if (words.size() < 2 || words[words.size() - 2] != "in") return 1'000;
  const auto duration_ms = ParseDurationMs(words.back());
  // The end of a text or map that only happens to have the word in it.
  if (!duration_ms && words.back().find_first_of("\"}]") != std::string::npos) return 1'000;
  if (!duration_ms)
    return Fail("malformed", fmt::format("'{}' is not a duration (5s, 20ms, 2m)", words.back()));
  std::string_view rest = Trim(*text);
  rest.remove_suffix(words.back().size());
  rest = Trim(rest);
  rest.remove_suffix(2);
  *text = std::string(Trim(rest));
  return *duration_ms * 1'000;
}

// A JSON value at the start of the text; the rest stays in `text`.
Result<Json> TakeJson(std::string_view* text) {
  // Values are short: the end is found by trying, from the nearest to the farthest blank.
  for (std::size_t end = text->find(' ');; end = text->find(' ', end + 1)) {
    const std::string_view part = text->substr(0, end);
    Result<Json> value = ParseJson(part);
    if (value || end == std::string_view::npos) {
      if (!value)
        return Fail("malformed", fmt::format("'{}' is not JSON: {}", *text, value.error().message));
      *text = Trim(text->substr(part.size()));
      return value;
    }
  }
}

Status ReadError(std::string_view rest, ToolAnswer* answer) {
  answer->outcome.ok = false;
  answer->outcome.error = "error";
  if (rest.empty()) return {};
  NOETL_ASSIGN(Json text, TakeJson(&rest));
  if (!text.is_string()) return Fail("malformed", "an error text is a JSON string: \"...\"");
  answer->outcome.error = text.ToString();
  if (rest.empty()) return {};
  NOETL_ASSIGN(Json info, TakeJson(&rest));
  if (!info.is_object() || !rest.empty())
    return Fail("malformed", "after the error text only a JSON map may follow");
  answer->outcome.payload = info["payload"];
  info = info.Without("payload");
  if (!info.empty())
    answer->outcome.error_info = engine::ErrorObject(answer->outcome.error, Json()).Merge(info);
  return {};
}

Status ReadPayload(std::string_view rest, ToolAnswer* answer) {
  if (rest.empty()) return {};
  NOETL_ASSIGN(answer->outcome.payload, TakeJson(&rest));
  if (!rest.empty()) return Fail("malformed", fmt::format("'{}' is left over", rest));
  return {};
}

Status ReadRows(std::string_view rest, ToolAnswer* answer) {
  NOETL_TRY(ReadPayload(rest, answer));
  const Json rows = answer->outcome.payload;
  if (!rows.is_array()) return Fail("malformed", "rows are a JSON list");
  answer->outcome.payload = Json::Object({{"rows", rows}, {"row_count", rows.size()}});
  return {};
}

Status ReadFail(std::string_view rest, ToolAnswer* answer) {
  answer->hard = true;
  return ReadError(rest, answer);
}

Status ReadPark(std::string_view rest, ToolAnswer* answer) {
  answer->parked = true;
  if (!rest.empty()) return Fail("malformed", "'park' takes nothing");
  return {};
}

Status ReadLose(std::string_view rest, ToolAnswer* answer) {
  answer->lost = true;
  if (!rest.empty()) return Fail("malformed", "'lose' takes nothing");
  return {};
}

struct AnswerRule {
  std::string_view word;
  Status (*read)(std::string_view rest, ToolAnswer* answer);
};
constexpr std::array<AnswerRule, 6> kAnswers = {{{"ok", ReadPayload},
                                                 {"rows", ReadRows},
                                                 {"error", ReadError},
                                                 {"fail", ReadFail},
                                                 {"park", ReadPark},
                                                 {"lose", ReadLose}}};

bool Matches(const Place& place, const ToolCall& call) {
  const std::string_view label =
      call.phase.empty() ? std::string_view(call.label) : std::string_view(call.phase);
  if (!call.phase.empty() && place.label != call.phase) return false;
  return place.step == call.step && (place.path.empty() || place.path == call.path) &&
         (place.run == 0 || place.run == call.run) &&
         (place.frame < 0 || place.frame == call.frame) &&
         (place.index < 0 || place.index == call.index) &&
         (place.label.empty() || place.label == label);
}

}  // namespace

std::optional<Place> ParsePlace(std::string_view text) {
  Place place;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    place.path = std::string(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  std::size_t end = text.find_first_of("@[.");
  place.step = std::string(text.substr(0, end));
  if (place.step.empty()) return std::nullopt;
  text.remove_prefix(std::min(end, text.size()));
  if (text.starts_with('@')) {
    end = std::min(text.find_first_of("[.", 1), text.size());
    if (!ParseNumber(text.substr(1, end - 1), &place.run) || place.run == 0) return std::nullopt;
    text.remove_prefix(end);
  }
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view inside = text.substr(1, end - 1);
    if (const std::size_t dot = inside.find('.'); dot != std::string_view::npos) {
      if (!ParseNumber(inside.substr(0, dot), &place.frame)) return std::nullopt;
      inside.remove_prefix(dot + 1);
    }
    if (!ParseNumber(inside, &place.index)) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  if (text.starts_with('.')) place.label = std::string(text.substr(1));
  if (text == "." || (!text.empty() && !text.starts_with('.'))) return std::nullopt;
  return place;
}

Result<ToolAnswer> ParseAnswer(std::string_view text) {
  std::string rest(Trim(text));
  ToolAnswer answer;
  NOETL_ASSIGN(answer.duration_us, TakeDuration(&rest));
  const std::size_t end = std::min(rest.find_first_of(" \n"), rest.size());
  const std::string_view word = std::string_view(rest).substr(0, end);
  for (const AnswerRule& rule : kAnswers) {
    if (rule.word != word) continue;
    NOETL_TRY(rule.read(Trim(std::string_view(rest).substr(end)), &answer));
    return answer;
  }
  return Fail(
      "malformed",
      fmt::format("'{}' is not an answer; answers start with ok, rows, error, fail, park or lose",
                  word));
}

Result<Script> ParseScript(const TextSection& section, std::string_view file) {
  Script script;
  for (const TextLine& line : section.lines) {
    std::string key;
    std::string value;
    if (!SplitKey(line.Joined(), &key, &value)) {
      return Malformed(file, line.number, "expected 'PLACE: ANSWER; ANSWER'");
    }
    const auto place = ParsePlace(key);
    if (!place)
      return Malformed(file, line.number,
                       fmt::format("'{}' is not a place (step, step[2], step.task)", key));
    for (const Script::Line& other : script.lines) {
      if (other.place == *place) {
        return Malformed(file, line.number,
                         fmt::format("line {} is for '{}' already", other.number, key));
      }
    }
    Script::Line made{.place = *place, .number = line.number};
    for (const std::string& part : SplitOutside(value, ';')) {
      Result<ToolAnswer> answer = ParseAnswer(part);
      if (!answer) return Malformed(file, line.number, answer.error().message);
      made.answers.push_back(*std::move(answer));
    }
    script.lines.push_back(std::move(made));
  }
  return script;
}

std::optional<ToolAnswer> AnswerByDefinition(const ToolCall& call) {
  if (const Json* stub = call.config.Find("stub")) {
    ToolAnswer answer;
    answer.outcome.payload = *stub;
    return answer;
  }
  if (call.kind == "noop") return AnswerNoop(call);
  return std::nullopt;
}

std::optional<ToolAnswer> ScriptedTools::Find(const ToolCall& call) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < script_.lines.size(); ++i) {
    const Place& place = script_.lines[i].place;
    if (!Matches(place, call)) continue;
    if (!best || place.exactness() > script_.lines[*best].place.exactness()) best = i;
  }
  if (!best) return std::nullopt;
  const auto& answers = script_.lines[*best].answers;
  return answers[std::min(used_[*best]++, answers.size() - 1)];
}

ToolAnswer ScriptedTools::Call(const ToolCall& call) {
  if (auto answer = Find(call)) return *std::move(answer);
  if (auto answer = AnswerByDefinition(call)) return *std::move(answer);
  unanswered_.push_back(fmt::format("{} (kind {})", PlaceText(call), call.kind));
  ToolAnswer answer;
  answer.outcome.ok = false;
  answer.outcome.error = "the script has no answer";
  return answer;
}

std::vector<const Script::Line*> ScriptedTools::Unused() const {
  std::vector<const Script::Line*> unused;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] == 0) unused.push_back(&script_.lines[i]);
  }
  return unused;
}

std::string PlaceText(const ToolCall& call) {
  std::string text = fmt::format("{}:{}", call.path, call.step);
  if (call.run > 1) text += fmt::format("@{}", call.run);
  if (call.frame >= 0 && call.index >= 0) text += fmt::format("[{}.{}]", call.frame, call.index);
  else if (call.index >= 0) text += fmt::format("[{}]", call.index);
  if (!call.phase.empty()) text += "." + call.phase;
  if (!call.label.empty()) text += "." + call.label;
  return text;
}

}  // namespace noetl::sim
