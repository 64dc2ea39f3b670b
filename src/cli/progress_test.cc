#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <rapidcheck.h>

#include "base/json_io.h"
#include "base/text.h"

namespace noetl::cli {
namespace {

using engine::Event;
using engine::EventType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kRun = 10;
constexpr std::int64_t kMs = 1'000;

Json Parsed(std::string_view text) { return *ParseJson(text); }

// Events of runs, each numbered and one millisecond after the other.
class ProgressTest : public testing::Test {
 protected:
  Event Make(std::int64_t run, EventType type, std::string_view node, std::string_view result,
             std::string_view meta) {
    Event event;
    event.execution_id = run;
    event.seq = ++seq_[run];
    event.type = type;
    event.node_name = std::string(node);
    event.result = Parsed(result);
    event.meta = Parsed(meta);
    event.created_at_us = (now_ms_ += 1) * kMs;
    return event;
  }
  Progress::Fed Add(std::int64_t run, EventType type, std::string_view node,
                    std::string_view result = "null", std::string_view meta = "null") {
    return progress_.Feed(Make(run, type, node, result, meta));
  }
  void Start(std::int64_t run, std::string_view path) {
    Event event = Make(run, EventType::kPlaybookStarted, "playbook", "null", "{}");
    event.context = Json::Object({{"path", path}});
    progress_.Feed(event);
  }
  void Enter(std::int64_t run, std::string_view step, std::string_view more = "") {
    Add(run, EventType::kStepEnter, step, fmt::format(R"({{"context":{{"run":1{}}}}})", more));
  }
  void Close(std::int64_t run, std::string_view step, std::string_view outcome,
             std::string_view error = "") {
    Event event = Make(run, EventType::kCommandCompleted, step, "null",
                       fmt::format(R"({{"route":{{"run":1,"outcome":"{}"}}}})", outcome));
    event.error = std::string(error);
    progress_.Feed(event);
  }
  void Iterate(std::string_view step, std::string_view outcome) {
    Add(kRun, EventType::kCommandCompleted, step, "null",
        fmt::format(R"({{"outcome":"{}"}})", outcome));
  }
  std::vector<std::string> Plain() {
    std::vector<std::string> texts;
    for (const ProgressLine& line : progress_.TakeLines()) texts.push_back(PlainLine(line));
    return texts;
  }
  std::vector<std::string> Running(Look look = {}) {
    std::vector<std::string> texts;
    for (const ProgressLine& line : progress_.RunningLines(now_ms_ * kMs))
      texts.push_back(TerminalLine(line, look));
    return texts;
  }

  Progress progress_;
  std::map<std::int64_t, std::int64_t> seq_;
  std::int64_t now_ms_ = 0;
};

TEST_F(ProgressTest, StepsOfARun) {
  progress_.Watch(kRun);
  Start(kRun, "demo/t");
  Enter(kRun, "one");
  now_ms_ += 11;
  EXPECT_THAT(Running(), ElementsAre("• one                      11 ms"));
  Close(kRun, "one", "completed");
  Enter(kRun, "two");
  Close(kRun, "two", "failed", "no\nluck");
  Add(kRun, EventType::kStepSkipped, "three", "null", R"({"reason":"route"})");
  Add(kRun, EventType::kPlaybookFailed, "playbook");
  EXPECT_THAT(Plain(), ElementsAre("step one: completed in 12 ms",
                                   "step two: failed in 1 ms: no luck", "step three: skipped"));
  EXPECT_TRUE(progress_.AllEnded());
  EXPECT_THAT(progress_.OpenRuns(), IsEmpty());
  const WatchedRun& run = *progress_.Watched()[0];
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[0].duration_us, 12 * kMs);
  EXPECT_EQ(run.steps[1].status, "failed");
  EXPECT_EQ(run.steps[1].error, "no\nluck");
  EXPECT_EQ(run.end->type, EventType::kPlaybookFailed);
  EXPECT_EQ(run.path, "demo/t");
}

TEST_F(ProgressTest, LoopsAreCountedAndToldAtEachTenth) {
  progress_.Watch(kRun);
  Start(kRun, "demo/t");
  Enter(kRun, "each", R"(,"iterations_expected":40)");
  for (int i = 0; i < 20; ++i) Iterate("each", i == 3 ? "soft" : "completed");
  Iterate("each", "retry");  // not an end
  EXPECT_THAT(Running({.utf8 = false}),
              ElementsAre("* each                     ##########.......... 20/40, 1 failed 21 ms"));
  for (int i = 20; i < 40; ++i) Iterate("each", "completed");
  Close(kRun, "each", "completed");
  const std::vector<std::string> lines = Plain();
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[0], "step each: started, 0/40");
  EXPECT_EQ(lines[1], "step each: running, 4/40, 1 failed");
  EXPECT_EQ(lines[9], "step each: running, 36/40, 1 failed");
  EXPECT_EQ(lines[10], "step each: completed in 42 ms (40/40, 1 failed)");
}

