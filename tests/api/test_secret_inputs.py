"""Inputs marked `# ui:secret`: tools get them, nothing that is stored or shown holds them."""
import contextlib
import pathlib
import sqlite3

from harness import case, check, expect, running
from http_service import http_service
from worker import worker_of

SERVER = {"worker": True}
SECRET = "sesame-4711-open"

CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: inner, path: secret/inner}
workload: {password: ""}
workflow:
  - step: show
    tool:
      kind: python
      input: {password: "{{ workload.password }}"}
      code: |
        result = {"length": len(password), "shown": password}
"""

PARENT = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: outer, path: secret/outer}
workload:
  key: ""  # ui:secret
  url: ""
workflow:
  - step: fetch
    tool:
      kind: http
      method: GET
      url: "{{ workload.url }}"
      headers: {X-Key: "Bearer {{ workload.key }}"}
    next: {arcs: [{step: call}]}
  - step: call
    tool: {kind: playbook, path: secret/inner, input: {password: "{{ workload.key }}"}, return_result: true}
    next: {arcs: [{step: pipe}]}
  - step: pipe
    tool:
      - {name: look, kind: python, input: {k: "{{ workload.key }}"}, code: "result = {'length': len(k)}"}
      - {name: inner, kind: playbook, path: secret/inner, input: {password: "{{ workload.key }}"}, return_result: true}
    next: {arcs: [{step: done}]}
  - step: done
    tool: {kind: noop, result: {called: "{{ call.length }}", piped: "{{ pipe.length }}"}}
"""


def ended(server, execution_id):
    return check(server.get(f"/api/executions/{execution_id}/wait?timeout_seconds=60"), 200)


def start(server, workload, status=200):
    answer = check(server.post("/api/execute", {"path": "secret/outer", "workload": workload}), status)
    return answer.get("execution_id")


@contextlib.contextmanager
def separate_worker(server, **settings):
    """A worker process of its own, which keeps nothing and tells nothing."""
    with worker_of(server, settings) as worker:
        yield
        expect(worker.stop() == 0, worker.text())
        expect(SECRET not in worker.text(), "the log of the worker holds the secret")
        for file in pathlib.Path(worker.directory.name).rglob("*"):
            if file.is_file():
                expect(SECRET.encode() not in file.read_bytes(), f"{file.name} holds the secret")


@case
def with_the_worker_of_the_server(server):
    tools_get_it_and_nobody_else(server)


@case
def with_a_worker_of_its_own(server):
    with running(server) as other, separate_worker(other):
        tools_get_it_and_nobody_else(other)


@case
def with_a_worker_that_gets_them_sealed(server):
    with running(server) as other, separate_worker(other, NOETL_SEALED_CREDENTIALS="1"):
        tools_get_it_and_nobody_else(other)
        # In no other form.
        metrics = other.get("/metrics").data.decode()
        ok = 'noetl_secret_audit_writes_total{operation="%s",outcome="ok",status="ok"} '
        expect(ok % "get_credential" + "0\n" in metrics, metrics)
        expect(ok % "get_sealed" in metrics and ok % "get_sealed" + "0\n" not in metrics, metrics)


def tools_get_it_and_nobody_else(server):
    seen = []

    def echo(request):
        seen.append(request.headers.get("X-Key"))
        return 200, {"ok": True}

    for content in (CHILD, PARENT):
        check(server.post("/api/catalog/register", {"content": content}), 200)
    with http_service(echo) as url:
        first = start(server, {"key": SECRET, "url": url + "/"})
        end = ended(server, first)
        detail = check(server.get(f"/api/executions/{first}"), 200)
        expect(end["status"] == "COMPLETED", f"{end}\n{detail}")
        again = check(server.post(f"/api/executions/{first}/rerun", {}), 200)["execution_id"]
        expect(ended(server, again)["status"] == "COMPLETED", "the rerun failed")
    expect(seen == [f"Bearer {SECRET}"] * 2, f"the service saw {seen}")

    database = sqlite3.connect(f"file:{pathlib.Path(server.directory) / 'noetl.db'}?mode=ro", uri=True)
    results = [text for (text,) in database.execute(
        "SELECT result FROM event WHERE event_type = 'playbook.completed' AND result IS NOT NULL")]
    wanted = f'"called":{len(SECRET)},"piped":{len(SECRET)}'
    expect(sum(wanted in text for text in results) == 2, f"{results}")
    for path in [f"/api/executions/{first}", f"/api/executions/{first}/events?limit=1000",
                 f"/api/executions/{first}/logs", "/api/executions", "/metrics"]:
        expect(SECRET not in server.get(path).data.decode(), f"GET {path} shows the secret")
    database.close()
    for file in pathlib.Path(server.directory).rglob("*"):
        if file.is_file():
            expect(SECRET.encode() not in file.read_bytes(), f"{file.name} holds the secret")


@case
def references_cannot_be_made_up(server):
    first = start(server, {"key": SECRET, "url": "http://127.0.0.1:9/"})
    reference = {"_secret": f"input/{first}/key"}
    refused = server.post("/api/execute", {"path": "secret/outer", "workload": {"key": reference}})
    check(refused, 422, {"error": lambda text: "input 'key'" in text})
    # A parent that does not have it is no excuse.
    other = start(server, {"key": "another", "url": "http://127.0.0.1:9/"})
    refused = server.post("/api/execute", {"path": "secret/inner", "workload": {"password": reference},
                                           "parent_execution_id": other})
    check(refused, 422, {"error": lambda text: "input 'password'" in text})
