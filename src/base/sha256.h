// SHA-256, for checksums and content addresses.
//
// `Sha256` and `Sha256Hex` hash one text; `Sha256Hasher` takes it in pieces. A hasher belongs to
// one thread at a time; the functions may be called from any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace noetl {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(Sha256Hasher&&) noexcept;
  Sha256Hasher& operator=(Sha256Hasher&&) noexcept;

  void Update(std::string_view bytes);
  // The digest of all bytes so far. The hasher starts over afterwards.
  Sha256Digest Finish();
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest Sha256(std::string_view bytes);
// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// Lower-case hexadecimal digits of any bytes.
std::string HexText(std::string_view bytes);

}  // namespace noetl