TEST_F(ProgressTest, CursorLoopsHaveNoTotalAndTheirClaimsDoNotCount) {
  progress_.Watch(kRun);
  Start(kRun, "demo/t");
  Enter(kRun, "rows", R"(,"__cursor_loop":true)");
  Add(kRun, EventType::kCommandCompleted, "rows", "null", R"({"outcome":"completed","rows":2})");
  Iterate("rows", "completed");
  EXPECT_THAT(Running({.utf8 = false}), ElementsAre("* rows                     1 2 ms"));
}

TEST_F(ProgressTest, ChildrenAreIndentedUnlessALoopStartsThem) {
  progress_.Watch(kRun);
  Start(kRun, "demo/parent");
  Enter(kRun, "call");
  Add(kRun, EventType::kCommandIssued, "call", "null", R"({"child_execution_id":20})");
  Start(20, "demo/child");
  Enter(20, "inner");
  EXPECT_THAT(progress_.OpenRuns(), ElementsAre(kRun, 20));
  Close(20, "inner", "completed");
  Add(20, EventType::kPlaybookCompleted, "playbook");
  Close(kRun, "call", "completed");
  EXPECT_THAT(Plain(),
              ElementsAre("call: calls demo/child, run 20", "  step inner: completed in 1 ms",
                          "step call: completed in 6 ms"));
  EXPECT_THAT(progress_.OpenRuns(), ElementsAre(kRun));

  Enter(kRun, "each", R"(,"iterations_expected":2)");
  Add(kRun, EventType::kCommandIssued, "each", "null", R"({"child_execution_id":30})");
  Event event = Make(30, EventType::kPlaybookStarted, "playbook", "null", "{}");
  EXPECT_EQ(progress_.Feed(event), Progress::Fed::kOther);
}

TEST_F(ProgressTest, AChildOfAPipelineIsKnownByItsParent) {
  progress_.Watch(kRun);
  Start(kRun, "demo/parent");
  Enter(kRun, "call");
  Event event = Make(20, EventType::kPlaybookStarted, "playbook", "null", "{}");
  event.parent_execution_id = kRun;
  EXPECT_EQ(progress_.Feed(event), Progress::Fed::kTaken);
  EXPECT_TRUE(progress_.Shows(20));
}

TEST_F(ProgressTest, EventsAreTakenOnceAndInOrder) {
  progress_.Watch(kRun);
  const Event first = Make(kRun, EventType::kPlaybookStarted, "playbook", "null", "{}");
  const Event second = Make(kRun, EventType::kStepEnter, "a", R"({"context":{"run":1}})", "{}");
  EXPECT_EQ(progress_.Feed(second), Progress::Fed::kGap);
  EXPECT_THAT(Running(), IsEmpty());
  EXPECT_EQ(progress_.Feed(first), Progress::Fed::kTaken);
  EXPECT_EQ(progress_.Feed(second), Progress::Fed::kTaken);
  EXPECT_EQ(progress_.Feed(first), Progress::Fed::kTaken);
  EXPECT_EQ(progress_.SeqOf(kRun), 2);
  EXPECT_EQ(Running().size(), 1u);
  Event other = first;
  other.execution_id = 99;
  EXPECT_EQ(progress_.Feed(other), Progress::Fed::kOther);
}

