// How commands show what they found: aligned tables for people, documents for programs.
//
// Texts from runs are made harmless for a terminal: control characters become blanks. Widths are
// counted in code points. Pure but for TerminalWidth; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/console.h"
#include "cli/parser.h"

namespace noetl::cli {

// ---- tables

struct Column {
  std::string title;
  bool right = false;  // numbers
  bool cut = false;    // gives way when the line is too long for the terminal
};

struct Cell {
  Cell(std::string content, Style style_of = Style::kPlain)
      : text(std::move(content)), style(style_of) {}
  Cell(const char* content) : text(content) {}
  std::string text;
  Style style = Style::kPlain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void Add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  // `width` 0: lines may be as long as they are. Every line starts with `indent` blanks.
  std::string Text(const Console& console, std::size_t width, std::size_t indent = 0) const;

 private:
  std::vector<std::size_t> Widths(std::size_t width, std::size_t indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Columns of the terminal that the output goes to (COLUMNS goes before); 0: it is no terminal.
std::size_t TerminalWidth(const Console& console);

// One line: control characters and line ends as blanks.
std::string OneLine(std::string_view text);
// At most so many code points; the last is an ellipsis when something was cut off.
std::string Cut(std::string_view text, std::size_t points);
// "2026-06-04 06:51:26", in UTC; "-" for 0.
std::string TimeText(std::int64_t micros);
std::string BytesText(std::int64_t bytes);  // "1.5 MiB"
Style StyleOfStatus(std::string_view status);

// ---- documents

enum class Output { kTable, kJson, kYaml };
// Declares --json and -o; `output` outlives the parser.
void AddOutputOptions(Parser& parser, Output* output);

// As block YAML that reads back as the same value.
std::string WriteYaml(const Json& value);
// Prints a document in the format that is not a table.
void PrintDocument(const Json& document, Output output, Console& console);

}  // namespace noetl::cli
