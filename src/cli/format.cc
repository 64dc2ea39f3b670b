#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "playbook/format.h"
#include "playbook/normalise.h"

namespace noetl::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool check = false;
  bool write = false;
};

// The canonical text; nullopt when the playbook is not valid, which has been said.
std::optional<std::string> Canonical(const std::string& file, const std::string& text,
                                     Console& console) {
  const playbook::Loaded loaded = playbook::Load(text);
  for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
    if (diagnostic.is_error()) console.Err(ShowDiagnostic(diagnostic, file, text, console));
  }
  if (!loaded.ok()) return std::nullopt;
  playbook::Diagnostics ignored;
  playbook::Node root;
  if (!playbook::ParseYaml(text, &root, &ignored)) return std::nullopt;
  return playbook::FormatYaml(playbook::Normalise(std::move(root), &ignored));
}

int FormatOne(const std::string& file, const Options& options, bool several, Console& console) {
  const auto text = ReadInput(file);
  if (!text) {
    console.Err(fmt::format("noetl fmt: {}\n", text.error().message));
    return kExitInvalid;
  }
  const auto canonical = Canonical(file, *text, console);
  if (!canonical) return kExitInvalid;
  if (options.check) {
    if (*canonical == *text) return kExitOk;
    console.Out(fmt::format("{}: not in canonical form\n", file));
    return kExitFailed;
  }
  if (!options.write) {
    console.Out((several ? fmt::format("--- # {}\n", file) : "") + *canonical);
    return kExitOk;
  }
  if (*canonical == *text) return kExitOk;
  if (const Status written = WriteFile(file, *canonical); !written) {
    console.Err(fmt::format("noetl fmt: {}\n", written.error().message));
    return kExitFailed;
  }
  console.Out(fmt::format("{}: written\n", file));
  return kExitOk;
}

int Format(const Options& options, Console& console) {
  const auto files = FindPlaybooks(options.files);
  if (!files) {
    console.Err(fmt::format("noetl fmt: {}\n", files.error().message));
    return kExitInvalid;
  }
  if (options.write && std::ranges::find(*files, "-") != files->end()) {
    console.Err("noetl fmt: standard input cannot be written; leave --write away\n");
    return kExitInvalid;
  }
  int exit_code = kExitOk;
  for (const std::string& file : *files) {
    exit_code = std::max(exit_code, FormatOne(file, options, files->size() > 1, console));
  }
  return exit_code;
}

}  // namespace

Action DeclareFormat(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("FILE", &options->files, "playbooks; directories are searched, - is standard input")
      .Required();
  const Option check =
      parser.Flag("--check", &options->check, "only tell which files differ (exit code 1)");
  parser.Flag("--write", &options->write, "change the files instead of printing them")
      .Excludes(check);
  return [options](Console& console) { return Format(*options, console); };
}

}  // namespace noetl::cli