TEST_F(ProgressTest, TheEndOfARunEndsItsSteps) {
  progress_.Watch(kRun);
  Start(kRun, "demo/t");
  Enter(kRun, "a");
  Enter(kRun, "b");
  Add(kRun, EventType::kCommandCancelled, "a", "null", R"({"reason":"superseded"})");
  EXPECT_EQ(Running().size(), 2u);
  Add(kRun, EventType::kCommandCancelled, "a", "null", R"({"reason":"withdrawn"})");
  EXPECT_EQ(Running().size(), 1u);
  Add(kRun, EventType::kPlaybookCancelled, "playbook");
  EXPECT_THAT(Running(), IsEmpty());
  const std::vector<EndedStep>& steps = progress_.Watched()[0]->steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].status, "cancelled");
  EXPECT_EQ(steps[1].step, "b");
}

TEST_F(ProgressTest, TheListOfStepsIsBounded) {
  progress_.Watch(kRun);
  Start(kRun, "demo/t");
  for (std::size_t i = 0; i < kListedStepsMax + 5; ++i) {
    Enter(kRun, "again");
    Close(kRun, "again", "completed");
  }
  EXPECT_EQ(progress_.Watched()[0]->steps.size(), kListedStepsMax);
  EXPECT_EQ(progress_.Watched()[0]->unlisted_steps, 5);
}

TEST(ProgressText, Durations) {
  EXPECT_EQ(DurationText(-5), "0 ms");
  EXPECT_EQ(DurationText(12'900), "12 ms");
  EXPECT_EQ(DurationText(1'290'000), "1.2 s");
  EXPECT_EQ(DurationText(125'000'000), "2 m 05 s");
  EXPECT_EQ(DurationText(3'720'000'000), "1 h 02 m");
}

TEST(ProgressText, NothingThatATerminalWouldActOn) {
  EXPECT_EQ(CleanText("a\x1b[31mb\r\n\tc\x7f"), "a [31mb c ");
  EXPECT_EQ(CleanText("\xc2\x9b"
                      "2J"),
            " 2J");
  EXPECT_EQ(CleanText("\xff\xe2\x9c"), "???");
  EXPECT_EQ(CleanText("grüße ✓"), "grüße ✓");
}

TEST(ProgressText, CutToTheWindow) {
  EXPECT_EQ(CutToColumns("abcdef", 6, true), "abcdef");
  EXPECT_EQ(CutToColumns("abcdef", 4, true), "abc…");
  EXPECT_EQ(CutToColumns("abcdef", 4, false), "abc~");
  EXPECT_EQ(CutToColumns("東京都", 4, true), "東…");
  EXPECT_EQ(CutToColumns("abc", 0, true), "");
  const ProgressLine line{.mark = Mark::kFailed,
                          .depth = 1,
                          .label = std::string(300, 'x'),
                          .detail = "error",
                          .elapsed_us = 5};
  EXPECT_EQ(CodePoints(TerminalLine(line, {.width = 40})), 39u);
  EXPECT_EQ(TerminalLine(line, {.colours = true, .width = 40}).substr(0, 11), "  \x1b[31m✗\x1b");
}

TEST(ProgressText, BytesThatOnlyLookLikeLettersAreReplaced) {
  // Too long, a surrogate, above the last code point, cut off.
  for (const std::string_view bytes :
       {"\xe0\x8b\x9e", "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    const ProgressLine line{.label = std::string(bytes)};
    EXPECT_FALSE(FirstInvalidUtf8(TerminalLine(line, {.width = 30})));
    EXPECT_FALSE(FirstInvalidUtf8(PlainLine(line)));
  }
}

TEST(ProgressText, AnyTextFitsAndStaysValid) {
  EXPECT_TRUE(rc::check([](const std::string& label, const std::string& detail) {
    const ProgressLine line{.label = label, .detail = detail, .elapsed_us = 1};
    const std::string text = TerminalLine(line, {.width = 30});
    RC_ASSERT(!FirstInvalidUtf8(text));
    RC_ASSERT(CodePoints(text) < 30u + text.size() / 2);
    for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
    for (const char c : PlainLine(line)) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  }));
}

}  // namespace
}  // namespace noetl::cli
