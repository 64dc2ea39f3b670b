#include "worker/masking.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json_io.h"

namespace noetl::worker {
namespace {

TEST(Masking, HidesInTextAndSparesBusinessData) {
  Masking mask;
  mask.Add("postgres");
  mask.Add("tiny");
  mask.Add("a-very-long-secret-value");
  EXPECT_EQ(mask.Text("user postgres, tiny"), "user ***, tiny");
  const Json value = ParseJson(R"({"a": "postgres", "b": "the postgres manual",
                                   "c": ["x a-very-long-secret-value y", 7], "d": "tiny"})")
                         .value();
  EXPECT_EQ(WriteJson(mask.Result(value)),
            R"({"a":"***","b":"the postgres manual","c":["x *** y",7],"d":"tiny"})");
}

TEST(Masking, ASecretInPiecesIsHidden) {
  const bool ok = rc::check("however the text is cut", [] {
    const std::string secret = "secretsecret!";
    const auto before =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("sec ret")));
    const auto after = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("sec ret")));
    const std::string text = before + secret + after;
    Masking mask;
    mask.Add(secret);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const auto length = *rc::gen::inRange<std::size_t>(1, 9);
      shown += mask.Piece(0, std::string_view(text).substr(at, length));
      at += length;
    }
    shown += mask.Rest(0);
    RC_ASSERT(shown == before + "***" + after);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace noetl::worker
