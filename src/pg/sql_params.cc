#include "pg/sql_params.h"

#include <charconv>
#include <map>

#include "base/json_io.h"
#include "base/text.h"
#include "pg/sql_lexer.h"

namespace noetl::pg {
namespace {

class Binder {
 public:
  Binder(const Json& params, std::set<std::size_t>* used) : params_(params), used_(used) {}

  Result<BoundStatement> Bind(std::string_view statement) {
    std::vector<Token> tokens;
    SqlLexer lexer(statement);
    while (const std::optional<Token> token = lexer.Next()) tokens.push_back(*token);
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t size = params_.is_object() ? NameAt(tokens, at) : 0;
      if (params_.is_array() && tokens[at].kind == TokenKind::kParameter) {
        NOETL_TRY(Position(tokens[at].text));
        ++at;
      } else if (size > 0) {
        NOETL_TRY(Place(name_, params_.Find(name_)));
        at += size;
      } else {
        out_.sql += tokens[at++].text;
      }
    }
    return std::move(out_);
  }

 private:
  // How many tokens from here make :name or %(name)s; 0 when none do.
  std::size_t NameAt(const std::vector<Token>& tokens, std::size_t at) {
    const auto word = [&](std::size_t index) {
      return index < tokens.size() && tokens[index].kind == TokenKind::kWord;
    };
    if (tokens[at].Is('%') && at + 4 < tokens.size() && tokens[at + 1].Is('(') && word(at + 2) &&
        tokens[at + 3].Is(')') && word(at + 4) && tokens[at + 4].text == "s") {
      name_ = tokens[at + 2].text;
      return 5;
    }
    if (!tokens[at].Is(':') || !word(at + 1)) return 0;
    // ::type is a cast and [1:n] a slice.
    if (at > 0) {
      const Token& before = tokens[at - 1];
      if (before.Is(':') || before.Is('[') || before.Is(']') || before.Is(')') ||
          before.kind == TokenKind::kWord || before.kind == TokenKind::kNumber ||
          before.kind == TokenKind::kIdentifier) {
        return 0;
      }
    }
    name_ = tokens[at + 1].text;
    return 2;
  }

  Status Position(std::string_view text) {
    std::size_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 1, end, number);
    const bool found = error == std::errc() && number >= 1 && number <= params_.size();
    if (found && used_ != nullptr) used_->insert(number - 1);
    return Place(text, found ? &params_.items()[number - 1] : nullptr);
  }

  Status Place(std::string_view place, const Json* value) {
    if (value == nullptr) return Fail("params", fmt::format("params has no value for {}", place));
    const auto [entry, added] = numbers_.try_emplace(std::string(place), numbers_.size() + 1);
    if (added) {
      if (numbers_.size() > kParametersMax) {
        return Fail("params", fmt::format("more than {} parameters", kParametersMax));
      }
      Result<Value> text = ToParameter(*value);
      if (!text) return Fail("params", fmt::format("{}: {}", place, text.error().message));
      out_.values.push_back(*std::move(text));
    }
    out_.sql += fmt::format("${}", entry->second);
    return {};
  }

  const Json& params_;
  std::set<std::size_t>* used_;
  std::string_view name_;
  std::map<std::string, std::size_t> numbers_;
  BoundStatement out_;
};

}  // namespace

Result<Value> ToParameter(const Json& value) {
  if (value.is_null()) return Value();
  std::string text = value.is_string() ? value.ToString() : WriteJson(value);
  if (text.find('\0') != std::string::npos) return Fail("params", "text holds U+0000");
  return Value(std::move(text));
}

Result<BoundStatement> Bind(std::string_view statement, const Json& params,
                            std::set<std::size_t>* used) {
  return Binder(params, used).Bind(statement);
}

}  // namespace noetl::pg
