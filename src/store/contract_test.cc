// Every promise of store.h about runs and their logs, against every implementation.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/testing.h"
#include "store/contract.h"

namespace noetl::store {
namespace {

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values(kMemoryStore, kSqliteStore),
                         [](const auto& info) { return info.param.name; });

TEST_P(StoreContract, ReadsBackWhatWasCommitted) {
  TestRun run(5);
  UnitRows first = run.Next(3);
  UnitRows second = run.Start();
  engine::Event event = run.MakeEvent(engine::EventType::kCommandCompleted);
  event.worker_id = "w1";
  event.error = "none";
  event.result = Parse(R"({"status":"ok","context":{"data":[1,2.5,null,"é"]}})");
  event.meta = Parse(R"({"command_id":"5:step_a:900001"})");
  event.parent_execution_id = 3;
  run.Add(second, event);
  Must(first);
  Must(second);
  Reopen();

  std::vector<engine::Event> expected;
  for (const EventRow& row : first.events) expected.push_back(row.event);
  for (const EventRow& row : second.events) expected.push_back(row.event);
  EXPECT_EQ(*store_->ReadEvents(5, 0, 100), expected);
  EXPECT_EQ(*store_->ReadEvents(5, 1, 2), std::vector(expected.begin() + 1, expected.begin() + 3));
  EXPECT_TRUE(store_->ReadEvents(5, 4, 100)->empty());
  EXPECT_TRUE(store_->ReadEvents(6, 0, 100)->empty());
  EXPECT_EQ(*store_->Find(5), std::optional(run.row()));
  EXPECT_EQ(*store_->Find(6), std::nullopt);
  ExpectHealthy();

  const std::vector<EventRow> rows = *store_->ReadRows(5, 0, 100);
  Sha256Digest chain = ChainStart(5);
  for (const EventRow& row : rows) {
    EXPECT_EQ(row.chain, ChainNext(chain, row));
    chain = row.chain;
  }
  EXPECT_EQ(chain, run.row().chain);
  EXPECT_EQ(rows[3].meta, second.events[0].meta);
  EXPECT_EQ(rows[3].command_id, 900001);
}

TEST_P(StoreContract, FindsSingleEvents) {
  TestRun run(5);
  UnitRows unit = run.Next(2);
  engine::Event event = run.MakeEvent(engine::EventType::kCallDone);
  event.worker_id = "w1";
  event.meta = Parse(R"({"command_id":"5:step_a:900001:i4"})");
  run.Add(unit, event);
  unit.commands.push_back(run.Command(900001));
  Must(unit);
  EXPECT_EQ((*store_->FindEvent(5, 500002))->seq, 2);
  EXPECT_EQ(*store_->FindEvent(5, 1), std::nullopt);
  EXPECT_EQ(*store_->FindEvent(6, 500002), std::nullopt);
  EXPECT_EQ((*store_->FindWorkerEvent(900001, "call.done"))->seq, 3);
  EXPECT_EQ(*store_->FindWorkerEvent(900001, "call.error"), std::nullopt);
  EXPECT_EQ(*store_->FindWorkerEvent(900002, "call.done"), std::nullopt);
}

TEST_P(StoreContract, CallerKeysAreKeptAndHashed) {
  TestRun run(5);
  UnitRows unit = run.Next(1);
  EventRow& row = unit.events[0];
  row.idempotency_key = "their key";
  row.chain = ChainNext(ChainStart(5), row);
  unit.execution.chain = row.chain;
  Must(unit);
  EXPECT_EQ(store_->ReadRows(5, 0, 1)->at(0).idempotency_key, "their key");
}

TEST_P(StoreContract, TheHeadDecides) {
  TestRun run(5);
  const UnitRows first = run.Next(2);
  Must(first);
  EXPECT_EQ(CodeOf(CommitOne(*store_, first)), "conflict");  // the same again
  TestRun other(5);
  EXPECT_EQ(CodeOf(CommitOne(*store_, other.Next(1))), "conflict");
  run.Next(1);
  EXPECT_EQ(CodeOf(CommitOne(*store_, run.Next(1))), "conflict");  // one is missing between
  TestRun unknown(9);
  unknown.Next(1);
  EXPECT_EQ(CodeOf(CommitOne(*store_, unknown.Next(1))), "conflict");
  EXPECT_EQ(store_->ReadEvents(5, 0, 100)->size(), 2u);
  ExpectHealthy();
}

TEST_P(StoreContract, ARunEndsOnce) {
  TestRun run(5);
  Must(run.Next(1));
  Must(run.End());
  EXPECT_TRUE((*store_->Find(5))->terminal);
  const UnitRows again = run.End();
  EXPECT_EQ(CodeOf(CommitOne(*store_, again)), "terminal");
  EXPECT_EQ(store_->ReadEvents(5, 0, 100)->size(), 2u);
}

TEST_P(StoreContract, EventsMayFollowTheEnd) {
  TestRun run(5);
  Must(run.Next(1));
  Must(run.End());
  UnitRows late = run.Next(1, engine::EventType::kCommandCompleted);
  late.execution.terminal = false;  // a run that has ended stays so, whatever is said later
  Must(late);
  EXPECT_TRUE((*store_->Find(5))->terminal);
  EXPECT_EQ((*store_->Find(5))->head, 3);
  TestRun short_run(6);
  Must(short_run.End());
  EXPECT_TRUE((*store_->Find(6))->terminal);
  EXPECT_TRUE(store_->Open(0, 10)->empty());
}

TEST_P(StoreContract, ABadUnitFailsAlone) {
  TestRun good(5);
  TestRun bad(6);
  TestRun fine(7);
  TestRun stale(8);
  Must(stale.Next(1));
  std::vector<UnitRows> units = {good.Next(2), bad.Next(2), fine.Next(1), TestRun(8).Next(1),
                                 good.Next(1)};
  units[1].events[1].event.seq = 1;
  const std::vector<Status> answers = CommitAll(*store_, units);
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(CodeOf(answers[0]), "ok");
  EXPECT_EQ(CodeOf(answers[1]), "bad_row");
  EXPECT_EQ(CodeOf(answers[2]), "ok");
  EXPECT_EQ(CodeOf(answers[3]), "conflict");
  EXPECT_EQ(CodeOf(answers[4]), "ok");
  EXPECT_EQ(store_->ReadEvents(5, 0, 100)->size(), 3u);
  EXPECT_TRUE(store_->ReadEvents(6, 0, 100)->empty());
  EXPECT_EQ(*store_->Find(6), std::nullopt);
  EXPECT_EQ(store_->ReadEvents(7, 0, 100)->size(), 1u);
  ExpectHealthy();
}

TEST_P(StoreContract, AUnitIsStoredWholeOrNotAtAll) {
  TestRun run(5);
  UnitRows unit = run.Next(2);
  unit.commands.push_back(run.Command(900001));
  unit.bodies.push_back({"noetl://execution/5/result/a/1", "1"});
  unit.loop_rows.push_back({"step_a", 1, 0, "1"});
  unit.timers.push_back({.step = "step_a", .due_us = 10});
  unit.messages.push_back({.message_id = 1, .target_execution_id = 6});
  unit.snapshot = SnapshotRow{5, 2, 2, "{}"};
  unit.logs.push_back({.execution_id = 5, .command_id = 900001, .stream = "stdout", .text = "x"});
  unit.command_changes.push_back({.command_id = 12345});  // there is none: found out last
  EXPECT_EQ(CodeOf(CommitOne(*store_, unit)), "bad_row");
  EXPECT_EQ(*store_->Find(5), std::nullopt);
  EXPECT_TRUE(store_->ReadEvents(5, 0, 10)->empty());
  EXPECT_EQ(*store_->FindCommand(900001), std::nullopt);
  EXPECT_EQ(CodeOf(store_->Load("noetl://execution/5/result/a/1")), "not_found");
  EXPECT_TRUE(store_->LoopRows(5, "step_a", 1, 0, 10)->empty());
  EXPECT_TRUE(store_->DueTimers(100, 10)->empty());
  EXPECT_TRUE(store_->Messages(0, 10)->empty());
  EXPECT_EQ(*store_->LoadSnapshot(5), std::nullopt);
  EXPECT_TRUE(store_->ReadLogs(5, 0, 0, 10)->empty());
}

TEST_P(StoreContract, RowsThatNoStoreTakes) {
  TestRun run(5);
  Must(run.Next(1));
  const auto code = [&](const std::function<void(UnitRows&)>& spoil, bool events = true) {
    TestRun copy = run;
    UnitRows unit = events ? copy.Next(2) : copy.Start();
    spoil(unit);
    return CodeOf(CommitOne(*store_, unit));
  };
  EXPECT_EQ(code([](UnitRows& unit) { unit.execution.head += 1; }), "bad_row");
  EXPECT_EQ(code([](UnitRows& unit) { unit.events[0].event.execution_id = 6; }), "bad_row");
  EXPECT_EQ(code([](UnitRows& unit) { unit.events[1].event.event_id = 0; }), "bad_row");
  EXPECT_EQ(code([](UnitRows& unit) { unit.execution.chain = {}; }), "bad_row");
  EXPECT_EQ(code([](UnitRows& unit) { unit.bodies.push_back({"other", "1"}); }), "bad_row");
  EXPECT_EQ(code([](UnitRows& unit) { unit.execution_id = 0; }, false), "bad_row");
  const auto twice = [&](UnitRows& unit) {
    unit.commands = {run.Command(900001), run.Command(900001)};
  };
  EXPECT_EQ(code(twice), "bad_row");
  const auto rows = [](UnitRows& unit) { unit.loop_rows = {{"s", 1, 0, "1"}, {"s", 1, 0, "2"}}; };
  EXPECT_EQ(code(rows), "bad_row");
  EXPECT_EQ((*store_->Find(5))->head, 1);
}

TEST_P(StoreContract, CommandsAndTheirChanges) {
  TestRun run(5);
  UnitRows unit = run.Next(1);
  CommandRow first = run.Command(900001);
  CommandRow second = run.Command(900002);
  second.server_run = true;
  second.iter_index = 7;
  second.child_execution_id = 44;
  unit.commands = {first, second};
  Must(unit);
  EXPECT_EQ(*store_->OpenCommands(0, 10), (std::vector{first, second}));
  EXPECT_EQ(*store_->OpenCommands(900001, 10), std::vector{second});
  EXPECT_EQ(*store_->OpenCommands(0, 1), std::vector{first});

  UnitRows claim = run.Start();  // without events
  claim.command_changes.push_back({.command_id = 900001,
                                   .status = CommandStatus::kClaimed,
                                   .lease_until_us = 99,
                                   .worker_id = "w1",
                                   .claim_token = 1,
                                   .claimed_at_us = 50});
  Must(claim);
  UnitRows done = run.Next(1);
  done.command_changes.push_back({.command_id = 900001,
                                  .status = CommandStatus::kCompleted,
                                  .completed_at_us = 60,
                                  .latest_event_id = 500002});
  done.command_changes.push_back(
      {.command_id = 900002, .status = CommandStatus::kRunning, .parked = true});
  Must(done);
  first.status = CommandStatus::kCompleted;
  first.worker_id = "w1";
  first.claim_token = 1;
  first.claimed_at_us = 50;
  first.completed_at_us = 60;
  first.latest_event_id = 500002;
  second.status = CommandStatus::kRunning;
  second.parked = true;
  Reopen();
  EXPECT_EQ(*store_->FindCommand(900001), std::optional(first));
  EXPECT_EQ(*store_->OpenCommands(0, 10), std::vector{second});
  EXPECT_EQ(*store_->CommandsOf(5, 0, 10), (std::vector{first, second}));
  EXPECT_EQ(*store_->CommandsOf(5, 900001, 10), std::vector{second});
  EXPECT_TRUE(store_->CommandsOf(6, 0, 10)->empty());
}

TEST_P(StoreContract, TimersAreArmedMovedFiredAndDropped) {
  TestRun run(5);
  engine::Timer deadline{.step = "a", .run = 1, .due_us = 200};
  engine::Timer command{
      .kind = engine::Timer::Kind::kCommandDeadline, .command_id = "5:a:1", .due_us = 100};
  UnitRows unit = run.Next(1);
  unit.timers = {deadline, command};
  Must(unit);
  EXPECT_EQ(*store_->NextDueUs(0), std::optional<std::int64_t>(100));
  EXPECT_EQ(*store_->NextDueUs(100), std::optional<std::int64_t>(200));
  EXPECT_EQ(*store_->NextDueUs(200), std::nullopt);
  std::vector<TimerRow> due = *store_->DueTimers(200, 10);
  ASSERT_EQ(due.size(), 2u);
  EXPECT_EQ(due[0].execution_id, 5);
  EXPECT_EQ(due[0].timer.command_id, "5:a:1");
  EXPECT_EQ(due[0].timer.kind, engine::Timer::Kind::kCommandDeadline);
  EXPECT_EQ(due[1].timer.step, "a");
  EXPECT_EQ(store_->DueTimers(150, 10)->size(), 1u);
  EXPECT_EQ(store_->DueTimers(200, 1)->size(), 1u);

  UnitRows moved = run.Next(1);
  engine::Timer later = deadline;
  later.due_us = 300;
  moved.timers = {later};
  moved.fired_timers = {command};
  Must(moved);
  UnitRows stale = run.Start();
  stale.fired_timers = {deadline};  // it was moved meanwhile, so it stays
  Must(stale);
  due = *store_->DueTimers(1000, 10);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].timer.due_us, 300);

  UnitRows end = run.End();
  end.drops_timers = true;
  Must(end);
  EXPECT_TRUE(store_->DueTimers(1000, 10)->empty());
}

