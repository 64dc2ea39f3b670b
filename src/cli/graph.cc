#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "playbook/draw.h"

namespace noetl::cli {
namespace {

struct Options {
  std::string file;
  std::string svg;
  Option svg_option;
};

int Graph(Options options, Console& console) {
  const bool svg = options.svg_option.given();
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

Action DeclareGraph(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("FILE", &options->file, "a playbook, - is standard input");
  options->svg_option =
      parser.Add("--svg", &options->svg, "an SVG, into this file or to the output")
          .ValueOptional()
          .Type("[OUT]");
  return [options](Console& console) { return Graph(*options, console); };
}

}  // namespace noetl::cli
