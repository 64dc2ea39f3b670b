#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/parser.h"
#include "sim/text_run.h"

namespace noetl::cli {
namespace {

struct Options {
  std::vector<std::string> paths;
  bool verbose = false;
};

int Test(const Options& options, Console& console) {
  std::vector<std::string> files;
  for (const std::string& path : options.paths) {
    const auto found = sim::FindTextTests(path);
    if (!found) {
      console.Err(fmt::format("noetl test: {}\n", found.error().message));
      return kExitInvalid;
    }
    files.insert(files.end(), found->begin(), found->end());
  }
  if (files.empty()) {
    console.Err("noetl test: no *.test file is there\n");
    return kExitInvalid;
  }
  std::size_t passed = 0;
  bool malformed = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    console.Progress(fmt::format("{}/{} {}", i + 1, files.size(), files[i]));
    const sim::TextTestResult result = sim::RunTextTestFile(files[i]);
    console.EndProgress();
    malformed = malformed || result.malformed;
    if (result.passed()) {
      ++passed;
      if (options.verbose)
        console.Out(fmt::format("{} {}\n", console.Paint(Style::kGreen, "ok    "), files[i]));
      continue;
    }
    console.Out(fmt::format("{} {}\n", console.Paint(Style::kRed, "FAILED"), files[i]));
    if (!result.title.empty())
      console.Out(fmt::format("  {}\n", console.Paint(Style::kDim, result.title)));
    for (const std::string& problem : result.problems) console.Out(problem + "\n");
  }
  const std::size_t failed = files.size() - passed;
  console.Out(console.Paint(failed > 0 ? Style::kRed : Style::kGreen,
                            fmt::format("{} passed, {} failed", passed, failed)) +
              "\n");
  if (malformed) return kExitInvalid;
  return failed > 0 ? kExitFailed : kExitOk;
}

}  // namespace

Action DeclareTest(Parser& parser) {
  auto options = std::make_shared<Options>();
  parser.Add("FILE", &options->paths, "tests; directories are searched for *.test").Required();
  parser.Flag("-v,--verbose", &options->verbose, "name the tests that pass, too");
  return [options](Console& console) { return Test(*options, console); };
}

}  // namespace noetl::cli
