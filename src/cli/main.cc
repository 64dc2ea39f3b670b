#include <csignal>
#include <string>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
  // A reader that goes away is seen where the text is written.
  std::signal(SIGPIPE, SIG_IGN);
  noetl::cli::Console console;
  return noetl::cli::RunProgram(std::vector<std::string>(argv + 1, argv + argc), console);
}
