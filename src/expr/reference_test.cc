#include "expr/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "expr/testing.h"

namespace noetl::expr {
namespace {

const std::string kPagePath = std::string(NOETL_SOURCE_DIR) + "/docs/templates.md";

std::string ReadPage() {
  std::ifstream file(kPagePath);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// NOETL_UPDATE_DOCS=1 writes the page instead of comparing it.
TEST(Reference, PageMatchesTheTables) {
  const std::string page = ReadPage();
  const std::string updated = UpdateReference(page);
  if (std::getenv("NOETL_UPDATE_DOCS") != nullptr) std::ofstream(kPagePath) << updated;
  else EXPECT_EQ(page, updated) << "run the test with NOETL_UPDATE_DOCS=1";
  for (const std::string_view section : ReferenceSections()) {
    EXPECT_NE(page.find(fmt::format("<!-- begin {} -->\n", section)), std::string::npos) << section;
    EXPECT_NE(page.find(fmt::format("<!-- end {} -->\n", section)), std::string::npos) << section;
  }
}

// Lines "`expression` → `result`" of the page are run.
TEST(Reference, ExamplesOfThePageHold) {
  std::istringstream lines(ReadPage());
  int checked = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string arrow = "` → `";
    const std::size_t at = line.find(arrow);
    const std::size_t begin = line.find('`');
    const std::size_t end = line.find('`', at == std::string::npos ? 0 : at + arrow.size());
    if (!line.starts_with("- `") || at == std::string::npos || end == std::string::npos) continue;
    const std::string source = line.substr(begin + 1, at - begin - 1);
    const std::size_t result = at + arrow.size();
    EXPECT_EQ(testing::Rendered(source), line.substr(result, end - result)) << line;
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

}  // namespace
}  // namespace noetl::expr
