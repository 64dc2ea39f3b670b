// Files that commands read and write.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/console.h"
#include "playbook/model.h"

namespace noetl::cli {

// A larger input is refused before it fills the memory; playbooks have a smaller limit of their
// own.
inline constexpr std::size_t kInputBytesMax = 256u << 20;

// The content of a file, or of standard input for "-". The error message names the file and the
// reason.
Result<std::string> ReadInput(const std::string& path);
// Replaces the file in one step; its permissions stay.
Status WriteFile(const std::string& path, std::string_view content);

// Files for themselves, "-" too; directories for the playbooks below them (*.yaml and *.yml with
// kind Playbook), sorted.
Result<std::vector<std::string>> FindPlaybooks(const std::vector<std::string>& paths);

// One diagnostic for people: place, code, message, hint, and the source line with a caret.
std::string ShowDiagnostic(const playbook::Diagnostic& diagnostic, std::string_view file,
                           std::string_view source, const Console& console);

// A playbook that must be valid; its errors go to the error stream. Null: the exit code is
// kExitInvalid.
std::shared_ptr<const playbook::Playbook> LoadOrComplain(const std::string& path, Console& console);

// "1 error", "2 errors".
std::string Count(std::size_t count, std::string_view noun);

}  // namespace noetl::cli
