"""Looking at runs and ending them."""
from harness import case
from runs import FAN_OUT, ONE_STEP, PARENT, TWO_STEPS, inside, no, none, outside, Runs, same, success, yes


def finish(api, run):
    while not api.get(f"/api/executions/{run}/status")["completed"]:
        command = api.lease_one()
        api.lease(events=success(command), max=0)


@case
def lists(server):
    api = Runs(server)
    path, entry = api.register(ONE_STEP)
    runs = [int(api.start(path)) for _ in range(5)]
    page, headers = api.get_with_headers(f"/api/executions?path={path.upper()}&limit=2")
    same([row["execution_id"] for row in page], runs[:2:-1])
    row = page[0]
    same(row["start_time"], row["started_at"])
    for key in ("version", "end_time", "duration_seconds", "duration_human", "progress", "error",
                "parent_execution_id", "completed_at", "event_count"):
        inside(key, row)
    rest, headers = api.get_with_headers(
        f"/api/executions?path={path}&cursor={headers['X-Next-Cursor']}")
    same([row["execution_id"] for row in rest], runs[2::-1])
    outside("X-Next-Cursor", headers)
    paged = api.get(f"/api/executions?path={path}&page=2&page_size=2")
    same([row["execution_id"] for row in paged], [runs[2], runs[1]])
    same(len(api.get(f"/api/executions?catalog_id={entry['catalog_id']}")), 5)
    same(api.get(f"/api/executions?path={path}&status=COMPLETED"), [])
    api.get("/api/executions?limit=-1&offset=-5")
    api.get("/api/executions?catalog_id=x", status=400)
    texts = api.get(f"/api/executions?path={path}&ids=string")
    same(texts[0]["execution_id"], str(runs[-1]))


@case
def detail_and_pages(server):
    api = Runs(server)
    path, _ = api.register(TWO_STEPS)
    run = api.start(path, {"password": "hunter2", "who": "ann"})
    finish(api, run)
    detail = api.get(f"/api/executions/{run}")
    same(detail["status"], "COMPLETED")
    same(detail["workload"]["who"], "ann")
    same(detail["workload"]["password"], "***")
    whole = api.get(f"/api/executions/{run}?redact=false")
    same(whole["workload"]["password"], "hunter2")
    ids = [event["event_id"] for event in detail["events"]]
    same(detail["events"][0]["event_type"], "playbook_started")
    same(detail["events"][-1]["event_type"], "playbook.completed")
    same(len(ids), detail["event_count"])
    page = api.get(f"/api/executions/{run}?page=1&page_size=10")
    same([event["event_id"] for event in page["events"]], ids[:-11:-1])
    same(page["pagination"]["total_events"], len(ids))
    yes(page["pagination"]["has_next"])
    since = api.get(f"/api/executions/{run}?since_event_id={ids[2]}")
    same([event["event_id"] for event in since["events"]], ids[3:])
    entered = api.get(f"/api/executions/{run}?event_type=step.enter")
    same(len(entered["events"]), 2)
    same(api.get(f"/api/executions/{run}?include_events=false")["events"], [])
    api.get("/api/executions/12345", status=404)
    api.get("/api/executions/abc", status=400)


