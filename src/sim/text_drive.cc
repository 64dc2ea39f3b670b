#include "sim/text_drive.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::sim {
namespace {

using engine::EventType;

struct MessageName {
  std::string_view name;
  EventType type;
};
// The end of a child is no event.
constexpr std::array<MessageName, 6> kMessageNames = {{{"started", EventType::kCommandStarted},
                                                       {"done", EventType::kCallDone},
                                                       {"error", EventType::kCallError},
                                                       {"completed", EventType::kCommandCompleted},
                                                       {"failed", EventType::kCommandFailed},
                                                       {"child", EventType::kOther}}};

std::unexpected<Error> Bad(std::string message) { return Fail("malformed", std::move(message)); }
std::unexpected<Error> Failed(std::string message) { return Fail("failed", std::move(message)); }

Result<Place> ReadPlace(std::string_view text) {
  const auto place = ParsePlace(text);
  if (!place)
    return Bad(fmt::format("'{}' is not a place (step, step[2], step.claim, path:step)", text));
  return *place;
}

// The oldest command of the place for which `wanted` holds.
template <typename Wanted>
Result<std::string> Oldest(const Stage& stage, std::string_view text, std::string_view what,
                           Wanted wanted) {
  NOETL_ASSIGN(const Place place, ReadPlace(text));
  for (const IssuedCommand& command : stage.commands()) {
    if (command.Is(place, stage.main_path()) && wanted(command)) return command.id;
  }
  return Failed(fmt::format("no command of '{}' {}", text, what));
}

bool Contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::ranges::find(ids, id) != ids.end();
}

Result<std::string> OldestQueued(const Stage& stage, std::string_view place) {
  const auto& queued = stage.world().queued();
  return Oldest(stage, place, "waits for a worker",
                [&](const IssuedCommand& c) { return Contains(queued, c.id); });
}

Result<std::string> OldestHeld(const Stage& stage, std::string_view place) {
  const auto held = stage.world().held();
  return Oldest(stage, place, "is held by a worker",
                [&](const IssuedCommand& c) { return Contains(held, c.id); });
}

// Places in the queue of the messages of one command.
std::vector<std::size_t> MessagesOf(const Stage& stage, std::string_view command_id) {
  std::vector<std::size_t> places;
  const auto waiting = stage.world().waiting();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].command_id == command_id) places.push_back(i);
  }
  return places;
}

Result<std::string> OldestWithMessages(const Stage& stage, std::string_view place) {
  return Oldest(stage, place, "has a message that waits",
                [&](const IssuedCommand& c) { return !MessagesOf(stage, c.id).empty(); });
}

void DeliverAll(Stage& stage, std::string_view command_id) {
  for (auto places = MessagesOf(stage, command_id); !places.empty();
       places = MessagesOf(stage, command_id)) {
    stage.world().Deliver(places[0]);
  }
}

Status WorkToEnd(Stage& stage, const std::string& id) {
  for (std::int64_t i = 0; Contains(stage.world().held(), id); ++i) {
    if (i > kActionsMax) return Failed("the command never ends");
    stage.world().Work(id);
  }
  return {};
}

// ---- actions: each gets the words after its own

using Arguments = std::vector<std::string>;

Status DoRun(Stage& stage, const Arguments& arguments) {
  auto id = OldestQueued(stage, arguments[0]);
  if (id) stage.world().Claim(*id);
  else id = OldestHeld(stage, arguments[0]);
  if (!id)
    return Failed(
        fmt::format("no command of '{}' waits for a worker or is held by one", arguments[0]));
  NOETL_TRY(WorkToEnd(stage, *id));
  DeliverAll(stage, *id);
  return {};
}

Status DoClaim(Stage& stage, const Arguments& arguments) {
  NOETL_ASSIGN(const std::string id, OldestQueued(stage, arguments[0]));
  stage.world().Claim(id);
  return {};
}

