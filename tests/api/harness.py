"""The server from outside: starts the program, talks HTTP to it, says what was wrong.

A file tests/api/test_<family>.py has functions marked with @case; each gets a `Server`. run.py runs
all of them, one server a file. Standard library only.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

# Far longer than anything takes on a loaded machine.
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
ANSWER_SECONDS_MAX = 60
SHOWN_MAX = 1500

LISTENING = re.compile(r"listening on (https?)://([^\s:]+|\[[^\]]+\]):(\d+)")
# Settings of the caller's shell must not change what is tested.
KEPT_VARIABLES = {"PATH", "HOME", "LANG", "TMPDIR", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}

CASES = []


def case(function):
    """Marks a function as a test: it gets a running `Server`."""
    CASES.append(function)
    return function


class Failure(Exception):
    """A check that did not hold."""


class Answer:
    def __init__(self, request, status, headers, data):
        self.request, self.status, self.headers, self.data = request, status, headers, data

    @property
    def json(self):
        try:
            return json.loads(self.data)
        except ValueError as error:
            raise Failure(f"the body is not JSON ({error})\n{self}") from error

    def header(self, name):
        return self.headers.get(name)

    def __str__(self):
        shown = self.data[:SHOWN_MAX].decode("utf-8", "replace")
        return f"  request: {self.request}\n  answer: {self.status} {shown}"


def differences(wanted, got, place="body"):
    """What of `wanted` is not in `got`. Maps may have more members, lists may not have more items.

    A type stands for any value of it, a function for any value it accepts.
    """
    if isinstance(wanted, type):
        fits = isinstance(got, wanted) and not (wanted is int and isinstance(got, bool))
        return [] if fits else [f"{place}: a {wanted.__name__} was expected, not {got!r}"]
    if callable(wanted):
        return [] if wanted(got) else [f"{place}: {got!r} was not accepted"]
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return [f"{place}: a map was expected, not {got!r}"]
        found = []
        for key, value in wanted.items():
            if key not in got:
                found.append(f"{place}.{key}: is missing")
            else:
                found += differences(value, got[key], f"{place}.{key}")
        return found
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return [f"{place}: {wanted!r} was expected, not {got!r}"]
        return [text for index, value in enumerate(wanted)
                for text in differences(value, got[index], f"{place}[{index}]")]
    same = wanted == got and isinstance(wanted, bool) == isinstance(got, bool)
    return [] if same else [f"{place}: {wanted!r} was expected, not {got!r}"]


def check(answer, status, subset=None):
    """Fails unless the answer has this status and (JSON) body; gives the body."""
    if answer.status != status:
        raise Failure(f"status {status} was expected\n{answer}")
    if status >= 400 and answer.request.split(" ")[0] != "HEAD":
        wrong = differences({"error": str, "status": status, "detail": str, "code": str,
                             "request_id": str}, answer.json)
        if wrong:
            raise Failure("no error envelope: " + "; ".join(wrong) + f"\n{answer}")
    if subset is None:
        return answer.json if answer.data[:1] in (b"{", b"[") else None
    wrong = differences(subset, answer.json)
    if wrong:
        raise Failure("; ".join(wrong) + f"\n{answer}")
    return answer.json


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Client:
    """One connection that is kept alive. Belongs to one thread."""

    def __init__(self, server, headers=None):
        self.server, self.headers, self.connection = server, dict(headers or {}), None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(self, method, path, body=None, headers=None, raw=None):
        """`body` is sent as JSON, `raw` as it is."""
        sent = dict(self.headers)
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        sent = {name: value for name, value in sent.items() if value is not None}
        if isinstance(data, str):
            data = data.encode()
        shown = (data or b"")[:SHOWN_MAX].decode("utf-8", "replace")
        text = f"{method} {path} {shown}"
        for attempt in (1, 2):
            fresh = self.connection is None
            if fresh:
                self.connection = http.client.HTTPConnection(
                    self.server.host, self.server.port, timeout=ANSWER_SECONDS_MAX)
            try:
                self._send(method, path, data, sent)
                response = self.connection.getresponse()
                answer = Answer(text, response.status, response.headers, response.read())
                if response.will_close:
                    self.close()
                self.server.calls.append((method, path.split("?")[0], answer.status))
                return answer
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                self.close()
                # An idle connection may have been closed; a new one may not.
                if fresh or attempt == 2:
                    raise Failure(f"the server closed the connection ({error!r})\n  {text}") from error
        raise Failure("unreachable")

    def _send(self, method, path, data, headers):
        self.connection.putrequest(method, path, skip_host="Host" in headers,
                                   skip_accept_encoding=True)
        for name, value in headers.items():
            self.connection.putheader(name, value)
        if data is not None or method in ("POST", "PUT"):
            self.connection.putheader("Content-Length", str(len(data or b"")))
        self.connection.endheaders()
        if data:
            try:
                self.connection.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the body was read: the answer is there

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)


class Server(Client):
    """A server process of its own data directory; also a client of it for the main thread."""

    def __init__(self, binary, worker=False, settings=None, headers=None, arguments=()):
        self.calls = []  # (method, path, status) of every answer
        self.host, self.port = "127.0.0.1", 0
        self.directory = tempfile.mkdtemp(prefix="noetl-api-")
        self.binary, self.worker, self.arguments = binary, worker, list(arguments)
        self.settings = dict(settings or {})
        self.process = None
        super().__init__(self, headers)

    def client(self, headers=None):
        """Another connection, for another thread or another identity."""
        return Client(self, headers)

    def start(self):
        environment = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        environment.update(self.settings)
        command = [self.binary, "server", "--port", "0", "--data", self.directory]
        command += [] if self.worker else ["--no-worker"]
        self.log = open(pathlib.Path(self.directory) / "server.log", "ab")
        self.process = subprocess.Popen(command + self.arguments, stdout=subprocess.PIPE,
                                        stderr=self.log, env=environment, text=True)
        timer = threading.Timer(START_SECONDS_MAX, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                found = LISTENING.search(line)
                if found:
                    self.port = int(found.group(3))
                    threading.Thread(target=self.process.stdout.read, daemon=True).start()
                    return self
        finally:
            timer.cancel()
        raise Failure(f"the server did not start\n{self.log_text()}")

    def stop(self):
        """The exit code of a server that was asked to end."""
        self.close()
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"the server did not end\n{self.log_text()}") from None
        finally:
            self.log.close()
            self.process = None
        return code

    def kill(self):
        """As a crash does it; `start` again continues on the same data."""
        self.close()
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.process = None

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_text(self):
        path = pathlib.Path(self.directory) / "server.log"
        return path.read_text("utf-8", "replace")[-4000:] if path.exists() else ""


@contextlib.contextmanager
def running(server_or_binary, **options):
    """A second server of a test; its calls count as calls of the first one."""
    first = server_or_binary if isinstance(server_or_binary, Server) else None
    server = Server(first.binary if first else server_or_binary, **options)
    if first:
        server.calls = first.calls
    try:
        server.start()
        yield server
        expect(server.stop() == 0, "the server ended with an error\n" + server.log_text())
    finally:
        if server.process is not None:
            server.kill()
        server.remove()


def wait_until(what, condition, seconds=ANSWER_SECONDS_MAX):
    """The first true value of `condition`; fails when none comes."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        expect(time.monotonic() < deadline, f"{what} did not happen within {seconds} s")
        time.sleep(0.01)


def in_parallel(count, work):
    """The results of work(0) ... work(count - 1), each on a thread of its own."""
    results, problems = [None] * count, []

    def run(index):
        try:
            results[index] = work(index)
        except Exception as error:  # pylint: disable=broad-except
            problems.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return results
