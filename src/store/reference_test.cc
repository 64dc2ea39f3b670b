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

TEST(ObjectReference, NamesTheEndOfAKey) {
  const auto ref = ParseObjectReference("noetl://acme/main/results/42/load/3/17/1");
  ASSERT_TRUE(ref.has_value());
  EXPECT_EQ(ref->tenant, "acme");
  EXPECT_EQ(ref->project, "main");
  EXPECT_EQ(ref->tail, "execution=42/results/load/3/17/1.json");
  EXPECT_TRUE(ref->Fits("noetl/env=dev/execution=42/results/load/3/17/1.json"));
  EXPECT_TRUE(ref->Fits("noetl/tenant=acme/project=main/date=2026-01-01/execution=42/results"));
  EXPECT_FALSE(ref->Fits("noetl/tenant=other/project=main/execution=42/results"));
  EXPECT_FALSE(ref->Fits("noetl/tenant=acme/project=other/execution=42/results"));
  for (const std::string_view wrong :
       {"", "noetl://", "x://acme/main/results/42/load/3/17/1",
        "noetl://acme/main/results/42/load/3/17", "noetl://acme/main/results/42/load/3/17/1/2",
        "noetl://acme/main/result/42/load/3/17/1", "noetl://acme/main/results/x/load/3/17/1",
        "noetl://acme/main/results/0/load/3/17/1", "noetl://acme/main/results/-4/load/3/17/1",
        "noetl://acme/main/results/42//3/17/1", "noetl://acme/main/results/42/../3/17/1",
        "noetl://acme/main/results/42/load/x/17/1"}) {
    EXPECT_FALSE(ParseObjectReference(wrong).has_value()) << wrong;
  }
}

TEST(Reference, NamesOfResultsAreEncoded) {
  EXPECT_EQ(ResultReference(5, "load_rows", 9), "noetl://execution/5/result/load_rows/9");
  EXPECT_EQ(ResultReference(5, "a/b", 9), "noetl://execution/5/result/a/b/9");
  EXPECT_EQ(ResultReference(5, "a b%/ü", 9), "noetl://execution/5/result/a%20b%25/%C3%BC/9");
  for (const std::string_view name : {"x", "a/b", "a b", "%2F", "/", "a/", "//", "100%", "ü?&#"}) {
    const auto ref = ParseReference(ResultReference(5, name, 9));
    ASSERT_TRUE(ref.has_value()) << name;
    EXPECT_EQ(ref->id, 9);
    EXPECT_TRUE(IsNamed(ref->name, name)) << name;
    EXPECT_TRUE(IsNamed(name, name));
    EXPECT_FALSE(IsNamed(ref->name, "other"));
  }
}

TEST(ObjectTail, BeginsWithTheRun) {
  EXPECT_EQ(ObjectTail("a/b/execution=4/x.json"), "execution=4/x.json");
  EXPECT_EQ(ObjectTail("execution=4/execution=5/x"), "execution=4/execution=5/x");
  EXPECT_EQ(ObjectTail("a/myexecution=4/x"), "");
  EXPECT_EQ(ObjectTail("plain"), "");
}

}  // namespace
}  // namespace noetl::store
