#include "sim/text_run.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/json_io.h"
#include "base/text.h"
#include "playbook/model.h"
#include "sim/text_drive.h"
#include "sim/text_expect.h"
#include "sim/text_file.h"
#include "sim/text_script.h"
#include "sim/text_stage.h"

namespace noetl::sim {
namespace {

struct BoolSetting {
  std::string_view name;
  bool engine::Semantics::* field;
};
constexpr std::array<BoolSetting, 3> kBoolSettings = {{
    {"step_error_fails", &engine::Semantics::step_error_fails},
    {"status_from_steps", &engine::Semantics::status_from_steps},
    {"retype_legacy", &engine::Semantics::retype_legacy},
}};
struct NumberSetting {
  std::string_view name;
  std::int64_t engine::Semantics::* field;
};
constexpr std::array<NumberSetting, 6> kNumberSettings = {{
    {"max_step_runs", &engine::Semantics::max_step_runs},
    {"max_attempts", &engine::Semantics::max_attempts},
    {"inline_bytes", &engine::Semantics::inline_bytes},
    {"context_bytes", &engine::Semantics::context_bytes},
    {"callback_deadline_s", &engine::Semantics::callback_deadline_s},
    {"execution_timeout_s", &engine::Semantics::execution_timeout_s},
}};

// The message says what is wrong; empty when the setting was taken.
std::string ReadSetting(std::string_view key, const std::string& value, World::Options* options) {
  if (key == "env") {
    auto env = ParseJson(value);
    if (!env || !env->is_object()) return "env is a JSON map";
    options->env = *env;
    return "";
  }
  const auto flag = std::ranges::find(kBoolSettings, key, &BoolSetting::name);
  if (flag != kBoolSettings.end() || key == "deduplicate") {
    if (value != "true" && value != "false") return fmt::format("{} is true or false", key);
    if (key == "deduplicate") options->deduplicate = value == "true";
    else options->semantics.*(flag->field) = value == "true";
    return "";
  }
  const auto number = std::ranges::find(kNumberSettings, key, &NumberSetting::name);
  if (number == kNumberSettings.end()) {
    std::vector<std::string_view> names = {"env", "deduplicate"};
    for (const BoolSetting& setting : kBoolSettings) names.push_back(setting.name);
    for (const NumberSetting& setting : kNumberSettings) names.push_back(setting.name);
    const auto near = NearestName(key, names);
    return fmt::format("unknown setting '{}'{}", key,
                       near ? fmt::format("; did you mean '{}'?", *near) : "");
  }
  std::int64_t& field = options->semantics.*(number->field);
  const char* const end = value.data() + value.size();
  if (value.empty() || std::from_chars(value.data(), end, field).ptr != end) {
    return fmt::format("{} is a number", key);
  }
  return "";
}

Result<World::Options> ReadSettings(const TextFile& file) {
  World::Options options;
  const TextSection* section = file.Find("settings");
  if (!section) return options;
  for (const TextLine& line : section->lines) {
    std::string key;
    std::string value;
    if (!SplitKey(line.Joined(), &key, &value))
      return Malformed(file.name, line.number, "expected 'name: value'");
    const std::string problem = ReadSetting(key, value, &options);
    if (!problem.empty()) return Malformed(file.name, line.number, problem);
  }
  return options;
}

struct Documents {
  std::vector<std::shared_ptr<const playbook::Playbook>> playbooks;
  std::vector<playbook::Diagnostic> diagnostics;  // lines are those of the test file
  bool accepted = true;
};

Documents LoadDocuments(const TextFile& file) {
  Documents documents;
  for (const TextSection& section : file.sections) {
    if (section.name != "playbook") continue;
    playbook::Loaded loaded = playbook::Load(section.content);
    for (playbook::Diagnostic& diagnostic : loaded.diagnostics) {
      if (diagnostic.position.line > 0) diagnostic.position.line += section.number;
      documents.diagnostics.push_back(std::move(diagnostic));
    }
    if (loaded.ok()) documents.playbooks.push_back(std::move(loaded.playbook));
    else documents.accepted = false;
  }
  return documents;
}

// A script line for a step that no playbook has is a slip of the pen.
Status CheckPlaces(const Script& script, const Documents& documents, std::string_view file) {
  if (!documents.accepted) return {};
  for (const Script::Line& line : script.lines) {
    bool known_path = line.place.path.empty();
    std::vector<std::string> steps;
    for (const auto& playbook : documents.playbooks) {
      if (!line.place.path.empty() && playbook->path != line.place.path) continue;
      known_path = true;
      for (const playbook::Step& step : playbook->steps) steps.push_back(step.name);
    }
    if (!known_path) {
      return Malformed(file, line.number,
                       fmt::format("no playbook of this file has the path '{}'", line.place.path));
    }
    if (std::ranges::find(steps, line.place.step) != steps.end()) continue;
    const auto near = NearestName(line.place.step, steps);
    return Malformed(file, line.number,
                     fmt::format("no step is named '{}'{}", line.place.step,
                                 near ? fmt::format("; did you mean '{}'?", *near) : ""));
  }
  return {};
}

class Runner {
 public:
  Runner(const TextFile& file, TextTestResult* result) : file_(file), result_(result) {}

