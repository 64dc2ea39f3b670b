#include <memory>

#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/node.h"
#include "cli/parser.h"

namespace noetl::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool json = false;
  bool strict = false;
};

struct Totals {
  std::size_t files = 0;
  std::size_t errors = 0;
  std::size_t warnings = 0;
};

// One document for a program, or lines for people as they come.
int Validate(const Options& options, Console& console) {
  const auto files = FindPlaybooks(options.files);
  if (!files) {
    console.Err(fmt::format("noetl validate: {}\n", files.error().message));
    return kExitInvalid;
  }
  const auto settings = LoadSettings({}, console);
  if (!settings) return kExitInvalid;
  const playbook::LoadOptions load{.require_start = settings->Bool("NOETL_REQUIRE_START")};
  Totals totals;
  std::vector<Json> documents;
  bool unreadable = false;
  for (const std::string& file : *files) {
    const auto text = ReadInput(file);
    if (!text) {
      console.Err(fmt::format("noetl validate: {}\n", text.error().message));
      unreadable = true;
      continue;
    }
    ++totals.files;
    const playbook::Loaded loaded = playbook::Load(*text, load);
    std::vector<Json> listed;
    for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
      ++(diagnostic.is_error() ? totals.errors : totals.warnings);
      if (options.json) listed.push_back(playbook::DiagnosticJson(diagnostic));
      else console.Out(ShowDiagnostic(diagnostic, file, *text, console));
    }
    documents.push_back(Json::Object(
        {{"file", file}, {"valid", loaded.ok()}, {"diagnostics", Json::Array(std::move(listed))}}));
  }
  const bool bad = unreadable || totals.errors > 0 || (options.strict && totals.warnings > 0);
  if (options.json) {
    console.Out(WriteJson(Json::Object({{"files", Json::Array(std::move(documents))},
                                        {"errors", totals.errors},
                                        {"warnings", totals.warnings},
                                        {"valid", !bad}})) +
                "\n");
  } else {
    const std::string summary =
        fmt::format("{}, {}, {}", Count(totals.files, "file"), Count(totals.errors, "error"),
                    Count(totals.warnings, "warning"));
    console.Out(console.Paint(bad ? Style::kRed : Style::kGreen, summary) + "\n");
  }
  return bad ? kExitInvalid : kExitOk;
}

}  // namespace

Action DeclareValidate(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("FILE", &options->files, "playbooks; directories are searched, - is standard input")
      .Required();
  parser.Flag("--json", &options->json, "one JSON document instead of text");
  parser.Flag("--strict", &options->strict, "warnings count as errors");
  return [options](Console& console) { return Validate(*options, console); };
}

}  // namespace noetl::cli