TEST_P(StoreContract, MessagesWaitUntilTheyAreConsumed) {
  TestRun run(5);
  const MessageRow child{.message_id = 1,
                         .target_execution_id = 6,
                         .kind = MessageRow::Kind::kStartChild,
                         .payload = R"({"path":"x"})",
                         .not_before_us = 0};
  const MessageRow later{.message_id = 2,
                         .target_execution_id = 7,
                         .kind = MessageRow::Kind::kCancel,
                         .payload = "",
                         .not_before_us = 500};
  UnitRows unit = run.Next(1);
  unit.messages = {child, later};
  Must(unit);
  Reopen();
  EXPECT_EQ(*store_->Messages(0, 10), (std::vector{child, later}));
  EXPECT_EQ(*store_->Messages(1, 10), std::vector{later});
  EXPECT_EQ(*store_->Messages(0, 1), std::vector{child});
  EXPECT_EQ(*store_->NextDueUs(10), std::optional<std::int64_t>(500));
  TestRun target(6);
  UnitRows acts = target.Next(1);
  acts.consumed_messages = {1};
  Must(acts);
  EXPECT_EQ(*store_->Messages(0, 10), std::vector{later});
  UnitRows same = target.Next(1);
  same.messages = {later};
  EXPECT_EQ(CodeOf(CommitOne(*store_, same)), "bad_row");
}

