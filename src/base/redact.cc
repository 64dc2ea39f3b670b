#include "base/redact.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_io.h"

namespace noetl {

namespace {

// Sorted, lower case, with underscores.
constexpr std::array<std::string_view, 21> kSecretKeys = {"access_token",
                                                          "api_key",
                                                          "apikey",
                                                          "auth_token",
                                                          "authorization",
                                                          "client_secret",
                                                          "connection_string",
                                                          "cookie",
                                                          "id_token",
                                                          "passphrase",
                                                          "passwd",
                                                          "password",
                                                          "private_key",

                                                          "pwd",
                                                          "refresh_token",
                                                          "secret",
                                                          "secret_key",
                                                          "session_token",
                                                          "set_cookie",
                                                          "token",
                                                          "x_api_key"};
static_assert(std::ranges::is_sorted(kSecretKeys));
constexpr std::size_t kKeyBytesMax = 32;

// A shorter word after "Bearer" is prose.
constexpr std::size_t kBearerBytesMin = 16;
// Parts of a JWT; the shortest header is longer.
constexpr std::size_t kJwtPartMin = 8;

constexpr std::string_view kPemBegin = "-----BEGIN ";
constexpr std::string_view kPemEnd = "-----END ";
constexpr std::string_view kDashes = "-----";

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool IsTokenByte(char c) {
  return IsAlnum(c) || std::string_view("-._~+/=").find(c) != std::string_view::npos;
}
bool IsUrlBase64(char c) { return IsAlnum(c) || c == '-' || c == '_'; }

bool StartsWithWord(std::string_view text, std::string_view lower_word) {
  if (text.size() < lower_word.size()) return false;
  return std::equal(lower_word.begin(), lower_word.end(), text.begin(),
                    [](char a, char b) { return a == Lower(b); });
}

template <typename Test>
std::size_t CountWhile(std::string_view text, Test test) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, test) - text.begin());
}

// Whether the text is base64 of "user:password": what a Basic header holds.
bool IsBasicPair(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::uint32_t bits = 0;
  int count = 0;
  bool colon = false;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return false;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    const auto byte = static_cast<unsigned char>(bits >> count);
    if (byte < 0x20 || byte == 0x7f) return false;
    if (byte == ':') colon = true;
  }
  return colon;
}

// A part of the text that is shown, and one that is hidden.
struct Found {
  std::size_t shown = 0;
  std::size_t hidden = 0;
};

std::optional<Found> FindHeader(std::string_view text, std::string_view scheme, bool basic) {
  if (!StartsWithWord(text, scheme)) return std::nullopt;
  const std::size_t blanks =
      CountWhile(text.substr(scheme.size()), [](char c) { return c == ' '; });
  if (blanks == 0) return std::nullopt;
  const std::size_t start = scheme.size() + blanks;
  const std::size_t length = CountWhile(text.substr(start), IsTokenByte);
  const std::string_view token = text.substr(start, length);
  if (basic ? !IsBasicPair(token) : token.size() < kBearerBytesMin) return std::nullopt;
  return Found{start, length};
}

std::optional<Found> FindJwt(std::string_view text) {
  if (!text.starts_with("eyJ")) return std::nullopt;
  std::size_t end = 0;
  for (int part = 0; part < 3; ++part) {
    if (part > 0) {
      if (end >= text.size() || text[end] != '.') return std::nullopt;
      ++end;
    }
    const std::size_t length = CountWhile(text.substr(end), IsUrlBase64);
    if (length < kJwtPartMin && part < 2) return std::nullopt;
    end += length;
  }
  return Found{0, end};
}

// To the end of the text when the block is cut off: half of a key is a secret too.
std::optional<Found> FindPem(std::string_view text) {
  if (!text.starts_with(kPemBegin)) return std::nullopt;
  const std::size_t label = text.find(kDashes, kPemBegin.size());
  if (label == std::string_view::npos) return std::nullopt;
  const std::size_t shown = label + kDashes.size();
  const std::size_t end = text.find(kPemEnd, shown);
  const std::size_t hidden = (end == std::string_view::npos ? text.size() : end) - shown;
  return Found{shown, hidden};
}

