#!/usr/bin/env python3
"""run.py NOETL LIBRARY [--every N] [--modes before,after,torn] [--at N]

Kills the real process at its writes and continues the run with `noetl resume`.

LIBRARY is crash_at_write.so: it counts the calls that change files of the data directory and kills
the process at a chosen one, so every point is tried without a single sleep. For each point: `run` is
killed, `resume` (once) must end the run as if nothing had happened, and the log is looked at: nothing
that was stored is lost or changed, nothing is decided twice, no tool ran before its claim was stored,
and only what was running is done once more. For a sample of points `resume` is killed, too.

The number of writes differs a little from run to run (threads share commits), so a point near the end
may not be reached: the run then ends by itself and is checked all the same.

--at N tries one point and keeps its directory. The directories of points that fail are kept.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PLAYBOOK = HERE / "mixed.yaml"
STOP_PLAYBOOK = HERE / "stop.yaml"
MODES = ["before", "after", "torn"]
SECONDS_MAX = 60
# Points of the second crash: so many first crashes, and so many in the `resume` of each.
SECOND_FIRSTS = 3
SECOND_POINTS = 4
TERMINAL = {"playbook.completed", "playbook.failed", "playbook.cancelled"}
ENDS = {"command.completed", "command.failed", "command.cancelled"}

ARGUMENTS = None


class Wrong(Exception):
    """What a user may rely on did not hold."""


def expect(holds, text):
    if not holds:
        raise Wrong(text)


def environment(data=None, at=0, mode="before", count=None):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("NOETL_", "LD_PRELOAD"))}
    if data is None:
        return clean
    return clean | {"LD_PRELOAD": str(ARGUMENTS.library), "NOETL_CRASH_DIR": str(data),
                    "NOETL_CRASH_AT": str(at), "NOETL_CRASH_MODE": mode,
                    "NOETL_CRASH_COUNT": str(count or "/dev/null")}


def noetl(*arguments, env=None):
    return subprocess.run([ARGUMENTS.noetl, *map(str, arguments)], capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False, env=env or environment())


def succeeded(*arguments):
    done = noetl(*arguments)
    expect(done.returncode == 0,
           f"`noetl {arguments[0]}` exits with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


class Place:
    """A data directory and the file in which tools leave their traces."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.effects = self.folder / "effects"

    def run(self, at=0, mode="before", counted=True):
        count = self.folder / "count"
        env = environment(self.data, at, mode, count) if counted else environment()
        return noetl("run", PLAYBOOK, "--data", self.data, "--set", f"effects={self.effects}",
                     "--json", env=env)

    def resume(self, root, at=0, mode="before"):
        env = environment(self.data, at, mode) if at else environment()
        return noetl("resume", root, "--data", self.data, "--json", env=env)

    def writes(self):
        return int((self.folder / "count").read_text())

    def traces(self):
        """{(key, fence, what): lines}"""
        found = collections.Counter()
        if self.effects.exists():
            for line in self.effects.read_text().splitlines():
                key, fence, what = line.split()
                found[key, int(fence), what] += 1
        return found