TEST_P(StoreContract, SnapshotsNeverGoBack) {
  TestRun run(5);
  Must(run.Next(1));
  EXPECT_EQ(*store_->LoadSnapshot(5), std::nullopt);
  const auto put = [&](std::int64_t seq, std::string text) {
    UnitRows unit = run.Start();
    unit.snapshot = SnapshotRow{5, seq, seq * 10, std::move(text)};
    Must(unit);
  };
  put(10, "ten");
  put(9, "nine");
  EXPECT_EQ((*store_->LoadSnapshot(5))->text, "ten");
  put(10, "ten again");
  put(11, "eleven");
  Reopen();
  const SnapshotRow row = **store_->LoadSnapshot(5);
  EXPECT_EQ(row.text, "eleven");
  EXPECT_EQ(row.seq, 11);
  EXPECT_EQ(row.version, 110);
}

TEST_P(StoreContract, LogsKeepTheirOrderAndComeOnce) {
  TestRun run(5);
  const auto chunk = [](std::int64_t command, std::string stream, std::int64_t offset,
                        std::string text) {
    return LogChunk{5, command, "step_a", std::move(stream), offset, std::move(text), 9};
  };
  UnitRows unit = run.Start();
  unit.logs = {chunk(2, "stdout", 0, "b"), chunk(1, "stdout", 0, "a"), chunk(1, "stderr", 0, "e")};
  Must(unit);
  UnitRows again = run.Start();
  again.logs = {chunk(1, "stdout", 0, "a"), chunk(1, "stdout", 1, "aa")};
  Must(again);
  const std::vector<LogChunk> all = {unit.logs[0], unit.logs[1], unit.logs[2], again.logs[1]};
  EXPECT_EQ(*store_->ReadLogs(5, 0, 0, 10), all);
  EXPECT_EQ(*store_->ReadLogs(5, 1, 0, 10), std::vector(all.begin() + 1, all.end()));
  EXPECT_EQ(*store_->ReadLogs(5, 0, 1, 2), std::vector(all.begin() + 1, all.begin() + 3));
  EXPECT_TRUE(store_->ReadLogs(6, 0, 0, 10)->empty());
}

