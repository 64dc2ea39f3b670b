// For the tests of this folder: small documents and what loading them says.
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "playbook/model.h"

namespace noetl::playbook {

// A document with this body after the metadata.
inline std::string V2(std::string_view body) {
  return fmt::format(
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: t, path: t/t }}\n{}", body);
}
inline std::string V10(std::string_view body) {
  return fmt::format(
      "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{ name: t, path: t/t }}\n{}", body);
}
// A document with one step `start`; `lines` are indented under it.
inline std::string StepDocument(std::string_view version, std::string_view lines) {
  std::string out = fmt::format(
      "apiVersion: noetl.io/{}\nkind: Playbook\nmetadata: {{ name: t, path: t/t }}\nworkflow:\n  - "
      "step: start\n",
      version);
  std::istringstream stream{std::string(lines)};
  for (std::string line; std::getline(stream, line);) out += "    " + line + "\n";
  return out;
}

inline std::vector<std::string> Codes(const Loaded& loaded) {
  std::vector<std::string> codes;
  for (const Diagnostic& d : loaded.diagnostics) codes.push_back(d.code);
  return codes;
}
inline const Diagnostic* FindCode(const Loaded& loaded, std::string_view code) {
  for (const Diagnostic& d : loaded.diagnostics) {
    if (d.code == code) return &d;
  }
  return nullptr;
}
inline std::string Show(const Loaded& loaded) {
  std::string out;
  for (const Diagnostic& d : loaded.diagnostics) out += FormatDiagnostic(d, "t.yaml") + "\n";
  return out;
}
inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace noetl::playbook
