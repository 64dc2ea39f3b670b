"""Commands that read and keep what was run; run.py loads them."""
import json
import os
import sqlite3
import subprocess
import time

import __main__ as program
from __main__ import HEAD, SECONDS_MAX, Case, noetl

SECRET = "hunter2-and-more"
FAILING = HEAD + f"""workload: {{ password: {SECRET}, n: 3 }}
workflow:
  - step: start
    tool: {{ kind: shell, command: "echo hello" }}
    next: {{ arcs: [ {{ step: each }} ] }}
  - step: each
    loop: {{ in: [1, 2, 3], iterator: x }}
    tool: {{ kind: noop, result: {{ v: "{{{{ x }}}}" }} }}
    next: {{ arcs: [ {{ step: bad }} ] }}
  - step: bad
    tool: {{ kind: shell, command: "echo broken pipe >&2; exit 3" }}
"""
WAITING = HEAD + """workflow:
  - step: start
    tool: { kind: shell, command: "echo begun; sleep 100" }
"""
READERS = [["executions"], ["show", "last"], ["events", "last"], ["logs", "last"], ["verify"],
           ["cancel", "last"], ["backup", "x.db"], ["purge", "last"]]


class Reads(Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"

    def at(self, *arguments):
        return noetl(*arguments, "--data", self.data, cwd=self.folder)

    def run_failing(self):
        self.check(noetl("run", self.file("f.yaml", FAILING), "--data", self.data), 1)
        return json.loads(self.at("executions", "--json").stdout)[0]["execution_id"]

    def test_without_data(self):
        for command in READERS:
            self.check(self.at(*command), 1, err=["there is no data", "noetl run FILE"])
        self.check(self.at("doctor"), 0, out="nothing was run here yet")
        self.assertFalse(self.data.exists())

    def test_ids(self):
        run = self.run_failing()
        for name in [run, run[-4:], run[-10:], "last"]:
            self.check(self.at("show", name), 0, out=run)
        for name in ["1", "12345678", "abc", "99999999999999999999999"]:
            self.check(self.at("show", name), 1, err="noetl show:")

    def test_executions(self):
        run = self.run_failing()
        self.check(self.at("ls"), 0, out=["STATUS", run, "FAILED", "demo/t", "Failed steps: bad"])
        for match in [["--status", "failed"], ["--path", "demo/*"], ["--since", "2h"], ["--all"]]:
            self.check(self.at("executions", *match), 0, out=run)
        for other in [["--status", "running"], ["--path", "other*"], ["--parent", run]]:
            self.check(self.at("executions", *other), 0, err="no runs")
        for wrong in [["--status", "odd"], ["--since", "odd"], ["--limit", "0"]]:
            self.check(self.at("executions", *wrong), 2, err=wrong[0])
        self.check(self.at("executions", "-o", "yaml"), 0, out=f'- execution_id: "{run}"')

    def test_show_tells_why_it_failed(self):
        run = self.run_failing()
        shown = self.at("show", run)
        self.check(shown, 0, out=["FAILED", "3/3", "Failure", "step   bad", "exited with code 3",
                                  "exit 3", "broken pipe", f"noetl logs {run} bad", "noetl run demo/t@1"])
        document = json.loads(self.at("show", run, "--json").stdout)
        self.assertEqual(document["execution_id"], run)
        self.assertEqual([step["status"] for step in document["steps"]], ["COMPLETED", "COMPLETED", "FAILED"])
        self.assertEqual(document["failure"]["step"], "bad")
        self.assertIn("broken pipe", document["failure"]["stderr"])

    def test_secrets_are_hidden_unless_asked_for(self):
        self.run_failing()
        for command in [["show", "last"], ["show", "last", "--json"], ["events", "last"], ["events", "last", "--json"]]:
            self.assertNotIn(SECRET, self.at(*command).stdout)
            self.check(self.at(*command, "--no-redact"), 0, out=SECRET)

    def test_events_and_logs(self):
        self.run_failing()
        lines = self.at("events", "last", "--json").stdout.splitlines()
        events = [json.loads(line) for line in lines]
        self.assertEqual(events[-1]["event_type"], "playbook.failed")
        self.assertEqual(len(self.at("events", "last", "-f").stdout.splitlines()), len(events))
        self.assertEqual(len(self.at("events", "last", "--after", len(events) - 2).stdout.splitlines()), 2)
        self.assertEqual(len(self.at("events", "last", "--limit", 3).stdout.splitlines()), 3)
        self.assertEqual(len(self.at("events", "last", "--type", "command.issued").stdout.splitlines()), 5)
        only = self.at("events", "last", "--type", "command.*", "--step", "bad").stdout
        self.assertEqual({line.split()[3] for line in only.splitlines()}, {"bad"})
        self.check(self.at("logs", "last"), 0, out=["start | hello", "bad | broken pipe"])
        self.assertEqual(self.at("logs", "last", "bad").stdout, "broken pipe\n")
        self.check(self.at("logs", "last", "each"), 0, err="wrote no output")

    def test_verify_sees_a_changed_event(self):
        self.run_failing()
        self.check(self.at("verify", "last"), 0, out="all hashes match")
        with sqlite3.connect(self.data / "noetl.db") as database:
            database.execute("UPDATE event SET node_name = 'other' WHERE stream_version = 7")
        database.close()
        self.check(self.at("verify"), 1, out=["event 7", "1 fault"])

    def test_backup_restore_purge(self):
        run = self.run_failing()
        self.check(self.at("backup", "b.db"), 0, out="b.db")
        self.check(self.at("backup", "b.db"), 1, err="exists already")
        self.check(self.at("restore", "b.db"), 1, err="not empty")
        self.check(self.at("purge"), 2, err="--older-than")
        self.check(self.at("purge", "--older-than", "30"), 2, err="unit")
        self.check(self.at("purge", "--older-than", "0s", "--dry-run"), 0, out=["1 run would", run])
        self.check(self.at("purge", "--older-than", "1h"), 0, out="0 runs removed")
        self.check(self.at("purge", run), 0, out="1 run removed")
        self.check(self.at("show", run), 1)
        self.data = self.folder / "second"
        self.file("bad.db", "this is no database")
        self.check(self.at("restore", "bad.db"), 1, err="noetl.db")
        self.check(self.at("restore", "none.db"), 1, err="none.db")
        self.check(self.at("restore", "b.db"), 0, out="1 run")
        self.check(self.at("verify", run), 0)
        self.assertEqual(self.data.stat().st_mode & 0o777, 0o700)
        self.assertEqual((self.data / "noetl.db").stat().st_mode & 0o777, 0o600)

    def test_doctor(self):
        self.run_failing()
        self.check(self.at("doctor"), 0, out=["no damage found", "shell", "1 run"])
        os.chmod(self.data / "noetl.db", 0o644)
        self.check(self.at("doctor"), 0, out=["warn", "chmod 600"])
        (self.data / "noetl.db").write_bytes(b"x" * 8192)
        for name in ["noetl.db-wal", "noetl.db-shm"]:
            (self.data / name).unlink(missing_ok=True)
        self.check(self.at("doctor"), 1, out=["fail", "restore a backup"])

    def test_a_run_of_another_process(self):
        """Readers work beside the owner; a cancel goes through it."""
        owner = subprocess.Popen([program.NOETL, "run", self.file("w.yaml", WAITING), "--data", self.data],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + SECONDS_MAX
            while "begun" not in self.at("logs", "last").stdout and time.monotonic() < until:
                if "command.started" in self.at("events", "last").stdout:
                    break
            self.check(self.at("show", "last"), 0, out=["RUNNING", "Open commands", "inproc-"])
            self.check(self.at("purge", "last"), 1)
            self.check(self.at("doctor"), 0, out=f"process {owner.pid}")
            follower = subprocess.Popen([program.NOETL, "events", "last", "-f", "--data", self.data],
                                        stdout=subprocess.PIPE, text=True)
            self.check(self.at("cancel", "last", "--reason", "enough"), 0, out="cancelled")
            self.assertIn("playbook.cancelled", follower.communicate(timeout=SECONDS_MAX)[0])
            self.assertEqual(owner.wait(timeout=SECONDS_MAX), 3)
        finally:
            owner.kill()
            owner.wait()
        self.check(self.at("cancel", "last"), 0, out="already ended: CANCELLED")
        self.check(self.at("show", "last"), 0, out="enough")

    def test_cancel_without_an_owner(self):
        owner = subprocess.Popen([program.NOETL, "run", self.file("w.yaml", WAITING), "--data", self.data],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + SECONDS_MAX
        while "command.started" not in self.at("events", "last").stdout and time.monotonic() < until:
            pass
        owner.kill()
        owner.wait()
        self.check(self.at("cancel", "last"), 0, out="cancelled")
        self.assertEqual(json.loads(self.at("executions", "--json").stdout)[0]["status"], "CANCELLED")
