#!/usr/bin/env python3
"""remote.py NOETL: the commands that speak with a server, from outside.

One server with its own worker serves all tests; each test has a home of its own, so that contexts do
not meet. Nothing here depends on how long something takes.
"""
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
from http_service import http_service  # noqa: E402  pylint: disable=wrong-import-position

SECONDS_MAX = 120
NOETL = ""

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: NAME, path: demo/NAME, description: what it is }
workload: { who: world, count: 1 }
"""
GOOD = HEAD + """workflow:
  - step: start
    tool: { kind: noop, result: { greeting: "hello {{ who }}", count: "{{ count }}" } }
    next: { arcs: [ { step: last } ] }
  - step: last
    tool: { kind: noop, result: { greeting: "hello {{ who }}", count: "{{ count }}" } }
"""
FAILING = HEAD + """workflow:
  - step: start
    tool: { kind: shell, cmds: "echo before; exit 3" }
"""
# Goes on until it is cancelled or a file appears.
SLOW = HEAD + """workflow:
  - step: start
    tool: { kind: shell, cmds: "echo began; while [ ! -e '{{ who }}' ]; do sleep 0.05; done" }
"""
BAD = HEAD + """workflow:
  - step: start
    tool: { kind: noop }
    whne: x
"""
PARENT = HEAD + """workflow:
  - step: start
    tool: { kind: playbook, path: demo/child }
