#include "pg/sql_split.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "pg/sql_lexer.h"

namespace noetl::pg {
namespace {

// Finds where one statement ends, token by token.
class Splitter {
 public:
  // True when this token ends the statement.
  bool Ends(const Token& token) {
    if (token.Is('(')) ++parentheses_;
    if (token.Is(')') && parentheses_ > 0) --parentheses_;
    if (token.Is(';')) return parentheses_ == 0 && blocks_ == 0;
    if (token.kind == TokenKind::kWord) Word(ToLower(token.text));
    if (token.kind != TokenKind::kSpace && token.kind != TokenKind::kComment) blank_ = false;
    return false;
  }
  bool blank() const { return blank_; }

 private:
  // CREATE FUNCTION ... BEGIN ATOMIC ...; ... END holds statements of its own.
  void Word(const std::string& word) {
    if (words_ == 0) creates_ = word == "create";
    if (word == "function" || word == "procedure") routine_ = routine_ || (creates_ && words_ <= 3);
    if (routine_ && blocks_ == 0 && word == "atomic" && last_ == "begin") blocks_ = 1;
    if (blocks_ > 0 && word == "case") ++blocks_;
    if (blocks_ > 0 && word == "end") --blocks_;
    last_ = word;
    ++words_;
  }

  bool blank_ = true;
  int parentheses_ = 0;
  int blocks_ = 0;
  int words_ = 0;
  bool creates_ = false;
  bool routine_ = false;
  std::string last_;
};

constexpr std::array<std::string_view, 6> kReads = {"select", "with", "values",
                                                    "table",  "show", "explain"};
constexpr std::array<std::string_view, 6> kTransaction = {"begin", "start",    "commit",
                                                          "end",   "rollback", "abort"};
constexpr std::array<std::string_view, 4> kOutsideFirst = {"vacuum", "reindex", "cluster",
                                                           "discard"};
constexpr std::array<std::string_view, 4> kOutsideObjects = {"database", "tablespace", "system",
                                                             "subscription"};
constexpr std::array<std::string_view, 12> kTouchesFirst = {
    "set",     "reset", "listen",  "unlisten", "prepare", "deallocate",
    "execute", "load",  "discard", "do",       "call",    "declare"};
// SET of these lasts no longer than the transaction.
constexpr std::array<std::string_view, 3> kSetHarmless = {"local", "transaction", "constraints"};
constexpr std::array<std::string_view, 5> kTouchesWords = {"temp", "temporary", "pg_temp",
                                                           "set_config", "setseed"};

template <std::size_t N>
bool In(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::vector<std::string> WordsOf(std::string_view statement) {
  std::vector<std::string> words;
  SqlLexer lexer(statement);
  while (const std::optional<Token> token = lexer.Next()) {
    if (token->kind == TokenKind::kWord) words.push_back(ToLower(token->text));
  }
  return words;
}

}  // namespace

std::vector<std::string> SplitStatements(std::string_view script) {
  std::vector<std::string> statements;
  SqlLexer lexer(script);
  Splitter splitter;
  std::size_t start = 0;
  std::size_t at = 0;
  const auto take = [&] {
    if (!splitter.blank()) statements.emplace_back(Trim(script.substr(start, at - start)));
    splitter = Splitter();
  };
  while (const std::optional<Token> token = lexer.Next()) {
    if (splitter.Ends(*token)) {
      take();
      start = at + 1;
    }
    at += token->text.size();
  }
  take();
  return statements;
}

StatementTraits TraitsOf(std::string_view statement) {
  const std::vector<std::string> words = WordsOf(statement);
  StatementTraits traits;
  if (words.empty()) return traits;
  const std::string& first = words[0];
  const std::string second = words.size() > 1 ? words[1] : "";
  const auto has = [&words](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  traits.reads = In(kReads, first);
  traits.controls_transaction = (In(kTransaction, first) && !(first == "rollback" && has("to"))) ||
                                (first == "prepare" && second == "transaction");
  const bool defines = first == "create" || first == "drop" || first == "alter";
  traits.outside_transaction = In(kOutsideFirst, first) ||
                               (defines && In(kOutsideObjects, second)) ||
                               (defines && has("concurrently"));
  traits.touches_session =
      (In(kTouchesFirst, first) && !(first == "set" && In(kSetHarmless, second))) ||
      std::ranges::any_of(words, [](const std::string& word) {
        return In(kTouchesWords, word) || word.starts_with("pg_advisory_") ||
               word.starts_with("pg_try_advisory_");
      });
  return traits;
}

std::string QuoteIdentifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string QuoteLiteral(std::string_view text) {
  const bool backslash = text.find('\\') != std::string_view::npos;
  std::string out = backslash ? "E'" : "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += c;
    out += c;
  }
  return out + '\'';
}

}  // namespace noetl::pg
