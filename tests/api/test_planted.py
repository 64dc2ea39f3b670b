"""Secrets planted into every field of credentials of many types, and tools that give away all they can.

Nothing that is stored, logged, counted, answered or seen in the list of processes may hold one; only
the answer to whoever asks for the credential's data does.
"""
import pathlib
import threading

from harness import case, check, expect
from http_service import http_service

SERVER = {"worker": True}
MARK = "planted-9d1f"

# Of each type the fields that it has; those that say where and who come first, behind them secrets.
PLACES = {
    "postgres": (["db_host", "db_user", "db_name", "sslmode"], ["db_password"]),
    "bearer": ([], ["token"]),
    "api_key": (["header"], ["api_key", "value"]),
    "basic": (["username"], ["password"]),
    "nats": (["nats_url", "nats_user"], ["nats_password", "nats_token"]),
    "snowflake": (["sf_account", "sf_user"], ["sf_password", "sf_private_key"]),
    "aws": (["region"], ["access_key_id", "secret_access_key", "session_token"]),
    "gcs_hmac": (["key_id"], ["secret_key"]),
    "oauth2": (["token_url", "client_id"], ["client_secret", "access_token", "refresh_token"]),
    "google_service_account": (["client_email"], ["private_key", "private_key_id"]),
    "secret": ([], ["value"]),
}

FLOW = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: leaky, path: planted/leaky}
workload: {url: ""}
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: wrong}, {step: connect}, {step: tell}, {step: crash}]}
  - step: ask
    tool: {kind: http, method: GET, url: "{{ workload.url }}/echo", auth: planted_bearer}
  - step: wrong
    tool: {kind: http, method: GET, url: "{{ workload.url }}/refuse", auth: planted_basic}
    spec: {on_error: continue}
  - step: connect
    tool: {kind: postgres, auth: closed_port, query: "SELECT 1"}
    spec: {on_error: continue}
  - step: tell
    tool:
      kind: python
      input: {one: "{{ keychain.planted_secret.value }}", two: "{{ keychain.planted_aws.secret_access_key }}"}
      code: |
        import sys
        print("out", one, two)
        print("err", one, two, file=sys.stderr)
        result = {"one": one, "both": one + two, "list": [two]}
  - step: crash
    tool:
      kind: shell
      env: {TOKEN: "{{ keychain.planted_bearer.token }}"}
      cmds: 'echo "$TOKEN"; echo "$TOKEN" >&2; exit 3'
    spec: {on_error: continue}
"""


def parrot(request):
    """Answers with what it was sent."""
    return (200 if request.path == "/echo" else 401, str(request.headers).encode(),
            {"X-Parrot": request.headers.get("Authorization", "")})


def planted(kind, field):
    return f"{MARK}-{kind}-{field}"


class ProcessList(threading.Thread):
    """Reads the command lines of all processes again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.found, self.rounds, self.over = set(), 0, threading.Event()

    def run(self):
        while not self.over.is_set():
            for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if MARK.encode() in path.read_bytes():
                        self.found.add(path.read_bytes()[:200])
                except OSError:
                    pass  # it has ended
            self.rounds += 1


def scan(server, texts, marks):
    """Places where one of the marks is readable."""
    found = [f"{mark} in the answer to {name}" for name, data in texts.items()
             for mark in marks if mark.encode() in data]
    for path in pathlib.Path(server.directory).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += [f"{mark} in {path.name}" for mark in marks if mark.encode() in data]
    return found


@case
def stored_credentials_show_nothing(server):
    marks = []
    for kind, (places, secrets) in PLACES.items():
        data = {field: planted(kind, field) for field in places + secrets}
        marks += data.values()
        body = {"name": f"planted_{kind}", "type": kind, "data": data}
        answer = server.post("/api/credentials", body)
        check(answer, 200)
        expect(MARK not in answer.data.decode(), f"the answer shows it\n{answer}")
        shown = check(server.get(f"/api/credentials/planted_{kind}?include_data=true"), 200)
        expect(shown["data"] == data, f"{shown}")
    wrong = {"name": "x", "type": "bearer", "data": {"token": planted("wrong", "token")}, "tags": 7}
    texts = {path: server.get(path).data for path in (
        "/api/credentials", "/api/credentials/planted_aws", "/metrics", "/api/dashboard/stats",
        "/api/catalog/list", "/api/status")}
    texts["a refused credential"] = server.post("/api/credentials", wrong).data
    found = scan(server, texts, [*marks, planted("wrong", "token")])
    expect(not found, "\n".join(found))


@case
def tools_that_give_away_what_they_can(server):
    processes = ProcessList()
    processes.start()
    try:
        check(server.post("/api/credentials", {
            "name": "closed_port", "type": "postgres",
            "data": {"db_host": "127.0.0.1", "db_port": "9", "db_user": "u", "db_name": "d",
                     "db_password": planted("postgres", "db_password")}}), 200)
        check(server.post("/api/catalog/register", {"content": FLOW}), 200)
        with http_service(parrot) as url:
            run = check(server.post("/api/execute", {"path": "planted/leaky", "workload": {"url": url}}),
                        200)["execution_id"]
            end = check(server.get(f"/api/executions/{run}/wait?timeout_seconds=60"), 200)
        expect(end["status"] in ("COMPLETED", "FAILED"), f"{end}")
    finally:
        processes.over.set()
        processes.join()
    events = check(server.get(f"/api/executions/{run}/events?limit=1000&redact=true"), 200)["events"]
    ended = {event["node_name"] for event in events
             if event["event_type"] in ("command.completed", "command.failed")}
    expect(ended == {"start", "ask", "wrong", "connect", "tell", "crash"}, f"only {ended} ran\n{end}")
    logs = server.get(f"/api/executions/{run}/logs").data.decode()
    expect("out *" in logs and "err *" in logs, f"the tools did not have the secrets: {logs}")
    expect(processes.rounds > 0 and not processes.found, f"seen in the process list: {processes.found}")
    texts = {path: server.get(path).data for path in (
        f"/api/executions/{run}", f"/api/executions/{run}/status", f"/api/executions/{run}/logs",
        f"/api/executions/{run}/events?limit=1000", f"/api/executions/{run}/analyze",
        f"/api/replay/state?execution_id={run}", "/api/executions", "/metrics",
        "/api/internal/secret-audit", f"/api/vars/{run}")}
    secrets = [planted(kind, field) for kind, (_, fields) in PLACES.items() for field in fields]
    found = scan(server, texts, secrets)
    expect(not found, "\n".join(found))
