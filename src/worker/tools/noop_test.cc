#include <gtest/gtest.h>

#include <optional>

#include "base/json_io.h"
#include "worker/tools/registry.h"

namespace noetl::worker {
namespace {

std::string Answer(std::string_view config) {
  const std::unique_ptr<Tool> tool = MakeNoop({});
  std::optional<ToolAnswer> answer;
  ToolCall call;
  call.config = *ParseJson(config);
  EXPECT_EQ(tool->Start(std::move(call), [&](ToolAnswer got) { answer = std::move(got); }),
            nullptr);
  EXPECT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->outcome.ok);
  EXPECT_FALSE(answer->hard);
  return WriteJson(answer->outcome.payload);
}

TEST(Noop, AnswersWithItsResultOrAMessage) {
  EXPECT_EQ(Answer("null"), R"({"status":"ok","message":"noop"})");
  EXPECT_EQ(Answer(R"({"message": "hello"})"), R"({"status":"ok","message":"hello"})");
  EXPECT_EQ(Answer(R"({"result": [1, {"a": 2}], "message": "x"})"), R"([1,{"a":2}])");
  EXPECT_EQ(Answer(R"({"result": null})"), "null");
}

}  // namespace
}  // namespace noetl::worker
