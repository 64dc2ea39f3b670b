// The few cryptographic operations of the project, over OpenSSL.
//
// Thin and hard to misuse: sizes are types, an open that fails gives nothing, and no function
// writes a secret into an error. A failure of OpenSSL itself (no memory, no randomness) is a broken
// invariant. Pure but for the randomness; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace noetl::crypto {

// Of AES-256, ChaCha20 and X25519 alike.
inline constexpr std::size_t kKeyBytes = 32;
// What both ciphers take; the tag is never cut short.
inline constexpr std::size_t kNonceBytes = 12;
inline constexpr std::size_t kTagBytes = 16;

using Key = std::array<unsigned char, kKeyBytes>;
using Nonce = std::array<unsigned char, kNonceBytes>;

// From the operating system's generator by way of OpenSSL, fit for keys.
void RandomBytes(std::span<unsigned char> out);

// Overwrites in a way that the compiler keeps. The text is empty afterwards.
void Wipe(std::span<unsigned char> bytes);
void Wipe(std::string& text);

// Wipes a text or a key at the end of a scope, whichever way it is left.
class WipeAtEnd {
 public:
  explicit WipeAtEnd(std::string& text) : text_(&text) {}
  explicit WipeAtEnd(Key& key) : key_(&key) {}
  ~WipeAtEnd() {
    if (text_ != nullptr) Wipe(*text_);
    if (key_ != nullptr) Wipe(*key_);
  }
  WipeAtEnd(const WipeAtEnd&) = delete;
  WipeAtEnd& operator=(const WipeAtEnd&) = delete;

 private:
  std::string* text_ = nullptr;
  Key* key_ = nullptr;
};

// The time it takes depends on the lengths only.
bool SameBytes(std::string_view a, std::string_view b);

inline std::string_view AsText(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// The key of exactly 32 bytes; nullopt otherwise.
std::optional<Key> KeyFrom(std::string_view bytes);

// Standard alphabet, padded. Decoding takes only what encoding gives: no blanks, no missing
// padding, no stray bits in the last character; so each text has one meaning and each meaning one
// text.
std::string Base64Encode(std::string_view bytes);
std::optional<std::string> Base64Decode(std::string_view text);
// The alphabet of tokens ('-' and '_'), without padding, as strict.
std::optional<std::string> Base64UrlDecode(std::string_view text);

// Authenticated encryption: the ciphertext is followed by its tag. A nonce is used once with a key.
// Open gives nothing when a bit of the key, nonce, ciphertext, tag or `aad` differs.
enum class Cipher : std::uint8_t { kAes256Gcm, kChaCha20Poly1305 };
std::string Seal(Cipher cipher, const Key& key, const Nonce& nonce, std::string_view plain,
                 std::string_view aad = "");
std::optional<std::string> Open(Cipher cipher, const Key& key, const Nonce& nonce,
                                std::string_view sealed, std::string_view aad = "");

// The same with a random nonce in front.
std::string SealWithNonce(Cipher cipher, const Key& key, std::string_view plain,
                          std::string_view aad = "");
std::optional<std::string> OpenWithNonce(Cipher cipher, const Key& key, std::string_view sealed,
                                         std::string_view aad = "");

// An empty salt is the same as none. At most 255 * 32 bytes.
std::string HkdfSha256(std::string_view secret, std::string_view salt, std::string_view info,
                       std::size_t bytes);

struct X25519Pair {
  Key private_key;
  Key public_key;
};
X25519Pair MakeX25519Pair();
Key X25519PublicOf(const Key& private_key);
// The shared secret. nullopt: the other side's key is one of the few that give zero.
std::optional<Key> X25519Derive(const Key& private_key, const Key& other_public_key);

}  // namespace noetl::crypto
