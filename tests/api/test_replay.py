"""Replay: states as of a point of the log, against a fold that was written for this file."""
import hashlib
import json
import urllib.parse

from harness import case, check
from runs import HEAD, ONE_STEP, Runs, event_of, inside, outside, same, success, yes

LOOP = HEAD + """workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [ { step: each } ] }
  - step: each
    loop: { in: "{{ workload.rows }}", iterator: item }
    tool: { kind: noop }
"""

PROJECTIONS = {"execution": "execution", "stage": "stages", "frame": "frames",
               "command": "commands", "business_object": "business_objects", "loop": "loops"}
ENDS = {"playbook.completed": "COMPLETED", "playbook.failed": "FAILED",
        "playbook.cancelled": "CANCELLED"}
COMMANDS = {"command.issued": ("PENDING", "issued_event_id"),
            "command.claimed": ("CLAIMED", "claimed_event_id"),
            "command.started": ("RUNNING", "started_event_id"),
            "command.completed": ("COMPLETED", "terminal_event_id"),
            "command.failed": ("FAILED", "terminal_event_id"),
            "command.cancelled": ("CANCELLED", "terminal_event_id")}


def state_of(server, run, status=200, **query):
    query = urllib.parse.urlencode({"execution_id": run, **query})
    return check(server.get(f"/api/replay/state?{query}"), status)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value):
    return {"type": "sha256", "value": hashlib.sha256(canonical(value)).hexdigest()}


def verify(body):
    """Every checksum is that of what is shown."""
    same(set(body["projection_checksums"]), set(PROJECTIONS))
    for name, member in PROJECTIONS.items():
        same(body["projection_checksums"][name], digest(body[member]))
    same(body["checksum"], digest({k: v for k, v in body.items() if k != "checksum"}))


def finish(api, run):
    while not api.get(f"/api/executions/{run}/status")["completed"]:
        api.lease(events=success(api.lease_one()), max=0)


def rows_of(api, run):
    """The log by event id."""
    rows = api.get(f"/api/executions/{run}/events?limit=1000&include_payload=true&redact=false")
    same(rows["next_cursor"], None)
    return sorted(rows["events"], key=lambda row: int(row["event_id"]))


def command_of(row):
    """A command's id ends with the event id of its command.issued, and perhaps :i<index>."""
    parts = ((row["meta"] or {}).get("command_id") or "").split(":")
    numbers = [part for part in parts[2:] if part.isdigit()]
    return numbers[-1] if numbers else None


def fold(rows):
    """What a replay must say of the execution, its commands and loops."""
    status, node, commands, loops, references = "UNKNOWN", None, {}, {}, []
    for row in rows:
        kind, number, meta = row["event_type"], int(row["event_id"]), row["meta"] or {}
        own = "" if row["status"] == "UNKNOWN" else row["status"]
        if kind in ENDS:
            status = ENDS[kind]
        if kind == "step.enter" and status == "UNKNOWN":
            status = "RUNNING"
        if kind in ("step.enter", "step.exit", "command.completed"):
            node = row["node_name"] or node
        if (row["result"] or {}).get("reference") is not None:
            references.append(number)
        if command_of(row):
            command = commands.setdefault(command_of(row), {"status": "UNKNOWN"})
            command["last_event_id"] = number
            if row["worker_id"]:
                command["worker_id"] = row["worker_id"]
            if kind in COMMANDS:
                default, member = COMMANDS[kind]
                command["status"] = own or default
                command[member] = number
            elif kind.startswith("command.") and own:
                command["status"] = own
        if meta.get("loop_id"):
            loop = loops.setdefault(meta["loop_id"], {
                "loop_id": meta["loop_id"], "step_name": row["node_name"], "done": 0, "failed": 0,
                "completed": False, **({"total": meta["total"]} if "total" in meta else {})})
            loop["last_event_id"] = number
            loop["done"] += kind == "command.completed"
            loop["failed"] += kind == "command.failed"
            loop["completed"] |= kind == "loop.done"
    return status, node, commands, loops, references


def compare(body, rows):
    status, node, commands, loops, references = fold(rows)
    verify(body)
    same(body["event_count"], len(rows))
    same(body.get("last_event_id"), int(rows[-1]["event_id"]) if rows else None)
    same(body.get("last_event_type"), rows[-1]["event_type"] if rows else None)
    same(body["execution"]["status"], status)
    same(body["execution"].get("last_node_name"), node)
    same([entry["event_id"] for entry in body["execution"]["payload_refs"]], references)
    same(set(body["commands"]), set(commands))
    for number, wanted in commands.items():
        got = body["commands"][number]
        same({key: got.get(key) for key in wanted}, wanted)
        same(got["command_id"], number)
    same(body["loops"], loops)
    same((body["stages"], body["frames"]), ({}, {}))


def finished_run(server):
    api = Runs(server)
    run = api.start(api.register(LOOP)[0], {"rows": ["a", "b", "c"]})
    finish(api, run)
    return api, run


