// The routes of runs over a real conductor and the memory store, with workers that speak HTTP.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/streams.h"
#include "api/testing.h"
#include "conductor/testing.h"

namespace noetl::api {
namespace {

constexpr std::string_view kTwoSteps = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: two, path: demo/two}
workload: {who: ann, password: hidden}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: noop}
)";

constexpr std::string_view kParent = R"(
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: parent, path: demo/parent}
workflow:
  - step: start
    tool: {kind: playbook, path: demo/two, return_result: true}
)";

class RunRoutesTest : public ::testing::Test {
 protected:
  RunRoutesTest() : machine_({.worker = false}) {
    machine_.Register("demo/two", kTwoSteps);
    machine_.Register("demo/parent", kParent);
    streams_ = std::make_unique<Streams>(machine_.store.get(), &system_clock_);
    api_.services.store = machine_.store.get();
    api_.services.conductor = machine_.conductor.get();
    api_.services.clock = &machine_.clock;
    api_.services.ids = &machine_.ids;
    api_.services.streams = streams_.get();
    api_.run = [this] { machine_.Run(); };
  }

  std::string Start(std::string_view path = "demo/two") {
    const Asked asked = api_.Post("/api/execute", fmt::format(R"({{"path":"{}"}})", path));
    EXPECT_EQ(asked.status(), 200) << asked.response.body;
    return asked.body["execution_id"].ToString();
  }
  Json Lease(std::string_view worker = "w1", std::string_view more = "") {
    const Asked asked =
        api_.Post("/api/commands/lease", fmt::format(R"({{"worker_id":"{}"{}}})", worker, more));
    EXPECT_EQ(asked.status(), 200) << asked.response.body;
    return asked.body;
  }
  std::int64_t Pending(std::string_view execution) {
    const std::vector<store::CommandRow> rows =
        machine_.store->CommandsOf(std::stoll(std::string(execution)), 0, 100).value();
    for (const store::CommandRow& row : rows) {
      if (row.status == store::CommandStatus::kPending) return row.command_id;
    }
    ADD_FAILURE() << "no command is pending";
    return 0;
  }
  static Json EventOf(const Json& command, std::string_view type, Json more = Json::Object()) {
    const Json& id = command["meta"]["command_id"];
    return Json::Object({{"execution_id", command["execution_id"]},
                         {"step", command["node_name"]},
                         {"event_type", type},
                         {"claim_token", command["claim_token"]},
                         {"payload", Json::Object({{"command_id", id}}).Merge(more)}});
  }
  static Json Success(const Json& command) {
    const Json result = ParseJson(R"({"status":"success","context":{"data":{"x":1}}})").value();
    return Json::Array(
        {EventOf(command, "call.done", Json::Object({{"call_index", 0}, {"result", result}})),
         EventOf(command, "command.completed").With("status", "success")});
  }
  Asked PostBatch(const Json& command, const Json& events, std::string_view worker = "w1") {
    return api_.Post("/api/events/batch",
                     WriteJson(Json::Object({{"execution_id", command["execution_id"]},
                                             {"worker_id", worker},
                                             {"events", events}})));
  }
  std::string StatusOfRun(std::string_view execution) {
    return api_.Get(fmt::format("/api/executions/{}/status", execution)).body["status"].ToString();
  }

  SystemClock system_clock_;
  conductor::Machine machine_;
  std::unique_ptr<Streams> streams_;
  TestApi api_{{.families = {ExecuteRoutes(), EventRoutes(), CommandRoutes(), WorkerRoutes(),
                             ExecutionRoutes(), StreamRoutes()}}};
};