Status DoWork(Stage& stage, const Arguments& arguments) {
  NOETL_ASSIGN(const std::string id, OldestHeld(stage, arguments[0]));
  return WorkToEnd(stage, id);
}

Status DoDeliver(Stage& stage, const Arguments& arguments) {
  if (arguments.size() == 1) {
    NOETL_ASSIGN(const std::string id, OldestWithMessages(stage, arguments[0]));
    DeliverAll(stage, id);
    return {};
  }
  const auto name = std::ranges::find(kMessageNames, arguments[1], &MessageName::name);
  if (name == kMessageNames.end()) {
    return Bad(fmt::format(
        "'{}' is not a message: started, done, error, completed, failed or child", arguments[1]));
  }
  int copies = 1;
  if (arguments.size() > 2) {
    const std::string& times = arguments[2];
    const char* const end = times.data() + times.size();
    if (!times.starts_with('x') || std::from_chars(times.data() + 1, end, copies).ptr != end ||
        copies < 1) {
      return Bad(fmt::format("'{}' is not a number of times (x2)", times));
    }
  }
  const auto waiting = stage.world().waiting();
  const auto has = [&](const IssuedCommand& command) {
    return std::ranges::any_of(waiting, [&](const World::Waiting& message) {
      return message.command_id == command.id && message.type == name->type;
    });
  };
  NOETL_ASSIGN(
      const std::string id,
      Oldest(stage, arguments[0], fmt::format("has a message '{}' that waits", arguments[1]), has));
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].command_id != id || waiting[i].type != name->type) continue;
    stage.world().Deliver(i, copies);
    break;
  }
  return {};
}

Status DoBatch(Stage& stage, const Arguments& arguments) {
  std::vector<std::size_t> all;
  for (const std::string& place : arguments) {
    // The same place twice means its two oldest commands.
    const auto fresh = [&](const IssuedCommand& command) {
      const auto places = MessagesOf(stage, command.id);
      return !places.empty() && std::ranges::find(all, places[0]) == all.end();
    };
    NOETL_ASSIGN(const std::string id, Oldest(stage, place, "has a message that waits", fresh));
    for (std::size_t i : MessagesOf(stage, id)) all.push_back(i);
  }
  stage.world().DeliverTogether(all);
  return {};
}

Status DoLose(Stage& stage, const Arguments& arguments) {
  NOETL_ASSIGN(const std::string id, OldestHeld(stage, arguments[0]));
  stage.world().LoseWorker(id);
  return {};
}

Status DoCallback(Stage& stage, const Arguments& arguments) {
  // A callback may come before its command is parked.
  const auto open = [&](const IssuedCommand& issued) {
    return stage.world().Get(issued.execution_id).state.FindCommand(issued.id) != nullptr;
  };
  NOETL_ASSIGN(const std::string id, Oldest(stage, arguments[0], "is open", open));
  const auto issued = std::ranges::find(stage.commands(), id, &IssuedCommand::id);
  engine::CallbackReport report{.command_id = id};
  Json value;
  if (arguments.size() > 2) {
    auto parsed = ParseJson(arguments[2]);
    if (!parsed)
      return Bad(fmt::format("'{}' is not JSON: {}", arguments[2], parsed.error().message));
    value = *parsed;
  }
  if (arguments[1] == "ok") {
    report.data = value;
  } else if (arguments[1] == "failed") {
    report.ok = false;
    report.error = value.ToString();
  } else {
    return Bad("a callback is 'ok JSON' or 'failed \"TEXT\"'");
  }
  stage.world().Callback(issued->execution_id, report);
  return {};
}

// A text argument, in quotes or not.
std::string TextOf(const std::string& argument) {
  const auto parsed = ParseJson(argument);
  return parsed && parsed->is_string() ? parsed->ToString() : argument;
}

Status DoCancel(Stage& stage, const Arguments& arguments) {
  stage.world().Cancel(stage.main().id, arguments.empty() ? "" : TextOf(arguments[0]));
  return {};
}

