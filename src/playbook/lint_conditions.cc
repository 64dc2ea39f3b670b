// Whether two `when` texts complement each other.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "playbook/lint_internal.h"

namespace noetl::playbook::lint {
namespace {

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Tokens of an expression, roughly: words with their dots, quoted texts, operators. Exactness is
// not needed, only that equal expressions give equal tokens.
std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> tokens;
  std::size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (c == '\'' || c == '"') {
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      tokens.push_back("'" + std::string(text.substr(i + 1, end - i - 2)) + "'");
      i = end;
      continue;
    }
    if (IsWordChar(c)) {
      while (end < text.size() && (IsWordChar(text[end]) || text[end] == '.')) ++end;
    } else if (end < text.size() && text[end] == '=' && std::string_view("=!<>").contains(c)) {
      ++end;
    }
    tokens.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

// Whether the first token opens a parenthesis that only the last one closes.
bool IsWrapped(const std::vector<std::string>& tokens) {
  if (tokens.size() < 2 || tokens.front() != "(" || tokens.back() != ")") return false;
  int depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    depth += tokens[i] == "(" ? 1 : tokens[i] == ")" ? -1 : 0;
    if (depth == 0 && i + 1 < tokens.size()) return false;
  }
  return true;
}

std::vector<std::string> CoreTokens(std::string_view text) {
  text = Trim(text);
  if (text.starts_with("{{") && text.ends_with("}}")) text = text.substr(2, text.size() - 4);
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.ends_with('-')) text.remove_suffix(1);
  auto tokens = Tokens(text);
  while (IsWrapped(tokens)) {
    tokens.erase(tokens.begin());
    tokens.pop_back();
  }
  if (tokens.size() == 1 && (tokens[0] == "True" || tokens[0] == "False")) {
    tokens[0] = ToLower(tokens[0]);
  }
  return tokens;
}

std::string Join(const std::vector<std::string>& tokens, std::size_t from, std::size_t to) {
  std::string joined;
  for (std::size_t i = from; i < to; ++i) joined += (joined.empty() ? "" : " ") + tokens[i];
  return joined;
}

struct Comparison {
  std::string left;
  std::string operation;
  std::string right;
};

// Whether `and`, `or` or an inline `if` joins parts outside parentheses.
bool IsComposed(const std::vector<std::string>& tokens) {
  static constexpr std::string_view kComposing[] = {"and", "or", "if", "else"};
  int depth = 0;
  for (const std::string& token : tokens) {
    if (token == "(" || token == "[" || token == "{") ++depth;
    if (token == ")" || token == "]" || token == "}") --depth;
    if (depth == 0 && std::ranges::find(kComposing, token) != std::end(kComposing)) return true;
  }
  return false;
}

// The one comparison that the whole condition is; nothing when it is composed of several.
std::optional<Comparison> AsComparison(const std::vector<std::string>& tokens) {
  static constexpr std::string_view kOperations[] = {"==", "!=", "<", ">=", ">", "<=", "in", "is"};
  if (IsComposed(tokens)) return std::nullopt;
  int depth = 0;
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (token == "(" || token == "[" || token == "{") ++depth;
    if (token == ")" || token == "]" || token == "}") --depth;
    if (depth > 0) continue;
    if (std::ranges::find(kOperations, token) == std::end(kOperations)) continue;
    if (place) return std::nullopt;
    place = i;
  }
  if (!place || tokens.front() == "not") return std::nullopt;
  std::size_t left_end = *place;
  std::size_t right_start = *place + 1;
  std::string operation = tokens[*place];
  if (operation == "in" && left_end > 0 && tokens[left_end - 1] == "not") {
    operation = "not in";
    --left_end;
  } else if (operation == "is" && right_start < tokens.size() && tokens[right_start] == "not") {
    operation = "is not";
    ++right_start;
  }
  return Comparison{Join(tokens, 0, left_end), operation, Join(tokens, right_start, tokens.size())};
}

bool AreOpposite(std::string_view a, std::string_view b) {
  static constexpr std::pair<std::string_view, std::string_view> kOpposites[] = {
      {"==", "!="}, {"<", ">="}, {">", "<="}, {"in", "not in"}, {"is", "is not"}};
  for (const auto& [one, other] : kOpposites) {
    if ((a == one && b == other) || (a == other && b == one)) return true;
  }
  return false;
}

// The one word for all spellings of success and of failure.
std::string_view OutcomeOf(std::string_view quoted) {
  static constexpr std::string_view kSuccess[] = {
      "'call.done'",         "'loop.done'", "'step.done'", "'step.exit'",
      "'command.completed'", "'ok'",        "'success'"};
  static constexpr std::string_view kFailure[] = {"'call.error'", "'step.failed'",
                                                  "'command.failed'", "'error'", "'failed'"};
  if (std::ranges::find(kSuccess, quoted) != std::end(kSuccess)) return "success";
  if (std::ranges::find(kFailure, quoted) != std::end(kFailure)) return "failure";
  return "";
}

bool ComparesOutcome(const Comparison& comparison) {
  return comparison.operation == "==" &&
         (comparison.left == "event.name" || comparison.left == "output.status") &&
         !OutcomeOf(comparison.right).empty();
}

}  // namespace

std::string NormaliseCondition(std::string_view text) {
  const auto tokens = CoreTokens(text);
  return Join(tokens, 0, tokens.size());
}

bool AreComplements(std::string_view a, std::string_view b) {
  const auto first = CoreTokens(a);
  const auto second = CoreTokens(b);
  const auto negates = [](const std::vector<std::string>& x, const std::vector<std::string>& y) {
    if (y.size() < 2 || y[0] != "not") return false;
    std::vector<std::string> rest(y.begin() + 1, y.end());
    // `not` binds tighter than `and`: "not a and b" is not the opposite of "a and b".
    if (IsComposed(rest)) return false;
    while (IsWrapped(rest)) rest = {rest.begin() + 1, rest.end() - 1};
    return rest == x;
  };
  if (negates(first, second) || negates(second, first)) return true;
  const auto one = AsComparison(first);
  const auto other = AsComparison(second);
  if (!one || !other || one->left != other->left) return false;
  if (one->right == other->right) return AreOpposite(one->operation, other->operation);
  return ComparesOutcome(*one) && ComparesOutcome(*other) &&
         OutcomeOf(one->right) != OutcomeOf(other->right);
}

}  // namespace noetl::playbook::lint
