#include "base/sha256.h"

#include <gtest/gtest.h>

namespace noetl {
namespace {

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("{}"), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
  EXPECT_EQ(Sha256("abc")[0], 0xba);
}

TEST(Sha256Hasher, PiecesAndReuse) {
  Sha256Hasher hasher;
  hasher.Update("a");
  hasher.Update("");
  hasher.Update("bc");
  EXPECT_EQ(hasher.FinishHex(), Sha256Hex("abc"));
  hasher.Update("abc");
  EXPECT_EQ(hasher.Finish(), Sha256("abc"));
}

TEST(HexText, LowerCase) { EXPECT_EQ(HexText(std::string_view("\x00\xfa", 2)), "00fa"); }

}  // namespace
}  // namespace noetl
