// The text of a `*.test` file, cut into sections and lines (docs/playbook-tests.md).
//
// Reading a file never runs anything. Every error names the file and the line. Plain values, any
// thread.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace noetl::sim {

// One entry of a section: a line, and the indented lines below it that belong to it.
struct TextLine {
  int number = 0;  // in the file, 1-based
  std::string text;
  struct More {
    int number = 0;
    std::string text;  // without indentation
  };
  std::vector<More> more;

  // The text with the indented lines, for values that span lines.
  std::string Joined() const;
};

struct TextSection {
  std::string name;
  int number = 0;               // line of the `---`
  std::string content;          // verbatim
  std::vector<TextLine> lines;  // without blank lines and comments
};

struct TextFile {
  std::string name;
  std::string title;  // the comment on top, one line
  std::vector<TextSection> sections;

  // The first section with this name, or nullptr.
  const TextSection* Find(std::string_view section) const;

  static Result<TextFile> Read(std::string_view text, std::string name);
};

// The lines of a file that is one section, such as a script of its own.
Result<TextSection> ReadLines(std::string_view text, const std::string& file);

// An error with code "malformed" and the message "file:line: ...".
std::unexpected<Error> Malformed(std::string_view file, int line, std::string_view message);

// Splits "key: value" at the first ": " (or a colon that ends the text) outside quotes and
// brackets. False when there is none.
bool SplitKey(std::string_view text, std::string* key, std::string* value);
// Splits at a separator outside of quotes and brackets; parts are trimmed.
std::vector<std::string> SplitOutside(std::string_view text, char separator);
// Words between blanks.
std::vector<std::string> Words(std::string_view text);

}  // namespace noetl::sim
