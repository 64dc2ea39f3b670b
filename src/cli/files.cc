#include "cli/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/text.h"

namespace noetl::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kReadBytes = 65'536;
// Longer source lines are shown around the place in question.
constexpr std::size_t kShownColumnsMax = 100;

std::unexpected<Error> SystemError(std::string_view path, int code) {
  return Fail("file", fmt::format("{}: {}", path, std::strerror(code)));
}

bool HasPlaybookSuffix(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

// A quick look: only such files of a directory are meant.
bool SaysKindPlaybook(std::string_view text) {
  for (std::size_t at = text.find("kind:"); at != std::string_view::npos;
       at = text.find("kind:", at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    std::string_view value = text.substr(at + 5, 40);
    value = Trim(value.substr(0, value.find_first_of("\n#")));
    if (value == "Playbook" || value == "\"Playbook\"" || value == "'Playbook'") return true;
  }
  return false;
}

Status AddDirectory(const std::string& directory, std::vector<std::string>* files) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator i(directory, error), end; !error && i != end;
       i.increment(error)) {
    if (!HasPlaybookSuffix(i->path()) || !i->is_regular_file()) continue;
    NOETL_ASSIGN(const std::string text, ReadInput(i->path().string()));
    if (SaysKindPlaybook(text)) found.push_back(i->path().string());
  }
  if (error) return Fail("file", fmt::format("{}: {}", directory, error.message()));
  if (found.empty())
    return Fail("file",
                fmt::format("{}: no playbook (*.yaml with kind: Playbook) is below it", directory));
  std::ranges::sort(found);
  files->insert(files->end(), found.begin(), found.end());
  return {};
}

// The line with the place in it, without characters that a terminal would obey.
std::string_view LineAt(std::string_view source, int line) {
  for (int i = 1; i < line; ++i) {
    const std::size_t end = source.find('\n');
    if (end == std::string_view::npos) return {};
    source.remove_prefix(end + 1);
  }
  return source.substr(0, source.find('\n'));
}

std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\t') out += ' ';
    else if (byte < 0x20 || byte == 0x7f) out += '?';
    else out += c;
  }
  if (!FirstInvalidUtf8(out)) return out;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return out;
}

std::string SourceWithCaret(std::string_view source, playbook::Position position,
                            const Console& console) {
  if (position.line <= 0) return "";
  std::string line = Printable(LineAt(source, position.line));
  if (Trim(line).empty()) return "";
  std::size_t column = position.column > 0 ? static_cast<std::size_t>(position.column) - 1 : 0;
  column = std::min(column, line.size());
  if (line.size() > kShownColumnsMax) {
    std::size_t begin = column > kShownColumnsMax / 2 ? column - kShownColumnsMax / 2 : 0;
    while (begin > 0 && (static_cast<unsigned char>(line[begin]) & 0xc0) == 0x80) --begin;
    std::size_t end = std::min(begin + kShownColumnsMax, line.size());
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) ++end;
    line = line.substr(begin, end - begin);
    column -= begin;
  }
  const std::size_t before = CodePoints(std::string_view(line).substr(0, column));
  return fmt::format("  {}\n  {}{}\n", console.Paint(Style::kDim, line), std::string(before, ' '),
                     console.Paint(Style::kGreen, "^"));
}

}  // namespace

Result<std::string> ReadInput(const std::string& path) {
  const bool standard = path == "-";
  const Descriptor file(standard ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!standard && !file.is_open()) return SystemError(path, errno);
  std::string content;
  std::string buffer(kReadBytes, '\0');
  for (;;) {
    const ssize_t count = read(standard ? 0 : file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, errno);
    if (count == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (content.size() > kInputBytesMax) {
      return Fail("file", fmt::format("{}: larger than {} MiB", path, kInputBytesMax >> 20));
    }
  }
}

Status WriteFile(const std::string& path, std::string_view content) {
  // Through a link the file itself is replaced, not the link.
  std::error_code error;
  const fs::path real = fs::exists(path, error) ? fs::canonical(path, error) : fs::path(path);
  if (error) return Fail("file", fmt::format("{}: {}", path, error.message()));
  std::string temporary = real.string() + ".XXXXXX";
  const Descriptor file(mkstemp(temporary.data()));
  if (!file.is_open()) return SystemError(path, errno);
  struct stat before{};
  const bool exists = stat(real.c_str(), &before) == 0;
  int failed = 0;
  if (fchmod(file.get(), exists ? before.st_mode & 07777 : 0644) != 0) failed = errno;
  if (failed == 0) failed = WriteAll(file, content);
  if (failed == 0 && fsync(file.get()) != 0 && errno != EINVAL) failed = errno;
  if (failed == 0 && rename(temporary.c_str(), real.c_str()) != 0) failed = errno;
  if (failed == 0) return {};
  unlink(temporary.c_str());
  return SystemError(path, failed);
}

Result<std::vector<std::string>> FindPlaybooks(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path != "-" && fs::is_directory(path, error)) NOETL_TRY(AddDirectory(path, &files));
    else files.push_back(path);
  }
  return files;
}

std::string ShowDiagnostic(const playbook::Diagnostic& diagnostic, std::string_view file,
                           std::string_view source, const Console& console) {
  std::string place(file);
  if (diagnostic.position.line > 0) {
    place += fmt::format(":{}:{}", diagnostic.position.line, diagnostic.position.column);
  }
  std::string out = fmt::format(
      "{}: {} {}\n", console.Paint(Style::kBold, place),
      console.Paint(diagnostic.is_error() ? Style::kRed : Style::kYellow, diagnostic.code),
      diagnostic.message);
  out += SourceWithCaret(source, diagnostic.position, console);
  if (diagnostic.hint.empty()) return out;
  out += "  hint: ";
  for (const char c : diagnostic.hint) {
    out += c;
    if (c == '\n') out += "        ";
  }
  return out + "\n";
}

std::shared_ptr<const playbook::Playbook> LoadOrComplain(const std::string& path,
                                                         Console& console) {
  const auto text = ReadInput(path);
  if (!text) {
    console.Err(fmt::format("noetl: {}\n", text.error().message));
    return nullptr;
  }
  playbook::Loaded loaded = playbook::Load(*text);
  if (loaded.ok()) return std::move(loaded.playbook);
  for (const playbook::Diagnostic& diagnostic : loaded.diagnostics) {
    if (diagnostic.is_error()) console.Err(ShowDiagnostic(diagnostic, path, *text, console));
  }
  return nullptr;
}

std::string Count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace noetl::cli
