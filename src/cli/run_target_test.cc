#include "cli/run_target.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/temporary_directory.h"

namespace noetl::cli {
namespace {

constexpr const char* kNoStart = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: one, path: demo/one}
workflow:
  - step: only
    tool: {kind: noop}
)";

TEST(FindTarget, AFileMayHaveToSayWhereItBegins) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/one.yaml";
  std::ofstream(file) << kNoStart;
  Console console;
  const auto found = [&](const TargetWords& words, bool require_start) {
    const auto target = FindTarget(words, {.require_start = require_start}, console);
    EXPECT_TRUE(target.has_value());
    return target && target->playbook;
  };
  EXPECT_TRUE(found({.name = file, .version = 0, .step = ""}, false));
  EXPECT_FALSE(found({.name = file, .version = 0, .step = ""}, true));
  EXPECT_TRUE(found({.name = file, .version = 0, .step = "only"}, true));
}

}  // namespace
}  // namespace noetl::cli
