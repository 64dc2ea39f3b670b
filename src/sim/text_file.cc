#include "sim/text_file.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"

namespace noetl::sim {
namespace {

struct SectionRule {
  std::string_view name;
  bool required;
  bool repeats;
};
constexpr std::array<SectionRule, 6> kSections = {{{"playbook", true, true},
                                                   {"input", false, false},
                                                   {"settings", false, false},
                                                   {"script", false, false},
                                                   {"drive", false, false},
                                                   {"expect", true, false}}};

// Walks over text and tells which characters are outside of quotes and brackets.
class Outside {
 public:
  // Whether `c`, the next character, is outside.
  bool Next(char c) {
    if (quoted_) {
      if (escaped_) escaped_ = false;
      else if (c == '\\') escaped_ = true;
      else if (c == '"') quoted_ = false;
      return false;
    }
    if (c == '"') {
      quoted_ = true;
      return false;
    }
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    return depth_ <= 0;
  }

 private:
  bool quoted_ = false;
  bool escaped_ = false;
  int depth_ = 0;
};

Status CheckSections(const TextFile& file) {
  for (const SectionRule& rule : kSections) {
    int count = 0;
    for (const TextSection& section : file.sections) {
      if (section.name != rule.name) continue;
      if (++count > 1 && !rule.repeats) {
        return Malformed(file.name, section.number,
                         fmt::format("a second section '{}'", rule.name));
      }
    }
    if (count == 0 && rule.required) {
      return Malformed(file.name, 1, fmt::format("there is no section '--- {}'", rule.name));
    }
  }
  return {};
}

Status AddSection(TextFile& file, std::string_view header, int number) {
  const std::string name(Trim(header));
  std::vector<std::string_view> names;
  for (const SectionRule& rule : kSections) names.push_back(rule.name);
  if (std::ranges::find(names, name) == names.end()) {
    const auto near = NearestName(name, names);
    return Malformed(file.name, number,
                     fmt::format("unknown section '{}'{}", name,
                                 near ? fmt::format("; did you mean '{}'?", *near)
                                      : fmt::format("; there are: {}", fmt::join(names, ", "))));
  }
  file.sections.push_back({.name = name, .number = number});
  return {};
}

std::string_view TakeLine(std::string_view* text) {
  const std::size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Status AddLine(std::string_view file, TextSection& section, std::string_view line, int number) {
  section.content += line;
  section.content += '\n';
  if (section.name == "playbook" || section.name == "input") return {};
  const std::string_view text = Trim(line);
  if (text.empty() || text.starts_with('#')) return {};
  if (line[0] != ' ' && line[0] != '\t') {
    section.lines.push_back({number, std::string(text), {}});
  } else if (section.lines.empty()) {
    return Malformed(file, number,
                     "an indented line belongs to the one above it, and there is none");
  } else {
    section.lines.back().more.push_back({number, std::string(text)});
  }
  return {};
}

}  // namespace

std::string TextLine::Joined() const {
  std::string joined = text;
  for (const More& line : more) joined += "\n" + line.text;
  return joined;
}

std::unexpected<Error> Malformed(std::string_view file, int line, std::string_view message) {
  return Fail("malformed", fmt::format("{}:{}: {}", file, line, message));
}

const TextSection* TextFile::Find(std::string_view section) const {
  for (const TextSection& candidate : sections) {
    if (candidate.name == section) return &candidate;
  }
  return nullptr;
}

Result<TextSection> ReadLines(std::string_view text, const std::string& file) {
  TextSection section;
  for (int number = 1; !text.empty(); ++number)
    NOETL_TRY(AddLine(file, section, TakeLine(&text), number));
  return section;
}

Result<TextFile> TextFile::Read(std::string_view text, std::string name) {
  TextFile file;
  file.name = std::move(name);
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = TakeLine(&text);
    if (line.starts_with("--- ")) {
      NOETL_TRY(AddSection(file, line.substr(4), number));
    } else if (!file.sections.empty()) {
      NOETL_TRY(AddLine(file.name, file.sections.back(), line, number));
    } else if (line.starts_with('#')) {
      if (!file.title.empty()) file.title += ' ';
      file.title += Trim(line.substr(1));
    } else if (!Trim(line).empty()) {
      return Malformed(file.name, number, "expected a comment (#) or a section (--- playbook)");
    }
  }
  NOETL_TRY(CheckSections(file));
  return file;
}

bool SplitKey(std::string_view text, std::string* key, std::string* value) {
  Outside outside;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!outside.Next(text[i]) || text[i] != ':') continue;
    if (i + 1 < text.size() && text[i + 1] != ' ' && text[i + 1] != '\n') continue;
    *key = std::string(Trim(text.substr(0, i)));
    *value = std::string(Trim(text.substr(i + 1)));
    return true;
  }
  return false;
}

std::vector<std::string> SplitOutside(std::string_view text, char separator) {
  std::vector<std::string> parts;
  Outside outside;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!outside.Next(text[i]) || text[i] != separator) continue;
    parts.emplace_back(Trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  parts.emplace_back(Trim(text.substr(begin)));
  return parts;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t begin = text.find_first_not_of(" \t\n", i);
    if (begin == std::string_view::npos) break;
    i = std::min(text.find_first_of(" \t\n", begin), text.size());
    words.emplace_back(text.substr(begin, i - begin));
  }
  return words;
}

}  // namespace noetl::sim
