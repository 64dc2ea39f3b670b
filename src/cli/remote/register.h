// Putting playbooks and credentials of files into a server.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/http_client.h"
#include "cli/table.h"

namespace noetl::cli {

enum class Registered { kAny, kPlaybook, kCredential };

struct RegisterOptions {
  Registered kind = Registered::kAny;
  std::vector<std::string> paths;  // files and directories, "-" for standard input
  Output output = Output::kTable;
};

// Every file is tried, one that fails does not stop the others. Gives the exit code.
int RegisterFiles(HttpClient& client, const RegisterOptions& options, Console& console);

// One credential as the server takes it, from JSON or YAML. "usage" when it is none.
Result<Json> ReadCredential(std::string_view text, std::string_view source);

}  // namespace noetl::cli
