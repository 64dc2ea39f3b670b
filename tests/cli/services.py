"""Servers and workers in the background; run.py loads them.

Nothing here waits for a time to pass: commands come back when a service is ready or has ended.
"""
import os
import re
import signal
import stat
import subprocess
import sys

import __main__ as program
from __main__ import SECONDS_MAX, Case, noetl

# Holds a lock on the file, with whatever in it, and does what the rest says.
HOLDER = """import fcntl, signal, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
while True:
    signal.pause()
"""


class Services(Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("NOETL_", "WORKER_"))}
        self.environment["WORKER_METRICS_BIND"] = "off"

    def at(self, *arguments):
        return noetl(*arguments, cwd=self.folder, env=self.environment)

    def server(self, verb, *more):
        return self.at("server", verb, "--data", "data", *more)

    def start_server(self, *more):
        done = self.server("start", "--port", "0", *more)
        self.addCleanup(self.server, "stop", "--force", "--timeout", "0s")
        self.check(done, 0, out=["listening on http://127.0.0.1:", "server.log"])
        return re.search(r"http://\S+", done.stdout).group(0)

    def process(self, *words):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, process)
        return process

    def holder(self, path, mood):
        process = self.process(sys.executable, "-c", HOLDER, str(path), mood)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def test_server(self):
        self.check(self.server("stop"), 1, err=["no server runs on data", "--data DIR"])
        self.assertFalse(self.data.exists())
        url = self.start_server("--init-db")
        self.assertEqual(stat.S_IMODE((self.data / "server.pid").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((self.data / "server.log").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.data.stat().st_mode), 0o700)
        self.check(self.at("--server-url", url, "executions", "--json"), 0, out="[]")
        self.check(self.server("start", "--port", "0"), 1, err=["runs on data already", "noetl server stop"])
        self.check(self.server("stop"), 0, out="stopped the server (process ")
        self.check(self.at("--server-url", url, "executions"), 5)
        self.check(self.server("stop"), 1, err="no server runs on data")
        self.start_server()
        self.check(self.server("stop", "--timeout", "100s"), 0)

    def test_server_in_the_foreground(self):
        process = self.process(program.NOETL, "server", "--port", "0", "--data", str(self.data))
        self.assertIn("listening", process.stdout.readline())
        self.check(self.server("stop"), 0, out=f"(process {process.pid})")
        self.assertEqual(process.wait(SECONDS_MAX), 0)

    def test_server_that_cannot_start(self):
        self.check(self.server("start", "--host", "0.0.0.0"), 2, err="needs a token")
        self.check(self.server("start", "--port", "x"), 2, err="NOETL_PORT")
        self.check(self.server("stop"), 1)
        self.file("plain", "")
        self.check(self.at("server", "start", "--data", "plain"), 1, err="plain")
        self.check(self.server("stop", "--timeout", "soon"), 1, err="no server")

    def test_a_stale_file_points_at_nobody(self):
        stranger = self.process("sleep", "1000")
        self.data.mkdir()
        (self.data / "server.pid").write_text(f"{stranger.pid}\nserver\n")
        self.check(self.server("stop", "--force"), 1, err="no server runs on data")
        self.assertIsNone(stranger.poll())
        self.start_server()
        self.check(self.server("stop"), 0)
        self.assertIsNone(stranger.poll())

    def test_the_lock_says_who(self):
        stranger = self.process("sleep", "1000")
        path = self.file("server.pid", f"{stranger.pid}\nserver\n")
        holder = self.holder(path, "obedient")
        self.check(self.at("server", "stop", "--data", "."), 0, out=f"(process {holder.pid})")
        self.assertEqual(holder.wait(SECONDS_MAX), -signal.SIGTERM)
        self.assertIsNone(stranger.poll())

    def test_a_server_that_does_not_end(self):
        holder = self.holder(self.file("server.pid", ""), "deaf")
        self.check(self.at("server", "stop", "--data", ".", "--timeout", "soon"), 2, err="'soon' is not a duration")
        self.check(self.at("server", "stop", "--data", ".", "--timeout", "1ms"), 4,
                   err=["has not ended within 1ms", "--force"])
        self.assertIsNone(holder.poll())
        self.check(self.at("server", "stop", "--data", ".", "--timeout", "1ms", "-f"), 0)
        self.assertEqual(holder.wait(SECONDS_MAX), -signal.SIGKILL)

    def test_workers(self):
        def worker(verb, *more):
            return self.at("worker", verb, "--state", "state", *more)

        url = self.start_server("--no-worker")
        self.check(worker("stop"), 1, err=["no worker has its state in state", "--state DIR"])
        for name in ["one", "two"]:
            self.check(worker("start", "--server", url, "-n", name, "-m", "2"), 0, out=[f"worker {name}", "worker.log"])
            self.addCleanup(worker, "stop", "-n", name, "--force", "--timeout", "0s")
        self.file("t.yaml", program.GOOD)
        self.check(self.at("--server-url", url, "run", "t.yaml", "--wait"), 0, out='"n": 1')
        self.check(worker("stop"), 2, err="--name says which of one, two")
        self.check(worker("stop", "--name", "three"), 1, err="no worker 'three'")
        self.check(worker("stop", "--name", "two"), 0, out="stopped the worker (process ")
        self.check(worker("stop"), 0)
        self.check(worker("stop"), 1, err="no worker has")
