#include "worker/remote/sealed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/remote/sealed_testing.h"

namespace noetl::worker {
namespace {

using testing::HasSubstr;

constexpr std::string_view kCredential = R"({"name":"pg","type":"postgres","data":{"p":"s3cr3t"}})";

TEST(SealKeyTest, OpensWhatWasSealedToIt) {
  const SealKey key;
  const Json sealed = SealTo(key.public_text(), kCredential);
  const Result<Json> opened = key.Open(sealed);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(*opened, *ParseJson(kCredential));
  // Nobody else does, not even another process of this worker.
  const SealKey other;
  EXPECT_NE(other.public_text(), key.public_text());
  const Result<Json> refused = other.Open(sealed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "sealed");
  EXPECT_THAT(refused.error().message, HasSubstr("another key"));
}

TEST(SealKeyTest, SaysWhatIsWrong) {
  const SealKey key;
  const Json good = SealTo(key.public_text(), kCredential);
  const auto message = [&](std::string_view member, Json value) {
    const Result<Json> opened = key.Open(good.With(member, std::move(value)));
    EXPECT_FALSE(opened) << member;
    EXPECT_TRUE(opened || opened.error().code == "sealed");
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_THAT(message("alg", "x25519-aes"), HasSubstr("algorithm is 'x25519-aes'"));
  EXPECT_THAT(message("alg", Json()), HasSubstr("algorithm is ''"));
  EXPECT_THAT(message("v", 2), HasSubstr("version is 2, not 1"));
  EXPECT_THAT(message("v", "1"), HasSubstr("version"));
  EXPECT_THAT(message("eph_pub", "AAAA"), HasSubstr("eph_pub is not base64 of 32 bytes"));
  EXPECT_THAT(message("eph_pub", "!"), HasSubstr("eph_pub"));
  EXPECT_THAT(message("eph_pub", crypto::Base64Encode(std::string(32, '\0'))),
              HasSubstr("eph_pub is not a key"));
  EXPECT_THAT(message("ciphertext", "AAAA"), HasSubstr("ciphertext"));
  EXPECT_THAT(message("ciphertext", Json()), HasSubstr("ciphertext"));
  EXPECT_FALSE(key.Open(Json("text")));
  const Result<Json> no_map = key.Open(SealTo(key.public_text(), "[1]"));
  ASSERT_FALSE(no_map);
  EXPECT_THAT(no_map.error().message, HasSubstr("not a credential"));
}

TEST(SealKeyTest, OneChangedBitIsEnough) {
  const SealKey key;
  const Json good = SealTo(key.public_text(), kCredential);
  const std::string bytes = *crypto::Base64Decode(good["ciphertext"].AsString());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const Result<Json> opened = key.Open(good.With("ciphertext", crypto::Base64Encode(changed)));
    ASSERT_FALSE(opened) << i;
    EXPECT_THAT(opened.error().message, HasSubstr("changed on its way"));
    EXPECT_THAT(opened.error().message, testing::Not(HasSubstr("s3cr3t")));
  }
}

}  // namespace
}  // namespace noetl::worker
