#include "engine/state.h"

#include <gtest/gtest.h>

#include "base/json_io.h"
#include "base/sha256.h"

namespace noetl::engine {
namespace {

// A state in which every member has a value of its own.
State FullState() {
  State state;
  state.execution_id = 7;
  state.catalog_id = 8;
  state.parent_execution_id = 9;
  state.parent_command_id = "pc";
  state.return_step = "r";
  state.depth = 2;
  state.path = "p";
  state.version = 3;
  state.pool = "shared";
  state.trace = Json::Object({{"t", 1}});
  state.env = Json::Object({{"HOME", "/"}});
  state.semantics = {.strict = true,
                     .step_error_fails = true,
                     .status_from_steps = true,
                     .retype_legacy = true,
                     .max_step_runs = 5,
                     .max_attempts = 6,
                     .inline_bytes = 7,
                     .context_bytes = 8,
                     .callback_deadline_s = 9,
                     .execution_timeout_s = 10};
  state.workload = Json::Object({{"w", 1}});
  state.ctx = Json::Object({{"c", Json::Object({{"d", 2}})}});
  state.status = State::Status::kRunning;
  state.seq = 42;
  state.last_event_id = 43;
  state.highest_event_id = 44;
  state.last_ingest_us = 45;
  state.started_at_us = 46;
  state.ended_at_us = 47;
  state.context_version = 48;
  state.context_stored = 47;
  state.context_ref = "noetl://x";
  state.draining = true;
  state.final_entered = true;
  state.failed_steps = {"f"};
  state.first_error = "e";
  state.soft_errors = {{"s", 1, 2, "soft"}};
  state.soft_error_count = 101;
  state.denied_steps = {"d"};
  state.warning_count = 4;
  state.last_completed_step = "a";

  StepState& open = state.Touch("a");
  open.runs = 2;
  open.outcome = StepState::Outcome::kFailed;
  open.skip_reported = true;
  open.awaits_data_of = "c0";
  open.result = std::make_shared<const StepResult>(
      StepResult{.data = Json(1), .tool_kind = "http", .failed = true, .error = "x"});
  Run run{.number = 2,
          .kind = Run::Kind::kCursor,
          .entered_at_us = 1,
          .deadline_us = 2,
          .args = Json::Object({{"k", 1}}),
          .final = true,
          .in_flight = 3,
          .items = Json::Array({1, 2}),
          .range = true,
          .expected = 4,
          .budget = 5,
          .next_index = 6,
          .succeeded = 7,
          .failed = 8,
          .result_bytes = 9,
          .first_result = Json("first"),
          .failing = true,
          .error = "le",
          .error_info = Json::Object({{"kind", "k"}}),
          .next_frame = 11};
  run.slots.push_back({CursorSlot::Phase::kRows, 3, Json::Array({1}), 4, 5, 6});
  open.open = run;
  state.open_steps().insert("a");
  StepState& waiting = state.Touch("b");
  waiting.tokens = {{"a", 1, Json::Object({{"k", 1}})}, {"", 0, Json()}};
  state.token_steps().insert("b");
  Command command{.id = "7:a:1",
                  .event_id = 1,
                  .step = "a",
                  .run = 2,
                  .kind = Command::Kind::kBody,
                  .index = 3,
                  .slot = 4,
                  .frame = 5,
                  .attempt = 6,
                  .lost = 7,
                  .reruns = 8,
                  .tool_kind = "http",
                  .status = Command::Status::kStarted,
                  .parked = true,
                  .child_execution_id = 9,
                  .worker = "w",
                  .started_at_us = 10,
                  .reported = true,
                  .report = Json::Object({{"status", "success"}}),
                  .callback = true};
  state.commands().emplace(command.id, command);
  return state;
}

TEST(State, SnapshotsKeepEveryMember) {
  const State state = FullState();
  Result<State> read = ReadSnapshot(WriteSnapshot(state));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(CanonicalJson(read->ToJson()), CanonicalJson(state.ToJson()));
  EXPECT_EQ(read->Find("a")->open, state.Find("a")->open);
  EXPECT_EQ(read->Find("b")->tokens, state.Find("b")->tokens);
  EXPECT_EQ(*read->Find("a")->result, *state.Find("a")->result);
  EXPECT_EQ(read->commands(), state.commands());
  EXPECT_EQ(read->open_steps(), state.open_steps());
  EXPECT_EQ(read->token_steps(), state.token_steps());
  EXPECT_EQ(read->semantics, state.semantics);
  EXPECT_EQ(read->soft_errors, state.soft_errors);
  EXPECT_FALSE(read->quiescent());
}

TEST(State, ANewStateIsSmall) {
  Result<State> read = ReadSnapshot(WriteSnapshot(State()));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->status, State::Status::kNew);
  EXPECT_TRUE(read->quiescent());
  EXPECT_LT(WriteSnapshot(State()).size(), 600u);
}

TEST(State, DamagedSnapshotsAreRefused) {
  const std::string good = WriteSnapshot(FullState());
  int refused = 0;
  // A byte that is changed anywhere is noticed; only blanks between tokens could go unseen.
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = bad[at] == 'q' ? 'r' : 'q';
    refused += ReadSnapshot(bad).has_value() ? 0 : 1;
  }
  EXPECT_EQ(refused, static_cast<int>((good.size() + 6) / 7));
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1}) {
    EXPECT_FALSE(ReadSnapshot(std::string_view(good).substr(0, size)).has_value()) << size;
  }
  Result<State> foreign = ReadSnapshot(R"({"checksum":"00","state":{"schema":1}})");
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().code, "bad_snapshot");
}

TEST(State, AnotherSchemaIsRefused) {
  const std::string body = R"({"schema":999})";
  Result<State> read =
      ReadSnapshot(R"({"checksum":")" + Sha256Hex(body) + R"(","state":)" + body + "}");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, "bad_snapshot");
}

TEST(State, StatusTexts) {
  State state;
  EXPECT_EQ(state.StatusText(), "PENDING");
  for (const auto& [status, text] : {std::pair{State::Status::kRunning, "RUNNING"},
                                     {State::Status::kCompleted, "COMPLETED"},
                                     {State::Status::kFailed, "FAILED"},
                                     {State::Status::kCancelled, "CANCELLED"}}) {
    state.status = status;
    EXPECT_EQ(state.StatusText(), text);
    EXPECT_EQ(state.terminal(), status != State::Status::kRunning);
  }
}

}  // namespace
}  // namespace noetl::engine
