#!/usr/bin/env python3
"""run.py NOETL [--executions N] [--workers N] [--slots N] [--seed N] [--every SECONDS]

One server, many worker processes, many runs of a mixed playbook (pipeline, loop, join, sub-playbook,
a process), while workers are killed with SIGKILL, stopped with SIGSTOP beyond their lease and woken,
and asked to leave with SIGTERM, at random. Then the log is read back:

- every run is COMPLETED with the right result, and has one terminal event;
- every piece of work has one end that counts, and no command ended twice;
- a command that ran again ran with a higher fence;
- nothing is open, no lease is left, and the hash chains hold.
"""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

LEASE_SECONDS = 3
IDLE_SECONDS_MAX = 120  # without a run that ended: something is stuck

CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: cluster/child}
workload: {n: 0}
workflow:
  - step: double
    tool: {kind: noop, result: {n: "{{ workload.n * 2 }}"}}
"""

MIXED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: mixed, path: cluster/mixed}
workload: {n: 1, notes: ""}
workflow:
  - step: start
    tool: {kind: noop, result: {n: "{{ workload.n }}"}}
    next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: pipe}, {step: call}]}
  - step: each
    loop: {in: "{{ range(4) }}", iterator: i, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop, result: "{{ i * workload.n }}"}
    next: {arcs: [{step: join}]}
  - step: pipe
    tool:
      - {name: first, kind: noop, result: {n: "{{ workload.n + 1 }}"}}
      - {name: second, kind: noop, result: {n: "{{ first.n + 1 }}"}}
    next: {arcs: [{step: join}]}
  - step: call
    tool: {kind: playbook, path: cluster/child, input: {n: "{{ workload.n }}"}, return_result: true}
    next: {arcs: [{step: join}]}
  - step: join
    tool:
      kind: shell
      cmds: 'echo "$NOETL_IDEMPOTENCY_KEY $NOETL_FENCE" >> {{ workload.notes }}'
    next: {arcs: [{step: sum}]}
  - step: sum
    tool: {kind: noop, result: {sum: "{{ each.results | sum + call.n }}"}}
"""


class Api:
    def __init__(self, port):
        self.port, self.connection = port, None

    def call(self, method, path, body=None):
        for _ in range(50):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.connection.request(method, path, None if body is None else json.dumps(body),
                                        {"Content-Type": "application/json"})
                response = self.connection.getresponse()
                data = response.read()
                if response.status in (429, 503):
                    time.sleep(0.1)
                    continue
                if response.status != 200:
                    raise SystemExit(f"{method} {path}: {response.status} {data[:400]!r}")
                return json.loads(data)
            except (OSError, http.client.HTTPException):
                self.connection = None
                time.sleep(0.1)
        raise SystemExit(f"{method} {path}: the server does not answer")