TEST_F(RunRoutesTest, StartsByPathAndById) {
  const Asked asked = api_.Post("/api/execute", R"({"path":"demo/two","args":{"who":"bob"}})");
  EXPECT_EQ(asked.status(), 200);
  EXPECT_TRUE(asked.body["execution_id"].is_string());
  EXPECT_EQ(asked.body["status"], Json("started"));
  EXPECT_EQ(asked.body["commands_generated"], Json(1));
  const auto entry = machine_.store->FindEntry("demo/two", 0).value();
  for (const std::string& id :
       {std::to_string(entry->catalog_id), fmt::format("\"{}\"", entry->catalog_id)}) {
    EXPECT_EQ(api_.Post("/api/execute", fmt::format(R"({{"catalog_id":{}}})", id)).status(), 200);
  }
  EXPECT_EQ(api_.Post("/api/execute", R"({"path":"nope"})").status(), 404);
  EXPECT_EQ(api_.Post("/api/execute", R"({})").status(), 422);
  EXPECT_EQ(api_.Post("/api/execute", R"({"path":"demo/two","payload":{},"workload":{}})").status(),
            422);
  EXPECT_EQ(api_.Post("/api/execute", R"({"path":"demo/two","version":99})").status(), 404);
  EXPECT_EQ(
      api_.Post("/api/execute", R"({"path":"demo/two","resource_kind":"subscription"})").status(),
      422);
  EXPECT_EQ(api_.Post("/api/execute", R"({"path":"demo/two","resource_kind":"Playbook"})").status(),
            200);
}

TEST_F(RunRoutesTest, AKeyStartsOneRun) {
  constexpr std::string_view kBody = R"({"path":"demo/two","dedup":{"key":"k","window_secs":60}})";
  const Asked first = api_.Post("/api/execute", kBody);
  const Asked second = api_.Post("/api/execute", kBody);
  EXPECT_EQ(first.body["status"], Json("started"));
  EXPECT_EQ(second.body["status"], Json("duplicate"));
  EXPECT_EQ(second.body["commands_generated"], Json(0));
  EXPECT_EQ(first.body["execution_id"], second.body["execution_id"]);
  machine_.clock.Advance(61'000'000);
  EXPECT_EQ(api_.Post("/api/execute", kBody).body["status"], Json("started"));
}

TEST_F(RunRoutesTest, ARefusedStartGivesItsKeyBack) {
  EXPECT_EQ(api_.Post("/api/execute", R"({"path":"later","dedup":{"key":"k"}})").status(), 404);
  machine_.Register("later", kTwoSteps);
  const Asked asked = api_.Post("/api/execute", R"({"path":"later","dedup":{"key":"k"}})");
  EXPECT_EQ(asked.body["status"], Json("started"));
}

TEST_F(RunRoutesTest, TheRunOfAKeyIsStartedWhenItIsNotThere) {
  // A server that died between the claim of the key and the start.
  const std::int64_t id = machine_.ids.Next();
  ASSERT_TRUE(machine_.store
                  ->ClaimKey({.key = "dedup:k",
                              .execution_id = id,
                              .created_at_us = machine_.clock.NowMicros(),
                              .expires_at_us = machine_.clock.NowMicros() + 300'000'000})
                  .has_value());
  const Asked asked = api_.Post("/api/execute", R"({"path":"demo/two","dedup":{"key":"k"}})");
  EXPECT_EQ(asked.body["execution_id"], Json(std::to_string(id)));
  EXPECT_EQ(StatusOfRun(std::to_string(id)), "RUNNING");
}

TEST_F(RunRoutesTest, AnIdempotencyKeyBelongsToOneBody) {
  const HeaderList key = {{"Idempotency-Key", "abc"}};
  const Asked first = api_.Post("/api/execute", R"({"path":"demo/two"})", key);
  const Asked again = api_.Post("/api/execute", R"({ "path" : "demo/two" })", key);
  EXPECT_EQ(first.body["execution_id"], again.body["execution_id"]);
  const Asked other = api_.Post("/api/execute", R"({"path":"demo/two","payload":{"a":1}})", key);
  EXPECT_EQ(other.status(), 409);
  EXPECT_EQ(other.code(), "conflict");
}

TEST_F(RunRoutesTest, StartsManyInOrder) {
  const Asked asked = api_.Post("/api/execute/batch",
                                R"({"executions":[{"path":"demo/two"},{"path":"nope"},{},5]})");
  EXPECT_EQ(asked.status(), 200);
  EXPECT_EQ(asked.body["count"], Json(4));
  EXPECT_EQ(asked.body["started"], Json(1));
  EXPECT_EQ(asked.body["failed"], Json(3));
  EXPECT_EQ(asked.body["results"].At(0)["status"], Json("started"));
  EXPECT_EQ(asked.body["results"].At(1)["code"], Json("not_found"));
  EXPECT_EQ(asked.body["results"].At(3)["index"], Json(3));
  EXPECT_EQ(api_.Post("/api/execute/batch", R"({"executions":[]})").status(), 422);
}