TEST_P(StoreContract, LoopRowsAreReadInIndexOrder) {
  TestRun run(5);
  UnitRows unit = run.Next(1);
  unit.loop_rows = {
      {"each", 1, 3, R"({"n":3})"}, {"each", 1, 0, "0"}, {"each", 2, 0, "9"}, {"eachx", 1, 1, "8"}};
  Must(unit);
  const std::vector<LoopRow> rows = {{"each", 1, 0, "0"}, {"each", 1, 3, R"({"n":3})"}};
  EXPECT_EQ(*store_->LoopRows(5, "each", 1, 0, 10), rows);
  EXPECT_EQ(*store_->LoopRows(5, "each", 1, 1, 10), std::vector{rows[1]});
  EXPECT_EQ(*store_->LoopRows(5, "each", 1, 0, 1), std::vector{rows[0]});
  EXPECT_EQ(*store_->Load("noetl://execution/5/loop/each/1"), Parse(R"([0,null,null,{"n":3}])"));
  EXPECT_EQ(CodeOf(store_->Load("noetl://execution/5/loop/each/3")), "not_found");
  UnitRows again = run.Next(1);
  again.loop_rows = {{"each", 1, 3, "4"}};
  EXPECT_EQ(CodeOf(CommitOne(*store_, again)), "bad_row");
}