class Cluster:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.random = random.Random(options.seed)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder),
                            "NOETL_LEASE_SECONDS": str(LEASE_SECONDS), "NOETL_LOG": "warn",
                            "NOETL_COMMAND_MAX_ATTEMPTS": "50",
                            "NOETL_WORKER_DRAIN_TIMEOUT_SECONDS": "5"}
        self.workers, self.paused, self.number = {}, {}, 0
        self.faults = collections.Counter()
        self.server = None

    def start_server(self):
        self.server = subprocess.Popen(
            [self.options.binary, "server", "--no-worker", "--port", "0", "--data",
             str(self.folder / "data")],
            stdout=subprocess.PIPE, stderr=open(self.folder / "server.log", "ab"), text=True,
            env=self.environment)
        line = self.server.stdout.readline()
        found = re.search(r":(\d+)\s*$", line)
        if not found:
            raise SystemExit(f"the server did not start: {line!r}")
        return int(found.group(1))

    def start_worker(self, port):
        self.number += 1
        name = f"worker-{self.number}"
        self.workers[name] = subprocess.Popen(
            [self.options.binary, "worker", "--server", f"http://127.0.0.1:{port}", "--name", name,
             "--slots", str(self.options.slots), "--state", str(self.folder / name)],
            stdout=subprocess.DEVNULL, stderr=open(self.folder / "workers.log", "ab"),
            env=self.environment)

    def disturb(self, port):
        """One fault; the fleet keeps its size."""
        now = time.monotonic()
        for name, wakes in list(self.paused.items()):
            if now >= wakes and name in self.workers:
                self.workers[name].send_signal(signal.SIGCONT)
                del self.paused[name]
        awake = sorted(set(self.workers) - set(self.paused))
        if not awake:
            return
        name = self.random.choice(awake)
        fault = self.random.choice(["kill", "kill", "stop", "leave"])
        self.faults[fault] += 1
        if fault == "stop":
            self.workers[name].send_signal(signal.SIGSTOP)
            self.paused[name] = now + LEASE_SECONDS * self.random.uniform(0.5, 2)
            return
        self.workers[name].send_signal(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
        self.workers[name].wait()
        del self.workers[name]
        self.start_worker(port)

    def end(self):
        for name, worker in self.workers.items():
            if name in self.paused:
                worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers.values():
            worker.wait(timeout=60)
        self.server.send_signal(signal.SIGTERM)
        if self.server.wait(timeout=60) != 0:
            raise SystemExit("the server ended with an error")


def start_runs(api, count, notes):
    ids = {}
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        answer = api.call("POST", "/api/execute/batch", {"executions": [
            {"path": "cluster/mixed", "workload": {"n": n, "notes": str(notes)}} for n in numbers]})
        for n, result in zip(numbers, answer["results"]):
            if result["status"] != "started":
                raise SystemExit(f"run {n} did not start: {result}")
            ids[int(result["execution_id"])] = n
    return ids


def wait_for_runs(cluster, api, port, wanted):
    seen, moved, disturbed = -1, time.monotonic(), time.monotonic()
    while True:
        stats = api.call("GET", "/api/dashboard/stats")["stats"]
        done = stats["total_executions"] - stats["running_executions"]
        if done != seen:
            seen, moved = done, time.monotonic()
        if done >= wanted:
            return
        if time.monotonic() - moved > IDLE_SECONDS_MAX:
            raise SystemExit(f"stuck: {done} of {wanted} runs have ended")
        if time.monotonic() - disturbed > cluster.options.every:
            disturbed = time.monotonic()
            cluster.disturb(port)
        time.sleep(0.05)


def read_back(database, ids, notes, problems):
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)

    def wrong(text, query, *arguments):
        rows = db.execute(query, arguments).fetchmany(5)
        if rows:
            problems.append(f"{text}: {rows}")

    wrong("not COMPLETED", "SELECT execution_id, path, status, error FROM execution WHERE status <> 'COMPLETED'")
    wrong("terminals", "SELECT execution_id, count(*) FROM event WHERE event_type IN ('playbook.completed',"
          " 'playbook.failed', 'playbook.cancelled') GROUP BY execution_id HAVING count(*) <> 1")
    wrong("open commands", "SELECT id, status, worker_id FROM command WHERE open = 1")
    wrong("a command ended twice", "SELECT command_id, count(*) FROM event WHERE event_type IN"
          " ('command.completed', 'command.failed') AND command_id IS NOT NULL"
          " GROUP BY command_id HAVING count(*) > 1")
    wrong("work was done twice", "SELECT execution_id, step_name, run, iter_index, count(*) FROM command"
          " WHERE status = 'COMPLETED' GROUP BY 1, 2, 3, 4 HAVING count(*) <> 1")
    wrong("work failed", "SELECT id, error FROM command WHERE status = 'FAILED'")
    total = db.execute("SELECT count(*) FROM execution").fetchone()[0]
    if total != 2 * len(ids):
        problems.append(f"{total} runs, {2 * len(ids)} were expected")
    for execution, result in db.execute(
            "SELECT execution_id, result FROM event WHERE event_type = 'playbook.completed'"):
        n = ids.get(execution)
        if n is None:
            continue
        value = json.loads(result)["context"]["data"]
        if value != {"sum": 6 * n + 2 * n}:
            problems.append(f"run {n}: {value}")
    superseded = db.execute("SELECT count(*) FROM command WHERE status = 'CANCELLED'").fetchone()[0]
    fences = collections.defaultdict(list)
    for line in notes.read_text().splitlines():
        key, fence = line.rsplit(" ", 1)
        fences[key].append(int(fence))
    if len(fences) != len(ids):
        problems.append(f"the shell step ran for {len(fences)} of {len(ids)} runs")
    for key, given in fences.items():
        if len(set(given)) != len(given):
            problems.append(f"{key} ran twice with one fence: {given}")
    again = sum(len(given) - 1 for given in fences.values())
    return superseded, again


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--slots", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between faults")
    options = parser.parse_args()
    options.binary = str(pathlib.Path(options.binary).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="noetl-cluster-"))
    notes = folder / "notes"
    notes.touch()
    cluster = Cluster(options, folder)
    problems = ["it did not come to its end"]
    try:
        port = cluster.start_server()
        api = Api(port)
        for content in (CHILD, MIXED):
            api.call("POST", "/api/catalog/register", {"content": content})
        for _ in range(options.workers):
            cluster.start_worker(port)
        started = time.monotonic()
        ids = start_runs(api, options.executions, notes)
        wait_for_runs(cluster, api, port, 2 * options.executions)
        took = time.monotonic() - started
        cluster.end()
        problems.clear()
        superseded, again = read_back(folder / "data" / "noetl.db", ids, notes, problems)
        verify = subprocess.run([options.binary, "verify", "--data", str(folder / "data")],
                                capture_output=True, text=True, env=cluster.environment, check=False)
        if verify.returncode != 0:
            problems.append(f"verify: {verify.stdout[-500:]}{verify.stderr[-500:]}")
        print(f"{options.executions} runs of {options.workers} workers in {took:.1f} s; "
              f"faults {dict(cluster.faults)}; {superseded} commands replaced, "
              f"{again} processes ran again")
    finally:
        for process in [*cluster.workers.values(), cluster.server]:
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        if problems:
            print(f"what was left is in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(f"FAILED {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
