#include "base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace noetl::crypto {
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Freer<&EVP_CIPHER_CTX_free>>;
using PrivateOrPublic = std::unique_ptr<EVP_PKEY, Freer<&EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freer<&EVP_PKEY_CTX_free>>;
using Kdf = std::unique_ptr<EVP_KDF, Freer<&EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, Freer<&EVP_KDF_CTX_free>>;

constexpr std::size_t kHkdfBytesMax = std::size_t{255} * 32;
constexpr std::string_view kStandardAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

int Length(std::string_view text) {
  NOETL_CHECK(text.size() <= INT_MAX - kTagBytes, "too long for the cipher");
  return static_cast<int>(text.size());
}

const EVP_CIPHER* Algorithm(Cipher cipher) {
  return cipher == Cipher::kAes256Gcm ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
}

CipherContext StartCipher(Cipher cipher, const Key& key, const Nonce& nonce, std::string_view aad,
                          int encrypt) {
  CipherContext context(EVP_CIPHER_CTX_new());
  NOETL_CHECK(context != nullptr, "no memory for a cipher");
  // Both ciphers take nonces of kNonceBytes by default.
  NOETL_CHECK(EVP_CipherInit_ex(context.get(), Algorithm(cipher), nullptr, key.data(), nonce.data(),
                                encrypt) == 1,
              "the cipher does not start");
  int ignored = 0;
  if (!aad.empty()) {
    NOETL_CHECK(EVP_CipherUpdate(context.get(), nullptr, &ignored, Bytes(aad), Length(aad)) == 1,
                "the cipher takes no associated data");
  }
  return context;
}

std::string Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? Bytes(bytes)[i + j] : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= count ? kStandardAlphabet[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

// `text` without padding.
std::optional<std::string> Decode(std::string_view text, std::string_view alphabet) {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  if ((bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return out;
}

Key PublicOf(EVP_PKEY* key) {
  Key out;
  std::size_t length = out.size();
  NOETL_CHECK(EVP_PKEY_get_raw_public_key(key, out.data(), &length) == 1 && length == out.size(),
              "no public key");
  return out;
}

PrivateOrPublic PrivateFrom(const Key& key) {
  PrivateOrPublic out(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, key.data(), key.size()));
  NOETL_CHECK(out != nullptr, "no private key");
  return out;
}

}  // namespace

void RandomBytes(std::span<unsigned char> out) {
  NOETL_CHECK(out.size() <= INT_MAX && RAND_bytes(out.data(), static_cast<int>(out.size())) == 1,
              "the system gives no random numbers");
}

void Wipe(std::span<unsigned char> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

void Wipe(std::string& text) {
  // Up to the capacity: a text that was shortened has left its end behind.
  text.resize(text.capacity());
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

bool SameBytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<Key> KeyFrom(std::string_view bytes) {
  Key key;
  if (bytes.size() != key.size()) return std::nullopt;
  std::memcpy(key.data(), bytes.data(), key.size());
  return key;
}

std::string Base64Encode(std::string_view bytes) { return Encode(bytes); }

std::optional<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return Decode(text, kStandardAlphabet);
}

std::optional<std::string> Base64UrlDecode(std::string_view text) {
  return Decode(text, kUrlAlphabet);
}

std::string Seal(Cipher cipher, const Key& key, const Nonce& nonce, std::string_view plain,
                 std::string_view aad) {
  const CipherContext context = StartCipher(cipher, key, nonce, aad, 1);
  std::string out(plain.size() + kTagBytes, '\0');
  int written = 0;
  NOETL_CHECK(
      EVP_CipherUpdate(context.get(), Bytes(out), &written, Bytes(plain), Length(plain)) == 1,
      "the cipher does not encrypt");
  int rest = 0;
  NOETL_CHECK(EVP_CipherFinal_ex(context.get(), Bytes(out) + written, &rest) == 1 &&
                  static_cast<std::size_t>(written + rest) == plain.size(),
              "the cipher does not end");
  NOETL_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes,
                                  Bytes(out) + plain.size()) == 1,
              "the cipher gives no tag");
  return out;
}

