#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/files.h"
#include "playbook/draw.h"

namespace noetl::cli {
namespace {

struct Options {
  std::string file;
  std::string svg;
  CLI::Option* svg_option = nullptr;
};

int Graph(Options options, Console& console) {
  const bool svg = options.svg_option->count() > 0;
  // `noetl graph --svg FILE`: the one name is the playbook.
  if (options.file.empty()) std::swap(options.file, options.svg);
  if (options.file.empty()) {
    console.Err("noetl graph: FILE is required\nSee `noetl graph --help`.\n");
    return kExitInvalid;
  }
  const auto playbook = LoadOrComplain(options.file, console);
  if (!playbook) return kExitInvalid;
  const std::string picture = svg ? playbook::DrawSvg(*playbook) : playbook::DrawText(*playbook);
  if (options.svg.empty()) {
    console.Out(picture);
    return kExitOk;
  }
  if (const Status written = WriteFile(options.svg, picture); !written) {
    console.Err(fmt::format("noetl graph: {}\n", written.error().message));
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace

Action DeclareGraph(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a playbook, - is standard input");
  options->svg_option =
      app.add_option("--svg", options->svg, "an SVG, into this file or to the output")
          ->expected(0, 1)
          ->type_name("[OUT]");
  return [options](Console& console) { return Graph(*options, console); };
}

}  // namespace noetl::cli