TEST_F(RunRoutesTest, RunsAgainWithItsWorkload) {
  const std::string id =
      api_.Post("/api/execute", R"({"path":"demo/two","workload":{"a":1,"b":2}})")
          .body["execution_id"]
          .ToString();
  const Asked asked =
      api_.Post(fmt::format("/api/executions/{}/rerun", id), R"({"workload":{"b":3}})");
  ASSERT_EQ(asked.status(), 200) << asked.response.body;
  EXPECT_EQ(asked.body["source_execution_id"], Json(id));
  EXPECT_EQ(asked.body["rerun_of"], Json(id));
  const Asked detail = api_.Get("/api/executions/" + asked.body["execution_id"].ToString());
  EXPECT_EQ(detail.body["workload"]["a"], Json(1));
  EXPECT_EQ(detail.body["workload"]["b"], Json(3));
  EXPECT_EQ(detail.body["workload"]["who"], Json("ann"));
}

TEST_F(RunRoutesTest, AClaimIsOneWorkersUntilTheCommandEnds) {
  const std::string id = Start();
  const std::int64_t command = Pending(id);
  const std::string path = fmt::format("/api/commands/{}/claim", command);
  const Asked first = api_.Post(path, R"({"worker_id":"w1"})");
  ASSERT_EQ(first.status(), 200) << first.response.body;
  EXPECT_EQ(first.body["event_id"], Json(command));
  EXPECT_EQ(first.body["execution_id"], Json(std::stoll(id)));
  EXPECT_EQ(first.body["node_name"], Json("start"));
  EXPECT_EQ(first.body["action"], Json("noop"));
  EXPECT_EQ(first.body["claim_token"], Json(1));
  EXPECT_EQ(first.body["lease_seconds"], Json(120));
  EXPECT_EQ(first.body["meta"]["attempts"], Json(3));
  EXPECT_EQ(api_.Post(path, R"({"worker_id":"w1"})").status(), 200);
  const Asked other = api_.Post(path, R"({"worker_id":"w2"})");
  EXPECT_EQ(other.status(), 409);
  EXPECT_EQ(other.code(), "active_claim");
  EXPECT_EQ(other.header("Retry-After"), "2");
  api_.settings = Settings::Load({{"NOETL_COMMAND_CLAIM_RETRY_AFTER_SECONDS", "6.5"}}).value();
  EXPECT_EQ(api_.Post(path, R"({"worker_id":"w2"})").header("Retry-After"), "7");
  EXPECT_EQ(other.body["details"]["worker_id"], Json("w1"));
  EXPECT_EQ(PostBatch(first.body, Success(first.body)).status(), 200);
  EXPECT_EQ(api_.Post(path, R"({"worker_id":"w1"})").code(), "already_terminal");
  EXPECT_EQ(api_.Post("/api/commands/999999/claim", R"({"worker_id":"w1"})").status(), 404);
  EXPECT_EQ(api_.Post(path, R"({})").status(), 422);
  EXPECT_EQ(api_.Get(fmt::format("/api/commands/{}", command)).body["node_id"], Json("start"));
  EXPECT_EQ(api_.Get("/api/commands/999999").status(), 404);
}

TEST_F(RunRoutesTest, EventsAdvanceARunOnce) {
  const std::string id = Start();
  const Json command = Lease()["commands"].At(0);
  const Json events = Success(command);
  const Json done = events.At(0).With("event_id", "900001").With("worker_id", "w1");
  for (int i = 0; i < 3; ++i) {
    const Asked asked = api_.Post("/api/events", WriteJson(done));
    EXPECT_EQ(asked.status(), 200) << asked.response.body;
    EXPECT_EQ(asked.body["event_id"], Json(900001));
  }
  const Asked ended = PostBatch(command, Json::Array({events.At(1)}));
  EXPECT_EQ(ended.status(), 200) << ended.response.body;
  EXPECT_EQ(ended.body["commands_generated"], Json(1));
  EXPECT_EQ(ended.body["event_ids"].size(), 1u);
  const Asked event = api_.Get("/api/event/900001");
  EXPECT_EQ(event.body["event_id"], Json("900001"));
  EXPECT_EQ(event.body["event_type"], Json("call.done"));
  EXPECT_EQ(api_.Get("/api/event/5").status(), 404);
  const Json second = Lease()["commands"].At(0);
  EXPECT_EQ(second["node_name"], Json("second"));
  EXPECT_EQ(PostBatch(second, Success(second)).status(), 200);
  EXPECT_EQ(StatusOfRun(id), "COMPLETED");
}

