"""Commands of remote workers: claim, lease, heartbeat, release, logs."""
import threading
import time

from harness import case
from runs import ONE_STEP, TWO_STEPS, no, Runs, same, success, yes


def take(api, event_id, worker=None, status=200, **more):
    return api.post(f"/api/commands/{event_id}/claim", {"worker_id": worker or api.worker, **more},
                    status=status)


@case
def claim(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    event_id = api.issued(run)
    first = take(api, event_id)
    same((first["status"], first["event_id"], first["execution_id"]),
         ("ok", event_id, int(run)))
    same((first["node_id"], first["node_name"]), ("start", "start"))
    same((first["meta"]["attempt"], first["meta"]["attempts"]), (1, 3))
    same(first["lease_seconds"], 120)
    same(take(api, event_id)["claim_token"], first["claim_token"])
    refused = take(api, event_id, "stranger", 409)
    same(refused["code"], "active_claim")
    types = [event["event_type"] for event in api.events(run)]
    same(types.count("command.claimed"), 1)
    api.post("/api/events/batch", {"execution_id": run, "worker_id": api.worker,
                                   "events": success(first)})
    same(take(api, event_id, status=409)["code"], "already_terminal")
    take(api, 12345, status=404)
    same(api.get(f"/api/commands/{event_id}")["node_name"], "start")
    api.get("/api/commands/12345", status=404)


@case
def claim_of_a_cancelled_run(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    event_id = api.issued(run)
    api.post(f"/api/executions/{run}/cancel", {})
    same(take(api, event_id, status=409)["code"], "cancelled")


@case
def a_lease_takes_results_and_gives_work(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    first = api.lease_one()
    same(first["lease_seconds"], 30)
    answer = api.lease(events=success(first), max=4, wait_ms=30000)
    same([event["status"] for event in answer["events"]], ["ok", "ok"])
    # With events the answer does not wait long for work.
    second = answer["commands"][0] if answer["commands"] else api.lease_one()
    same(second["node_name"], "second")
    answer = api.lease(events=success(second), max=0)
    same(answer["commands"], [])
    yes(api.wait(run)["completed"])


@case
def a_repeated_lease_gives_the_same(server):
    api = Runs(server)
    api.start(api.register(ONE_STEP)[0])
    first = api.lease(request_id="one", wait_ms=30000)["commands"]
    again = api.lease(request_id="one")["commands"]
    same(len(first), 1)
    same([c["event_id"] for c in first], [c["event_id"] for c in again])
    same(api.lease(request_id="two")["commands"], [])


@case
def a_lease_waits_for_work(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    got = []
    thread = threading.Thread(target=lambda: got.append(api.lease(wait_ms=30000)))
    begun = time.monotonic()
    thread.start()
    run = api.start(path)
    thread.join(60)
    yes(time.monotonic() - begun < 25)
    same([c["execution_id"] for c in got[0]["commands"]], [int(run)])


@case
def pools_and_kinds(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    pool = api.fresh_path().replace("/", "-")
    api.post("/api/execute", {"path": path, "execution_pool": pool})
    same(api.lease(pools=["another"])["commands"], [])
    same(api.lease(pools=[pool], kinds=["duckdb"])["commands"], [])
    same(len(api.lease(pools=[pool], wait_ms=30000)["commands"]), 1)
    api.post("/api/commands/lease", {"worker_id": "w", "max": 65}, status=422)
    api.post("/api/commands/lease", {"worker_id": "w", "pools": "x"}, status=422)
    api.post("/api/commands/lease", {}, status=422)


@case
def heartbeat_and_release(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    path = f"/api/commands/{command['event_id']}"
    held = {"worker_id": api.worker, "claim_token": command["claim_token"]}
    beat = api.post(f"{path}/heartbeat", {**held, "progress": {"rows": 1}})
    no(beat["cancelled"])
    yes(beat["lease_until"].endswith("Z"))
    stranger = api.post(f"{path}/heartbeat", {"worker_id": "stranger"}, status=409)
    same(stranger["code"], "stale_claim")
    api.post("/api/commands/12345/heartbeat", held, status=404)
    api.post(f"{path}/release", {**held, "claim_token": 99}, status=409)
    api.post(f"{path}/release", held)
    again = api.lease_one()
    same(again["event_id"], command["event_id"])
    same(again["claim_token"], command["claim_token"] + 1)
    api.post(f"/api/executions/{run}/cancel", {})
    beat = api.post(f"{path}/heartbeat",
                    {"worker_id": api.worker, "claim_token": again["claim_token"]})
    yes(beat["cancelled"])


@case
def logs(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    body = {"command_id": command["meta"]["command_id"], "worker_id": api.worker,
            "claim_token": command["claim_token"],
            "chunks": [{"stream": "stdout", "offset": 0, "text": "one\n"},
                       {"stream": "stderr", "offset": 0, "text": "two\n"}]}
    for _ in range(2):
        api.post(f"/api/executions/{run}/logs", body)
    chunks = api.get(f"/api/executions/{run}/logs")["chunks"]
    same([(c["stream"], c["text"]) for c in chunks], [("stdout", "one\n"), ("stderr", "two\n")])
    same(api.get_text(f"/api/executions/{run}/logs?format=text&stream=stdout"), "one\n")
    large = [{"stream": "stdout", "offset": 4, "text": "x" * 65537}]
    api.post(f"/api/executions/{run}/logs", {**body, "chunks": large}, status=413)
    api.post("/api/executions/12345/logs", body, status=404)