@case
def events_by_cursor(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    finish(api, run)
    all_ids = [event["event_id"] for event in api.events(run)]
    seen, cursor = [], None
    while True:
        page = api.get(f"/api/executions/{run}/events?limit=3" + (f"&after={cursor}" if cursor else ""))
        seen += [event["event_id"] for event in page["events"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    same(seen, all_ids)
    newest = api.get(f"/api/executions/{run}/events?order=desc&limit=2&include_payload=true")
    same([event["event_id"] for event in newest["events"]], all_ids[:-3:-1])
    inside("meta", newest["events"][0])


@case
def status_and_wait(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    status = api.get(f"/api/executions/{run}/status")
    same((status["status"], status["current_step"]), ("RUNNING", "start"))
    same(status["progress"]["running_steps"], 1)
    no(api.get(f"/api/executions/{run}/wait?timeout_ms=1")["completed"])
    finish(api, run)
    status = api.wait(run)
    same((status["status"], status["completed"], status["failed"]), ("COMPLETED", True, False))
    same(sorted(status["completed_steps"]), ["second", "start"])
    none(status["current_step"])
    api.get("/api/executions/12345/status", status=404)
    api.get("/api/executions/12345/events", status=404)
    api.get("/api/executions/12345/wait", status=404)


@case
def cancel_with_a_child(server):
    api = Runs(server)
    child_path, _ = api.register(ONE_STEP)
    run = api.start(api.register(PARENT.replace("CHILD", child_path))[0])
    child = api.until(lambda: api.get(f"/api/executions/{run}/children")["children"])[0]
    event_id = api.issued(child["execution_id"])
    answer = api.post(f"/api/executions/{run}/cancel", {"reason": "enough"})
    same(answer["status"], "cancelled")
    same(answer["cancelled_executions"], [run, child["execution_id"]])
    yes(api.wait(child["execution_id"])["is_cancelled"])
    api.post(f"/api/commands/{event_id}/claim", {"worker_id": api.worker}, status=409)
    again = api.post(f"/api/executions/{run}/cancel", None)
    same((again["status"], again["cancelled_executions"]), ("already_completed", []))
    check = api.get(f"/api/executions/{run}/cancellation-check")
    yes(check["is_cancelled"] and check["cancelled"])
    api.get("/api/executions/12345/cancellation-check", status=404)
    api.post("/api/executions/12345/cancel", {}, status=404)
    api.post("/api/executions/12345/stop", None, status=404)
    api.get("/api/executions/12345/children", status=404)
    same(api.post(f"/api/executions/{api.start(child_path)}/stop", None)["status"], "cancelled")


@case
def finalize(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    api.post(f"/api/executions/{run}/finalize", {"status": "DONE"}, status=422)
    same(api.post(f"/api/executions/{run}/finalize", {"status": "FAILED", "error": "stuck"})
         ["status"], "FAILED")
    refused = api.post(f"/api/executions/{run}/finalize", {"status": "COMPLETED"}, status=409)
    same(refused["code"], "already_terminal")
    same(api.post(f"/api/executions/{run}/finalize", {"reason": "old"})["status"],
         "already_completed")
    status = api.get(f"/api/executions/{run}/status")
    same((status["failed"], status["error"]), (True, "stuck"))
    ends = [event for event in api.events(run) if event["event_type"].startswith("playbook.")]
    same(len(ends), 1)


@case
def cleanup_leaves_new_runs_alone(server):
    api = Runs(server)
    run = int(api.start(api.register(ONE_STEP)[0]))
    answer = api.post("/api/executions/cleanup", {"older_than_minutes": 5, "dry_run": True})
    outside(run, answer["execution_ids"])
    same(answer["cancelled_count"], len(answer["execution_ids"]))
    api.post("/api/executions/cleanup", {"older_than_minutes": 0}, status=422)


@case
def analyze(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    finish(api, run)
    answer = api.post(f"/api/executions/{run}/analyze", {"include_playbook_content": True})
    same(answer["summary"]["terminal_event_type"], "playbook.completed")
    same({node["node_name"] for node in answer["summary"]["slowest_nodes"]},
         {"start", "second"})
    inside("workflow", answer["playbook"]["content"])
    same(len(answer["findings"]), len(answer["recommendations"]))
    api.post("/api/executions/12345/analyze", {}, status=404)


@case
def two_branches_at_once(server):
    api = Runs(server)
    run = api.start(api.register(FAN_OUT)[0])
    api.lease(events=success(api.lease_one()), max=0)
    same(api.get(f"/api/executions/{run}/status")["progress"]["running_steps"], 2)
    commands = [api.lease_one(), api.lease_one()]
    same({command["node_name"] for command in commands}, {"left", "right"})
    api.lease(events=[event for command in commands for event in success(command)], max=0)
    yes(api.wait(run)["completed"])
