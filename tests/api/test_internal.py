"""What other parts of a cluster ask for, behind the internal token."""
from harness import case, check, expect, in_parallel, running, wait_until

TOKEN = "a-token-of-workers"
SETTINGS = {"NOETL_INTERNAL_API_TOKEN": TOKEN, "NOETL_OUTBOX_DRAINER": "external"}
SERVER = {"settings": SETTINGS}
INNER = {"Authorization": f"Bearer {TOKEN}"}

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: inner, path: inner/one}
workflow:
- step: start
  tool: {kind: python, code: "return 1"}
"""

ROUTES = [
    ("POST", "/api/internal/outbox/claim", {}),
    ("POST", "/api/internal/outbox/mark-published", {"outbox_ids": [1]}),
    ("POST", "/api/internal/outbox/mark-failed", {"outbox_id": 1, "error": "x"}),
    ("GET", "/api/internal/outbox/pending-count", None),
    ("POST", "/api/internal/events/project", {"events": []}),
    ("POST", "/api/internal/events/materialize", []),
    ("POST", "/api/internal/projection/advance", {"execution_ids": []}),
    ("POST", "/api/internal/cleanup/purge", {}),
    ("POST", "/api/internal/container-callback/1/s", {"state": "failed", "job_name": "j"}),
    ("POST", "/api/internal/result-tier/gc", {}),
    ("POST", "/api/internal/sink-state/mark", {"execution_id": 1}),
    ("POST", "/api/internal/sink-state/confirm", {"execution_id": 1}),
    ("POST", "/api/internal/sink-state/release", {"execution_id": 1}),
]


def inner(server):
    return server.client(INNER)


def started(server):
    check(server.post("/api/catalog/register", {"content": PLAYBOOK}), 200)
    return int(check(server.post("/api/execute", {"path": "inner/one"}), 200)["execution_id"])


@case
def the_token(server):
    for method, path, body in ROUTES:
        for header in ({}, {"Authorization": "Bearer other"}, {"Authorization": f"Basic {TOKEN}"},
                       {"Authorization": "Bearer "}, {"Authorization": TOKEN}):
            check(server.client(header).request(method, path, body), 403)
    lower = server.client({"Authorization": f"bearer {TOKEN}"})
    check(lower.get("/api/internal/outbox/pending-count"), 200)
    with running(server) as bare:
        for method, path, body in ROUTES:
            check(bare.request(method, path, body, headers=INNER), 503)


@case
def outbox(server):
    client = inner(server)
    run = started(server)
    pending = check(client.get("/api/internal/outbox/pending-count"), 200, {"pending": int})["pending"]
    expect(pending > 0, "nothing is pending")
    answer = check(client.post("/api/internal/outbox/claim", {"limit": 1000}), 200,
                   {"claimed": pending})
    rows = [row for row in answer["rows"] if row["execution_id"] == run]
    ids = [row["outbox_id"] for row in answer["rows"]]
    expect(ids == sorted(ids), f"{ids}")
    expect(rows[0]["payload"]["event_type"] == "playbook.started"
           or rows[0]["payload"]["event_type"] == "playbook_started", f"{rows[0]}")
    for row in rows:
        payload = row["payload"]
        expect(row["subject"] == "noetl.events." + payload["event_type"], f"{row}")
        expect(payload["event_id"] == row["event_id"] and payload["execution_id"] == run, f"{row}")
        expect(row["payload_codec"] == "json" and row["attempts"] == 1, f"{row}")
        expect(payload["timestamp"].endswith("Z"), f"{row}")
    check(client.get("/api/internal/outbox/pending-count"), 200, {"pending": 0})
    check(client.post("/api/internal/outbox/claim", {}), 200, {"rows": [], "claimed": 0})

    failed, published = ids[0], ids[1:]
    check(client.post("/api/internal/outbox/mark-failed",
                      {"outbox_id": str(failed), "error": "e" * 3000, "attempts": 1}), 200,
          {"marked": True, "available_at_in": 1})
    check(client.post("/api/internal/outbox/mark-published", {"outbox_ids": published}), 200,
          {"marked": len(published)})
    check(client.post("/api/internal/outbox/mark-published", {"outbox_ids": [str(published[0])]}), 200,
          {"marked": 1})
    check(client.post("/api/internal/outbox/mark-failed", {"outbox_id": published[0], "error": "x"}),
          200, {"marked": False})
    again = wait_until("the second attempt", lambda: check(
        client.post("/api/internal/outbox/claim", {"limit": 0}), 200)["rows"])
    expect([row["outbox_id"] for row in again] == [failed] and again[0]["attempts"] == 2, f"{again}")
    check(client.post("/api/internal/outbox/mark-published", {"outbox_ids": [failed]}), 200,
          {"marked": 1})


@case
def outbox_delays(server):
    client = inner(server)
    for attempts, most, delay in ((0, 300, 1), (1, 300, 1), (2, 300, 2), (5, 300, 16), (9, 300, 256),
                                  (20, 300, 256), (5, 10, 10)):
        check(client.post("/api/internal/outbox/mark-failed", {
            "outbox_id": 999999999, "error": "x", "attempts": attempts, "max_delay_seconds": most}),
            200, {"marked": False, "available_at_in": delay})
    check(client.post("/api/internal/outbox/mark-failed", {"outbox_id": 1, "error": ""}), 400)
    for body in ({"error": "x"}, {"outbox_id": 1, "error": "x", "max_delay_seconds": 0},
                 {"outbox_id": 1, "error": "x", "max_delay_seconds": 86401}):
        check(client.post("/api/internal/outbox/mark-failed", body), 422)
    check(client.post("/api/internal/outbox/mark-published", {"outbox_ids": []}), 400)
    for body in ({}, {"outbox_ids": ["x"]}, {"outbox_ids": list(range(1, 1002))}):
        check(client.post("/api/internal/outbox/mark-published", body), 422)
    check(client.post("/api/internal/outbox/claim", {"limit": "x"}), 422)
    check(client.get("/api/internal/outbox/claim"), 405)


@case
def claimers_share_the_outbox(server):
    for _ in range(10):
        started(server)
    claims = in_parallel(4, lambda _: [
        row["outbox_id"] for _ in range(40)
        for row in check(inner(server).post("/api/internal/outbox/claim", {"limit": 2}), 200)["rows"]])
    ids = [row for claim in claims for row in claim]
    expect(len(ids) >= 20 and len(ids) == len(set(ids)), f"{sorted(ids)}")
    check(inner(server).post("/api/internal/outbox/mark-published", {"outbox_ids": ids}), 200,
          {"marked": len(ids)})


@case
def outbox_leases(server):
    settings = {**SETTINGS, "NOETL_OUTBOX_LEASE_SECONDS": "1"}
    with running(server, settings=settings) as other:
        started(other)
        client = inner(other)
        first = check(client.post("/api/internal/outbox/claim", {}), 200)["rows"]
        second = wait_until("the end of the lease", lambda: check(
            client.post("/api/internal/outbox/claim", {}), 200)["rows"])
        expect([row["outbox_id"] for row in first] == [row["outbox_id"] for row in second], "rows")
        expect(all(row["attempts"] == 2 for row in second), f"{second}")


@case
def project(server):
    client = inner(server)
    run = started(server)
    first = run + 1000
    events = [{"event_id": first, "execution_id": run, "event_type": "note.one", "node_name": "start",
               "status": "OK", "timestamp": "2026-06-18T12:00:00.5", "worker_id": "w",
               "context": {"a": 1}, "extra": True},
              {"event_id": str(first + 1), "execution_id": str(run), "event_type": "note.two",
               "node_name": "start", "created_at": "2026-06-18 12:00:00"},
              {"event_id": first, "execution_id": run, "event_type": "note.one", "node_name": "start"}]
    check(client.post("/api/internal/events/project", {"events": events}), 200,
          {"projected": 2, "duplicates": 1, "quarantined": 0, "rejected": []})
    check(client.post("/api/internal/events/project", {"events": events}), 200,
          {"projected": 0, "duplicates": 3, "rejected": []})
    bad = [{"event_id": 1, "event_type": "note.x"},
           {"event_id": 2, "execution_id": 42, "event_type": "note.x"},
           {"event_id": 3, "execution_id": run},
           {"event_id": 4, "execution_id": run, "event_type": "note.x", "timestamp": "soon"},
           {"event_id": 5, "execution_id": run, "event_type": "note.x", "result": {"data": 1}},
           {"event_id": 6, "execution_id": run, "event_type": "playbook.completed"},
           {"event_id": first + 2, "execution_id": run, "event_type": "note.three",
            "node_name": "start"}]
    answer = check(client.post("/api/internal/events/project", {"events": bad}), 200,
                   {"projected": 1, "duplicates": 0})
    expect([item["event_id"] for item in answer["rejected"]] == [1, 2, 3, 4, 5, 6], f"{answer}")
    expect(all(item["reason"] for item in answer["rejected"]), f"{answer}")
    check(client.post("/api/internal/events/project", {"events": []}), 400)
    for body in ({}, {"events": 3}, {"events": [{"event_id": 1}] * 1001}):
        check(client.post("/api/internal/events/project", body), 422)


@case
def materialize(server):
    client = inner(server)
    run = started(server)
    events = [{"execution_id": run, "event_type": "note.one", "step": "start", "event_id": run + 2000,
               "context": {"x": 1}}]
    check(client.post("/api/internal/events/materialize", events), 200,
          {"materialized": 1, "duplicates": 0})
    check(client.post("/api/internal/events/materialize", events), 200,
          {"materialized": 0, "duplicates": 1})
    check(client.post("/api/internal/events/materialize", []), 200,
          {"materialized": 0, "duplicates": 0})
    answer = check(client.post("/api/internal/events/materialize", [
        {"execution_id": run}, {"execution_id": run, "event_type": "playbook.failed", "step": "start"},
        {"execution_id": 42, "event_type": "note.one", "step": "start"}]), 200, {"materialized": 0})
    expect(len(answer["rejected"]) == 3, f"{answer}")
    check(client.post("/api/internal/events/materialize", {}), 422)


@case
def advance(server):
    client = inner(server)
    run = started(server)
    answer = check(client.post("/api/internal/projection/advance",
                               {"execution_ids": [run, str(run), 43]}), 200,
                   {"advanced": [{"execution_id": run, "version": int, "events": int}],
                    "failed": [{"execution_id": 43, "error": str}]})
    version = answer["advanced"][0]["version"]
    check(client.post("/api/internal/events/project", {"events": [
        {"event_id": version + 5000, "execution_id": run, "event_type": "note.x"}]}), 200,
        {"projected": 1})
    check(client.post("/api/internal/projection/advance", {"execution_ids": [run]}), 200,
          {"advanced": [{"version": version + 5000,
                         "events": answer["advanced"][0]["events"] + 1}]})
    check(client.post("/api/internal/projection/advance", {"execution_ids": []}), 200,
          {"advanced": [], "failed": []})
    for body in ({}, {"execution_ids": ["x"]}, {"execution_ids": list(range(1, 502))}):
        check(client.post("/api/internal/projection/advance", body), 422)


@case
def purge(server):
    client = inner(server)
    check(server.post("/api/worker/pool/register", {"name": "alive"}), 200)
    wanted = {"commands_purged": 0, "runtime_purged": 0, "events_purged": 0}
    check(client.post("/api/internal/cleanup/purge"), 200, wanted)
    check(client.post("/api/internal/cleanup/purge", {"event_retention_days": 1, "dry_run": True}), 200,
          {**wanted, "dry_run": True})
    check(client.post("/api/internal/cleanup/purge", {
        "event_retention_days": 1, "runtime_stale_minutes": "60"}), 422)
    check(client.post("/api/internal/cleanup/purge", {
        "command_retention_days": -1, "runtime_stale_minutes": -1, "event_retention_days": -1}), 200,
        wanted)
    names = [row["name"] for row in check(server.get("/api/worker/pools"), 200)]
    expect("alive" in names, f"{names}")


def parked(server):
    """A run whose only step waits for a container."""
    run = started(server)
    page = check(server.get(f"/api/executions/{run}/events"), 200)
    issued = [event for event in page["events"] if event["event_type"] == "command.issued"][0]
    event_id = int(issued["event_id"])
    claim = check(inner(server).post(f"/api/commands/{event_id}/claim", {"worker_id": "w"}), 200)
    command = claim["meta"]["command_id"]
    check(inner(server).post("/api/events", {
        "execution_id": run, "event_type": "command.completed", "step": "start", "worker_id": "w",
        "payload": {"command_id": command, "pending_callback": True}}), 200)
    return run


def status_of(server, run):
    return check(server.get(f"/api/executions/{run}/status"), 200)["status"]


@case
def container_callback(server):
    client = inner(server)
    body = {"state": "succeeded", "job_name": "job-1", "exit_code": 0,
            "completed_at": "2026-06-18T12:00:00Z"}
    route = "/api/internal/container-callback"
    run = parked(server)
    expect(status_of(server, run) == "RUNNING", "the run waits")
    check(client.post(f"{route}/{run}/other", body), 202, {"status": "accepted_stale"})
    check(client.post(f"{route}/{run}/start", body), 202,
          {"status": "accepted_in_flight", "event_id": str})
    wait_until("the end of the run", lambda: status_of(server, run) == "COMPLETED")
    # Again: nothing waits any more.
    check(client.post(f"{route}/{run}/start", body), 202, {"status": "accepted_stale"})
    check(client.post(f"{route}/12345/start", body), 202, {"status": "accepted_stale"})

    failing = parked(server)
    check(client.post(f"{route}/{failing}/start", {**body, "state": "failed_oom", "reason": "OOM"}),
          202, {"status": "accepted_in_flight"})
    wait_until("the end of the run", lambda: status_of(server, failing) == "FAILED")

    check(client.post(f"{route}/x/start", body), 422)
    check(client.post(f"{route}/{run}/%20", body), 422)
    for change in ({"state": "fine"}, {"state": None}, {"job_name": ""}, {"exit_code": "x"},
                   {"completed_at": "soon"}):
        check(client.post(f"{route}/{run}/start", {**body, **change}), 422)


@case
def accepted_without_effect(server):
    client = inner(server)
    check(client.post("/api/internal/result-tier/gc"), 200, {"enabled": False, "candidates": []})
    for action in ("mark", "confirm", "release"):
        check(client.post(f"/api/internal/sink-state/{action}", {"execution_id": "42"}), 200,
              {"execution_id": 42, "changed": False})
        check(client.post(f"/api/internal/sink-state/{action}", {}), 422)
