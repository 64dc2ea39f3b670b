#include "api/page.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "api/testing.h"

namespace noetl::api {
namespace {

// UPDATE_DOCS=1 writes the page instead.
TEST(HttpApiPage, IsWhatTheTableSays) {
  TestApi api;
  const std::string path = std::string(NOETL_SOURCE_DIR) + "/docs/http-api.md";
  const std::string page = HttpApiMarkdown(api.router->routes());
  if (std::getenv("UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << page;
    return;
  }
  std::ifstream file(path);
  const std::string stored((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(stored == page)
      << "docs/http-api.md is out of date: UPDATE_DOCS=1 api_test --gtest_filter='HttpApiPage.*'";
}

}  // namespace
}  // namespace noetl::api