@case
def every_cutoff(server):
    api, run = finished_run(server)
    rows = rows_of(api, run)
    whole = state_of(server, run)
    compare(whole, rows)
    same(whole["execution"]["status"], "COMPLETED")
    same(list(whole["loops"]), ["each#1"])
    same((whole["loops"]["each#1"]["done"], whole["loops"]["each#1"]["completed"]), (3, True))
    same(len(whole["commands"]), 4)
    for count in range(len(rows) + 1):
        last = int(rows[count - 1]["event_id"]) if count else int(rows[0]["event_id"]) - 1
        body = state_of(server, run, as_of_event_id=last)
        compare(body, rows[:count])
        same(state_of(server, run, as_of_position=last), body)
    same(state_of(server, run, as_of_event_id=rows[-1]["event_id"]), whole)
    for moment in sorted({row["created_at"] for row in rows}):
        compare(state_of(server, run, as_of_time=moment),
                [row for row in rows if row["created_at"] <= moment])
    for seq in (0, 1, 5, len(rows)):
        compare(state_of(server, run, as_of_seq=seq), [row for row in rows if row["seq"] <= seq])


@case
def limits_and_headers(server):
    api, run = finished_run(server)
    rows = rows_of(api, run)
    for limit, folded in ((1, 1), (7, 7), (0, 1), (-4, 1), (len(rows), len(rows)),
                          (10 ** 12, len(rows))):
        answer = server.get(f"/api/replay/state?execution_id={run}&limit={limit}")
        compare(check(answer, 200), rows[:folded])
        same(answer.header("X-Replay-Truncated"), "true" if folded < len(rows) else "false")
        same(answer.header("X-Replay-Events-Folded"), str(folded))
        same(answer.header("X-Replay-Dialect"), "typed")
        same(answer.header("X-Replay-Strict"), "false")
        same(answer.header("X-Replay-Redacted"), None)
    strict = server.get(f"/api/replay/state?execution_id={run}&strict=true&resolve_payloads=false")
    same(strict.header("X-Replay-Strict"), "true")
    verify(check(strict, 200))


@case
def late_events_and_objects(server):
    """An event with a small id that comes late stands at its place, and counts at every cutoff."""
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    before = rows_of(api, run)
    same([row["event_type"] for row in before[2:]], ["command.issued", "command.claimed"])
    late = int(before[2]["event_id"]) + 1
    thing = {"object_type": "order", "object_id": "7"}
    api.post("/api/events", {
        "execution_id": run, "event_id": late, "event_type": "order.created", "step": "start",
        "meta": {"business_object": {**thing, "state": {"total": 5, "password": "hunter2"}}}})
    api.post("/api/events", {
        "execution_id": run, "event_id": api.fresh_id(), "event_type": "order.updated",
        "step": "start",
        "meta": {"business_object": {**thing, "patch": {"total": 6, "é": [1, None]}}}})
    api.lease(events=success(command), max=0)
    api.wait(run)
    rows = rows_of(api, run)
    same([row["event_id"] for row in rows].index(str(late)), 3)
    yes(rows[3]["seq"] > rows[4]["seq"])
    early = state_of(server, run, as_of_event_id=late, redact="false")
    compare(early, rows[:4])
    order = early["business_objects"]["order/7"]
    same(order["attributes"], {"total": 5, "password": "hunter2"})
    same((order["version"], order["event_count"], order["first_event_id"]), (1, 1, late))
    whole = state_of(server, run, redact="false")
    compare(whole, rows)
    order = whole["business_objects"]["order/7"]
    same(order["attributes"], {"total": 6, "password": "hunter2", "é": [1, None]})
    same((order["version"], order["last_event_type"]), (2, "order.updated"))
    answer = server.get(f"/api/replay/state?execution_id={run}")
    same(answer.header("X-Replay-Redacted"), "true")
    same(answer.json["business_objects"]["order/7"]["attributes"]["password"], "***")
    same(answer.json["checksum"], whole["checksum"])
    same(answer.json["projection_checksums"], whole["projection_checksums"])


@case
def projections(server):
    _, run = finished_run(server)
    whole = state_of(server, run)
    for name, member in PROJECTIONS.items():
        echo = state_of(server, run, projection=name)
        verify(echo)
        same(echo["projection"], name)
        same(echo["projection_checksums"], whole["projection_checksums"])
        yes(echo["checksum"] != whole["checksum"])
        only = state_of(server, run, only=name)
        same(only["checksum"], whole["checksum"])
        for other in PROJECTIONS.values():
            (inside if other == member else outside)(other, only)
        same(only[member], whole[member])
    same(state_of(server, run, only="all"), whole)


@case
def empty_logs(server):
    _, run = finished_run(server)
    for query in ({"execution_id": 999}, {"execution_id": run, "tenant_id": "acme"},
                  {"execution_id": run, "organization_id": "acme"}, {"execution_id": -5},
                  {"execution_id": run, "as_of_event_id": 0}):
        answer = server.get("/api/replay/state?" + urllib.parse.urlencode(query))
        body = check(answer, 200)
        compare(body, [])
        same(body["execution_id"], int(query["execution_id"]))
        same(answer.header("X-Replay-Events-Folded"), "0")
    same(state_of(server, 999)["checksum"]["value"],
         "4d21839f5bd6c15f4083db001ab8d3c17df730d4bc845a422b392acca6491e7f")


