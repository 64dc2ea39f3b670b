// Runs tests that are written as text (docs/playbook-tests.md).
//
// A test is one file: playbooks, a script of answers, and what must come of it. It runs on a
// virtual clock with the real engine; the same text gives the same result. Nothing is written
// anywhere. One thread a test; tests are independent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace noetl::sim {

// A larger file is refused: a test is for reading.
inline constexpr std::size_t kTextTestBytesMax = 16u << 20;

struct TextTestResult {
  std::string name;   // the file
  std::string title;  // its first comment
  // The file could not be understood; `problems` says where.
  bool malformed = false;
  // "file:line: what", with the expected and the actual value below. Empty: the test passed.
  std::vector<std::string> problems;

  bool passed() const { return problems.empty(); }
};

TextTestResult RunTextTest(std::string_view text, std::string name);
// A file that cannot be read is malformed.
TextTestResult RunTextTestFile(const std::string& path);

// The `*.test` files below a directory, sorted; a path that is a file stands for itself. Error
// "not_found" when there is no such path.
Result<std::vector<std::string>> FindTextTests(const std::string& path);

}  // namespace noetl::sim