std::optional<Found> FindAt(std::string_view text, bool at_word) {
  switch (text[0]) {
    case 'B':
    case 'b':
      if (!at_word) return std::nullopt;
      if (auto found = FindHeader(text, "bearer", false)) return found;
      return FindHeader(text, "basic", true);
    case 'e': return at_word ? FindJwt(text) : std::nullopt;
    case '-': return FindPem(text);
    default: return std::nullopt;
  }
}

Json RedactAt(const Json& value, std::size_t depth) {
  if (value.is_string()) {
    const std::string text = RedactText(value.AsString());
    return text == value.AsString() ? value : Json(text);
  }
  if (!value.is_container() || depth > kJsonDepthMax) return value;
  if (value.is_array()) {
    std::vector<Json> items;
    items.reserve(value.size());
    for (const Json& item : value.items()) items.push_back(RedactAt(item, depth + 1));
    return Json::Array(std::move(items));
  }
  Json::Members members;
  members.reserve(value.size());
  for (const JsonMember& member : value.members()) {
    const Json& content = member.value;
    // Nothing is given away by an empty value or a yes or no.
    const bool empty = content.is_null() || content.is_bool() ||
                       (content.is_string() && content.AsString().empty());
    const bool secret = !empty && IsSecretKey(member.key());
    members.emplace_back(member.key_json(),
                         secret ? Json(kRedacted) : RedactAt(content, depth + 1));
  }
  return Json::Object(std::move(members));
}

}  // namespace

bool IsSecretKey(std::string_view key) {
  if (key.size() > kKeyBytesMax) return false;
  std::string name(key);
  std::ranges::transform(name, name.begin(), [](char c) { return c == '-' ? '_' : Lower(c); });
  return std::ranges::binary_search(kSecretKeys, std::string_view(name));
}

Json Redact(const Json& value) { return RedactAt(value, 0); }

std::string RedactText(std::string_view text) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const bool at_word = i == 0 || !IsAlnum(text[i - 1]);
    const std::optional<Found> found = FindAt(text.substr(i), at_word);
    if (!found) {
      ++i;
      continue;
    }
    out += text.substr(copied, i + found->shown - copied);
    out += kRedacted;
    i += found->shown + found->hidden;
    copied = i;
    if (found->shown + found->hidden == 0) ++i;
  }
  if (copied == 0) return std::string(text);
  return out += text.substr(copied);
}

std::string TextRedactor::Line(std::string_view line) {
  if (in_block_) {
    const std::size_t end = line.find(kPemEnd);
    if (end == std::string_view::npos) return "";
    in_block_ = false;
    return std::string(kRedacted) + "\n" + RedactText(line.substr(end));
  }
  const std::size_t begin = line.rfind(kPemBegin);
  if (begin != std::string_view::npos && line.find(kPemEnd, begin) == std::string_view::npos &&
      line.find(kDashes, begin + kPemBegin.size()) != std::string_view::npos) {
    in_block_ = true;
    const std::size_t label = line.find(kDashes, begin + kPemBegin.size()) + kDashes.size();
    return RedactText(line.substr(0, begin)) + std::string(line.substr(begin, label - begin)) +
           "\n";
  }
  return RedactText(line);
}

std::string TextRedactor::Next(std::string_view piece) {
  std::string out;
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    const std::size_t take =
        std::min(newline == std::string_view::npos ? piece.size() : newline + 1,
                 kLineBytesMax - rest_.size());
    rest_ += piece.substr(0, take);
    piece.remove_prefix(take);
    if (rest_.back() != '\n' && rest_.size() < kLineBytesMax) break;
    out += Line(rest_);
    rest_.clear();
  }
  return out;
}

std::string TextRedactor::End() {
  std::string out = rest_.empty() ? "" : Line(rest_);
  rest_.clear();
  if (in_block_) out += kRedacted;
  in_block_ = false;
  return out;
}

}  // namespace noetl