TEST_F(RunRoutesTest, EventsThatMayNotBeAreRefused) {
  const std::string id = Start();
  const Json command = Lease()["commands"].At(0);
  const auto post = [&](const Json& event) { return api_.Post("/api/events", WriteJson(event)); };
  EXPECT_EQ(post(EventOf(command, "playbook.completed")).status(), 403);
  EXPECT_EQ(post(EventOf(command, "call.done").With("claim_token", 77)).code(), "stale_claim");
  EXPECT_EQ(post(EventOf(command, "call.done").With("worker_id", "w2")).code(), "stale_claim");
  EXPECT_EQ(post(EventOf(command, "note").With("execution_id", 5)).status(), 404);
  EXPECT_EQ(post(Json::Object({{"step", "s"}})).status(), 422);
  EXPECT_EQ(StatusOfRun(id), "RUNNING");
}

TEST_F(RunRoutesTest, ALeaseTakesEventsAndGivesTheNextCommand) {
  const std::string id = Start();
  const Json first = Lease("w1", R"(,"max":4,"request_id":"r1")");
  ASSERT_EQ(first["commands"].size(), 1u);
  EXPECT_EQ(first["commands"].At(0)["lease_seconds"], Json(30));
  EXPECT_EQ(Lease("w1", R"(,"max":4,"request_id":"r1")")["commands"].At(0)["claim_token"],
            first["commands"].At(0)["claim_token"]);
  const Json command = first["commands"].At(0);
  const std::string events =
      fmt::format(R"(,"max":4,"wait_ms":30000,"events":{})", WriteJson(Success(command)));
  const Json second = Lease("w1", events);
  ASSERT_EQ(second["events"].size(), 2u);
  EXPECT_EQ(second["events"].At(0)["status"], Json("ok"));
  ASSERT_EQ(second["commands"].size(), 1u);
  EXPECT_EQ(second["commands"].At(0)["node_name"], Json("second"));
  // A stranger's events are refused one by one, and the lease goes on.
  const Json stranger =
      Lease("w2", fmt::format(R"(,"events":{})", WriteJson(Success(second["commands"].At(0)))));
  EXPECT_EQ(stranger["events"].At(0)["code"], Json("stale_claim"));
  EXPECT_EQ(stranger["commands"].size(), 0u);
  const Json last = Lease(
      "w1", fmt::format(R"(,"max":0,"events":{})", WriteJson(Success(second["commands"].At(0)))));
  EXPECT_EQ(last["events"].At(1)["status"], Json("ok"));
  EXPECT_EQ(StatusOfRun(id), "COMPLETED");
  EXPECT_EQ(api_.Post("/api/commands/lease", R"({"worker_id":"w","max":65})").status(), 422);
}

TEST_F(RunRoutesTest, ALeaseWaitsForWork) {
  const auto waiting = api_.Begin(
      MakeRequest("POST", "/api/commands/lease", R"({"worker_id":"w1","wait_ms":30000})"));
  EXPECT_FALSE(waiting->answered());
  Start();
  ASSERT_TRUE(waiting->answered());
  EXPECT_EQ(ParseJson(waiting->Wait().body).value()["commands"].size(), 1u);
}

TEST_F(RunRoutesTest, ALeaseThatNobodyReadsIsGivenBack) {
  const auto waiting = api_.Begin(
      MakeRequest("POST", "/api/commands/lease", R"({"worker_id":"w1","wait_ms":30000})"));
  waiting->Leave();
  Start();
  machine_.Run();
  EXPECT_EQ(Lease("w2")["commands"].size(), 1u);
}

