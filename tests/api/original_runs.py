"""Runs whose commands workers of the original project execute: they are told of them and claim them."""
import collections
import random
import time

from harness import check, expect, in_parallel
from original_worker import Gone

TWO_STEPS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two, path: old/two}
workload: {who: world}
workflow:
  - step: start
    tool: {kind: python, code: "return 1", args: {who: "{{ workload.who }}"}}
    next: [{step: second}]
  - step: second
    tool: {kind: python, code: "return 2", args: {first: "{{ start.n }}"}}
"""

# Far longer than it takes on a loaded machine.
ROUNDS_SECONDS_MAX = 120


def register(server, content):
    check(server.post("/api/catalog/register", {"content": content}), 200)


def start(client, path, **more):
    return check(client.post("/api/execute", {"path": path, **more}), 200)["execution_id"]


def status(client, execution):
    return check(client.get(f"/api/executions/{execution}/status"), 200)["status"]


class Bell:
    """The message bus: tells of every command that is issued, now and then twice."""

    def __init__(self, client, executions, seed):
        self.client, self.random = client, random.Random(seed)
        self.after = {execution: None for execution in executions}

    def ring(self):
        found = []
        for execution, after in list(self.after.items()):
            path = f"/api/executions/{execution}/events?limit=1000"
            path += f"&after={after}" if after else ""
            body = check(self.client.get(path), 200)
            for event in body["events"]:
                self.after[execution] = event["event_id"]
                if event["event_type"] == "command.issued":
                    found.append({"event_id": int(event["event_id"])})
                    if self.random.random() < 0.2:
                        found.append({"event_id": int(event["event_id"])})
        self.random.shuffle(found)
        return found


def drive(server, executions, workers, tool, seed, during=lambda round_number: None):
    """Rings and runs until every execution has ended."""
    bell = Bell(server, executions, seed)
    generator = random.Random(seed)
    backlog = []

    def serve(worker, todo):
        """What the worker was told of and did not come to: the bus tells somebody else."""
        while todo:
            try:
                worker.run(todo[0], lambda command: tool(worker, command))
            except Gone:
                return todo[1:]
            todo = todo[1:]
        return []

    deadline = time.monotonic() + ROUNDS_SECONDS_MAX
    while time.monotonic() < deadline:
        during(0)
        backlog += bell.ring()
        alive = [worker for worker in workers if not worker.dead]
        if alive and backlog:
            again = [entry for entry in backlog if generator.random() < 0.1]
            parts = [backlog[index::len(alive)] for index in range(len(alive))]
            left = in_parallel(len(alive), lambda index: serve(alive[index], parts[index]))
            backlog = again + [entry for part in left for entry in part]
        for worker in alive:
            if not worker.dead:
                worker.heartbeat()
        if all(status(server, execution) != "RUNNING" for execution in executions):
            return
        if not backlog:
            time.sleep(0.02)
    raise AssertionError("the runs did not end")


def check_log(server, execution, commands_wanted):
    """One terminal, one end for each command that was not replaced; late ones only of replaced."""
    events = check(server.get(f"/api/executions/{execution}/events?limit=1000"), 200)["events"]
    counts = collections.Counter(event["event_type"] for event in events)
    expect(counts["playbook.completed"] == 1, f"{execution}: {counts}")
    late = counts["command.completed"] - commands_wanted
    expect(0 <= late <= counts["command.cancelled"], f"{execution}: {counts}")
    expect(counts["command.issued"] == commands_wanted + counts["command.cancelled"],
           f"{execution}: {counts}")
