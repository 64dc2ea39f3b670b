#!/usr/bin/env python3
"""run.py NOETL: whole playbooks of the shapes that people write, through a real server.

A paginated API copied into PostgreSQL with retries, a queue table drained by a cursor loop, fan-out and
reduction with sub-playbooks, a large result passed by reference, and a pipeline that asks other
playbooks for the results of single steps. Each runs once with the worker inside the server and once
with a worker process of its own, which gets its credentials sealed. PostgreSQL 15 is started here, and the
secrets of both credentials must appear nowhere: not in the log, not in an answer, not on the disk.
"""
import http.client
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from http_service import http_service  # noqa: E402  pylint: disable=wrong-import-position

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
DB_PASSWORD = "shapes-db-password-7f31c2"
API_TOKEN = "shapes-api-token-0b9d4e88"
PAGES, PAGE_ITEMS = 5, 20
WAIT_SECONDS_MAX = 60
SHAPES = 6  # with each kind of worker


class Postgres:
    """A cluster of its own in a temporary folder, as the user postgres when we are root."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="noetl-pg-"))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        password = self.folder / "password"
        password.write_text(DB_PASSWORD)
        if self.user:
            os.chown(password, self.user.pw_uid, self.user.pw_gid)
        self.run("initdb", "-D", self.folder / "data", "-U", "shapes", "-A", "scram-sha-256",
                 "--pwfile", password, "--no-sync", "-E", "UTF8")
        password.unlink()
        self.process = subprocess.Popen(
            [BIN / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-h", "127.0.0.1",
             "-k", self.folder, "-F"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.identity())
        deadline = time.monotonic() + 60
        while subprocess.run([BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                             check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise SystemExit("PostgreSQL did not start")
            time.sleep(0.05)

    def identity(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "cwd": self.folder} if self.user else {}

    def run(self, program, *arguments):
        subprocess.run([BIN / program, *arguments], check=True, stdout=subprocess.DEVNULL,
                       **self.identity())

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pages:
    """Items in pages; every page is refused once before it is given."""

    def __init__(self):
        self.refused = set()

    def answer(self, request):
        page = int(re.search(r"page=(\d+)", request.path).group(1))
        if request.headers.get("Authorization") != f"Bearer {API_TOKEN}":
            return 401, {"error": "who are you?"}
        if page not in self.refused:
            self.refused.add(page)
            return 503, {"error": "not now"}
        first = (page - 1) * PAGE_ITEMS
        items = [{"id": first + n, "name": f"item {first + n} of \u00e4 'list'", "tags": ["a", {"n": n}]}
                 for n in range(PAGE_ITEMS)]
        return 200, {"items": items, "next_page_token": page + 1 if page < PAGES else None}


class Server:
    def __init__(self, binary, own_worker):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="noetl-shapes-"))
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        arguments = [] if own_worker else ["--no-worker"]
        self.log = open(self.folder / "log", "ab")
        self.server = subprocess.Popen(
            [binary, "server", "--port", "0", "--data", str(self.folder / "data"), *arguments],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.port = int(re.search(r":(\d+)\s*$", self.server.stdout.readline()).group(1))
        self.worker = None
        self.answers = []
        if not own_worker:
            self.worker = subprocess.Popen(
                [binary, "worker", "--server", f"http://127.0.0.1:{self.port}", "--state",
                 str(self.folder / "state")],
                stdout=subprocess.DEVNULL, stderr=self.log,
                env={**environment, "NOETL_SEALED_CREDENTIALS": "1", "WORKER_METRICS_BIND": "off"})

    def call(self, method, path, body=None, secret=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if response.status != 200:
            raise SystemExit(f"{method} {path}: {response.status} {data[:600]!r}")
        if not secret:
            self.answers.append(data)
        return json.loads(data)

    def stop(self):
        for process in (self.worker, self.server):
            if process:
                process.send_signal(signal.SIGTERM)
                process.wait()
        self.log.close()


def run_shape(server, name, workload, wanted):
    """Problems: the run must complete with this result."""
    execution, end = run_to_end(server, name, workload)
    events = server.call("GET", f"/api/executions/{execution}/events?limit=1000&include_payload=true")
    last = [event for event in events["events"] if event["event_type"].startswith("playbook.")][-1:]
    result = last[0]["result"]["context"]["data"] if last and end["status"] == "COMPLETED" else None
    if end["status"] != "COMPLETED" or result != wanted:
        return [f"{name}: {end['status']} {json.dumps(result)[:400]} {end.get('error')}"]
    return []


def run_broken(server, name, workload, reason):
    """Problems: the run must fail, and what is shown of it must hold this reason."""
    execution, end = run_to_end(server, name, workload)
    events = server.call("GET", f"/api/executions/{execution}/events?limit=1000&include_payload=true")
    errors = [event.get("error") or "" for event in events["events"]]
    if end["status"] != "FAILED" or not any(re.search(reason, error) for error in errors):
        return [f"{name} that breaks: {end['status']} {errors}"]
    return []


def run_to_end(server, name, workload):
    started = server.call("POST", "/api/execute", {"path": f"shapes/{name}", "workload": workload})
    execution = started["execution_id"]
    end = server.call("GET", f"/api/executions/{execution}/wait?timeout_ms={WAIT_SECONDS_MAX * 1000}")
    for path in ("", "/logs", "/status"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", f"/api/executions/{execution}{path}")
        server.answers.append(connection.getresponse().read())
        connection.close()
    return execution, end


def find_secrets(server):
    """Places where a secret is readable."""
    found = []
    for path in [*server.folder.rglob("*")]:
        if path.is_file():
            data = path.read_bytes()
            found += [f"{secret} in {path.name}" for secret in (DB_PASSWORD, API_TOKEN)
                      if secret.encode() in data]
    for data in server.answers:
        found += [f"{secret} in an answer" for secret in (DB_PASSWORD, API_TOKEN)
                  if secret.encode() in data]
    return found


def run_all(server, database_port, api):
    """What went wrong with the shapes on this server."""
    for file in sorted(HERE.glob("*.yaml")):
        server.call("POST", "/api/catalog/register", {"content": file.read_text()})
    server.call("POST", "/api/credentials", {
        "name": "shapes_db", "type": "postgres",
        "data": {"db_host": "127.0.0.1", "db_port": str(database_port), "db_user": "shapes",
                 "db_password": DB_PASSWORD, "db_name": "postgres"}})
    server.call("POST", "/api/credentials", {
        "name": "shapes_api", "type": "bearer", "data": {"token": API_TOKEN}})
    total = PAGES * PAGE_ITEMS
    problems = run_shape(server, "pages", {"api": api}, {"items": total, "names": total})
    problems += run_shape(server, "queue", {}, {
        "rows": [{"state": "done", "n": 40, "total": 1640}],
        "stats": {"total": 40, "success": 40, "failed": 0}})
    problems += run_shape(server, "fan", {}, {"sum": sum(range(1200)), "parts": 12})
    problems += run_shape(server, "large", {}, {"count": 20000, "last": 19999})
    problems += run_shape(server, "calls", {}, {
        "one_step": {"n": 30}, "another": {"n": 300}, "run": {"all": 2},
        "instead": {"all": 3}, "rows": 4000, "last": 3999, "sound": {"n": 10}})
    problems += run_broken(
        server, "calls", {"breaks": True},
        r"sub-playbook 'shapes/steps' \(run \d+\) ended FAILED: Failed steps: breaks: ")
    return problems


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    postgres = Postgres()
    problems = []
    try:
        for own_worker in (True, False):
            server = Server(binary, own_worker)
            try:
                with http_service(Pages().answer) as api:
                    problems += run_all(server, postgres.port, api)
            finally:
                server.stop()
            problems += find_secrets(server)
            if problems:
                print(f"what was left is in {server.folder}", file=sys.stderr)
                break
            shutil.rmtree(server.folder, ignore_errors=True)
    finally:
        postgres.stop()
    for problem in problems:
        print(f"FAILED {problem}")
    total = 2 * SHAPES
    print(f"{total - len(problems)} of {total} shapes" if problems
          else f"{total} shapes, with and without a worker of their own")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
