// Every `*.test` file below tests/text is one test.
#include <filesystem>

#include <gtest/gtest.h>

#include "sim/text_run.h"

namespace noetl::sim {
namespace {

class TextFiles : public testing::TestWithParam<std::string> {};

TEST_P(TextFiles, Holds) {
  const TextTestResult result = RunTextTestFile(GetParam());
  for (const std::string& problem : result.problems) ADD_FAILURE() << problem;
}

std::vector<std::string> AllFiles() {
  return FindTextTests(NOETL_SOURCE_DIR "/tests/text").value();
}

// "examples/ex1.test" is examples_ex1.
std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  std::string name =
      std::filesystem::relative(info.param, NOETL_SOURCE_DIR "/tests/text").replace_extension("");
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Text, TextFiles, testing::ValuesIn(AllFiles()), NameOf);

}  // namespace
}  // namespace noetl::sim