TEST_P(StoreContract, ReferencesLeadToBodies) {
  TestRun run(5);
  UnitRows unit = run.Next(1, engine::EventType::kCommandIssued);
  const std::int64_t issued = unit.events[0].event.event_id;
  run.Add(unit, run.MakeEvent(engine::EventType::kStepEnter));
  const std::string large = "\"" + std::string(3u << 20, 'x') + "\"";
  unit.bodies = {{"noetl://execution/5/result/a/b/41", R"({"k":[1]})"},
                 {"noetl://execution/5/result/large/42", large},
                 {"noetl://execution/5/result/large/43", large}};
  Must(unit);
  Reopen();
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/a/b/41"), Parse(R"({"k":[1]})"));
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/large/42"), Parse(large));
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/large/43"), Parse(large));
  EXPECT_EQ(*store_->Load(fmt::format("noetl://execution/5/command/{}", issued)),
            unit.events[0].event.context);
  for (const char* ref : {"noetl://execution/5/result/b/41", "noetl://execution/6/result/a/b/41",
                          "noetl://execution/5/result/a/b/44", "noetl://execution/5/command/1",
                          "noetl://execution/5/command/500002", "s3://bucket/x", ""}) {
    EXPECT_EQ(CodeOf(store_->Load(ref)), "not_found") << ref;
  }
  UnitRows again = run.Next(1);
  again.bodies = {{"noetl://execution/5/result/a/b/41", "2"}};  // the first stays
  Must(again);
  EXPECT_EQ(*store_->Load("noetl://execution/5/result/a/b/41"), Parse(R"({"k":[1]})"));
}

