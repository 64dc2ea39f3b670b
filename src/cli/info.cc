// Commands that tell about the program itself.
#include <fmt/format.h>

#include "base/json_io.h"
#include "cli/command.h"
#include "cli/parser.h"
#include "playbook/format.h"

#ifndef NOETL_VERSION
#error "the build gives NOETL_VERSION and NOETL_BUILD_TYPE to this file"
#endif

namespace noetl::cli {

Action DeclareSchema(Parser&) {
  return [](Console& console) {
    console.Out(WriteJsonPretty(playbook::PlaybookSchema()) + "\n");
    return kExitOk;
  };
}

std::string VersionText() {
#ifdef __clang__
  constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
  constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif
  return fmt::format("noetl {} ({}, {})", NOETL_VERSION, kCompiler, NOETL_BUILD_TYPE);
}

std::string VersionNumber() { return NOETL_VERSION; }

Action DeclareVersion(Parser&) {
  return [](Console& console) {
    console.Out(VersionText() + "\n");
    return kExitOk;
  };
}

}  // namespace noetl::cli
