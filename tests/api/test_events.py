"""Events of workers: repeated, refused, in batches."""
from harness import case
from runs import TWO_STEPS, event_of, outside, Runs, same, success, yes


@case
def the_same_event_three_times(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = api.lease_one()
    done, completed = success(command)
    for event in (done, completed):
        event["event_id"] = api.fresh_id()
        event["execution_id"] = run
        ids = {api.post("/api/events", event)["event_id"] for _ in range(3)}
        same(ids, {event["event_id"]})
    events = api.get(f"/api/executions/{run}/events?limit=1000")["events"]
    types = [event["event_type"] for event in events]
    same(types.count("call.done"), 1)
    same(types.count("command.completed"), 1)
    same(types.count("command.issued"), 2)
    one = api.get(f"/api/event/{done['event_id']}")
    same(one["event_id"], str(done["event_id"]))
    same(one["event_type"], "call.done")
    api.get("/api/event/12345", status=404)


@case
def a_batch_ends_a_command(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    for step in ("start", "second"):
        command = api.lease_one()
        same(command["node_name"], step)
        answer = api.post("/api/events/batch", {"execution_id": run, "worker_id": api.worker,
                                                "events": success(command)})
        same(len(answer["event_ids"]), 2)
        same(answer["commands_generated"], 1 if step == "start" else 0)
    yes(api.wait(run)["completed"])


@case
def old_names(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = api.lease_one()
    api.post("/api/events", {"execution_id": int(run), "name": "call.done", "node_name": "start",
                             "worker_id": api.worker, "meta": {"claim_epoch": command["claim_token"]},
                             "context": success(command)[0]["payload"]})
    api.post("/api/events", {"execution_id": run, "name": "command.completed", "step": "start",
                             "worker_id": api.worker, "status": "success",
                             "context": {"command_id": command["meta"]["command_id"]}})
    same(api.lease_one()["node_name"], "second")


@case
def refusals(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = api.lease_one()
    for kind in ("playbook.completed", "playbook_failed", "execution.cancelled", "command.issued",
                 "step.enter", "step.skipped", "ctx.updated", "loop.done"):
        api.post("/api/events", event_of(command, kind), status=403)
    stale = event_of(command, "call.done")
    same(api.post("/api/events", {**stale, "claim_token": 99}, status=409)["code"],
         "stale_claim")
    same(api.post("/api/events", {**stale, "worker_id": "stranger"}, status=409)["code"],
         "stale_claim")
    api.post("/api/events", {**stale, "execution_id": 12345}, status=404)
    api.post("/api/events", {**stale, "execution_id": "x"}, status=422)
    api.post("/api/events", {**stale, "payload": {"text": "a\0b"}}, status=422)
    api.post("/api/events/batch", {"execution_id": run, "events": [stale] * 257}, status=413)
    same(api.get(f"/api/executions/{run}/status")["status"], "RUNNING")
    same(api.post("/api/events/batch", {"execution_id": run, "events": []})["event_ids"], [])


@case
def late_events(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = api.lease_one()
    api.post(f"/api/executions/{run}/cancel", {})
    refused = api.post("/api/events", event_of(command, "call.done"), status=409)
    same(refused["code"], "cancelled")
    late = event_of(command, "call.done")
    del late["claim_token"]
    kept = api.post("/api/events", late)
    same(api.get(f"/api/event/{kept['event_id']}")["event_type"], "call.done")
    same(api.get(f"/api/executions/{run}/status")["status"], "CANCELLED")


@case
def business_data_survives(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = api.lease_one()
    digest = "a" * 64
    event = event_of(command, "note.taken", author="ann", next_page_token="p", sha=digest,
                     password="hunter2", header="Bearer abcdefghijklmnop")
    stored = api.post("/api/events", event)["event_id"]
    shown = api.get(f"/api/event/{stored}?execution_id={run}")["result"]["context"]
    same((shown["author"], shown["next_page_token"], shown["sha"]), ("ann", "p", digest))
    same(shown["password"], "***")
    outside("abcdefghijklmnop", shown["header"])
    whole = api.get(f"/api/event/{stored}?redact=false")["result"]["context"]
    same(whole["password"], "hunter2")