TEST_F(RunRoutesTest, AClaimIsKeptLostAndGivenBack) {
  const std::string id = Start();
  const Json command = Lease()["commands"].At(0);
  const std::string path = fmt::format("/api/commands/{}", command["event_id"].AsInt());
  const Asked beat = api_.Post(path + "/heartbeat", R"({"worker_id":"w1","progress":{"n":1}})");
  EXPECT_EQ(beat.status(), 200) << beat.response.body;
  EXPECT_EQ(beat.body["cancelled"], Json(false));
  EXPECT_EQ(beat.body["lease_until"], TimeOrNull(machine_.clock.NowMicros() + 30'000'000));
  EXPECT_EQ(api_.Post(path + "/heartbeat", R"({"worker_id":"w2"})").code(), "stale_claim");
  EXPECT_EQ(api_.Post("/api/commands/999999/heartbeat", R"({"worker_id":"w1"})").status(), 404);
  EXPECT_EQ(api_.Post(path + "/release", R"({"worker_id":"w2","claim_token":1})").code(),
            "stale_claim");
  EXPECT_EQ(api_.Post(path + "/release", R"({"worker_id":"w1","claim_token":1})").status(), 200);
  const Json again = Lease("w2")["commands"].At(0);
  EXPECT_EQ(again["event_id"], command["event_id"]);
  EXPECT_EQ(again["claim_token"], Json(2));
  EXPECT_EQ(api_.Post(fmt::format("/api/executions/{}/cancel", id), "").status(), 200);
  const Asked told = api_.Post(path + "/heartbeat", R"({"worker_id":"w2","claim_token":2})");
  EXPECT_EQ(told.body["cancelled"], Json(true));
}

TEST_F(RunRoutesTest, WorkersComeAndGo) {
  const Asked made =
      api_.Post("/api/worker/pool/register",
                R"({"name":"w1","component_type":"worker_pool","status":"ready","capacity":4,
          "labels":{"pool_name":"shared"},"runtime":{"kind":"cpp"},"hostname":"h"})");
  ASSERT_EQ(made.status(), 200) << made.response.body;
  EXPECT_EQ(made.body["labels"]["pool_name"], Json("shared"));
  EXPECT_EQ(made.body["online"], Json(true));
  Start();
  const Json command = Lease()["commands"].At(0);
  const Asked beat = api_.Post(
      "/api/worker/pool/heartbeat",
      fmt::format(
          R"({{"name":"w1","commands":[{{"event_id":{},"claim_token":1}},{{"event_id":5}}]}})",
          command["event_id"].AsInt()));
  EXPECT_EQ(beat.body["status"], Json("ok"));
  EXPECT_EQ(beat.body["lost"], Json::Array({Json(5)}));
  EXPECT_EQ(beat.body["cancel"], Json::Array());
  EXPECT_EQ(api_.Get("/api/worker/pools?name=w").body.size(), 1u);
  machine_.clock.Advance(61'000'000);
  EXPECT_EQ(api_.Get("/api/worker/pools").body.At(0)["online"], Json(false));
  const Asked gone = api_.Post("/api/worker/pool/deregister", R"({"name":"w1"})");
  EXPECT_EQ(gone.status(), 200);
  EXPECT_EQ(Lease("w2")["commands"].size(), 1u);
  EXPECT_EQ(api_.Ask("DELETE", "/api/worker/pool/deregister", R"({"name":"w1"})").status(), 200);
  EXPECT_EQ(api_.Post("/api/worker/pool/heartbeat", R"({"name":"w1"})").body["status"],
            Json("recreated"));
  EXPECT_EQ(api_.Post("/api/worker/pool/register", R"({"name":"x","kind":"other"})").status(), 422);
  EXPECT_EQ(api_.Post("/api/worker/pool/register", R"({})").status(), 422);
}

TEST_F(RunRoutesTest, AWorkerThatRegistersAgainHoldsNothing) {
  Start();
  const Json command = Lease()["commands"].At(0);
  EXPECT_EQ(api_.Post("/api/worker/pool/register", R"({"name":"w1"})").status(), 200);
  const Json next = Lease("w2")["commands"].At(0);
  EXPECT_EQ(next["meta"]["attempt"], Json(2));
  EXPECT_EQ(PostBatch(command, Success(command)).status(), 409);
}