TEST_P(StoreContract, TheCatalogCountsVersions) {
  const auto put = [&](std::int64_t id, std::string path, std::string content) {
    return *store_->Register({.catalog_id = id,
                              .path = std::move(path),
                              .content = std::move(content),
                              .created_at_us = 5});
  };
  const CatalogEntry first = put(1, "a", "one");
  EXPECT_EQ(first.version, 1);
  EXPECT_EQ(put(2, "a", "one"), first);  // nothing new
  const CatalogEntry second = put(3, "a", "two");
  EXPECT_EQ(second.version, 2);
  EXPECT_EQ(second.catalog_id, 3);
  const CatalogEntry third = put(4, "a", "one");  // back to older content is a new version
  EXPECT_EQ(third.version, 3);
  const CatalogEntry other = put(5, "b", "one");
  EXPECT_EQ(other.version, 1);
  EXPECT_EQ(CodeOf(store_->Register({.catalog_id = 5, .path = "c", .content = "x"})), "bad_row");
  Reopen();
  EXPECT_EQ(*store_->FindEntry(3), std::optional(second));
  EXPECT_EQ(*store_->FindEntry(99), std::nullopt);
  EXPECT_EQ(*store_->FindEntry("a", 0), std::optional(third));
  EXPECT_EQ(*store_->FindEntry("a", 1), std::optional(first));
  EXPECT_EQ(*store_->FindEntry("a", 4), std::nullopt);
  EXPECT_EQ(*store_->FindEntry("c", 0), std::nullopt);
  std::vector<CatalogEntry> entries = *store_->ListEntries("", 10);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].version, 3);
  EXPECT_EQ(entries[0].catalog_id, 4);
  EXPECT_EQ(entries[0].content, "");
  EXPECT_EQ(store_->ListEntries("a", 10)->size(), 1u);
  EXPECT_EQ(store_->ListEntries("", 1)->size(), 1u);
}

