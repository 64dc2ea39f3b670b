#include "base/json_io.h"

#include <cstring>
#include <memory>

#include <fmt/format.h>

// The checks against misuse of simdjson cost time in every build that keeps assertions.
#define SIMDJSON_DEVELOPMENT_CHECKS 0
#include <simdjson.h>

#include "base/json_number.h"
#include "base/json_syntax.h"

namespace noetl {

namespace {

namespace ondemand = simdjson::ondemand;

// A thread keeps its parser and its buffer for the next document up to this size.
constexpr std::size_t kKeepBytes = 1 << 20;

// What a thread reuses from document to document.
struct Workspace {
  ondemand::parser parser;
  std::unique_ptr<char[]> text;
  std::size_t capacity = 0;
  std::vector<Json> items;
  Json::Members members;
  std::string unescaped;

  // The text with the zeroed padding that simdjson reads past its end.
  const char* Pad(std::string_view source) {
    const std::size_t needed = source.size() + simdjson::SIMDJSON_PADDING;
    if (capacity < needed) {
      text = std::make_unique_for_overwrite<char[]>(needed);
      capacity = needed;
    }
    if (!source.empty()) std::memcpy(text.get(), source.data(), source.size());
    std::memset(text.get() + source.size(), 0, simdjson::SIMDJSON_PADDING);
    return text.get();
  }

  void Trim() {
    items.clear();
    members.clear();
    if (capacity <= kKeepBytes) return;
    *this = Workspace();
  }
};

// Walks a document once. Every token is read from its raw text, so that numbers and escapes follow
// our rules; simdjson finds the tokens and checks the punctuation. Children of open containers wait
// on two stacks, so that each container allocates once and exactly.
class Reader {
 public:
  Reader(Workspace& workspace, JsonNumbers numbers) : work_(workspace), numbers_(numbers) {}

  // False: the document is bad, somewhere.
  bool Read(std::string_view text, Json& out) {
    const char* padded = work_.Pad(text);
    ondemand::document document;
    if (work_.parser.iterate(padded, text.size(), work_.capacity).get(document)) return false;
    std::string_view token;
    if (document.raw_json_token().get(token) || token.empty()) return false;
    if (token[0] == '[') {
      ondemand::array array;
      return !document.get_array().get(array) && Array(array, 1, out) && AtEnd(document);
    }
    if (token[0] == '{') {
      ondemand::object object;
      return !document.get_object().get(object) && Object(object, 1, out) && AtEnd(document);
    }
    const bool whole = token.data() + token.size() == padded + text.size();
    return whole && Scalar(token, out);
  }

 private:
  static bool AtEnd(ondemand::document& document) {
    return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  }

  bool Value(ondemand::value value, std::size_t depth, Json& out) {
    const std::string_view token = value.raw_json_token();
    if (token.empty()) return false;
    if (token[0] == '[') {
      ondemand::array array;
      return depth < kJsonDepthMax && !value.get_array().get(array) && Array(array, depth + 1, out);
    }
    if (token[0] == '{') {
      ondemand::object object;
      return depth < kJsonDepthMax && !value.get_object().get(object) &&
             Object(object, depth + 1, out);
    }
    // simdjson skips the other scalars by itself, but would take a string before ':' for a key.
    if (token[0] == '"' && value.get_raw_json_string().error()) return false;
    return Scalar(token, out);
  }

  bool Array(ondemand::array& array, std::size_t depth, Json& out) {
    const std::size_t base = work_.items.size();
    for (auto element : array) {
      ondemand::value value;
      if (element.get(value)) return false;
      Json item;
      if (!Value(value, depth, item)) return false;
      work_.items.push_back(std::move(item));
    }
    const auto first = work_.items.begin() + static_cast<std::ptrdiff_t>(base);
    out = Json::Array({std::make_move_iterator(first), std::make_move_iterator(work_.items.end())});
    work_.items.resize(base);
    return true;
  }

  bool Object(ondemand::object& object, std::size_t depth, Json& out) {
    const std::size_t base = work_.members.size();
    for (auto entry : object) {
      ondemand::field field;
      if (std::move(entry).get(field)) return false;
      Json key, value;
      if (!Key(field.key().raw(), key) || !Value(field.value(), depth, value)) return false;
      work_.members.emplace_back(std::move(key), std::move(value));
    }
    const auto first = work_.members.begin() + static_cast<std::ptrdiff_t>(base);
    out = Json::Object(Json::Members(std::make_move_iterator(first),
                                     std::make_move_iterator(work_.members.end())));
    work_.members.erase(first, work_.members.end());
    return true;
  }

  // `raw` points behind the opening quote; the first pass has seen that the string is closed.
  bool Key(const char* raw, Json& out) {
    const char* end = raw;
    bool escaped = false;
    for (; *end != '"'; ++end) {
      if (*end != '\\') continue;
      escaped = true;
      ++end;
    }
    return Text({raw, static_cast<std::size_t>(end - raw)}, escaped, out);
  }

  bool Text(std::string_view inside, bool escaped, Json& out) {
    if (!escaped) {
      out = Json(inside);
      return true;
    }
    work_.unescaped.clear();
    if (UnescapeJson(inside, work_.unescaped)) return false;
    out = Json(work_.unescaped);
    return true;
  }

  // The token runs up to the next one: blanks may follow it, and so may rubbish.
  bool Scalar(std::string_view token, Json& out) {
    while (std::string_view(" \t\n\r").contains(token.back())) token.remove_suffix(1);
    switch (token[0]) {
      case '"': {
        if (token.size() < 2 || token.back() != '"') return false;
        const std::string_view inside = token.substr(1, token.size() - 2);
        return Text(inside, inside.contains('\\'), out);
      }
      case 't': out = Json(true); return token == "true";
      case 'f': out = Json(false); return token == "false";
      case 'n': out = Json(); return token == "null";
      default: {
        ParsedNumber number = ParseNumber(token, numbers_);
        out = std::move(number.value);
        return number.error == NumberError::kNone;
      }
    }
  }

  Workspace& work_;
  JsonNumbers numbers_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, JsonNumbers numbers) {
  thread_local Workspace workspace;
  Json value;
  const bool good = Reader(workspace, numbers).Read(text, value);
  workspace.Trim();
  if (good) return value;
  if (auto error = ExplainJsonError(text, numbers)) return std::unexpected(std::move(*error));
  return Fail("json_syntax", fmt::format("the document of {} bytes cannot be read", text.size()));
}

}  // namespace noetl