@case
def flat_dialect(server):
    """The older form: every member is there, checksums are texts."""
    api, run = finished_run(server)
    rows = rows_of(api, run)
    for count in (0, 3, len(rows)):
        last = int(rows[count - 1]["event_id"]) if count else int(rows[0]["event_id"]) - 1
        body = state_of(server, run, as_of_event_id=last, dialect="flat")
        _, _, commands, loops, references = fold(rows[:count])
        sealed = {key: value for key, value in body.items()
                  if key not in ("checksum_algorithm", "checksum", "projection_checksums")}
        same(body["checksum"], digest(sealed)["value"])
        same(body["checksum_algorithm"], "sha256")
        same(body["projection_checksums"]["stages"], digest({"stages": []})["value"])
        same(body["execution"]["last_node_name"], rows[count - 1]["node_name"] if count else None)
        same([entry["event_id"] for entry in body["execution"]["payload_refs"]], references)
        same({key: value["status"] for key, value in body["commands"].items()},
             {key: value["status"] for key, value in commands.items()})
        same({key: value["done"] for key, value in body["loops"].items()},
             {key: value["done"] for key, value in loops.items()})
        same(body["upcaster_registry_digest"], None)
    answer = server.get(f"/api/replay/state?execution_id={run}&dialect=flat")
    same(answer.header("X-Replay-Dialect"), "flat")


@case
def payloads(server):
    """Whether payloads are there is told beside what is sealed."""
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    stored = check(server.put(f"/api/result/{run}", {"name": "rows", "data": [1, 2, 3],
                                                     "source_step": "start"}), 200)["ref"]
    api.post("/api/events", {
        "execution_id": run, "event_id": api.fresh_id(), "event_type": "note", "step": "start",
        "result_kind": "ref", "result_uri": "gs://elsewhere/1"})
    result = {"status": "success", "reference": {"kind": "result_ref", "ref": stored}}
    api.lease(events=[event_of(command, "call.done", call_index=0, result=result),
                      {**event_of(command, "command.completed"), "status": "success"}], max=0)
    same(api.wait(run)["status"], "COMPLETED")
    plain = state_of(server, run)
    compare(plain, rows_of(api, run))
    body = state_of(server, run, resolve_payloads="true")
    found = [row["resolution"] for row in body.pop("payload_resolution")]
    summary = body.pop("payload_resolution_summary")
    same(body, plain)
    same([(row["ref"], row["resolved"], row["row_count"], row["value_type"], row["size_bytes"],
           row["error"]) for row in found],
         [("", False, None, None, None, "payload reference has no resolvable locator"),
          (stored, True, 3, "list", 7, None)])
    same(found[1]["checksum"], digest([1, 2, 3])["value"])
    same((summary["total"], summary["resolved"], summary["unique_refs"]), (2, 1, 1))


@case
def errors(server):
    prefix = "Failed to deserialize query string"
    for query in ("", "execution_id=", "execution_id=x", "execution_id=9223372036854775808",
                  "execution_id=1&execution_id=2", "execution_id=1&as_of_event_id=",
                  "execution_id=1&as_of_position=a", "execution_id=1&as_of_seq=",
                  "execution_id=1&as_of_time=", "execution_id=1&as_of_time=2026-01-01",
                  "execution_id=1&as_of_time=2026-01-01T00:00:00+00:00",
                  "execution_id=1&limit=", "execution_id=1&limit=many",
                  "execution_id=1&resolve_payloads=1", "execution_id=1&strict=yes",
                  "execution_id=1&dialect=Flat", "execution_id=1&redact=no"):
        error = check(server.get(f"/api/replay/state?{query}"), 400)["error"]
        yes(error.startswith(prefix))
    same(check(server.get("/api/replay/state"), 400)["error"],
         prefix + ": missing field `execution_id`")
    same(check(server.get("/api/replay/state?execution_id=1&limit=2&limit=2"), 400)["error"],
         prefix + ": duplicate field `limit`")
    same(state_of(server, 1, 400, as_of_event_id=1, as_of_time="2026-01-01T00:00:00Z")["error"],
         "Use only one replay cutoff: as_of_event_id, as_of_position, or as_of_time")
    wanted = "; expected one of: execution, stage, frame, command, business_object, loop, all"
    same(state_of(server, 1, 400, projection="LOOP")["error"], 'unknown projection "LOOP"' + wanted)
    same(state_of(server, 1, 400, projection='a"\\\n\r\t')["error"],
         'unknown projection "a\\"\\\\\\n\\r\\t"' + wanted)
    same(state_of(server, 1, 400, only="nothing")["error"], 'unknown projection "nothing"' + wanted)
    check(server.get("/api/replay/state?execution_id=1&unknown=1&unknown=2"), 200)
    state_of(server, 1, as_of_time="2026-01-01T00:00:00+00:00")