TEST_P(StoreContract, ListsNewestFirstByFilterAndPage) {
  for (std::int64_t id = 1; id <= 9; ++id) {
    TestRun run(id, id % 2 == 0 ? "team/even" : "team/odd");
    if (id == 4) run.row().parent_execution_id = 2;
    if (id == 6) run.row().version = 3;
    Must(run.Next(1));
    if (id > 6) Must(run.End());
  }
  const auto ids = [&](const ExecutionFilter& filter) {
    std::vector<std::int64_t> found;
    const auto rows = store_->List(filter);
    for (const ExecutionRow& row : *rows) found.push_back(row.execution_id);
    return found;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(ids({}), (Ids{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(ids({.limit = 2}), (Ids{9, 8}));
  EXPECT_EQ(ids({.before_id = 8, .limit = 2}), (Ids{7, 6}));
  EXPECT_EQ(ids({.status = "COMPLETED"}), (Ids{9, 8, 7}));
  EXPECT_EQ(ids({.path = "team/even"}), (Ids{8, 6, 4, 2}));
  EXPECT_EQ(ids({.path = "team/even", .before_id = 6}), (Ids{4, 2}));
  EXPECT_EQ(ids({.path = "team/*", .limit = 1}), (Ids{9}));
  EXPECT_EQ(ids({.path = "tea*", .before_id = 3}), (Ids{2, 1}));
  EXPECT_EQ(ids({.path = "eam*"}), (Ids{}));
  EXPECT_EQ(ids({.path = "team"}), (Ids{}));
  EXPECT_EQ(ids({.version = 3}), (Ids{6}));
  EXPECT_EQ(ids({.parent_execution_id = 2}), (Ids{4}));
  EXPECT_EQ(ids({.started_after_us = 1006, .started_before_us = 1009}), (Ids{8, 7}));
  EXPECT_EQ(ids({.status = "RUNNING", .path = "team/odd"}), (Ids{5, 3, 1}));
  Ids open;
  const auto open_rows = store_->Open(2, 3);
  for (const ExecutionRow& row : *open_rows) open.push_back(row.execution_id);
  EXPECT_EQ(open, (Ids{3, 4, 5}));
}

TEST_P(StoreContract, PurgeRemovesAllOfARunAndNothingElse) {
  TestRun run(5);
  TestRun other(6);
  for (TestRun* each : {&run, &other}) {
    UnitRows unit = each->Next(1, engine::EventType::kCommandIssued);
    const std::int64_t id = each->id();
    unit.commands = {each->Command(id * 1000)};
    unit.bodies = {{fmt::format("noetl://execution/{}/result/a/{}", id, id), "1"},
                   {fmt::format("noetl://execution/{}/result/b/{}", id, id + 100),
                    "\"" + std::string(2u << 20, 'y') + "\""}};
    unit.loop_rows = {{"each", 1, 0, "1"}};
    unit.timers = {{.step = "a", .due_us = 10}};
    unit.messages = {{.message_id = id, .target_execution_id = id}};
    unit.snapshot = SnapshotRow{id, 1, 1, "{}"};
    unit.logs = {{.execution_id = id, .command_id = 1, .stream = "stdout", .text = "x"}};
    Must(unit);
  }
  EXPECT_EQ(CodeOf(store_->Purge(5)), "open");
  EXPECT_EQ(CodeOf(store_->Purge(99)), "not_found");
  Must(run.End());
  EXPECT_EQ(CodeOf(store_->Purge(5)), "ok");
  EXPECT_EQ(CodeOf(store_->Purge(5)), "not_found");
  for (const std::int64_t id : {5, 6}) {
    const std::size_t count = id == 5 ? 0 : 1;
    EXPECT_EQ(store_->Find(id)->has_value(), id == 6);
    EXPECT_EQ(store_->ReadEvents(id, 0, 10)->size(), count);
    EXPECT_EQ(store_->CommandsOf(id, 0, 10)->size(), count);
    EXPECT_EQ(store_->FindCommand(id * 1000)->has_value(), id == 6);
    const std::string code = id == 5 ? "not_found" : "ok";
    EXPECT_EQ(CodeOf(store_->Load(fmt::format("noetl://execution/{}/result/a/{}", id, id))), code);
    EXPECT_EQ(CodeOf(store_->Load(fmt::format("noetl://execution/{}/result/b/{}", id, id + 100))),
              code);
    EXPECT_EQ(store_->LoopRows(id, "each", 1, 0, 10)->size(), count);
    EXPECT_EQ(store_->LoadSnapshot(id)->has_value(), id == 6);
    EXPECT_EQ(store_->ReadLogs(id, 0, 0, 10)->size(), count);
  }
  EXPECT_EQ(store_->DueTimers(100, 10)->size(), 1u);
  EXPECT_EQ(store_->Messages(0, 10)->size(), 1u);
  EXPECT_EQ(store_->OpenCommands(0, 10)->size(), 1u);
  ExpectHealthy();
  TestRun again(5);
  Must(again.Next(1));  // its id is free
}

TEST_P(StoreContract, PurgeEndedGoesByTimeAndKeepsOpenRuns) {
  constexpr std::int64_t kHourUs = 3'600'000'000;
  const auto end_at = [&](std::int64_t id, std::int64_t time_us) {
    TestRun run(id);
    UnitRows unit = run.End();
    unit.execution.ended_at_us = time_us;
    unit.snapshot = SnapshotRow{id, 1, 1, "{}"};
    Must(unit);
  };
  end_at(1, 100);
  end_at(2, 200);
  end_at(3, 300);
  end_at(4, 10 * kHourUs);
  TestRun open(5);
  UnitRows unit = open.Next(1);
  unit.snapshot = SnapshotRow{5, 1, 1, "{}"};
  Must(unit);
  EXPECT_EQ(*store_->PurgeEnded(250, 0, 1), 1);
  EXPECT_EQ(*store_->Find(1), std::nullopt);  // the oldest first
  EXPECT_EQ(*store_->PurgeEnded(250, 0, 10), 1);
  EXPECT_EQ(*store_->Find(2), std::nullopt);
  EXPECT_TRUE(store_->LoadSnapshot(3)->has_value());
  EXPECT_EQ(*store_->PurgeEnded(250, 10 * kHourUs, 10), 0);
  EXPECT_TRUE(store_->Find(3)->has_value());
  EXPECT_FALSE(store_->LoadSnapshot(3)->has_value());  // its run has ended long ago
  EXPECT_TRUE(store_->LoadSnapshot(4)->has_value());
  EXPECT_TRUE(store_->LoadSnapshot(5)->has_value());
}

TEST_P(StoreContract, StatsCountWhatIsThere) {
  TestRun run(5);
  TestRun other(6);
  Must(run.Next(3));
  Must(other.Next(1));
  Must(other.End());
  const StoreStats stats = *store_->Stats();
  EXPECT_EQ(stats.executions, 2);
  EXPECT_EQ(stats.open_executions, 1);
  EXPECT_EQ(stats.events, 5);
  EXPECT_GT(stats.bytes, 0);
}

// Readers see whole units in order, whatever is being written.
TEST_P(StoreContract, ReadersOnOtherThreadsSeeWholeUnits) {
  constexpr std::size_t kUnit = 4;
  constexpr int kUnits = 150;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  const auto read = [&] {
    std::int64_t last = 0;
    while (!done.load()) {
      const auto events = store_->ReadEvents(5, 0, 100'000);
      const auto row = store_->Find(5);
      const auto commands = store_->OpenCommands(0, 10'000);
      if (!events || !row || !commands) {
        ++wrong;
        continue;
      }
      const auto size = static_cast<std::int64_t>(events->size());
      if (size % kUnit != 0 || size < last) ++wrong;
      for (std::int64_t i = 0; i < size; ++i) {
        if ((*events)[static_cast<std::size_t>(i)].seq != i + 1) ++wrong;
      }
      if (*row && (*row)->head < size) ++wrong;
      last = size;
    }
  };
  std::thread first(read);
  std::thread second(read);
  TestRun run(5);
  for (int i = 0; i < kUnits; ++i) {
    UnitRows unit = run.Next(kUnit);
    unit.commands = {run.Command(900000 + i)};
    EXPECT_TRUE(CommitOne(*store_, unit).has_value());
  }
  done = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store_->ReadEvents(5, 0, 100'000)->size(), kUnit * kUnits);
}

TEST_P(StoreContract, NothingToCommitIsFine) {
  EXPECT_TRUE(store_->Commit({}).empty());
  TestRun run(5);
  EXPECT_EQ(CodeOf(CommitOne(*store_, run.Start())), "ok");
}

TEST(MemoryStore, FaultsOnRequest) {
  std::vector<CommitFault> faults = {CommitFault::kRefuse, CommitFault::kFull, CommitFault::kNone,
                                     CommitFault::kUnknown};
  std::size_t stored = 0;
  const auto store = MakeMemoryStore(
      {.fault = [&](std::int64_t commit) { return faults[static_cast<std::size_t>(commit - 1)]; },
       .on_commit = [&](std::span<const UnitRows* const> units) { stored += units.size(); }});
  TestRun run(5);
  const UnitRows first = run.Next(1);
  EXPECT_EQ(CodeOf(CommitOne(*store, first)), "io");
  EXPECT_EQ(CodeOf(CommitOne(*store, first)), "disk_full");
  EXPECT_EQ(stored, 0u);
  EXPECT_EQ(CodeOf(CommitOne(*store, first)), "ok");
  EXPECT_EQ(CodeOf(CommitOne(*store, run.Next(1))), "io");
  EXPECT_EQ(stored, 2u);
  EXPECT_EQ((*store->Find(5))->head, 2);
}

}  // namespace
}  // namespace noetl::store
