// What is wrong with a playbook, where, and what to do about it.
//
// Every problem of a document is collected; nothing stops at the first. Codes are those of the
// playbook reference: E... refuses the document, W... warns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace noetl::playbook {

// 1-based; 0 means unknown.
struct Position {
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

struct Diagnostic {
  std::string code;  // "E272"
  std::string path;  // "workflow[3].next.arcs[1].when"
  Position position;
  std::string message;  // what is wrong
  std::string hint;     // what to do; may be empty when the message says it

  bool is_error() const { return code.starts_with('E'); }
};

class Diagnostics {
 public:
  void Add(std::string_view code, std::string_view path, Position position, std::string message,
           std::string hint = {});
  bool has_errors() const;
  // Sorted by line, then column, then code; exact repetitions removed.
  std::vector<Diagnostic> Take();
  const std::vector<Diagnostic>& list() const { return list_; }

 private:
  std::vector<Diagnostic> list_;
};

// "file.yaml:12:7: E272 Step 'a': ..." and, on a second line, "  hint: ...".
std::string FormatDiagnostic(const Diagnostic& diagnostic, std::string_view file);
// {code, severity, path, line, column, message, hint}
Json DiagnosticJson(const Diagnostic& diagnostic);

}  // namespace noetl::playbook