Status DoFinalize(Stage& stage, const Arguments& arguments) {
  if (arguments[0] != "COMPLETED" && arguments[0] != "FAILED")
    return Bad("finalize takes COMPLETED or FAILED");
  stage.world().Finalize(stage.main().id, arguments[0] == "COMPLETED",
                         arguments.size() > 1 ? TextOf(arguments[1]) : "");
  return {};
}

Status DoSleep(Stage& stage, const Arguments&) {
  if (!stage.world().Sleep()) return Failed("there is no timer and no sleeping worker");
  return {};
}

Status DoSnapshot(Stage& stage, const Arguments&) {
  for (const auto& [id, execution] : stage.world().executions()) {
    Result<engine::State> read = engine::ReadSnapshot(engine::WriteSnapshot(execution->state));
    if (!read) return Failed(fmt::format("the snapshot is refused: {}", read.error().message));
    execution->state = *std::move(read);
  }
  return {};
}

Status DoRest(Stage& stage, const Arguments&) { return DriveRest(stage); }

// ---- checks

std::string Sorted(std::vector<std::string> words) {
  std::ranges::sort(words);
  return words.empty() ? "(none)" : fmt::format("{}", fmt::join(words, " "));
}

Status Compare(std::string_view what, const std::string& expected, const std::string& got) {
  if (expected == got) return {};
  return Failed(fmt::format("{}\n  expected: {}\n  got:      {}", what, expected, got));
}

Status CheckStatus(Stage& stage, const Arguments& arguments) {
  return Compare("status", arguments[0], std::string(stage.main().state.StatusText()));
}

Status CheckOpen(Stage& stage, const Arguments& arguments) {
  const auto& open = stage.main().state.open_steps();
  return Compare("steps with an open run", Sorted(arguments), Sorted({open.begin(), open.end()}));
}

Status CheckQueued(Stage& stage, const Arguments& arguments) {
  std::vector<const IssuedCommand*> queued;
  std::vector<std::string> got;
  for (const IssuedCommand& command : stage.commands()) {
    if (!Contains(stage.world().queued(), command.id)) continue;
    queued.push_back(&command);
    got.push_back(command.Text(stage.main_path()));
  }
  bool same = queued.size() == arguments.size();
  for (const std::string& text : arguments) {
    NOETL_ASSIGN(const Place place, ReadPlace(text));
    const auto found = std::ranges::find_if(queued, [&](const IssuedCommand* command) {
      return command->Is(place, stage.main_path());
    });
    if (found == queued.end()) same = false;
    else queued.erase(found);
  }
  if (same) return {};
  return Failed(fmt::format("commands that wait for a worker\n  expected: {}\n  got:      {}",
                            Sorted(arguments), Sorted(got)));
}

// Whether a claim of the last command of the place would be granted.
Result<bool> Claimable(Stage& stage, std::string_view text) {
  NOETL_ASSIGN(const Place place, ReadPlace(text));
  const IssuedCommand* last = nullptr;
  for (const IssuedCommand& command : stage.commands()) {
    if (command.Is(place, stage.main_path())) last = &command;
  }
  if (!last) return Failed(fmt::format("no command of '{}' was issued", text));
  const engine::State& state = stage.world().Get(last->execution_id).state;
  const engine::Command* command = state.terminal() ? nullptr : state.FindCommand(last->id);
  return command && command->status == engine::Command::Status::kIssued && !command->parked;
}

Status CheckClaimable(Stage& stage, const Arguments& arguments) {
  NOETL_ASSIGN(const bool claimable, Claimable(stage, arguments[0]));
  return Compare(fmt::format("a claim of {}", arguments[0]), "granted",
                 claimable ? "granted" : "refused");
}

