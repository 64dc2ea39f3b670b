#include "store/reference.h"

#include <gtest/gtest.h>

#include "store/rows.h"

namespace noetl::store {
namespace {

TEST(Reference, ReadsTheThreeKinds) {
  const auto result = ParseReference("noetl://execution/5/result/load/rows/77");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->kind, Reference::Kind::kResult);
  EXPECT_EQ(result->execution_id, 5);
  EXPECT_EQ(result->name, "load/rows");
  EXPECT_EQ(result->id, 77);
  const auto command = ParseReference("noetl://execution/5/command/78");
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(command->kind, Reference::Kind::kCommand);
  EXPECT_EQ(command->name, "");
  EXPECT_EQ(command->id, 78);
  const auto loop = ParseReference("noetl://execution/5/loop/each/2");
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->kind, Reference::Kind::kLoop);
  EXPECT_EQ(loop->name, "each");
  EXPECT_EQ(loop->id, 2);
}

TEST(Reference, RefusesEverythingElse) {
  for (const char* text :
       {"", "noetl://", "noetl://execution/", "noetl://execution/5", "noetl://execution/5/result",
        "noetl://execution/5/result/77", "noetl://execution/5/result//77",
        "noetl://execution/5/result/a/", "noetl://execution/5/result/a/b",
        "noetl://execution/x/result/a/1", "noetl://execution/-5/result/a/1",
        "noetl://execution/05/result/a/1", "noetl://execution/5/other/a/1",
        "noetl://execution/5/command/a/1", "noetl://execution/5/command/",
        "noetl://execution/5/result/a/99999999999999999999", "http://execution/5/result/a/1",
        "noetl://execution/5/result/a/1 "}) {
    EXPECT_FALSE(ParseReference(text).has_value()) << text;
  }
}

TEST(Rows, StatusNamesGoBothWays) {
  for (const char* name : {"PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"}) {
    const auto status = CommandStatusOf(name);
    ASSERT_TRUE(status.has_value()) << name;
    EXPECT_EQ(CommandStatusName(*status), name);
  }
  EXPECT_FALSE(CommandStatusOf("pending").has_value());
  EXPECT_TRUE(IsOpen(CommandStatus::kRunning));
  EXPECT_FALSE(IsOpen(CommandStatus::kCompleted));
}

TEST(Rows, BytesGrowWithWhatIsStored) {
  UnitRows unit;
  const std::size_t empty = unit.Bytes();
  unit.bodies.push_back({"noetl://execution/5/result/a/1", std::string(1000, 'x')});
  EXPECT_GT(unit.Bytes(), empty + 1000);
  unit.events.emplace_back().meta = std::string(500, 'x');
  EXPECT_GT(unit.Bytes(), empty + 1500);
}

}  // namespace
}  // namespace noetl::store
