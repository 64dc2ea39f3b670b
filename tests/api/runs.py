"""What the tests of runs share: playbooks, a worker that speaks HTTP, streams of events.

Every `Runs` has a pool and a worker of its own, so cases do not take each other's commands.
"""
import contextlib
import http.client
import itertools
import json
import time

from harness import ANSWER_SECONDS_MAX, check, expect, wait_until

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: t, path: PATH }
"""
ONE_STEP = HEAD + """workflow:
  - step: start
    tool: { kind: noop }
"""
TWO_STEPS = HEAD + """workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [ { step: second } ] }
  - step: second
    tool: { kind: noop }
"""
FAN_OUT = HEAD + """workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [ { step: left }, { step: right } ] }
  - step: left
    tool: { kind: noop }
  - step: right
    tool: { kind: noop }
"""
PARENT = HEAD + """workflow:
  - step: start
    tool: { kind: playbook, path: CHILD, return_result: true }
"""

NUMBERS = itertools.count(1)
ID_EPOCH_MS = 1704067200000


def same(got, wanted):
    expect(got == wanted, f"{wanted!r} was expected, not {got!r}")


def yes(value):
    expect(value, f"{value!r} is not true")


def no(value):
    expect(not value, f"{value!r} is not false")


def none(value):
    same(value, None)


def inside(item, whole):
    expect(item in whole, f"{item!r} is not in {whole!r}")


def outside(item, whole):
    expect(item not in whole, f"{item!r} is in {whole!r}")


def event_of(command, event_type, **payload):
    return {"execution_id": command["execution_id"], "step": command["node_name"],
            "event_type": event_type, "claim_token": command["claim_token"],
            "payload": {"command_id": command["meta"]["command_id"], **payload}}


def success(command):
    """What a worker says of a command whose tool ended well."""
    result = {"status": "success", "context": {"data": {"x": 1}}}
    return [event_of(command, "call.done", call_index=0, result=result),
            {**event_of(command, "command.completed"), "status": "success"}]


def sse(stream):
    """The events of a stream, until it ends."""
    event = {}
    for line in stream:
        line = line.decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name] = json.loads(value) if name == "data" else value


class Runs:
    def __init__(self, server):
        self.server = server
        number = next(NUMBERS)
        self.worker, self.pool = f"worker-{number}", f"pool-{number}"

    # requests; the body of the answer, which must have this status

    def call(self, method, path, body=None, status=200, headers=None):
        # A client for each call: cases use several threads.
        client = self.server.client()
        try:
            return check(client.request(method, path, body, headers=headers), status)
        finally:
            client.close()

    def get(self, path, status=200, headers=None):
        return self.call("GET", path, None, status, headers)

    def post(self, path, body=None, status=200, headers=None):
        return self.call("POST", path, body, status, headers)

    def get_with_headers(self, path):
        answer = self.server.get(path)
        return check(answer, 200), answer.headers

    def get_text(self, path):
        answer = self.server.get(path)
        check(answer, 200)
        return answer.data.decode()

    @contextlib.contextmanager
    def stream(self, path, headers=None):
        connection = http.client.HTTPConnection(self.server.host, self.server.port,
                                                timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            self.server.calls.append(("GET", path.split("?")[0], response.status))
            same(response.status, 200)
            yield response
        finally:
            connection.close()

    # playbooks and runs

    def fresh_path(self):
        return f"runs/{next(NUMBERS):06}"

    def fresh_id(self):
        """An id as a worker makes it."""
        return (int(time.time() * 1000) - ID_EPOCH_MS) << 22 | 1023 << 12 | next(NUMBERS) % 4096

    def register(self, content, path=None):
        path = path or self.fresh_path()
        entry = self.post("/api/catalog/register", {"content": content.replace("PATH", path)})
        return path, entry

    def start(self, path, workload=None):
        answer = self.post("/api/execute", {"path": path, "workload": workload or {},
                                            "execution_pool": self.pool})
        same(answer["status"], "started")
        return answer["execution_id"]

    def events(self, run):
        return self.get(f"/api/executions/{run}/events?limit=1000&include_payload=true")["events"]

    def issued(self, run):
        """The event id of the newest command of the run."""
        return wait_until("a command", lambda: [
            int(event["event_id"]) for event in self.events(run)
            if event["event_type"] == "command.issued"])[-1]

    def wait(self, run):
        return self.get(f"/api/executions/{run}/wait?timeout_ms=60000")

    def until(self, condition):
        return wait_until("what was waited for", condition)

    # the worker

    def lease(self, **more):
        body = {"worker_id": self.worker, "pools": [self.pool], "max": 1, "wait_ms": 0, **more}
        return self.post("/api/commands/lease", body)

    def lease_one(self):
        commands = self.lease(wait_ms=30000)["commands"]
        same(len(commands), 1)
        return commands[0]