"""


def clean_environment(**more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    environment.update(more)
    return environment


class Server:
    """`noetl server` on a port of its own."""

    def __init__(self, data, **environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([NOETL, "server", "--port", "0", "--data", str(data)],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=clean_environment(**environment))
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if not found:
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError(f"the server did not start: {line}{self.log.read().decode()}")
        self.url = found.group(0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=SECONDS_MAX)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.log.close()


class Case(unittest.TestCase):
    server = None

    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.TemporaryDirectory()
        cls.server = Server(cls.data.name, NOETL_SQL_API_ENABLED="true",
                            NOETL_INTERNAL_API_TOKEN="internal-token")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.data.cleanup()

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.home = self.folder / "home"
        self.home.mkdir()

    def file(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("NAME", path.stem), encoding="utf-8")
        return path

    def environment(self, **more):
        return clean_environment(HOME=str(self.home), **more)

    def noetl(self, *arguments, text=None, environment=None):
        return subprocess.run([NOETL, *map(str, arguments)], input=text, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, cwd=self.folder,
                              env=self.environment(**(environment or {})))

    def remote(self, *arguments, **options):
        return self.noetl("--server-url", self.server.url, *arguments, **options)

    def check(self, done, code, *, out=(), err=()):
        shown = f"\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, code, shown)
        for part in [out] if isinstance(out, str) else out:
            self.assertIn(part, done.stdout, shown)
        for part in [err] if isinstance(err, str) else err:
            self.assertIn(part, done.stderr, shown)
        return done

    def json(self, *arguments, code=0, **options):
        done = self.remote(*arguments, **options)
        self.check(done, code)
        return json.loads(done.stdout)

    def start(self, path, *arguments):
        """Starts a run and gives its id."""
        answer = self.json("run", path, "-r", "distributed", "--json", *arguments)
        self.assertEqual(answer["status"], "started")
        self.assertRegex(answer["execution_id"], r"^\d{15,}$")
        return answer["execution_id"]

    def wait_for(self, condition):
        until = time.monotonic() + SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), until, "it did not happen")
            time.sleep(0.02)


class Contexts(Case):
    def config(self):
        return self.home / ".noetl" / "config.yaml"

    def test_the_first_one_is_current_and_the_file_is_private(self):
        self.check(self.noetl("context", "current"), 1, err="no current context")
        self.check(self.noetl("context", "list"), 0, err="no contexts")
        self.check(self.noetl("context", "add", "dev", "--server-url", "http://localhost:1"), 0, out="current")
        self.assertEqual(stat.S_IMODE(self.config().stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.config().parent.stat().st_mode), 0o700)
        self.check(self.noetl("context", "add", "prod", "--server-url", self.server.url, "--runtime",
                              "distributed", "--auth0-domain", "d.example"), 0)
        self.check(self.noetl("context", "current"), 0, out="dev: http://localhost:1, runtime auto")
        done = self.check(self.noetl("context", "list"), 0, out=["NAME", "SERVER URL", "d.example"])
        lines = done.stdout.splitlines()
        self.assertTrue(lines[1].startswith("*") and "dev" in lines[1], done.stdout)
        self.assertIn("prod", lines[2])
        self.check(self.noetl("context", "use", "prod"), 0, out="prod")
        self.check(self.noetl("executions"), 0)
        self.check(self.noetl("--context", "dev", "executions"), 5, err="localhost:1")
        self.assertEqual(list(self.config().parent.iterdir()), [self.config()])

    def test_changing_keeps_what_is_not_given(self):
        self.check(self.noetl("context", "add", "a", "--server-url", "http://one:1", "--runtime", "local"), 0)
        text = self.config().read_text().replace("gateway_session_token: null", "gateway_session_token: abc")
        self.config().write_text(text + "own: { note: mine }\n")
        self.check(self.noetl("context", "update", "a", "--server-url", "http://two:2"), 0)
        listed = json.loads(self.noetl("context", "list", "-o", "json").stdout)
        self.assertEqual(listed[0]["server_url"], "http://two:2")
        self.assertEqual(listed[0]["runtime"], "local")
        self.assertEqual(listed[0]["token"], "cached")
        self.assertNotIn("abc", self.noetl("context", "list", "--json").stdout)
        self.assertIn("mine", self.config().read_text())
        self.check(self.noetl("context", "set-runtime", "distributed"), 0, out="distributed")
        self.check(self.noetl("context", "current"), 0, out="runtime distributed")
        self.check(self.noetl("auth", "logout"), 0, out="forgotten")
        self.assertNotIn("abc", self.config().read_text())

    def test_wrong_names_and_values(self):
        self.check(self.noetl("context", "use", "nope"), 1, err="no context 'nope'")
        self.check(self.noetl("context", "update", "nope", "--runtime", "auto"), 1, err="nope")
        self.check(self.noetl("context", "delete", "nope"), 1, err="nope")
        self.check(self.noetl("context", "add", "a", "--server-url", "ftp://x"), 2, err="ftp://x")
        self.check(self.noetl("context", "add", "a", "--server-url", "http://x", "--runtime", "y"), 2, err="local")
        self.check(self.noetl("context", "add", "a"), 2, err="--server-url")
        self.check(self.noetl("context"), 2)
        self.check(self.noetl("--context", "nope", "status", "last"), 1, err="nope")
        self.check(self.noetl("context", "add", "a", "--server-url", "http://x:1"), 0)
        self.check(self.noetl("--context", "b", "status", "last"), 1, err=["'b'", "there are: a"])
        self.check(self.noetl("context", "delete", "a"), 0)
        self.check(self.noetl("context", "current"), 1)

    def test_a_broken_file_is_named(self):
        self.config().parent.mkdir()
        self.config().write_text("- a list\n")
        self.check(self.noetl("context", "list"), 1, err="config.yaml")

    def test_a_context_that_is_distributed_runs_there_and_one_that_is_auto_runs_files_here(self):
        playbook = self.file("ctx.yaml", GOOD)
        self.check(self.noetl("context", "add", "c", "--server-url", self.server.url), 0)
        here = self.check(self.noetl("run", playbook, "--json"), 0)
        self.assertEqual(json.loads(here.stdout)["status"], "COMPLETED")
        self.assertTrue((self.folder / ".noetl").exists())
        self.check(self.noetl("run", playbook), 0, err=["running here", "auto"])
        self.check(self.noetl("context", "set-runtime", "distributed"), 0)
        there = self.check(self.noetl("run", playbook, "--json"), 0)
        self.assertEqual(json.loads(there.stdout)["status"], "started")
        self.check(self.noetl("run", playbook, "-r", "local"), 0, out="hello world")
        # A directory that is named is meant.
        self.check(self.noetl("executions", "--data", ".noetl"), 0, out="demo/ctx")
        self.check(self.noetl("executions", "--data", ".noetl", "--context", "c"), 2, err="not both")


class Gateway(Case):
    """Contexts that are made from what a gateway tells."""

    def gateway(self, contract):
        seen = []

        def answer(request):
            if request.method == "GET":
                seen.append((request.path, request.headers.get("Authorization")))
                return 200, contract
            seen.append((request.path, json.loads(request.body)))
            return 200, {"session_token": "session", "user": {"email": "ann@example"}}

        return self.enterContext(http_service(answer)), seen

    def context(self, name):
        return yaml.safe_load((self.home / ".noetl" / "config.yaml").read_text())["contexts"][name]

    def test_init(self):
        for auth in [{"auth0_domain": "login.example", "auth0_client_id": "c1"},
                     {"domain": "login.example", "client_id": "c1"},
                     {"auth0": {"domain": "login.example", "client_id": "c1"}}]:
            url, seen = self.gateway({"version": 1, "auth": auth})
            self.check(self.noetl("context", "init", "gw", "--from-gateway", url), 0,
                       out=["added context 'gw'", "(current)", "login at login.example"])
            self.assertEqual(seen, [("/api/runtime/contract", None)])
            context = self.context("gw")
            self.assertEqual((context["server_url"], context["runtime"]), (url, "distributed"))
            self.assertEqual((context["gateway_auth0_domain"], context["gateway_auth0_client_id"]),
                             ("login.example", "c1"))
            self.assertIsNone(context["gateway_auth0_audience"])

    def test_login(self):
        url, seen = self.gateway({"auth": {"domain": "login.example"}})
        self.check(self.noetl("context", "init", "gw", "--from-gateway", url), 0)
        login = ["auth", "login", "--gateway", "--auth0", "provided"]
        done = self.check(self.noetl(*login, "--session-duration-hours", "8"), 0,
                          out=["as ann@example", "saved in context 'gw'"])
        self.assertNotIn("warning", done.stderr)
        self.assertEqual(seen[-1], ("/api/auth/login", {"token": "provided", "auth0_token": "provided",
                                                        "session_duration_hours": 8, "auth0_domain": "login.example"}))
        self.check(self.noetl(*login, "--auth0-domain", "other.example"), 0)
        self.assertEqual(seen[-1][1]["auth0_domain"], "other.example")
        # The domain of a context is not for another address.
        self.check(self.noetl(*login, "--server-url", url), 0)
        self.assertNotIn("auth0_domain", seen[-1][1])
        self.check(self.noetl(*login, "--session-duration-hours", "0"), 2, err="whole number from 1 to 8760")

    def test_a_server_that_tells_of_no_login(self):
        self.check(self.noetl("context", "bootstrap", "plain", "--from-gateway", self.server.url, "--runtime", "auto"),
                   0, out="tells of no login")
        self.assertEqual(self.context("plain")["runtime"], "auto")
        self.check(self.noetl("executions"), 0)

    def test_wrong_ones(self):
        self.check(self.noetl("context", "init", "gw"), 2, err="--from-gateway is required")
        self.check(self.noetl("context", "init", "gw", "--from-gateway", "x"), 2)
        self.check(self.noetl("context", "init", "gw", "--from-gateway", "http://127.0.0.1:1"), 5)
        self.check(self.noetl("context", "init", "gw", "--from-gateway", self.server.url, "--runtime", "x"), 2)
        self.assertFalse((self.home / ".noetl" / "config.yaml").exists())


class Runs(Case):
    def test_the_start_answer_comes_at_once(self):
        self.file("at_once.yaml", GOOD)
        run = self.start("at_once.yaml")
        self.check(self.remote("status", run), 0, out=["Execution:", run, "demo/at_once", "Status:"])
        self.check(self.remote("run", "at_once.yaml"), 0, out=['"execution_id"', '"started"'],
                   err="noetl status")

    def test_wait_gives_the_result_and_the_exit_code(self):
        self.file("fine.yaml", GOOD)
        done = self.check(self.remote("exec", "fine.yaml", "--wait", "--set", "who=ann", "--set", "count=3"),
                          0, out="hello ann", err=["COMPLETED", "registered demo/fine version 1"])
        self.assertEqual(json.loads(done.stdout)["greeting"], "hello ann")
        document = self.json("run", "demo/fine", "--wait", "--json", "--payload", '{"who": "bob"}')
        self.assertEqual(document["status"], "COMPLETED")
        self.assertEqual(document["result"]["greeting"], "hello bob")
        self.assertEqual([step["step"] for step in document["steps"]], ["start", "last"])
        self.assertIsNone(document["error"])
        self.assertRegex(document["execution_id"], r"^\d+$")
        self.file("breaks.yaml", FAILING)
        self.check(self.remote("run", "breaks.yaml", "--wait"), 1, err="FAILED")
        document = self.json("run", "breaks.yaml", "--wait", "--json", code=1)
        self.assertEqual(document["status"], "FAILED")
        self.assertTrue(document["error"])

    def test_only_a_changed_file_is_a_new_version(self):
        path = self.file("again.yaml", GOOD)
        self.check(self.remote("run", path, "--wait"), 0, err="version 1")
        done = self.check(self.remote("run", path, "--wait"), 0)
        self.assertNotIn("registered", done.stderr)
        path.write_text(path.read_text() + "\n# changed\n")
        self.check(self.remote("run", path, "--wait"), 0, err="version 2")
        path.write_text(path.read_text() + "\n# changed again\n")
        self.check(self.remote("run", path, "--wait", "--no-register"), 0)
        versions = self.json("catalog", "versions", "demo/again", "-o", "json")["entries"]
        self.assertEqual([entry["version"] for entry in versions], [2, 1])
        self.check(self.remote("run", "demo/again@1", "--wait"), 0)
        self.check(self.remote("run", "demo/again", "-V", "1", "--wait"), 0)
        self.check(self.remote("run", "demo/again@7", "--wait"), 1, err="again")

    def test_what_a_playbook_calls_is_registered_too(self):
        self.file("child.yaml", GOOD)
        self.file("unused.yaml", GOOD)
        self.file("parent.yaml", PARENT)
        self.check(self.remote("run", "parent.yaml", "--wait"), 0, err=["demo/child", "demo/parent"])
        self.check(self.remote("catalog", "get", "demo/unused"), 1, err="demo/unused")

    def test_a_wait_that_is_too_long_and_a_run_that_is_cancelled(self):
        self.file("slow.yaml", SLOW)
        done = self.check(self.remote("run", "slow.yaml", "--wait", "--timeout", "300ms", "--json"), 4,
                          err="it goes on")
        run = json.loads(done.stdout)["execution_id"]
        self.assertEqual(json.loads(done.stdout)["status"], "RUNNING")
        waiting = subprocess.Popen([NOETL, "rerun", run, "--wait", "--json", "--server-url", self.server.url],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment())
        self.addCleanup(waiting.kill)
        newest = lambda: self.json("executions", "--path", "demo/slow", "--json")[0]["execution_id"]
        self.wait_for(lambda: newest() != run)
        second = newest()
        self.check(self.remote("cancel", second, "--reason", "enough"), 0, out=f"cancelled {second}")
        out, err = waiting.communicate(timeout=SECONDS_MAX)
        self.assertEqual(waiting.returncode, 3, out + err)
        self.assertEqual(json.loads(out)["status"], "CANCELLED")
        answer = self.json("cancel", run, "--json")
        self.assertEqual(answer, {"execution_id": run, "status": "CANCELLED", "cancelled": [run]})
        self.check(self.remote("cancel", run), 0, out="already ended")
        self.check(self.remote("run", "slow.yaml", "--timeout", "soon"), 2, err="--timeout")

    def test_ctrl_c_cancels_the_run(self):
        self.file("stop.yaml", SLOW)
        for way in ["--wait", "--watch"]:
            process = subprocess.Popen([NOETL, "run", "stop.yaml", way, "--json", "--server-url",
                                        self.server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, cwd=self.folder, env=self.environment())
            self.addCleanup(process.kill)
            self.wait_for(lambda: self.json("executions", "--path", "demo/stop", "--status", "running",
                                            "--json"))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS_MAX)
            self.assertEqual(process.returncode, 3, out + err)
            self.assertEqual(json.loads(out)["status"], "CANCELLED")

    def test_watch_shows_the_steps(self):
        self.file("seen.yaml", GOOD)
        done = self.check(self.remote("run", "seen.yaml", "--watch"), 0, out="hello world",
                          err=["start", "last", "COMPLETED"])
        self.assertLess(done.stderr.index("start"), done.stderr.index("COMPLETED"))
        document = self.json("run", "seen.yaml", "--watch", "--json")
        self.assertEqual([step["status"] for step in document["steps"]], ["COMPLETED", "COMPLETED"])
        self.file("slower.yaml", SLOW)
        self.check(self.remote("run", "slower.yaml", "--watch", "--timeout", "300ms"), 4, err="goes on")
        self.check(self.remote("cancel", "last"), 0)

    def test_watch_shows_what_is_called(self):
        self.file("kid.yaml", GOOD)
        self.file("caller.yaml", PARENT.replace("demo/child", "demo/kid, return_step: last"))
        done = self.check(self.remote("run", "caller.yaml", "--watch"), 0)
        lines = [re.sub(r" in \d+ ms|, run \d+", "", line) for line in done.stderr.splitlines()]
        begin = lines.index("start: calls demo/kid")
        self.assertEqual(lines[begin + 1:begin + 4], ["  step start: completed", "  step last: completed",
                                                      "step start: completed"], done.stderr)

    def test_a_step_to_begin_with(self):
        self.file("half.yaml", GOOD)
        document = self.json("run", "half.yaml", "-t", "last", "--wait", "--json")
        self.assertEqual((document["path"], [step["step"] for step in document["steps"]]),
                         ("demo/half.from-last", ["last"]))
        self.check(self.remote("run", "demo/half", "-t", "last"), 2, err="needs the file")

    def test_output_as_yaml(self):
        self.file("form.yaml", GOOD)
        started = yaml.safe_load(self.check(self.remote("run", "form.yaml", "-o", "yaml"), 0).stdout)
        self.assertEqual(started["status"], "started")
        run = started["execution_id"]
        ended = yaml.safe_load(self.check(self.remote("rerun", run, "--wait", "-o", "yaml"), 0).stdout)
        self.assertEqual((ended["status"], ended["path"]), ("COMPLETED", "demo/form"))

    def test_rerun(self):
        self.file("twice.yaml", GOOD)
        run = self.start("twice.yaml", "--set", "who=ann")
        answer = self.json("rerun", run, "--json")
        self.assertEqual(answer["rerun_of"], run)
        document = self.json("rerun", run, "--set", "count=7", "--wait", "--json")
        self.assertEqual(document["result"]["greeting"], "hello ann")
        self.assertEqual(str(document["result"]["count"]), "7")
        self.check(self.remote("execute", "rerun", run, "--wait"), 0, out="hello ann")
        self.check(self.remote("execute", "status", run, "--json"), 0, out=run)
        self.check(self.remote("execute", "playbook", "demo/twice", "--json"), 0, out="execution_id")

    def test_status_executions_events_logs_show(self):
        self.file("looked.yaml", FAILING)
        document = self.json("run", "looked.yaml", "--wait", "--json", code=1)
        run = document["execution_id"]
        status = self.json("status", run, "--json")
        self.assertEqual((status["execution_id"], status["status"]), (run, "FAILED"))
        self.check(self.remote("status", run), 0, out=["FAILED", "Error:"])
        self.check(self.remote("status", "1" * 18), 1, err="1" * 18)
        for command in ["show", "events", "logs", "cancel"]:
            self.check(self.remote(command, "1" * 18), 1, err=["1" * 18, "--data"])
        self.check(self.remote("status", run[-8:]), 0, out=run)
        self.check(self.remote("status", "nope"), 1, err="nope")
        self.check(self.remote("executions"), 0, out=["ID", run, "demo/looked", "FAILED"])
        self.check(self.remote("executions", "--path", "demo/loo*", "--status", "failed"), 0, out=run)
        self.assertEqual(self.json("executions", "--path", "demo/look", "--json"), [])
        row = self.json("ls", "--path", "demo/looked", "--limit", "1", "--json")[0]
        self.assertEqual((row["execution_id"], row["status"]), (run, "FAILED"))
        events = self.check(self.remote("events", run), 0, out=["playbook", "start"])
        lines = [json.loads(line) for line in self.remote("events", run, "--json").stdout.splitlines()]
        self.assertEqual(len(lines), len(events.stdout.splitlines()))
        self.assertEqual([line["stream_version"] for line in lines], list(range(1, len(lines) + 1)))
        follow = self.remote("events", run, "-f", "--type", "command.*", "--json")
        self.assertEqual(follow.stdout, self.remote("events", run, "--type", "command.*", "--json").stdout)
        self.check(self.remote("logs", run), 0, out="before")
        self.check(self.remote("logs", run, "start", "-f", "--stream", "stdout"), 0, out="before")
        self.check(self.remote("show", run), 0, out=[run, "demo/looked", "FAILED", "start"])
        shown = self.json("show", run, "--json")
        self.assertEqual(shown["failure"]["step"], "start")

    def test_show_has_the_result(self):
        self.file("shown.yaml", GOOD)
        run = self.json("run", "shown.yaml", "--wait", "--json")["execution_id"]
        self.assertEqual(self.json("show", run, "--result")["greeting"], "hello world")
        shown = self.json("show", run, "--json")
        self.assertEqual([step["step"] for step in shown["steps"]], ["start", "last"])
        self.assertEqual(shown["execution_id"], run)

    def test_events_are_followed_to_the_end(self):
        self.file("followed.yaml", SLOW)
        flag = self.folder / "flag"
        run = self.start("followed.yaml", "--set", f"who={flag}")
        process = subprocess.Popen([NOETL, "events", run, "-f", "--server-url", self.server.url],
                                   stdout=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(process.kill)
        self.assertIn("playbook", process.stdout.readline())
        flag.touch()
        out, _ = process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(process.returncode, 0)
        self.assertIn("COMPLETED", out.splitlines()[-1])

    def test_a_playbook_that_is_wrong_is_not_sent(self):
        self.file("wrong.yaml", BAD)
        self.check(self.remote("run", "wrong.yaml", "--wait"), 2, err=["wrong.yaml:", "whne"])
        self.check(self.remote("run", "demo/none"), 1, err="demo/none")
        self.check(self.remote("run", "demo/none", "--set", "x"), 2, err="NAME=VALUE")

    def test_cleanup(self):
        answer = self.json("cleanup", "--older-than-minutes", "500000", "--dry-run", "--json")
        self.assertEqual((answer["cancelled_count"], answer["execution_ids"]), (0, []))
        self.check(self.remote("cleanup", "--dry-run", "--older-than-minutes", "500000"), 0, out="dry run")
        self.check(self.remote("cleanup", "--older-than-minutes", "0"), 2)


class Registration(Case):
    def test_a_file_in_every_form(self):
        path = self.file("one.yaml", GOOD)
        self.check(self.remote("register", path), 0, out=["registered", "demo/one version 1"])
        self.check(self.remote("register", "playbook", path), 0, out="unchanged")
        self.check(self.remote("register", "playbook", "-f", path), 0, out="unchanged")
        self.check(self.remote("register", "playbook", "--file", path), 0, out="unchanged")
        self.check(self.remote("catalog", "register", path), 0, out="unchanged")
        document = self.json("register", path, "--json")
        self.assertEqual((document["succeeded"], document["failed"]), (1, 0))
        self.assertEqual(document["results"][0]["path"], "demo/one")
        self.check(self.remote("register", "-", text=path.read_text()), 0, out="unchanged")

    def test_a_directory_with_one_bad_file(self):
        self.file("books/a.yaml", GOOD)
        self.file("books/deep/b.yaml", GOOD)
        self.file("books/c_bad.yaml", BAD)
        self.file("books/other.yaml", "kind: Something\n")
        for arguments in [["books"], ["playbook", "-d", "books"], ["playbook", "--directory", "books"]]:
            self.check(self.remote("register", *arguments), 2,
                       out=["Found 3 file(s)", "demo/a", "demo/b", "failed",
                            "Registration complete: 2 succeeded, 1 failed"],
                       err=["c_bad.yaml:8:", "whne", "hint"])
        document = self.json("register", "books", "-o", "json", code=2)
        self.assertEqual((document["succeeded"], document["failed"]), (2, 1))

    def test_nothing_to_register(self):
        self.check(self.remote("register"), 2, err="give a file")
        self.check(self.remote("register", "playbook"), 2, err="give a file")
        self.check(self.remote("register", "none.yaml"), 2, err="none.yaml")

    def test_credentials(self):
        secret = {"name": "filed", "type": "generic", "data": {"password": "from-a-file"}}
        self.file("secrets/one.json", json.dumps(secret))
        self.file("secrets/two.json", json.dumps({**secret, "name": "filed2"}))
        self.file("secrets/other.json", "{}")
        self.check(self.remote("register", "credential", "-f", "secrets/one.json"), 0, out="credential filed")
        self.check(self.remote("register", "secrets/one.json"), 0, out="credential filed")
        self.check(self.remote("register", "credential", "--directory", "secrets"), 0,
                   out="2 succeeded, 0 failed")
        self.check(self.remote("register", "credential", "-f", "secrets/other.json"), 2, err="name")
        self.assertEqual(self.json("get", "credential", "filed2", "--json")["data"], secret["data"])


class Catalog(Case):
    def test_list_get_versions_delete_restore(self):
        path = self.file("cat.yaml", GOOD)
        self.check(self.remote("register", path), 0)
        path.write_text(path.read_text().replace("what it is", "what it became"))
        self.check(self.remote("register", path), 0)
        self.check(self.remote("catalog", "list"), 0, out=["PATH", "demo/cat", "what it became"])
        self.check(self.remote("list", "playbook"), 0, out="demo/cat")
        self.check(self.remote("catalog", "list", "Playbook", "--path", "demo/c*"), 0, out="demo/cat")
        entries = self.json("catalog", "list", "--path", "demo/cat", "--all-versions", "--json")["entries"]
        self.assertEqual([entry["version"] for entry in entries], [2, 1])
        self.check(self.remote("catalog", "versions", "demo/cat"), 0, out=["what it is", "what it became"])
        self.assertEqual(self.remote("catalog", "get", "demo/cat").stdout, path.read_text())
        self.check(self.remote("catalog", "get", "demo/cat@1"), 0, out="what it is")
        self.assertEqual(self.json("catalog", "get", "demo/cat", "-V", "1", "--json")["version"], 1)
        self.check(self.remote("catalog", "get", "demo/cat@x"), 2, err="@3")
        self.check(self.remote("catalog", "get", "demo/nope"), 1, err="demo/nope")
        self.check(self.remote("catalog", "versions", "demo/nope"), 1, err="demo/nope")
        self.check(self.remote("catalog", "delete", "demo/cat@1"), 1, err="NOETL_INTERNAL_API_TOKEN")
        keys = {"NOETL_INTERNAL_API_TOKEN": "internal-token"}
        self.check(self.remote("catalog", "delete", "demo/cat@1", environment=keys), 0, out="deleted")
        self.check(self.remote("run", "demo/cat", "--wait"), 0)
        self.check(self.remote("catalog", "delete", "demo/cat", environment=keys), 0, out="archived")
        self.check(self.remote("catalog", "restore", "demo/cat", environment=keys), 0, out="restored")
        self.check(self.remote("catalog", "delete", "demo/nope", environment=keys), 1, err="demo/nope")


class Credentials(Case):
    SECRET = "s3cret-of-this-test"

    def test_create_list_get_delete(self):
        made = self.check(self.remote("credential", "create", "pg", "--type", "postgres", "--set",
                                      f"db_password={self.SECRET}", "--set", "db_port=5432", "--tag", "x",
                                      "--description", "for tests"), 0, out="stored credential pg")
        listed = self.check(self.remote("credential", "list"), 0, out=["NAME", "pg", "for tests"])
        as_json = self.check(self.remote("credential", "list", "--type", "postgres", "--json"), 0)
        without = self.check(self.remote("credential", "get", "pg", "--no-data"), 0)
        for done in [made, listed, as_json, without]:
            self.assertNotIn(self.SECRET, done.stdout + done.stderr)
        got = self.json("credential", "get", "pg", "--json")
        self.assertEqual(got["data"], {"db_password": self.SECRET, "db_port": 5432})
        self.assertEqual(self.json("get", "credential", "pg", "--json")["data"], got["data"])
        self.assertNotIn(self.SECRET, self.remote("get", "credential", "pg", "--include-data", "false").stdout)
        self.check(self.remote("credential", "delete", "pg"), 0, out="deleted")
        self.check(self.remote("credential", "get", "pg"), 1, err="pg")
        self.check(self.remote("credential", "delete", "pg"), 1, err="pg")

    def test_from_the_input_and_from_a_file(self):
        self.check(self.remote("credential", "create", "in", "--type", "http", "--data", "-",
                               text='{"token": "t"}'), 0)
        self.assertEqual(self.json("credential", "get", "in", "--json")["data"], {"token": "t"})
        self.file("c.yaml", "name: whole\ntype: generic\ndata: { a: 1 }\n")
        self.check(self.remote("credential", "create", "-f", "c.yaml"), 0, out="whole")
        self.check(self.remote("credential", "create", "renamed", "-f", "c.yaml"), 0, out="renamed")
        self.check(self.remote("credential", "create", "x"), 2, err="--type")
        self.check(self.remote("credential", "create", "x", "--type", "t"), 2, err="no data")


class Care(Case):
    def test_query(self):
        self.file("asked.yaml", GOOD)
        run = self.json("run", "asked.yaml", "--wait", "--json")["execution_id"]
        sql = f"SELECT execution_id, status FROM noetl.execution WHERE execution_id = {run}"
        self.check(self.remote("query", sql), 0, out=["execution_id", run, "COMPLETED", "(1 row)"])
        rows = self.json("query", sql, "-f", "json")
        self.assertEqual(rows, [{"execution_id": int(run), "status": "COMPLETED"}])
        self.assertEqual(self.json("query", sql, "-o", "json"), rows)
        self.check(self.remote("query", "SELECT a FROM nowhere"), 1, err="nowhere")
        self.check(self.remote("query", "-", text="SELECT 1 AS one"), 0, out="one")

    def test_workers_and_database(self):
        self.check(self.remote("workers"), 0)
        self.assertIsInstance(self.json("workers", "--json"), list)
        self.check(self.remote("db", "validate"), 0, out='"valid": true')
        self.assertTrue(self.json("db", "init", "--json")["valid"])

    def test_every_help_text(self):
        for command in ["register", "status", "query", "exec", "catalog", "credential", "context", "auth",
                        "rerun", "cleanup", "workers", "db", "list", "get", "execute"]:
            self.check(self.noetl(command, "--help"), 0, out=["Examples:", "Exit codes:"])
        self.check(self.noetl("register", "playbook", "--help"), 0, out="Examples:")
        self.check(self.noetl("catalog", "--help"), 0, out=["list", "versions", "--all-versions"])
        self.check(self.noetl("catalog", "list", "--help"), 0, out="--all-versions")
        overview = self.noetl("--help").stdout
        for hidden in ["\n  execute ", "\n  get ", "\n  list "]:
            self.assertNotIn(hidden, overview)

    def test_documents_are_json_and_yaml(self):
        self.file("forms.yaml", GOOD)
        run = self.json("run", "forms.yaml", "--wait", "--json")["execution_id"]
        for arguments in [["status", run], ["executions", "--limit", "2"], ["catalog", "list"],
                          ["catalog", "get", "demo/forms"], ["credential", "list"], ["workers"],
                          ["query", "SELECT 1 AS one"], ["db", "validate"], ["context", "list"],
                          ["cleanup", "--dry-run", "--older-than-minutes", "500000"], ["show", run]]:
            as_json = self.json(*arguments, "-o", "json")
            done = self.check(self.remote(*arguments, "-o", "yaml"), 0)
            as_yaml = yaml.safe_load(done.stdout)
            self.assertEqual(type(as_yaml), type(as_json))
            if arguments[0] not in {"executions", "show", "status"}:  # durations move on
                self.assertEqual(as_yaml, as_json, arguments)

    def test_no_colours_in_a_pipe(self):
        for arguments in [["executions"], ["--no-color", "executions"], ["executions", "--no-color"]]:
            self.assertNotIn("\x1b", self.remote(*arguments).stdout)


class Access(Case):
    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.TemporaryDirectory()
        cls.server = Server(cls.data.name, NOETL_AUTH_MODE="token", NOETL_API_TOKEN="the-api-token-of-this-test")

    def test_a_login_is_needed(self):
        for arguments in [["status", "1" * 18], ["executions"], ["catalog", "list"], ["register", "x.yaml"],
                          ["credential", "list"], ["run", "demo/x"], ["events", "1" * 18], ["events", "last"],
                          ["events", "1" * 18, "-f"], ["logs", "last"], ["cancel", "1" * 18], ["rerun", "last"]]:
            self.file("x.yaml", GOOD)
            self.check(self.remote(*arguments), 77, err=["log in", "noetl auth login"])
            self.check(self.remote("--session-token", "wrong", *arguments), 77)
        good = "the-api-token-of-this-test"
        self.check(self.remote("--session-token", good, "executions"), 0)
        self.check(self.remote("executions", "--session-token", good), 0)
        self.check(self.remote("executions", environment={"NOETL_SESSION_TOKEN": good}), 0)
        self.check(self.remote("executions", "--session-token", "a\nb"), 2, err="line break")

    def test_login_is_kept_in_the_context(self):
        self.check(self.noetl("context", "add", "c", "--server-url", self.server.url), 0)
        self.check(self.noetl("auth", "login", "--token", "wrong"), 77, err="refused")
        self.check(self.noetl("executions"), 77)
        done = self.check(self.noetl("auth", "login", "--token", "-", text="the-api-token-of-this-test\n"), 0,
                          out="saved in context 'c'")
        config = (self.home / ".noetl" / "config.yaml").read_text()
        token = re.search(r"gateway_session_token: \"?([^\"\n]+)", config).group(1)
        self.assertNotEqual(token, "the-api-token-of-this-test")
        self.assertNotIn(token, done.stdout)
        self.check(self.noetl("executions"), 0)
        self.check(self.noetl("context", "list"), 0, out="cached")
        # Another address does not get it.
        self.check(self.noetl("executions", "--server-url", self.server.url), 77)
        self.check(self.noetl("auth", "logout"), 0)
        self.check(self.noetl("executions"), 77)
        printed = self.check(self.noetl("auth", "login", "--token", "the-api-token-of-this-test", "--no-save"), 0,
                             out="export NOETL_SESSION_TOKEN=")
        token = printed.stdout.split("NOETL_SESSION_TOKEN=")[1].strip()
        self.check(self.noetl("executions", environment={"NOETL_SESSION_TOKEN": token}), 0)


class Connection(unittest.TestCase):
    """Servers that are not there, or are none."""

    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def noetl(self, *arguments, **environment):
        return subprocess.run([NOETL, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX,
                              check=False, env=clean_environment(HOME=self.home.name, **environment),
                              cwd=self.home.name)

    def test_nobody_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            for arguments in [["status", "1" * 18], ["executions"], ["run", "demo/x"], ["catalog", "list"],
                              ["query", "SELECT 1"], ["workers"], ["cancel", "1" * 18],
                              ["run", "demo/x", "--wait"]]:
                done = self.noetl("--server-url", url, *arguments)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn(url, done.stderr)
                self.assertIn("noetl server", done.stderr)
            host, port = url.removeprefix("http://").split(":")
            done = self.noetl("--host", host, "--port", port, "status", "last")
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn(url, done.stderr)

    def test_something_else_listens(self):
        seen = []

        def answer(request):
            seen.append((request.path, request.headers.get("Authorization"), request.headers.get("x-session-token")))
            return (200, b"<html>hello</html>") if "executions" in request.path else (503, b"busy")

        url = self.enterContext(http_service(answer))
        done = self.noetl("--server-url", url, "executions")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("does not answer like a noetl server", done.stderr)
        done = self.noetl("--server-url", url, "--gateway", "--session-token", "t", "workers")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("busy", done.stderr)
        self.assertEqual(seen[-1], ("/noetl/worker/pools", "Bearer t", "t"))
        done = self.noetl("--server-url", url, "workers", NOETL_USE_GATEWAY="true")
        self.assertIn("warning: a gateway needs a session", done.stderr)

    def test_wrong_addresses(self):
        for url in ["localhost:8082", "ftp://x", "http://", "http://a b"]:
            done = subprocess.run([NOETL, "--server-url", url, "status", "last"], capture_output=True, text=True,
                                  timeout=SECONDS_MAX, check=False, env=clean_environment(HOME=self.home.name))
            self.assertEqual(done.returncode, 2, done.stderr)
        done = self.noetl("--server-url")
        self.assertEqual(done.returncode, 2, done.stderr)


class Restart(Case):
    def test_a_wait_survives_a_server_that_comes_back(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = self.folder / "data"
        flag = self.folder / "flag"
        self.file("late.yaml", SLOW)

        def serve():
            process = subprocess.Popen([NOETL, "server", "--port", str(port), "--data", str(data)],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       env=clean_environment())
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            self.assertIn("listening", process.stdout.readline())
            return process

        first = serve()
        url = f"http://127.0.0.1:{port}"
        waits = [subprocess.Popen([NOETL, "run", "late.yaml", way, "--json", "--set", f"who={flag}",
                                   "--server-url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, cwd=self.folder, env=self.environment())
                 for way in ["--wait", "--watch"]]
        for process in waits:
            self.addCleanup(process.kill)
        listed = lambda: self.noetl("--server-url", url, "executions", "--status", "running", "--json")
        self.wait_for(lambda: len(json.loads(listed().stdout)) == 2)
        first.kill()
        first.wait()
        second = serve()
        flag.touch()
        for process in waits:
            out, err = process.communicate(timeout=SECONDS_MAX)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(json.loads(out)["status"], "COMPLETED")
        second.send_signal(signal.SIGTERM)
        second.wait(timeout=SECONDS_MAX)

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass


if __name__ == "__main__":
    NOETL = str(pathlib.Path(sys.argv[1]).resolve())
    sys.argv.pop(1)
    unittest.main(verbosity=1)
