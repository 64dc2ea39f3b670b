"""Server-sent events of runs, and logs that are followed."""
from harness import case
from runs import ONE_STEP, TWO_STEPS, Runs, same, sse, success


@case
def a_run_from_start_to_end(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    with api.stream(f"/api/executions/{run}/stream") as stream:
        events = sse(stream)
        seen = [next(events)]
        same(seen[0]["event"], "playbook_started")
        for _ in range(2):
            api.lease(events=success(api.lease_one()), max=0)
        for event in events:
            seen.append(event)
    same(seen[-1]["event"], "end")
    same(seen[-1]["data"]["status"], "COMPLETED")
    stored = api.events(run)
    same([event["id"] for event in seen[:-1]], [event["event_id"] for event in stored])
    same([event["event"] for event in seen[:-1]], [event["event_type"] for event in stored])
    same(seen[0]["data"]["execution_id"], run)

    middle = seen[2]["id"]
    for path, headers in ((f"/api/executions/{run}/stream", {"Last-Event-ID": middle}),
                          (f"/api/executions/{run}/stream?after={middle}", {})):
        with api.stream(path, headers) as stream:
            rest = list(sse(stream))
        same(rest, seen[3:])
    api.get("/api/executions/12345/stream", status=404)
    api.get("/api/executions/12345/logs", status=404)
    api.get("/api/executions/stream?after=x", status=400)


@case
def the_list(server):
    api = Runs(server)
    path, _ = api.register(ONE_STEP)
    with api.stream(f"/api/executions/stream?path={path}") as stream:
        events = sse(stream)
        first = next(events)
        same((first["event"], first["data"]["executions"]), ("snapshot", []))
        run = api.start(path)
        changed = next(events)
        same((changed["event"], changed["data"]["execution_id"]), ("execution", run))
        api.post(f"/api/executions/{run}/cancel", {})
        while changed["data"]["status"] != "CANCELLED":
            changed = next(events)
        last = changed["id"]
    other = api.start(path)
    with api.stream(f"/api/executions/stream?path={path}", {"Last-Event-ID": last}) as stream:
        same(next(sse(stream))["data"]["execution_id"], other)


@case
def logs(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    body = {"command_id": command["meta"]["command_id"], "worker_id": api.worker,
            "claim_token": command["claim_token"]}
    with api.stream(f"/api/executions/{run}/logs?follow=true") as stream:
        events = sse(stream)
        for i, text in enumerate(("one\n", "two\n")):
            chunk = {"stream": "stdout", "offset": 4 * i, "text": text}
            api.post(f"/api/executions/{run}/logs", {**body, "chunks": [chunk]})
            same(next(events)["data"]["text"], text)
        api.lease(events=success(command), max=0)
        same([event["event"] for event in events], ["end"])
    with api.stream(f"/api/executions/{run}/logs?follow=true&format=text") as stream:
        same(stream.read().decode(), "one\ntwo\n")