TEST_F(RunRoutesTest, AWorkerHearsOfCancelledCommands) {
  const std::string id = Start();
  const Json command = Lease()["commands"].At(0);
  const auto line = api_.Begin(MakeRequest("GET", "/api/worker/control?worker_id=w1"));
  EXPECT_EQ(line->Wait().content_type, "text/event-stream");
  api_.Post(fmt::format("/api/executions/{}/cancel", id), "");
  EXPECT_THAT(line->streamed(),
              ::testing::HasSubstr(fmt::format("event: cancel\ndata: {{\"event_id\":\"{}\"",
                                               command["event_id"].AsInt())));
  EXPECT_EQ(streams_->watchers(), 1u);
  line->Leave();
  EXPECT_EQ(streams_->watchers(), 0u);
  EXPECT_EQ(api_.Get("/api/worker/control").status(), 400);
}

TEST_F(RunRoutesTest, ListsPageByPage) {
  for (int i = 0; i < 5; ++i) Start();
  const Asked first = api_.Get("/api/executions?limit=2&path=DEMO");
  ASSERT_EQ(first.body.size(), 2u);
  EXPECT_TRUE(first.body.At(0)["execution_id"].is_int());
  EXPECT_EQ(first.body.At(0)["status"], Json("RUNNING"));
  const std::string cursor(first.header("X-Next-Cursor"));
  const Asked second = api_.Get("/api/executions?limit=3&cursor=" + cursor);
  ASSERT_EQ(second.body.size(), 3u);
  EXPECT_EQ(second.header("X-Next-Cursor"), "");
  EXPECT_LT(second.body.At(0)["execution_id"].AsInt(), first.body.At(1)["execution_id"].AsInt());
  EXPECT_EQ(api_.Get("/api/executions?page=2&page_size=3").body.size(), 2u);
  EXPECT_EQ(api_.Get("/api/executions?limit=-1&offset=-5").body.size(), 1u);
  EXPECT_EQ(api_.Get("/api/executions?status=completed").body.size(), 0u);
  EXPECT_EQ(api_.Get("/api/executions?catalog_id=x").status(), 400);
}

TEST_F(RunRoutesTest, ADetailShowsWhatHappened) {
  const std::string id = Start();
  const std::string path = "/api/executions/" + id;
  const Asked detail = api_.Get(path);
  ASSERT_EQ(detail.status(), 200);
  EXPECT_EQ(detail.body["workload"]["who"], Json("ann"));
  EXPECT_EQ(detail.body["workload"]["password"], Json("***"));
  EXPECT_EQ(api_.Get(path + "?redact=false").body["workload"]["password"], Json("hidden"));
  const Json& events = detail.body["events"];
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.At(0)["event_type"], Json("playbook_started"));
  EXPECT_FALSE(detail.body.Has("pagination"));
  const Asked paged = api_.Get(path + "?page=1&page_size=10");
  EXPECT_EQ(paged.body["pagination"]["total_events"], detail.body["event_count"]);
  EXPECT_EQ(paged.body["events"].At(0)["event_id"], events.At(events.size() - 1)["event_id"]);
  const Asked since =
      api_.Get(fmt::format("{}?since_event_id={}", path, events.At(0)["event_id"].AsInt()));
  EXPECT_EQ(since.body["events"].size(), events.size() - 1);
  EXPECT_EQ(since.body["events"].At(0)["event_id"], events.At(1)["event_id"]);
  EXPECT_EQ(api_.Get(path + "?event_type=step.enter").body["events"].size(), 1u);
  EXPECT_EQ(api_.Get(path + "?event_type=step.enter&page=1").body["pagination"]["total_events"],
            Json(1));
  EXPECT_TRUE(api_.Get(path + "?include_events=false").body["events"].empty());
  EXPECT_EQ(api_.Get("/api/executions/999").status(), 404);
  EXPECT_EQ(api_.Get("/api/executions/x").status(), 400);
}

