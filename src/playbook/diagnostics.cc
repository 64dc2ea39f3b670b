#include "playbook/diagnostics.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace noetl::playbook {
namespace {

auto SortKey(const Diagnostic& d) {
  return std::tie(d.position.line, d.position.column, d.code, d.path, d.message, d.hint);
}

}  // namespace

void Diagnostics::Add(std::string_view code, std::string_view path, Position position,
                      std::string message, std::string hint) {
  list_.push_back(
      {std::string(code), std::string(path), position, std::move(message), std::move(hint)});
}

bool Diagnostics::has_errors() const {
  return std::any_of(list_.begin(), list_.end(), [](const Diagnostic& d) { return d.is_error(); });
}

std::vector<Diagnostic> Diagnostics::Take() {
  std::vector<Diagnostic> list = std::move(list_);
  list_.clear();
  std::stable_sort(list.begin(), list.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return SortKey(a) < SortKey(b);
  });
  const auto same = [](const Diagnostic& a, const Diagnostic& b) {
    return SortKey(a) == SortKey(b);
  };
  list.erase(std::unique(list.begin(), list.end(), same), list.end());
  return list;
}

std::string FormatDiagnostic(const Diagnostic& diagnostic, std::string_view file) {
  std::string out(file);
  if (diagnostic.position.line > 0) {
    out += fmt::format(":{}:{}", diagnostic.position.line, diagnostic.position.column);
  }
  out += fmt::format(": {} {}", diagnostic.code, diagnostic.message);
  if (diagnostic.hint.empty()) return out;
  out += "\n  hint: ";
  for (char c : diagnostic.hint) {
    out += c;
    if (c == '\n') out += "        ";
  }
  return out;
}

Json DiagnosticJson(const Diagnostic& diagnostic) {
  return Json::Object({{"code", diagnostic.code},
                       {"severity", diagnostic.is_error() ? "error" : "warning"},
                       {"path", diagnostic.path},
                       {"line", diagnostic.position.line},
                       {"column", diagnostic.position.column},
                       {"message", diagnostic.message},
                       {"hint", diagnostic.hint}});
}

}  // namespace noetl::playbook
