"""Real processes of both protocols, stopped with SIGSTOP beyond their lease and woken: nothing changes."""
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile

from harness import ANSWER_SECONDS_MAX, case, check, expect, wait_until
from original_runs import TWO_STEPS, Bell, drive, register, start, status
from original_worker import OriginalWorker
from worker import worker_of

# A worker that is stopped is given up soon.
SERVER = {"settings": {"NOETL_LEASE_SECONDS": "2", "NOETL_COMMAND_CLAIM_LEASE_SECONDS": "2"}}

# The first attempt waits at a gate; the others pass.
GATED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: gated, path: stopped/gated}
workload: {folder: ""}
workflow:
  - step: start
    tool:
      kind: shell
      cmds: |
        echo "$NOETL_FENCE" >> {{ workload.folder }}/begun
        while [ "$NOETL_FENCE" = 1 ] && [ ! -e {{ workload.folder }}/gate ]; do sleep 0.05; done
        echo "attempt $NOETL_FENCE"
"""

# Claims one command, runs until it is told to go on, and reports.
STOPPED = """
import sys
from original_worker import OriginalWorker

def tool(_):
    print("running", flush=True)
    sys.stdin.readline()
    return {"n": "stopped"}

worker = OriginalWorker(sys.argv[1], "stopped", 90)
worker.register()
worker.run({"event_id": int(sys.argv[2])}, tool)
print("reported", flush=True)
"""


def log_of(server, execution):
    """(event id, type, worker) of every event, in the order in which they came."""
    path = pathlib.Path(server.directory) / "noetl.db"
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return database.execute("SELECT event_id, event_type, worker_id FROM event WHERE "
                                "execution_id = ? ORDER BY stream_version", (int(execution),)).fetchall()
    finally:
        database.close()


@case
def ours(server):
    register(server, GATED)
    with tempfile.TemporaryDirectory(prefix="noetl-gate-") as name:
        folder = pathlib.Path(name)
        with worker_of(server, arguments=["--name", "stopped"]) as stopped:
            run = start(server, "stopped/gated", workload={"folder": name})
            wait_until("the first attempt", (folder / "begun").exists)
            stopped.process.send_signal(signal.SIGSTOP)
            try:
                with worker_of(server, arguments=["--name", "heir"]):
                    check(server.get(f"/api/executions/{run}/wait?timeout_seconds={ANSWER_SECONDS_MAX}"),
                          200, {"status": "COMPLETED"})
                before = log_of(server, run)
                (folder / "gate").touch()
            finally:
                stopped.process.send_signal(signal.SIGCONT)
            # It leaves when it has nothing more to say.
            expect(stopped.stop() == 0, stopped.text())
        # The request for work of the stopped one is still open and may be given an attempt, too: nobody
        # begins with that.
        begun = [int(fence) for fence in (folder / "begun").read_text().split()]
        expect(len(begun) == 2 and begun[0] == 1 < begun[1], f"attempts that began: {begun}")
    expect(log_of(server, run) == before, f"{before}\nbecame\n{log_of(server, run)}")
    ends = [worker for _, kind, worker in before if kind == "command.completed"]
    expect(ends == ["heir"], f"the command was ended by {ends}")


@case
def the_original(server):
    register(server, TWO_STEPS)
    run = start(server, "old/two")
    url = f"http://{server.host}:{server.port}"
    notification = Bell(server, [run], 1).ring()[0]
    stopped = subprocess.Popen(
        [sys.executable, "-c", STOPPED, url, str(notification["event_id"])], text=True,
        cwd=pathlib.Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        expect(stopped.stdout.readline() == "running\n", "the worker did not get the command")
        stopped.send_signal(signal.SIGSTOP)
        heir = OriginalWorker(url, "heir", 91)
        heir.register()

        def replaced():
            heir.heartbeat()
            return len({entry["event_id"] for entry in Bell(server, [run], 1).ring()}) > 1

        wait_until("a new attempt", replaced)
        drive(server, [run], [heir], lambda worker, command: {"n": "heir"}, 3)
        expect(status(server, run) == "COMPLETED", "the heir did not end the run")
        before = log_of(server, run)
        stopped.send_signal(signal.SIGCONT)
        stopped.stdin.write("go on\n")
        stopped.stdin.flush()
        expect(stopped.stdout.readline() == "reported\n", "the worker did not wake up")
        expect(stopped.wait(ANSWER_SECONDS_MAX) == 0, "the worker failed")
    finally:
        stopped.kill()
        stopped.wait()
    # Workers without claim tokens are heard, and what they say late is kept; it decides nothing.
    after = log_of(server, run)
    expect(after[:len(before)] == before, "the log is not the same")
    expect(all(worker == "stopped" for _, _, worker in after[len(before):]), f"{after[len(before):]}")
    expect(status(server, run) == "COMPLETED", "the run is not the same")
