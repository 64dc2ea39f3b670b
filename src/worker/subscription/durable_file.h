// Files that are there after a crash, whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace noetl::worker {

// Makes the directory and those above it, for its owner alone. Error "io".
Status MakeDirectory(const std::string& directory);

// Writes beside, syncs, renames and syncs the directory. Error "io".
Status WriteDurably(const std::string& directory, const std::string& name,
                    std::string_view content);
// Moves a file to another directory of the same disk and syncs both. Error "io".
Status MoveDurably(const std::string& from_directory, const std::string& to_directory,
                   const std::string& name);
// No file is no error.
Status RemoveFile(const std::string& directory, const std::string& name);

// Error "io"; "not_found" when there is no such file.
Result<std::string> ReadWholeFile(const std::string& path);

}  // namespace noetl::worker