TEST_F(RunRoutesTest, EventsPageByCursor) {
  const std::string id = Start();
  const std::string path = fmt::format("/api/executions/{}/events", id);
  std::vector<std::string> seen;
  std::string cursor;
  do {
    const Asked page = api_.Get(path + "?limit=1" + (cursor.empty() ? "" : "&after=" + cursor));
    ASSERT_EQ(page.body["events"].size(), 1u);
    EXPECT_FALSE(page.body["events"].At(0).Has("result"));
    seen.push_back(page.body["events"].At(0)["event_type"].ToString());
    cursor = page.body["next_cursor"].ToString();
  } while (!cursor.empty());
  EXPECT_THAT(seen, ::testing::ElementsAre("playbook_started", "step.enter", "command.issued"));
  const Asked newest = api_.Get(path + "?order=desc&limit=2&include_payload=true");
  EXPECT_EQ(newest.body["events"].At(0)["event_type"], Json("command.issued"));
  EXPECT_TRUE(newest.body["events"].At(0).Has("meta"));
  const Asked rest = api_.Get(path + "?order=desc&after=" + newest.body["next_cursor"].ToString());
  EXPECT_EQ(rest.body["events"].At(0)["event_type"], Json("playbook_started"));
  EXPECT_TRUE(rest.body["next_cursor"].is_null());
  EXPECT_EQ(api_.Get(path + "?after=12345").status(), 400);
  EXPECT_EQ(api_.Get(path + "?order=sideways").status(), 400);
}

TEST_F(RunRoutesTest, AStatusCountsSteps) {
  const std::string id = Start();
  const std::string path = fmt::format("/api/executions/{}/status", id);
  Asked status = api_.Get(path);
  EXPECT_EQ(status.body["current_step"], Json("start"));
  EXPECT_EQ(status.body["progress"]["running_steps"], Json(1));
  for (int i = 0; i < 2; ++i) {
    const Json command = Lease()["commands"].At(0);
    PostBatch(command, Success(command));
  }
  status = api_.Get(path);
  EXPECT_EQ(status.body["status"], Json("COMPLETED"));
  EXPECT_EQ(status.body["completed"], Json(true));
  EXPECT_EQ(status.body["progress"]["completed_steps"], Json(2));
  EXPECT_EQ(status.body["completed_steps"].size(), 2u);
  EXPECT_EQ(api_.Get("/api/executions/" + id).body["progress"], Json(100));
  EXPECT_EQ(api_.Get(fmt::format("/api/executions/{}/wait?timeout_ms=60000", id)).body["completed"],
            Json(true));
  EXPECT_EQ(api_.Get("/api/executions/999/wait").status(), 404);
  EXPECT_EQ(api_.Get("/api/executions/999/cancellation-check").status(), 404);
}

TEST_F(RunRoutesTest, ACancelReachesChildren) {
  const std::string id = Start("demo/parent");
  const Asked children = api_.Get(fmt::format("/api/executions/{}/children", id));
  ASSERT_EQ(children.body["children"].size(), 1u) << children.response.body;
  const std::string child = children.body["children"].At(0)["execution_id"].ToString();
  const std::int64_t command = Pending(child);
  const std::string path = fmt::format("/api/executions/{}/cancel", id);
  const Asked cancelled = api_.Post(path, R"({"reason":"enough"})");
  EXPECT_EQ(cancelled.body["status"], Json("cancelled"));
  EXPECT_EQ(cancelled.body["cancelled_executions"], Json::Array({Json(id), Json(child)}));
  EXPECT_EQ(StatusOfRun(id), "CANCELLED");
  EXPECT_EQ(StatusOfRun(child), "CANCELLED");
  EXPECT_EQ(
      api_.Post(fmt::format("/api/commands/{}/claim", command), R"({"worker_id":"w"})").code(),
      "cancelled");
  const Asked again = api_.Post(path, "");
  EXPECT_EQ(again.status(), 200);
  EXPECT_EQ(again.body["status"], Json("already_completed"));
  EXPECT_EQ(again.body["cancelled_executions"], Json::Array());
  EXPECT_EQ(api_.Get(fmt::format("/api/executions/{}/cancellation-check", id)).body["is_cancelled"],
            Json(true));
  EXPECT_EQ(api_.Post("/api/executions/999/cancel", "").status(), 404);
  EXPECT_EQ(api_.Post(fmt::format("/api/executions/{}/stop", Start()), "").body["status"],
            Json("cancelled"));
}