def stored(place):
    """The log as a restart finds it: {execution_id: [event]}. A copy is read, for reading repairs."""
    with tempfile.TemporaryDirectory(dir=place.folder) as copy:
        for file in place.data.glob("noetl.db*"):
            shutil.copy(file, copy)
        database = pathlib.Path(copy) / "noetl.db"
        if not database.exists():
            return {}
        with contextlib.closing(sqlite3.connect(database)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'event'").fetchone():
                return {}
            rows = connection.execute(
                "SELECT execution_id, stream_version, event_id, event_type, parent_execution_id, meta "
                "FROM event ORDER BY execution_id, stream_version").fetchall()
    logs = collections.defaultdict(list)
    for execution, seq, event, kind, parent, meta in rows:
        logs[execution].append({"stream_version": seq, "event_id": event, "event_type": kind,
                                "parent_execution_id": parent, "meta": json.loads(meta or "{}")})
    return dict(logs)


def printed(place):
    """The same from `noetl events`."""
    logs = {}
    for row in json.loads(succeeded("executions", "--json", "--data", place.data)):
        text = succeeded("events", row["execution_id"], "--json", "--no-redact", "--data", place.data)
        logs[int(row["execution_id"])] = [json.loads(line) for line in text.splitlines()]
    return logs


def root_of(logs):
    """0: no run was stored."""
    roots = [execution for execution, log in logs.items() if not log[0].get("parent_execution_id")]
    expect(len(roots) <= 1, f"{len(roots)} runs are stored")
    return roots[0] if roots else 0


def commands_of(execution, log):
    """{idempotency key: {attempt: {"issued", "claimed", "ended"}}}"""
    keys = {}
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for event in log:
        meta = event.get("meta") or {}
        kind = event["event_type"]
        if kind == "command.issued":
            step, run, _, index, _, attempt = meta["command_key"].rsplit("|", 5)
            key = f"{execution}:{step}:{run}:{index}"
            keys[meta["command_id"]] = (key, int(attempt))
            found[key][int(attempt)].add("issued")
        elif kind in ENDS | {"command.claimed"}:
            key, attempt = keys[meta["command_id"]]
            found[key][attempt].add("claimed" if kind == "command.claimed" else "ended")
    return found


# ---- checks

def check_log(execution, log):
    expect([event["stream_version"] for event in log] == list(range(1, len(log) + 1)),
           f"the numbers of the events of {execution} have gaps")
    ends = [event["event_type"] for event in log if event["event_type"] in TERMINAL]
    expect(ends == ["playbook.completed"], f"run {execution} has the ends {ends}")
    for kind, name in [("command.issued", lambda e: e["meta"]["command_key"]),
                       ("step.enter", lambda e: (e["node_name"], e["result"]["context"]["run"]))]:
        names = collections.Counter(name(event) for event in log if event["event_type"] == kind)
        doubled = [name for name, count in names.items() if count > 1]
        expect(not doubled, f"{kind} twice for {doubled}")
    ids = collections.Counter(event["event_id"] for event in log)
    expect(max(ids.values()) == 1, "an event id is used twice")
    for key, attempts in commands_of(execution, log).items():
        expect(sorted(attempts) == list(range(1, len(attempts) + 1)),
               f"attempts of {key}: {sorted(attempts)}")


def check_nothing_lost(before, after):
    for execution, log in before.items():
        expect(execution in after, f"run {execution} is gone")
        identity = [[(e["stream_version"], e["event_id"], e["event_type"]) for e in events]
                    for events in (log, after[execution])]
        expect(identity[0] == identity[1][:len(log)], f"the log of {execution} was changed")


def check_attempts(before, after):
    """Only what was claimed and had not ended is done again, and once."""
    for execution, log in after.items():
        earlier = commands_of(execution, before.get(execution, []))
        for key, attempts in commands_of(execution, log).items():
            was = earlier.get(key, {})
            running = any("claimed" in states and "ended" not in states for states in was.values())
            allowed = max(1, len(was)) + (1 if running else 0)
            expect(len(attempts) <= allowed,
                   f"{key}: {len(attempts)} attempts, {allowed} would be right")


def check_traces(place, logs, undisturbed):
    """Every line of a tool belongs to a claim that is stored, and no call ran twice under a fence."""
    claimed = {(key, attempt) for execution, log in logs.items()
               for key, attempts in commands_of(execution, log).items()
               for attempt, states in attempts.items() if "claimed" in states}
    seen = collections.Counter()
    for (key, fence, what), lines in place.traces().items():
        expect((key, fence) in claimed, f"{what} ran for {key} {fence} without a stored claim")
        expect(lines == 1, f"{what} ran {lines} times for {key} {fence}")
        seen[key.split(":", 1)[1], what] += 1
    if undisturbed is not None:
        expect(set(seen) == undisturbed, f"calls differ: {set(seen) ^ undisturbed}")


def check_document(text, reference):
    document = json.loads(text)
    expect(document["status"] == "COMPLETED", f"status {document['status']}: {document['error']}")
    for field in ("result", "path", "error", "soft_errors"):
        expect(document[field] == reference[field],
               f"{field} is {document[field]} and would be {reference[field]}")
    steps = [sorted((s["step"], s["run"], s["status"]) for s in d["steps"])
             for d in (document, reference)]
    expect(steps[0] == steps[1], f"steps are {steps[0]} and would be {steps[1]}")


def check_end(place, before, undisturbed):
    succeeded("verify", "--data", place.data)
    report = json.loads(succeeded("doctor", "--json", "--data", place.data))
    integrity = [check for check in report["checks"] if check["what"] == "integrity"]
    expect(integrity and integrity[0]["level"] == "ok", f"doctor: {integrity}")
    after = printed(place)
    expect(len(after) == 2, f"{len(after)} runs are stored, there are a parent and a child")
    for execution, log in after.items():
        check_log(execution, log)
    check_nothing_lost(before, after)
    check_attempts(before, after)
    check_traces(place, after, undisturbed)


# ---- one point

def crash_point(folder, at, mode, reference, undisturbed):
    """True: the process was killed there."""
    place = Place(folder)
    run = place.run(at, mode)
    killed = run.returncode == -signal.SIGKILL
    expect(killed or run.returncode == 0, f"exit code {run.returncode}: {run.stderr}")
    before = stored(place)
    check_traces(place, before, None)
    root = root_of(before)
    if root == 0:
        expect(killed and not run.stdout, f"nothing is stored, but it said: {run.stdout}")
        expect(not place.traces(), "a tool ran before the run was stored")
        succeeded("resume", "--data", place.data)
        again = place.run(counted=False)
        expect(again.returncode == 0, f"`run` again: {again.returncode}: {again.stderr}")
        check_document(again.stdout, reference)
        check_end(place, {}, undisturbed)
        return killed
    if run.stdout:
        check_document(run.stdout, reference)
    resumed = place.resume(root)
    expect(resumed.returncode == 0, f"`resume`: {resumed.returncode}: {resumed.stderr}")
    check_document(resumed.stdout, reference)
    check_end(place, before, undisturbed)
    return killed


def second_crash(folder, at, second_at, mode, reference, undisturbed):
    """`run` is killed at `at`, `resume` at its write `second_at`; another `resume` ends the run."""
    place = Place(folder)
    place.run(at, mode)
    first = stored(place)
    root = root_of(first)
    expect(root != 0, "the sample begins after the start of the run")
    resume = place.resume(root, second_at, mode)
    killed = resume.returncode == -signal.SIGKILL
    expect(killed or resume.returncode == 0, f"exit code {resume.returncode}: {resume.stderr}")
    second = stored(place)
    check_nothing_lost(first, second)
    check_attempts(first, second)
    resumed = place.resume(root)
    expect(resumed.returncode == 0, f"second `resume`: {resumed.returncode}: {resumed.stderr}")
    check_document(resumed.stdout, reference)
    check_end(place, second, undisturbed)
    return killed


# ---- Ctrl-C

class Stopped:
    """A run of stop.yaml whose tool has begun and does not heed SIGTERM when `stubborn`."""

    def __init__(self, folder, stubborn):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        mark = self.folder / "tool"
        os.mkfifo(mark)
        self.process = subprocess.Popen(
            [ARGUMENTS.noetl, "run", STOP_PLAYBOOK, "--data", self.data, "--set", f"mark={mark}",
             "--set", f"stubborn={json.dumps(stubborn)}"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
        # The tool writes its process id; reading waits for it.
        self.tool = int(mark.read_text())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def status(self):
        rows = json.loads(succeeded("executions", "--json", "--data", self.data))
        return [row["status"] for row in rows]

    def expect_no_tool(self):
        """Its process ends; an ended one that nobody has waited for yet counts as gone."""
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            try:
                if pathlib.Path(f"/proc/{self.tool}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    return
            except FileNotFoundError:
                return
            time.sleep(0.01)
        raise Wrong(f"the tool process {self.tool} is still there")


def one_interrupt(folder):
    run = Stopped(folder, stubborn=False)
    run.interrupt()
    run.process.communicate(timeout=SECONDS_MAX)
    expect(run.process.returncode == 3, f"exit code {run.process.returncode}, 3 would be right")
    expect(not pathlib.Path(f"/proc/{run.tool}").exists(), "the tool outlives the run")
    expect(run.status() == ["CANCELLED"], f"status {run.status()}")


def two_interrupts(folder):
    run = Stopped(folder, stubborn=True)
    run.interrupt()
    said = ""
    while "stopping" not in said:
        line = run.process.stderr.readline()
        expect(line, f"it ended at the first signal: {said}")
        said += line
    run.interrupt()
    run.process.communicate(timeout=SECONDS_MAX)
    expect(run.process.returncode == 130, f"exit code {run.process.returncode}, 130 would be right")
    expect(run.status() == ["RUNNING"], f"status {run.status()}")
    resumed = json.loads(succeeded("resume", "--json", "--data", run.data))["runs"]
    expect([row["status"] for row in resumed] == ["COMPLETED"], f"resumed: {resumed}")
    expect(resumed[0]["result"]["fence"] == "2", f"result {resumed[0]['result']}")
    run.expect_no_tool()


# ---- all points

def attempt(name, work, *arguments):
    """[name, what went wrong or "", what `work` returned]"""
    folder = tempfile.mkdtemp(prefix="noetl-kill-")
    wrong, answer = "", None
    try:
        answer = work(folder, *arguments)
    except (Wrong, subprocess.TimeoutExpired, sqlite3.Error, KeyError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong or ARGUMENTS.at:
        print(f"{name}: kept in {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if wrong:
        print(f"failed: {name}: {wrong}", flush=True)
    return name, wrong, answer


def reference_run():
    """The document, the calls and the number of writes of a run that nobody disturbs."""
    with tempfile.TemporaryDirectory(prefix="noetl-kill-") as folder:
        place = Place(folder)
        run = place.run()
        expect(run.returncode == 0, f"the undisturbed run fails: {run.stderr}")
        document = json.loads(run.stdout)
        expect(document["result"]["preload"] == ["none", "none"], "tools inherit LD_PRELOAD")
        calls = {(key.split(":", 1)[1], what) for key, _, what in place.traces()}
        check_end(place, stored(place), calls)
        return document, calls, place.writes()


def points(total):
    """[(name, work, arguments...)]"""
    if ARGUMENTS.at:
        return [(f"{mode} write {ARGUMENTS.at}", crash_point, ARGUMENTS.at, mode)
                for mode in ARGUMENTS.modes]
    jobs = []
    for offset, mode in enumerate(ARGUMENTS.modes):
        # With a stride the modes take different points.
        first = 1 + offset * ARGUMENTS.every // len(ARGUMENTS.modes)
        jobs += [(f"{mode} write {at}", crash_point, at, mode)
                 for at in range(first, total + 1, ARGUMENTS.every)]
    for i in range(1, SECOND_FIRSTS + 1):
        at = total // 4 + total // 2 * i // SECOND_FIRSTS
        for j in range(SECOND_POINTS):
            second_at = 1 + (total - at) * j // SECOND_POINTS
            mode = ARGUMENTS.modes[(i + j) % len(ARGUMENTS.modes)]
            jobs.append((f"{mode} write {at}, then {mode} write {second_at} of resume", second_crash,
                         at, second_at, mode))
    return jobs


def main():
    global ARGUMENTS
    parser = argparse.ArgumentParser()
    parser.add_argument("noetl")
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES)
    parser.add_argument("--at", type=int, default=0)
    ARGUMENTS = parser.parse_args()
    ARGUMENTS.library = ARGUMENTS.library.resolve()

    began = time.monotonic()
    reference, calls, total = reference_run()
    results = [attempt("Ctrl-C once", one_interrupt), attempt("Ctrl-C twice", two_interrupts)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(attempt, name, work, *arguments, reference, calls)
                   for name, work, *arguments in points(total)]
        results += [future.result() for future in waiting]
    bad = sum(1 for _, wrong, _ in results if wrong)
    killed = sum(1 for _, _, answer in results if answer)
    print(f"{total} writes in an undisturbed run; {len(results) - 2} points tried, killed at {killed} "
          f"of them; {bad} failures; {time.monotonic() - began:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