std::optional<std::string> Open(Cipher cipher, const Key& key, const Nonce& nonce,
                                std::string_view sealed, std::string_view aad) {
  if (sealed.size() < kTagBytes) return std::nullopt;
  const std::string_view text = sealed.substr(0, sealed.size() - kTagBytes);
  std::string tag(sealed.substr(text.size()));
  const CipherContext context = StartCipher(cipher, key, nonce, aad, 0);
  // The cipher wants a place to write to even for an empty text.
  std::string out(text.size() + 1, '\0');
  int written = 0;
  int rest = 0;
  const bool opened =
      EVP_CipherUpdate(context.get(), Bytes(out), &written, Bytes(text), Length(text)) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, Bytes(tag)) == 1 &&
      EVP_CipherFinal_ex(context.get(), Bytes(out) + written, &rest) == 1;
  if (!opened) {
    Wipe(out);
    return std::nullopt;
  }
  out.resize(text.size());
  return out;
}

std::string SealWithNonce(Cipher cipher, const Key& key, std::string_view plain,
                          std::string_view aad) {
  Nonce nonce;
  RandomBytes(nonce);
  return std::string(AsText(nonce)) + Seal(cipher, key, nonce, plain, aad);
}

std::optional<std::string> OpenWithNonce(Cipher cipher, const Key& key, std::string_view sealed,
                                         std::string_view aad) {
  Nonce nonce;
  if (sealed.size() < nonce.size()) return std::nullopt;
  std::memcpy(nonce.data(), sealed.data(), nonce.size());
  return Open(cipher, key, nonce, sealed.substr(nonce.size()), aad);
}

std::string HkdfSha256(std::string_view secret, std::string_view salt, std::string_view info,
                       std::size_t bytes) {
  NOETL_CHECK(bytes > 0 && bytes <= kHkdfBytesMax, "HKDF cannot give that many bytes");
  const Kdf kdf(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr));
  NOETL_CHECK(kdf != nullptr, "OpenSSL has no HKDF");
  const KdfContext context(EVP_KDF_CTX_new(kdf.get()));
  NOETL_CHECK(context != nullptr, "no memory for HKDF");
  const auto octets = [](const char* name, std::string_view value) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(value.data()), value.size());
  };
  char digest[] = "SHA256";
  std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, secret), octets(OSSL_KDF_PARAM_INFO, info),
      OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
  if (!salt.empty()) parameters[3] = octets(OSSL_KDF_PARAM_SALT, salt);
  std::string out(bytes, '\0');
  NOETL_CHECK(EVP_KDF_derive(context.get(), Bytes(out), out.size(), parameters.data()) == 1,
              "HKDF fails");
  return out;
}

X25519Pair MakeX25519Pair() {
  const PrivateOrPublic made(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  NOETL_CHECK(made != nullptr, "no new key");
  X25519Pair pair;
  std::size_t length = pair.private_key.size();
  NOETL_CHECK(EVP_PKEY_get_raw_private_key(made.get(), pair.private_key.data(), &length) == 1 &&
                  length == pair.private_key.size(),
              "no private key");
  pair.public_key = PublicOf(made.get());
  return pair;
}

Key X25519PublicOf(const Key& private_key) { return PublicOf(PrivateFrom(private_key).get()); }

std::optional<Key> X25519Derive(const Key& private_key, const Key& other_public_key) {
  const PrivateOrPublic own = PrivateFrom(private_key);
  const PrivateOrPublic other(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_X25519, nullptr, other_public_key.data(), other_public_key.size()));
  NOETL_CHECK(other != nullptr, "no public key");
  const KeyContext context(EVP_PKEY_CTX_new(own.get(), nullptr));
  NOETL_CHECK(context != nullptr && EVP_PKEY_derive_init(context.get()) == 1, "X25519 fails");
  Key secret;
  std::size_t length = secret.size();
  // OpenSSL refuses a result of zeros.
  if (EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), secret.data(), &length) != 1 || length != secret.size()) {
    return std::nullopt;
  }
  return secret;
}

}  // namespace noetl::crypto
