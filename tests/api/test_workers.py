"""Workers that come, stay and go."""
from harness import case
from runs import ONE_STEP, Runs, same, sse, success, yes


def register_worker(api, **more):
    return api.post("/api/worker/pool/register", {
        "name": api.worker, "component_type": "worker_pool", "status": "ready", "hostname": "h",
        "runtime": {"kind": "cpp"}, "labels": {"pool_name": "shared"}, **more})


@case
def register_list_and_deregister(server):
    api = Runs(server)
    first = register_worker(api, capacity=4)
    same((first["name"], first["kind"], first["capacity"]), (api.worker, "worker_pool", 4))
    same(register_worker(api)["runtime_id"], first["runtime_id"])
    listed = api.get(f"/api/worker/pools?status=ready&name={api.worker}")
    same([row["online"] for row in listed], [True])
    same(api.get("/api/worker/pools?name=nobody-at-all"), [])
    for method in ("POST", "DELETE", "POST"):
        api.call(method, "/api/worker/pool/deregister", {"name": api.worker})
    same(api.get(f"/api/worker/pools?name={api.worker}"), [])
    api.post("/api/worker/pool/register", {"name": "x", "kind": "other"}, status=422)
    for path in ("register", "heartbeat", "deregister"):
        api.post(f"/api/worker/pool/{path}", {}, status=422)
    api.call("DELETE", "/api/worker/pool/deregister", {}, status=422)
    api.get("/api/worker/pools", status=403, headers={"Host": "another.example"})


@case
def heartbeat(server):
    api = Runs(server)
    answer = api.post("/api/worker/pool/heartbeat", {"name": api.worker})
    same(answer["status"], "recreated")
    same(api.post("/api/worker/pool/heartbeat", {"name": api.worker})["status"], "ok")
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    held = [{"event_id": command["event_id"], "claim_token": command["claim_token"]}]
    answer = api.post("/api/worker/pool/heartbeat", {"name": api.worker, "commands": held})
    same((answer["lost"], answer["cancel"]), ([], []))
    api.post(f"/api/executions/{run}/cancel", {})
    answer = api.post("/api/worker/pool/heartbeat", {"name": api.worker, "commands": held})
    same(answer["cancel"], [command["event_id"]])
    answer = api.post("/api/worker/pool/heartbeat", {"name": api.worker, "commands": [{"event_id": 5}]})
    same(answer["lost"], [5])


@case
def what_a_worker_held_is_offered_again(server):
    api = Runs(server)
    register_worker(api)
    run = api.start(api.register(ONE_STEP)[0])
    first = api.lease_one()
    register_worker(api)
    second = api.lease_one()
    same(second["meta"]["attempt"], 2)
    refused = api.post("/api/events/batch", {"execution_id": run, "worker_id": api.worker,
                                             "events": success(first)}, status=409)
    same(refused["code"], "superseded")
    api.post("/api/worker/pool/deregister", {"name": api.worker})
    third = api.lease_one()
    same(third["meta"]["attempt"], 2)  # a good-bye does not count
    api.lease(events=success(third), max=0)
    yes(api.wait(run)["completed"])


@case
def control(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    with api.stream(f"/api/worker/control?worker_id={api.worker}") as stream:
        events = sse(stream)
        api.post(f"/api/executions/{run}/cancel", {})
        event = next(events)
    same(event["event"], "cancel")
    same(event["data"]["event_id"], str(command["event_id"]))
    same(event["data"]["command_id"], command["meta"]["command_id"])
    api.get("/api/worker/control", status=400)
