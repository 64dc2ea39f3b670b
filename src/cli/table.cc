#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_io.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/parser.h"

namespace noetl::cli {

namespace {

constexpr std::size_t kGap = 2;        // blanks between columns
constexpr std::size_t kCutMin = 8;     // a column that gives way keeps so much
constexpr std::size_t kCellMax = 160;  // of a column that gives way, when there is no terminal
constexpr std::string_view kEllipsis = "…";

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::size_t Points(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !IsContinuation(c); }));
}

std::string Padded(std::string_view text, std::size_t width, bool right) {
  const std::size_t points = Points(text);
  const std::string blanks(width > points ? width - points : 0, ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

// Texts that YAML would read as something else, or that need escapes, are written as JSON.
bool IsPlainYaml(std::string_view text) {
  if (text.empty()) return false;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./ ").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(text, plain)) return false;
  const char first = text.front();
  if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')) || text.back() == ' ')
    return false;
  constexpr std::array<std::string_view, 12> kWords = {"null", "true", "false", "yes", "no",  "on",
                                                       "off",  "y",    "n",     "nan", "inf", "e"};
  return std::ranges::find(kWords, ToLower(text)) == kWords.end();
}

std::string YamlScalar(const Json& value) {
  if (value.is_string() && IsPlainYaml(value.AsString())) return value.ToString();
  return WriteJson(value);  // empty containers too
}

void AppendYaml(std::string& out, const Json& value, std::size_t indent) {
  const std::string margin(indent, ' ');
  const auto append = [&](const Json& inner, bool after_dash) {
    if (!inner.is_container() || inner.empty()) {
      out += fmt::format(" {}\n", YamlScalar(inner));
      return;
    }
    if (!after_dash) {
      out += '\n';
      AppendYaml(out, inner, indent + 2);
      return;
    }
    // The first line of the element stands beside its dash.
    std::string block;
    AppendYaml(block, inner, indent + 2);
    out += ' ';
    out += std::string_view(block).substr(indent + 2);
  };
  for (const JsonMember& member : value.members()) {
    out += margin +
           (IsPlainYaml(member.key()) ? std::string(member.key()) : WriteJson(member.key_json())) +
           ":";
    append(member.value, false);
  }
  for (const Json& item : value.items()) {
    out += margin + "-";
    append(item, true);
  }
}

}  // namespace

void Table::Add(std::vector<Cell> row) {
  NOETL_CHECK(row.size() == columns_.size(), "a row has a cell for each column");
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i].text = OneLine(row[i].text);
    if (columns_[i].cut) row[i].text = Cut(row[i].text, kCellMax);
  }
  rows_.push_back(std::move(row));
}

// Columns that may be cut give way, the widest first.
std::vector<std::size_t> Table::Widths(std::size_t width, std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(Points(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], Points(row[i].text));
  }
  if (width == 0) return widths;
  std::size_t total = indent + kGap * (columns_.size() - 1);
  total = std::accumulate(widths.begin(), widths.end(), total);
  while (total > width) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].cut && widths[i] > kCutMin &&
          (widest == columns_.size() || widths[i] > widths[widest]))
        widest = i;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::Text(const Console& console, std::size_t width, std::size_t indent) const {
  const std::vector<std::size_t> widths = Widths(width, indent);
  std::string out;
  const auto line = [&](auto cell_of) {
    std::string text(indent, ' ');
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Cell cell = cell_of(i);
      const bool last = i + 1 == columns_.size();
      const std::string shown = Cut(cell.text, widths[i]);
      const std::string padded =
          last && !columns_[i].right ? shown : Padded(shown, widths[i], columns_[i].right);
      // Blanks stay outside of the colours.
      const std::size_t end = padded.find_last_not_of(' ') + 1;
      text += console.Paint(cell.style, std::string_view(padded).substr(0, end));
      text += std::string_view(padded).substr(end);
      if (!last) text.append(kGap, ' ');
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  };
  line([&](std::size_t i) { return Cell(columns_[i].title, Style::kDim); });
  for (const auto& row : rows_) line([&](std::size_t i) { return row[i]; });
  return out;
}

std::size_t TerminalWidth(const Console& console) {
  if (!console.out_is_terminal()) return 0;
  constexpr std::size_t kFallback = 80;
  if (const char* const columns = std::getenv("COLUMNS")) {
    if (const int given = std::atoi(columns); given > 0) return static_cast<std::size_t>(given);
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kFallback;
}

std::string OneLine(std::string_view text) {
  std::string out(text);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    if (byte < 0x20 || byte == 0x7f) out[i] = ' ';
    // U+0080 to U+009F are controls as well.
    if (byte == 0xc2 && i + 1 < out.size() && static_cast<unsigned char>(out[i + 1]) < 0xa0)
      out.replace(i, 2, " ");
  }
  return std::string(Trim(out));
}

std::string Cut(std::string_view text, std::size_t points) {
  if (Points(text) <= points) return std::string(text);
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (!IsContinuation(text[end]) && seen++ == std::max<std::size_t>(points, 1) - 1) break;
  }
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

std::string TimeText(std::int64_t micros) {
  if (micros == 0) return "-";
  std::string text = FormatTime(micros).substr(0, 19);
  text[10] = ' ';
  return text;
}

std::string BytesText(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1'024) return fmt::format("{} {}", bytes, kUnits[0]);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1'024 && unit + 1 < kUnits.size()) {
    value /= 1'024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Style StyleOfStatus(std::string_view status) {
  if (status == "COMPLETED") return Style::kGreen;
  if (status == "FAILED" || status == "DENIED") return Style::kRed;
  if (status == "SKIPPED" || status == "WAITING") return Style::kDim;
  return Style::kYellow;
}

void AddOutputOptions(Parser& parser, Output* output) {
  static const std::map<std::string, Output> kNames = {
      {"table", Output::kTable}, {"json", Output::kJson}, {"yaml", Output::kYaml}};
  parser
      .Add(
          "-o,--output", [output](const std::string& name) { *output = kNames.at(name); },
          "table, json or yaml")
      .OneOf({"table", "json", "yaml"})
      .Type("FORMAT");
  parser.Flag("-j,--json", [output] { *output = Output::kJson; }, "the same as -o json");
}

std::string WriteYaml(const Json& value) {
  if (!value.is_container() || value.empty()) return YamlScalar(value) + "\n";
  std::string out;
  AppendYaml(out, value, 0);
  return out;
}

void PrintDocument(const Json& document, Output output, Console& console) {
  console.Out(output == Output::kYaml ? WriteYaml(document) : WriteJson(document) + "\n");
}

}  // namespace noetl::cli
