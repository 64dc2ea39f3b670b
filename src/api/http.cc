#include "api/http.h"

#include "base/text.h"

namespace noetl::api {
namespace {

char LowerAscii(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return LowerAscii(x) == LowerAscii(y);
         });
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = LowerAscii(digit);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// What never needs an escape in any part of a URL.
}  // namespace

std::string_view Headers::Find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (SameName(entry.first, name)) return entry.second;
  }
  return {};
}

bool Headers::Has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return SameName(entry.first, name); });
}

void Headers::Add(std::string name, std::string value) {
  entries_.emplace_back(std::move(name), std::move(value));
}

void Headers::Set(std::string name, std::string value) {
  std::erase_if(entries_, [&](const Entry& entry) { return SameName(entry.first, name); });
  Add(std::move(name), std::move(value));
}

std::optional<std::string> DecodeUrl(std::string_view text, bool query) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && query) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      if (text.size() - i < 3) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (FirstInvalidUtf8(decoded)) return std::nullopt;
  return decoded;
}

std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query) {
  const auto decode = [](std::string_view text) {
    return DecodeUrl(text, true).value_or(std::string(text));
  };
  std::vector<std::pair<std::string, std::string>> members;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view member = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (member.empty()) continue;
    const std::size_t equals = std::min(member.find('='), member.size());
    const std::string_view value = member.substr(std::min(equals + 1, member.size()));
    members.emplace_back(decode(member.substr(0, equals)), decode(value));
  }
  return members;
}

}  // namespace noetl::api
