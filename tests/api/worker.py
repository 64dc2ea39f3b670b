"""A worker in a process of its own."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading

from harness import ANSWER_SECONDS_MAX, KEPT_VARIABLES, STOP_SECONDS_MAX, expect


class Worker:
    """`noetl worker` of one server; what it writes is kept."""

    def __init__(self, binary, url, settings=None, arguments=()):
        self.directory = tempfile.TemporaryDirectory(prefix="noetl-worker-")
        environment = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        environment.update({"WORKER_METRICS_BIND": "off"})
        environment.update(settings or {})
        environment = {name: value for name, value in environment.items() if value is not None}
        self.lines, self.changed = [], threading.Condition()
        self.process = subprocess.Popen(
            [binary, "worker", "--server", url, "--state", self.directory.name, *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()

    def text(self):
        with self.changed:
            return "".join(self.lines)

    def said(self, pattern):
        """The match in a line that it writes, now or soon."""
        with self.changed:
            found = self.changed.wait_for(lambda: re.search(pattern, "".join(self.lines)),
                                          ANSWER_SECONDS_MAX)
        expect(found, f"the worker never said {pattern!r}\n{self.text()}")
        return found

    def ended(self):
        """Its exit code, without being asked to end."""
        code = self.process.wait(ANSWER_SECONDS_MAX)
        self.reader.join()
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_SECONDS_MAX)
        self.reader.join()
        return code


@contextlib.contextmanager
def worker_of(server, settings=None, arguments=(), url=None):
    worker = Worker(server.binary, url or f"http://127.0.0.1:{server.port}", settings, arguments)
    try:
        yield worker
        expect(worker.stop() == 0, worker.text())
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
        worker.directory.cleanup()
