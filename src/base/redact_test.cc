#include "base/redact.h"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"

namespace noetl {
namespace {

constexpr std::string_view kJwt =
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N";
constexpr std::string_view kPem =
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nabcd\n-----END PRIVATE KEY-----\n";
constexpr std::string_view kPemHidden =
    "-----BEGIN PRIVATE KEY-----\n***\n-----END PRIVATE KEY-----\n";

TEST(Redact, KeysAreExactNames) {
  for (const char* key : {"password", "Password", "X-Api-Key", "Set-Cookie", "AUTHORIZATION",
                          "client_secret", "connection_string", "pwd", "id-token"}) {
    EXPECT_TRUE(IsSecretKey(key)) << key;
  }
  for (const char* key : {"token_count", "passwords", "secretary", "", "key", "tokens", "author",
                          "a_name_that_is_longer_than_every_name_of_a_secret"}) {
    EXPECT_FALSE(IsSecretKey(key)) << key;
  }
}

TEST(Redact, ValuesOfSecretKeysAreHiddenAtAnyDepth) {
  const Json value = *ParseJson(
      R"({"user":"u","password":"p","a":[{"Token":12}],"secret":{"x":1},"pwd":"","token":null,)"
      R"("cookie":false})");
  EXPECT_EQ(WriteJson(Redact(value)),
            R"({"user":"u","password":"***","a":[{"Token":"***"}],"secret":"***","pwd":"",)"
            R"("token":null,"cookie":false})");
}

TEST(Redact, ShapesInTexts) {
  const std::string jwt(kJwt);
  EXPECT_EQ(RedactText("curl -H 'Authorization: Bearer abcdefghijklmnop' x"),
            "curl -H 'Authorization: Bearer ***' x");
  EXPECT_EQ(RedactText("Basic dXNlcjpwYXNz"), "Basic ***");
  EXPECT_EQ(RedactText("at " + jwt + ", and"), "at ***, and");
  EXPECT_EQ(RedactText(std::string(kPem) + "rest"),
            "-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----\nrest");
  EXPECT_EQ(RedactText("-----BEGIN X-----\nhalf"), "-----BEGIN X-----***");
}

TEST(Redact, BusinessDataSurvives) {
  for (const char* text :
       {"Basic training", "basic internet", "the bearer of news", "Bearer", "Bearer ", "eyJ.eyJ.x",
        "eyJhbGciOiJIUzI1NiJ9", "-----BEGIN", "-----", "", "beyJhbGciOi", "Basic dXNlcg=="}) {
    EXPECT_EQ(RedactText(text), text);
  }
}

TEST(Redact, UnchangedTextsWithoutShapes) {
  EXPECT_TRUE(rc::check("texts of other letters stay", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange('f', 'z'));
    RC_ASSERT(RedactText(text) == text);
  }));
}

TEST(Redact, PiecesGiveTheSameAsTheWhole) {
  const std::string text =
      "one\nBearer abcdefghijklmnopq\n" + std::string(kPem) + "two " + std::string(kJwt) + "\nlast";
  const std::string expected = "one\nBearer ***\n" + std::string(kPemHidden) + "two ***\nlast";
  EXPECT_TRUE(rc::check("wherever it is cut", [&] {
    TextRedactor redactor;
    std::string out;
    std::size_t at = 0;
    while (at < text.size()) {
      const auto take = *rc::gen::inRange<std::size_t>(1, 40);
      out += redactor.Next(std::string_view(text).substr(at, take));
      at += take;
    }
    RC_ASSERT(out + redactor.End() == expected);
  }));
}

TEST(Redact, EndlessLinesAreGivenOutInParts) {
  TextRedactor redactor;
  const std::string text(TextRedactor::kLineBytesMax + 5, 'x');
  EXPECT_EQ(redactor.Next(text).size(), TextRedactor::kLineBytesMax);
  EXPECT_EQ(redactor.End().size(), 5u);
}

TEST(Redact, ABlockThatIsCutOffStaysHidden) {
  TextRedactor redactor;
  EXPECT_EQ(redactor.Next("-----BEGIN K-----\nsecret\n"), "-----BEGIN K-----\n");
  EXPECT_EQ(redactor.End(), "***");
}

}  // namespace
}  // namespace noetl