  Status Run() {
    NOETL_ASSIGN(World::Options options, ReadSettings(file_));
    NOETL_ASSIGN(const auto expectations, ParseExpectations(*file_.Find("expect"), file_.name));
    Script script;
    if (const TextSection* section = file_.Find("script")) {
      NOETL_ASSIGN(script, ParseScript(*section, file_.name));
    }
    Json input;
    if (const TextSection* section = file_.Find("input")) {
      auto parsed = ParseJson(section->content);
      if (!parsed)
        return Malformed(file_.name, section->number + 1,
                         "input is not JSON: " + parsed.error().message);
      input = *std::move(parsed);
    }
    const Documents documents = LoadDocuments(file_);
    NOETL_TRY(CheckPlaces(script, documents, file_.name));
    Outcome outcome{.diagnostics = documents.diagnostics, .accepted = documents.accepted};
    const bool may_be_invalid =
        std::ranges::any_of(expectations, [](const Expectation& e) { return e.name == "invalid"; });
    if (!documents.accepted && !may_be_invalid) {
      for (const playbook::Diagnostic& diagnostic : documents.diagnostics) {
        if (diagnostic.is_error())
          result_->problems.push_back(playbook::FormatDiagnostic(diagnostic, file_.name));
      }
      return {};
    }
    ScriptedTools tools(std::move(script));
    Stage stage(std::move(options), &tools);
    if (documents.accepted) NOETL_TRY(Play(documents, std::move(input), stage, &outcome));
    else outcome.refusal = "the document is refused";
    for (const Expectation& expectation : expectations) {
      if (auto problem = Check(expectation, outcome)) Add(expectation.number, *problem);
    }
    return {};
  }

 private:
  // Starts and drives the run; what happens lands in `outcome` and in the result.
  Status Play(const Documents& documents, Json input, Stage& stage, Outcome* outcome) {
    for (const auto& playbook : documents.playbooks) stage.world().AddPlaybook(playbook);
    const Status started = stage.Start(documents.playbooks[0]->path, std::move(input));
    if (!started) {
      outcome->refusal = started.error().message;
      return {};
    }
    outcome->stage = &stage;
    const TextSection* drive = file_.Find("drive");
    const Status driven = drive ? Drive(*drive, file_.name, stage) : DriveRest(stage);
    if (!driven && driven.error().code == "malformed") return driven;
    for (const std::string& place : stage.tools().unanswered()) {
      Add(file_.Find("script") ? file_.Find("script")->number : 1,
          fmt::format("the script has no answer for {}", place));
    }
    if (!driven && drive) result_->problems.push_back(driven.error().message);
    else if (!driven) Add(1, driven.error().message);
    stage.CheckAtEnd();
    for (const std::string& breach : stage.breaches()) Add(1, breach);
    return {};
  }

  void Add(int line, std::string_view problem) {
    result_->problems.push_back(fmt::format("{}:{}: {}", file_.name, line, problem));
  }

  const TextFile& file_;
  TextTestResult* result_;
};

}  // namespace

TextTestResult RunTextTest(std::string_view text, std::string name) {
  TextTestResult result;
  result.name = name;
  Result<TextFile> file = TextFile::Read(text, std::move(name));
  Status run;
  if (file) {
    result.title = file->title;
    run = Runner(*file, &result).Run();
  } else {
    run = std::unexpected(file.error());
  }
  if (!run) {
    result.malformed = true;
    result.problems = {run.error().message};
  }
  return result;
}

TextTestResult RunTextTestFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad() || !in.is_open() || text.size() > kTextTestBytesMax) {
    const std::string_view why =
        in.is_open() && !in.bad() ? "is too large for a test" : "cannot be read";
    return {.name = path, .malformed = true, .problems = {fmt::format("{}: {}", path, why)}};
  }
  return RunTextTest(text, path);
}

Result<std::vector<std::string>> FindTextTests(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return Fail("not_found", fmt::format("{}: there is no such file or directory", path));
  std::vector<std::string> files;
  if (!fs::is_directory(status)) {
    files.push_back(path);
    return files;
  }
  for (fs::recursive_directory_iterator i(path, error), end; !error && i != end;
       i.increment(error)) {
    if (i->path().extension() == ".test" && i->is_regular_file())
      files.push_back(i->path().string());
  }
  if (error) return Fail("not_found", fmt::format("{}: {}", path, error.message()));
  std::ranges::sort(files);
  return files;
}

}  // namespace noetl::sim
