"""Starting runs: by path, id and version; once for each key; many at once; again."""
from harness import case, in_parallel
from runs import ONE_STEP, Runs, same, yes


@case
def by_path_id_and_version(server):
    api = Runs(server)
    path, entry = api.register(ONE_STEP)
    api.register(ONE_STEP + "# another version\n", path)
    for body in ({"path": path}, {"catalog_id": entry["catalog_id"]},
                 {"catalog_id": int(entry["catalog_id"])}, {"path": path, "version": 1},
                 {"path": path, "version": "latest"}, {"path": path, "workload": {"a": 1}},
                 {"path": path, "args": {"a": 1}}, {"path": path, "resource_kind": "playbook"}):
        answer = api.post("/api/execute", body)
        yes(isinstance(answer["execution_id"], str))
        same(answer["status"], "started")
        same(answer["commands_generated"], 1)
    run = api.post("/api/execute", {"path": path, "version": 1})
    same(api.get(f"/api/executions/{run['execution_id']}")["version"], 1)


@case
def refusals(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    api.post("/api/execute", {"path": "no/such/playbook"}, status=404)
    api.post("/api/execute", {"path": path, "version": 77}, status=404)
    api.post("/api/execute", {"catalog_id": "x"}, status=422)
    api.post("/api/execute", {}, status=422)
    api.post("/api/execute", {"path": path, "payload": {}, "workload": {}}, status=422)
    api.post("/api/execute", {"path": path, "payload": []}, status=422)
    api.post("/api/execute", {"path": path, "resource_kind": "subscription"}, status=422)


@case
def fifty_at_once_with_one_key_start_one_run(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    body = {"path": path, "dedup": {"key": path, "window_secs": 60}}
    answers = in_parallel(50, lambda _: api.post("/api/execute", body))
    same(len({answer["execution_id"] for answer in answers}), 1)
    states = sorted(answer["status"] for answer in answers)
    same(states, ["duplicate"] * 49 + ["started"])


@case
def a_refused_start_gives_its_key_back(server):
    api = Runs(server)
    path = api.fresh_path()
    body = {"path": path, "dedup": {"key": path}}
    api.post("/api/execute", body, status=404)
    api.register(ONE_STEP, path)
    same(api.post("/api/execute", body)["status"], "started")


@case
def idempotency_key(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    key = {"Idempotency-Key": path}
    first = api.post("/api/execute", {"path": path}, headers=key)
    again = api.post("/api/execute", {"path": path}, headers=key)
    same(first["execution_id"], again["execution_id"])
    other = api.post("/api/execute", {"path": path, "payload": {"a": 1}}, headers=key, status=409)
    same(other["code"], "conflict")


@case
def batch(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    items = [{"path": path}, {"path": "no/such"}, {}] + [{"path": path}] * 97
    answer = api.post("/api/execute/batch", {"executions": items})
    same(answer["count"], 100)
    same(answer["started"], 98)
    same(answer["failed"], 2)
    same([item["index"] for item in answer["results"]], list(range(100)))
    same(answer["results"][1]["status"], "error")
    same(len({item.get("execution_id") for item in answer["results"]}), 99)
    api.post("/api/execute/batch", {"executions": []}, status=422)
    api.post("/api/execute/batch", {"executions": [{}] * 1001}, status=422)


@case
def rerun(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    first = api.start(path, {"a": 1, "b": 2})
    again = api.post(f"/api/executions/{first}/rerun", {"workload": {"b": 3}})
    same(again["source_execution_id"], first)
    same(again["rerun_of"], first)
    workload = api.get(f"/api/executions/{again['execution_id']}")["workload"]
    same((workload["a"], workload["b"]), (1, 3))
    api.post("/api/executions/12345/rerun", {}, status=404)
