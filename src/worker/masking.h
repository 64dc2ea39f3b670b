// Hides the secrets that a command was given, wherever its tool shows them.
//
// Only values that the vault itself gave out for this command are known here. In text (logs, errors)
// each of six or more characters is hidden wherever it stands; in results, which are business data,
// only a text that is a secret, or holds one of sixteen or more. Lives with one command, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace noetl::worker {

class Masking {
 public:
  static constexpr std::string_view kMask = "***";
  // A shorter one would hide innocent words.
  static constexpr std::size_t kTextMin = 6;
  static constexpr std::size_t kInsideMin = 16;

  void Add(std::string secret);
  bool empty() const { return secrets_.empty(); }

  std::string Text(std::string_view text) const;
  // The value itself when nothing is hidden in it.
  Json Result(const Json& value) const;

  // Text that comes in pieces: what may be the beginning of a secret is kept back until the next
  // piece, or the end.
  std::string Piece(std::size_t stream, std::string_view text);
  std::string Rest(std::size_t stream);

 private:
  std::vector<std::string> secrets_;  // longest first
  std::array<std::string, 2> kept_;
};

}  // namespace noetl::worker
