#include "base/crypto.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "base/sha256.h"

namespace noetl::crypto {
namespace {

std::string FromHex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

template <typename Array>
Array ArrayFrom(std::string_view hex) {
  const std::string bytes = FromHex(hex);
  Array out{};
  EXPECT_EQ(bytes.size(), out.size());
  std::ranges::copy(bytes, out.begin());
  return out;
}

Key KeyFromHex(std::string_view hex) { return ArrayFrom<Key>(hex); }
Nonce NonceFromHex(std::string_view hex) { return ArrayFrom<Nonce>(hex); }
std::string Hex(std::span<const unsigned char> bytes) { return HexText(AsText(bytes)); }

constexpr Cipher kCiphers[] = {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305};

// The test cases 13 to 16 for 256-bit keys of the GCM specification.
TEST(CryptoTest, AesGcmKnownAnswers) {
  const Key zeros{};
  EXPECT_EQ(HexText(Seal(Cipher::kAes256Gcm, zeros, Nonce{}, "")),
            "530f8afbc74536b9a963b4f1c4cb738b");
  EXPECT_EQ(HexText(Seal(Cipher::kAes256Gcm, zeros, Nonce{}, std::string(16, '\0'))),
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
  const Key key = KeyFromHex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const Nonce nonce = NonceFromHex("cafebabefacedbaddecaf888");
  const std::string plain = FromHex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
      "b525b16aedf5aa0de657ba637b39");
  const std::string aad = FromHex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const std::string sealed = Seal(Cipher::kAes256Gcm, key, nonce, plain, aad);
  EXPECT_EQ(
      HexText(sealed),
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b10"
      "56828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  EXPECT_EQ(Open(Cipher::kAes256Gcm, key, nonce, sealed, aad), plain);
}

// RFC 8439, 2.8.2.
TEST(CryptoTest, ChaCha20Poly1305KnownAnswer) {
  const Key key = KeyFromHex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
  const Nonce nonce = NonceFromHex("070000004041424344454647");
  const std::string aad = FromHex("50515253c0c1c2c3c4c5c6c7");
  const std::string plain =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
      "sunscreen would be it.";
  const std::string sealed = Seal(Cipher::kChaCha20Poly1305, key, nonce, plain, aad);
  EXPECT_EQ(
      HexText(sealed),
      "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69"
      "da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad67594"
      "5585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691");
  EXPECT_EQ(Open(Cipher::kChaCha20Poly1305, key, nonce, sealed, aad), plain);
}

// RFC 5869, A.1 to A.3.
TEST(CryptoTest, HkdfKnownAnswers) {
  const std::string secret(22, '\x0b');
  EXPECT_EQ(HexText(HkdfSha256(secret, FromHex("000102030405060708090a0b0c"),
                               FromHex("f0f1f2f3f4f5f6f7f8f9"), 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  std::string long_secret;
  std::string long_salt;
  std::string long_info;
  for (int i = 0; i < 80; ++i) {
    long_secret += static_cast<char>(i);
    long_salt += static_cast<char>(0x60 + i);
    long_info += static_cast<char>(0xb0 + i);
  }
  EXPECT_EQ(
      HexText(HkdfSha256(long_secret, long_salt, long_info, 82)),
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c6"
      "5e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
  EXPECT_EQ(HexText(HkdfSha256(secret, "", "", 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

// RFC 7748, 5.2 and 6.1.
TEST(CryptoTest, X25519KnownAnswers) {
  const auto derived =
      X25519Derive(KeyFromHex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
                   KeyFromHex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"));
  ASSERT_TRUE(derived);
  EXPECT_EQ(Hex(*derived), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  const Key bob = KeyFromHex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(Hex(X25519PublicOf(bob)),
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const auto shared = X25519Derive(
      bob, KeyFromHex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  ASSERT_TRUE(shared);
  EXPECT_EQ(Hex(*shared), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
}

TEST(CryptoTest, X25519BothSidesAgreeAndZeroKeysAreRefused) {
  const X25519Pair one = MakeX25519Pair();
  const X25519Pair two = MakeX25519Pair();
  EXPECT_NE(one.private_key, two.private_key);
  EXPECT_EQ(one.public_key, X25519PublicOf(one.private_key));
  const auto here = X25519Derive(one.private_key, two.public_key);
  ASSERT_TRUE(here);
  EXPECT_EQ(here, X25519Derive(two.private_key, one.public_key));
  EXPECT_FALSE(X25519Derive(one.private_key, Key{}));
  Key low{};
  low[0] = 1;
  EXPECT_FALSE(X25519Derive(one.private_key, low));
}

TEST(CryptoTest, EveryChangedByteFails) {
  for (const Cipher cipher : kCiphers) {
    Key key;
    RandomBytes(key);
    const std::string sealed = SealWithNonce(cipher, key, "a secret", "place");
    EXPECT_EQ(sealed.size(), kNonceBytes + 8 + kTagBytes);
    ASSERT_EQ(OpenWithNonce(cipher, key, sealed, "place"), "a secret");
    for (std::size_t i = 0; i < sealed.size(); ++i) {
      std::string changed = sealed;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(OpenWithNonce(cipher, key, changed, "place")) << i;
      EXPECT_FALSE(OpenWithNonce(cipher, key, sealed.substr(0, i), "place")) << i;
    }
    EXPECT_FALSE(OpenWithNonce(cipher, key, sealed, "elsewhere"));
    EXPECT_FALSE(OpenWithNonce(cipher, key, sealed));
    key[31] ^= 0x80;
    EXPECT_FALSE(OpenWithNonce(cipher, key, sealed, "place"));
  }
}

TEST(CryptoTest, EmptyTextsSealToo) {
  for (const Cipher cipher : kCiphers) {
    const std::string sealed = SealWithNonce(cipher, Key{}, "");
    EXPECT_EQ(OpenWithNonce(cipher, Key{}, sealed), "");
  }
}

TEST(CryptoTest, NoncesDiffer) {
  EXPECT_NE(SealWithNonce(Cipher::kAes256Gcm, Key{}, "x"),
            SealWithNonce(Cipher::kAes256Gcm, Key{}, "x"));
}

// RFC 4648, 10.
TEST(CryptoTest, Base64KnownAnswers) {
  const std::pair<std::string_view, std::string_view> cases[] = {{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : cases) {
    EXPECT_EQ(Base64Encode(plain), text);
    EXPECT_EQ(Base64Decode(text), plain);
  }
  EXPECT_EQ(Base64Encode("\xfb\xff"), "+/8=");
  EXPECT_EQ(Base64UrlDecode("-_8"), "\xfb\xff");
}

TEST(CryptoTest, Base64IsStrict) {
  for (const std::string_view text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n",
                                      "=Zg=", "====", "Zg==Zg==", "Zg=a", "-_8=", "Zm9\x80"}) {
    EXPECT_FALSE(Base64Decode(text)) << text;
  }
  for (const std::string_view text : {"Zg==", "+/8", "A", "Zh"}) {
    EXPECT_FALSE(Base64UrlDecode(text)) << text;
  }
}

TEST(CryptoTest, Base64RoundTrips) {
  EXPECT_TRUE(rc::check("decode undoes encode", [](const std::string& bytes) {
    RC_ASSERT(Base64Decode(Base64Encode(bytes)) == bytes);
  }));
  EXPECT_TRUE(rc::check("what decodes is what encodes", [](const std::string& noise) {
    const auto decoded = Base64Decode(noise);
    if (decoded) RC_ASSERT(Base64Encode(*decoded) == noise);
  }));
}

TEST(CryptoTest, ComparesAndWipes) {
  EXPECT_TRUE(SameBytes("abc", "abc"));
  EXPECT_FALSE(SameBytes("abc", "abd"));
  EXPECT_FALSE(SameBytes("abc", "ab"));
  EXPECT_TRUE(SameBytes("", ""));
  Key key;
  key.fill(7);
  Wipe(key);
  EXPECT_EQ(key, Key{});
  std::string text = "a secret that is longer than the small buffer of a string";
  Wipe(text);
  EXPECT_TRUE(text.empty());
  text.resize(text.capacity());
  EXPECT_EQ(text, std::string(text.size(), '\0'));
}

}  // namespace
}  // namespace noetl::crypto
