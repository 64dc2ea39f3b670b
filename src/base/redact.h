// Hides credentials in what people are shown.
//
// What is stored stays whole; only views go through here. Hidden is the value of a key whose name
// is exactly one of a secret ("password", "api_key" ...; case and dashes do not matter), and every
// part of a text that has the shape of a credential: `Bearer` and `Basic` headers, JWTs and PEM
// blocks. Other data is left alone: a value that only resembles a secret is somebody's business
// data. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace noetl {

// What stands in the place of a secret.
inline constexpr std::string_view kRedacted = "***";

bool IsSecretKey(std::string_view key);
Json Redact(const Json& value);
std::string RedactText(std::string_view text);

// The same for a text that arrives in pieces: lines are given out when they are whole, and a PEM
// block is hidden although it has many lines. One thread.
class TextRedactor {
 public:
  // Longer lines are given out in parts.
  static constexpr std::size_t kLineBytesMax = 64u << 10;

  std::string Next(std::string_view piece);
  // What is left at the end.
  std::string End();

 private:
  std::string Line(std::string_view line);

  std::string rest_;
  bool in_block_ = false;
};

}  // namespace noetl