Status CheckRefused(Stage& stage, const Arguments& arguments) {
  NOETL_ASSIGN(const bool claimable, Claimable(stage, arguments[0]));
  return Compare(fmt::format("a claim of {}", arguments[0]), "refused",
                 claimable ? "granted" : "refused");
}

struct ActionRule {
  std::string_view name;
  std::size_t arguments_min;
  std::size_t arguments_max;
  // The last argument takes the rest of the line.
  bool rest;
  Status (*act)(Stage& stage, const Arguments& arguments);
};
constexpr std::size_t kMany = 10'000;
constexpr std::array<ActionRule, 17> kActions = {{
    {"run", 1, 1, false, DoRun},
    {"claim", 1, 1, false, DoClaim},
    {"work", 1, 1, false, DoWork},
    {"deliver", 1, 3, false, DoDeliver},
    {"batch", 1, kMany, false, DoBatch},
    {"lose", 1, 1, false, DoLose},
    {"callback", 2, 3, true, DoCallback},
    {"cancel", 0, 1, true, DoCancel},
    {"finalize", 1, 2, true, DoFinalize},
    {"sleep", 0, 0, false, DoSleep},
    {"snapshot", 0, 0, false, DoSnapshot},
    {"rest", 0, 0, false, DoRest},
    {"? status", 1, 1, false, CheckStatus},
    {"? open", 0, kMany, false, CheckOpen},
    {"? queued", 0, kMany, false, CheckQueued},
    {"? claimable", 1, 1, false, CheckClaimable},
    {"? refused", 1, 1, false, CheckRefused},
}};

// At most `max` words, the last one being the rest of the text.
Arguments WordsWithRest(std::string_view text, std::size_t max) {
  Arguments words;
  text = Trim(text);
  while (!text.empty()) {
    const std::size_t end =
        words.size() + 1 == max ? text.size() : std::min(text.find_first_of(" \t"), text.size());
    words.emplace_back(text.substr(0, end));
    text = Trim(text.substr(end));
  }
  return words;
}

Status Act(std::string_view text, Stage& stage) {
  const std::vector<std::string> words = Words(text);
  const bool check = words[0] == "?";
  if (check && words.size() < 2) return Bad("expected a check after '?'");
  const std::string name = check ? "? " + words[1] : words[0];
  const auto rule = std::ranges::find(kActions, name, &ActionRule::name);
  if (rule == kActions.end()) {
    std::vector<std::string_view> names;
    for (const ActionRule& action : kActions) names.push_back(action.name);
    const auto near = NearestName(name, names);
    return Bad(fmt::format("unknown action '{}'{}", name,
                           near ? fmt::format("; did you mean '{}'?", *near) : ""));
  }
  const std::size_t own = check ? text.find(words[1]) + words[1].size() : words[0].size();
  const Arguments arguments =
      rule->rest ? WordsWithRest(text.substr(own), rule->arguments_max) : Words(text.substr(own));
  if (arguments.size() < rule->arguments_min || arguments.size() > rule->arguments_max) {
    return Bad(fmt::format(
        "'{}' takes {} to {} words, there are {}", name, rule->arguments_min,
        rule->arguments_max == kMany ? "any number of" : std::to_string(rule->arguments_max),
        arguments.size()));
  }
  return rule->act(stage, arguments);
}

}  // namespace

Status DriveRest(Stage& stage) {
  for (std::int64_t i = 0; i < kActionsMax; ++i) {
    if (!stage.tools().unanswered().empty() || !stage.world().StepInOrder()) return {};
  }
  return Failed(fmt::format("the run goes on after {} actions", kActionsMax));
}

Status Drive(const TextSection& section, std::string_view file, Stage& stage) {
  for (const TextLine& line : section.lines) {
    const Status done = Act(line.Joined(), stage);
    if (!done)
      return Fail(done.error().code,
                  fmt::format("{}:{}: {}", file, line.number, done.error().message));
    if (!stage.tools().unanswered().empty()) return {};
  }
  return {};
}

}  // namespace noetl::sim