TEST_F(RunRoutesTest, ARunIsEndedByHandOnce) {
  const std::string id = Start();
  const std::string path = fmt::format("/api/executions/{}/finalize", id);
  EXPECT_EQ(api_.Post(path, R"({"status":"DONE"})").status(), 422);
  const Asked asked = api_.Post(path, R"({"status":"FAILED","error":"stuck"})");
  EXPECT_EQ(asked.body["status"], Json("FAILED"));
  EXPECT_EQ(StatusOfRun(id), "FAILED");
  EXPECT_EQ(api_.Post(path, R"({"status":"COMPLETED"})").code(), "already_terminal");
  EXPECT_EQ(api_.Post(path, R"({"reason":"stuck"})").body["status"], Json("already_completed"));
  EXPECT_EQ(api_.Post("/api/executions/999/finalize", R"({"status":"FAILED"})").status(), 404);
}

TEST_F(RunRoutesTest, CleanUpEndsRunsThatNobodyWorksOn) {
  const std::string held = Start();
  const Json command = Lease()["commands"].At(0);
  const std::string stale = Start();
  machine_.clock.Advance(6 * 60'000'000);
  const conductor::Holding holding = {.event_id = command["event_id"].AsInt()};
  machine_.conductor->Renew("w1", {&holding, 1});
  const Asked dry = api_.Post("/api/executions/cleanup", R"({"dry_run":true})");
  EXPECT_EQ(dry.body["execution_ids"], Json::Array({Json(std::stoll(stale))})) << dry.response.body;
  EXPECT_EQ(StatusOfRun(stale), "RUNNING");
  EXPECT_EQ(api_.Post("/api/executions/cleanup", "").body["cancelled_count"], Json(1));
  EXPECT_EQ(StatusOfRun(stale), "CANCELLED");
  EXPECT_EQ(StatusOfRun(held), "RUNNING");
  EXPECT_EQ(api_.Post("/api/executions/cleanup", R"({"older_than_minutes":0})").status(), 422);
}

TEST_F(RunRoutesTest, LogsComeBackAsTheyWereWritten) {
  const std::string id = Start();
  const Json command = Lease()["commands"].At(0);
  const std::string path = fmt::format("/api/executions/{}/logs", id);
  const std::string body = fmt::format(
      R"({{"command_id":{},"worker_id":"w1","claim_token":1,"chunks":[
          {{"stream":"stdout","offset":0,"text":"one\n"}},
          {{"stream":"stderr","offset":0,"text":"two\n"}}]}})",
      WriteJson(command["meta"]["command_id"]));
  EXPECT_EQ(api_.Post(path, body).status(), 200);
  const Asked repeated = api_.Post(path, body);
  EXPECT_EQ(repeated.status(), 200) << repeated.response.body;
  const Asked all = api_.Get(path);
  EXPECT_EQ(all.body["chunks"].size(), 2u) << all.response.body;
  EXPECT_EQ(all.body["chunks"].At(0)["step"], Json("start"));
  EXPECT_EQ(api_.Get(path + "?format=text&stream=stderr").response.body, "two\n");
  EXPECT_EQ(api_.Get(path + "?format=xml").status(), 400);
  EXPECT_EQ(api_.Post("/api/executions/999/logs", body).status(), 404);
  EXPECT_EQ(api_.Post(path, R"({"command_id":7,"chunks":[]})").status(), 404);
}

TEST_F(RunRoutesTest, AnAnalysisIsMade) {
  const std::string id = Start();
  const Asked asked = api_.Post(fmt::format("/api/executions/{}/analyze", id),
                                R"({"include_playbook_content":true})");
  EXPECT_EQ(asked.status(), 200) << asked.response.body;
  EXPECT_EQ(asked.body["playbook"]["path"], Json("demo/two"));
  EXPECT_TRUE(asked.body["playbook"]["content"].is_string());
  EXPECT_EQ(api_.Post("/api/executions/999/analyze", "").status(), 404);
}

TEST_F(RunRoutesTest, StreamsOpenAndClose) {
  const std::string id = Start();
  const auto stream = api_.Begin(MakeRequest("GET", fmt::format("/api/executions/{}/stream", id)));
  EXPECT_EQ(stream->Wait().content_type, "text/event-stream");
  const auto list = api_.Begin(MakeRequest("GET", "/api/executions/stream"));
  EXPECT_EQ(list->Wait().status, 200);
  EXPECT_EQ(streams_->watchers(), 2u);
  stream->Leave();
  list->Leave();
  EXPECT_EQ(streams_->watchers(), 0u);
  EXPECT_EQ(api_.Get("/api/executions/999/stream").status(), 404);
}

}  // namespace
}  // namespace noetl::api
