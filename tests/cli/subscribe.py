#!/usr/bin/env python3
"""subscribe.py NOETL: `noetl subscribe` with a real NATS server and a real noetl server.

One of each serves all tests that do not stop them; each test has a stream and a subscription of its
own. Everything waits for what the listener says, nothing for a time.
"""
import base64
import http.client
import http.server
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
from http_service import http_service  # noqa: E402  pylint: disable=wrong-import-position

SECONDS_MAX = 120
NOETL = ""
NUMBERS = itertools.count(1)

PLAYBOOK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: NAME, path: demo/NAME }
workload: { n: 0, body: "" }
workflow:
  - step: start
    tool: { kind: noop, result: { by: NAME, n: "{{ n }}", body: "{{ body }}", id: "{{ message.id }}",
                                  source: "{{ source }}", subscription: "{{ subscription }}",
                                  subject: "{{ message.metadata.subject }}" } }
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(what, condition):
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {SECONDS_MAX} s")
        time.sleep(0.02)


def environment(home, **more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NOETL_", "NATS_", "WORKER_"))}
    return {**kept, "HOME": str(home), **more}


class NatsServer:
    """`nats-server -js` with its files in a folder of its own."""

    def __init__(self, *more):
        self.folder = tempfile.TemporaryDirectory(prefix="noetl-nats-")
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        program = shutil.which("nats-server") or "/usr/sbin/nats-server"
        self.command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder.name, *more]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the start of nats-server", self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError("nats-server did not start")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(SECONDS_MAX)

    def close(self):
        self.stop()
        self.folder.cleanup()


class Nats:
    """As much of a client of NATS as is needed to make streams and fill them."""

    def __init__(self, port, **login):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self.file = self.socket.makefile("rb")
        self.file.readline()  # INFO
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, **login}
        self.send(f"CONNECT {json.dumps(options)}\r\nSUB answer.{id(self)} 1\r\n".encode())

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        while True:
            line = self.file.readline().split()
            if not line:
                raise RuntimeError("NATS closed the connection")
            if line[0] == b"PING":
                self.send(b"PONG\r\n")
            elif line[0] == b"MSG":
                return json.loads(self.file.read(int(line[-1]) + 2))
            elif line[0] in (b"-ERR", b"HMSG"):
                raise RuntimeError(f"NATS answers {line}")

    def call(self, subject, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        self.send(f"PUB {subject} answer.{id(self)} {len(data)}\r\n".encode() + data + b"\r\n")
        answer = self.answer()
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")
        return answer

    def stream(self, name):
        self.call(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file",
                                                    "retention": "limits", "num_replicas": 1})

    def consumer(self, stream, name, **more):
        config = {"durable_name": name, "ack_policy": "explicit", "deliver_policy": "all", "max_deliver": -1,
                  "replay_policy": "instant", **more}
        self.call(f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})

    def info(self, stream, name):
        return self.call(f"$JS.API.CONSUMER.INFO.{stream}.{name}")

    def publish(self, subject, data, headers=None):
        """The sequence of the message."""
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"NATS/1.0\r\n{head}\r\n".encode()
        self.send(f"HPUB {subject} answer.{id(self)} {len(head)} {len(head) + len(data)}\r\n".encode()
                  + head + data + b"\r\n")
        return self.answer()["seq"]


class Server:
    """`noetl server` on a port that stays the same when it is started again."""

    def __init__(self, data):
        self.data, self.port, self.process = str(data), free_port(), None
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [NOETL, "server", "--port", str(self.port), "--data", self.data], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment(self.data, NOETL_SQL_API_ENABLED="true"))
        line = self.process.stdout.readline()
        if not re.search(r"listening on http://", line):
            raise RuntimeError(f"the server did not start: {line}")
        return self

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(SECONDS_MAX)
            self.process.stdout.close()
            self.process = None

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise AssertionError(f"{method} {path}: {answer.status} {text.decode()}")
            return json.loads(text)
        finally:
            connection.close()

    def register(self, *documents):
        for document in documents:
            self.call("POST", "/api/catalog/register", {"content": document})

    def subscription(self, path):
        rows = self.call("GET", "/api/subscriptions?limit=1000")["subscriptions"]
        return next((row for row in rows if row["path"] == path), None)

    def results(self, path):
        """The result of each run of the subscription, oldest first; waits for their ends."""
        parent = self.subscription(path)["subscription_id"]
        runs = self.call("GET", f"/api/executions?parent_execution_id={parent}&limit=200")
        ids = sorted(int(run["execution_id"]) for run in runs)
        return [self.call("GET", f"/api/executions/{run}/wait?timeout_ms=60000&return_step=start")["data"]
                for run in ids]


class Gate:
    """Stands before a server and can keep the answers of starts to itself."""

    def __init__(self, server):
        gate = self
        self.held = threading.Event()
        self.hold = False

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size) if size else None
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX)
                connection.request(self.command, self.path, body,
                                   {"Content-Type": self.headers.get("Content-Type") or "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                connection.close()
                if gate.hold and self.path == "/api/execute":
                    gate.held.set()
                    self.close_connection = True
                    self.rfile.read()  # until the other side goes away
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = forward

            def log_message(self, *_):
                pass

        self.service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.service.server_port}"
        self.thread = threading.Thread(target=self.service.serve_forever)
        self.thread.start()

    def close(self):
        self.service.shutdown()
        self.thread.join()
        self.service.server_close()


class PubSub:
    """The pull side of Pub/Sub, in memory: what is not acknowledged in time comes again."""

    NAME = "projects/p/subscriptions/orders"

    def __init__(self):
        self.lock = threading.Lock()
        self.messages = {}  # id: [message, when it may be given, ack id]
        self.calls = []

    def answer(self, request):
        if request.method == "GET":
            found = request.path == f"/v1/{self.NAME}"
            return 200 if found else 404, {"name": self.NAME, "ackDeadlineSeconds": 10}
        action = request.path.rpartition(":")[2]
        with self.lock:
            self.calls.append(action)
            return 200, getattr(self, action)(json.loads(request.body)) or {}

    def publish(self, body, **attributes):
        with self.lock:
            number = f"m{next(NUMBERS)}"
            data = base64.b64encode(json.dumps(body).encode()).decode()
            self.messages[number] = [{"messageId": number, "data": data, "attributes": attributes}, 0, ""]
            return number

    def pull(self, body):
        given = []
        for entry in self.messages.values():
            if entry[1] <= time.monotonic() and len(given) < body["maxMessages"]:
                entry[1], entry[2] = time.monotonic() + 10, f"ack{next(NUMBERS)}"
                given.append({"ackId": entry[2], "message": entry[0]})
        return {"receivedMessages": given} if given else {}

    def acknowledge(self, body):
        self.messages = {number: entry for number, entry in self.messages.items() if entry[2] not in body["ackIds"]}

    def modifyAckDeadline(self, body):
        for entry in self.messages.values():
            if entry[2] in body["ackIds"]:
                entry[1] = time.monotonic() + body["ackDeadlineSeconds"]


class Listener:
    """A running `noetl subscribe` and the events that it tells."""

    def __init__(self, folder, home, arguments, **more):
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([NOETL, "subscribe", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=self.stderr, text=True, cwd=folder,
                                        env=environment(home, **more))
        self.lines = queue.Queue()
        self.events = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def text(self):
        self.stderr.seek(0)
        return self.stderr.read().decode()

    def next(self, event_type, count=1):
        """The next event of the type, or the last of so many."""
        while True:
            try:
                event = self.lines.get(timeout=SECONDS_MAX)
            except queue.Empty:
                raise AssertionError(f"no {event_type} came: {self.events}\n{self.text()}") from None
            if event is None:
                raise AssertionError(f"it ended without {event_type}: {self.events}\n{self.text()}")
            self.events.append(event)
            if event["event_type"] == f"subscription.{event_type}":
                count -= 1
                if count == 0:
                    return event

    def end(self, sign=None):
        """The exit code, after the signal or by itself."""
        if sign:
            self.process.send_signal(sign)
        code = self.process.wait(SECONDS_MAX)
        self.reader.join()
        self.events += [event for event in iter(self.lines.get, None)]
        return code

    def types(self):
        return [event["event_type"].removeprefix("subscription.") for event in self.events]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.stderr.close()


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nats_server = NatsServer()
        cls.data = tempfile.TemporaryDirectory(prefix="noetl-subscribe-")
        cls.server = Server(cls.data.name).start()
        cls.server.register(PLAYBOOK.replace("NAME", "order"), PLAYBOOK.replace("NAME", "other"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.nats_server.close()
        cls.data.cleanup()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="noetl-subscribe-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.nats = Nats(self.nats_server.port)
        self.addCleanup(self.nats.close)
        self.stream = f"s{next(NUMBERS)}"
        self.path = f"subs/{self.stream}"
        self.nats.stream(self.stream)

    def spec(self, more="", playbook="demo/order", dispatch="", **fields):
        """A file; `more` are further lines of its spec."""
        fields = {"source": "nats", "mode": "pull", "url": self.nats_server.url, "stream": self.stream,
                  "consumer": "noetl", **fields}
        text = f"apiVersion: noetl.io/v1\nkind: Subscription\nmetadata: {{ path: {self.path} }}\nspec:\n"
        text += "".join(f"  {name}: {value}\n" for name, value in fields.items() if value)
        text += f"  dispatch: {{ playbook: {playbook}{dispatch} }}\n" + more
        file = self.folder / "spec.subscription.yaml"
        file.write_text(text)
        return file

    def listen(self, *arguments, url=None, **more):
        listener = Listener(self.folder, self.home, [*arguments, "--server-url", url or self.server.url], **more)
        self.addCleanup(listener.close)
        return listener

    def once(self, *arguments, code=0, **more):
        """Until it ends by itself."""
        listener = self.listen(*arguments, **more)
        self.assertEqual(listener.end(), code, listener.text())
        return listener

    def publish(self, *bodies, headers=None):
        return [self.nats.publish(f"{self.stream}.new", body, headers) for body in bodies]

    def fails(self, code, *words, arguments=(), **more):
        done = subprocess.run([NOETL, "subscribe", *map(str, arguments)], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, cwd=self.folder,
                              env=environment(self.home, **more))
        shown = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, code, shown)
        for word in words:
            self.assertIn(word, done.stderr, shown)
        self.assertEqual(done.stdout, "", shown)

    def all_acked(self, consumer="noetl"):
        info = self.nats.info(self.stream, consumer)
        return info["num_ack_pending"] == 0 and info["num_pending"] == 0


class Messages(Case):
    def test_become_runs(self):
        self.publish({"n": 1}, {"n": 2}, b"plain text", b"")
        listener = self.once(self.spec(), "--max-messages", 4)
        self.assertEqual(listener.types(), ["registered", "activated", *4 * ["message.received", "message.dispatched",
                                                                            "message.acked"],
                                            "draining", "deactivated"])
        event = listener.events[3]
        self.assertEqual((event["subscription"], event["message_id"], event["status"], event["playbook"]),
                         (self.path, "1", "started", "demo/order"))
        self.assertRegex(event["ts"], r"^\d{4}-\d\d-\d\dT.*Z$")
        wait_for("the acks", self.all_acked)
        results = self.server.results(self.path)
        self.assertEqual([(result["n"], result["body"], result["id"]) for result in results],
                         [(1, "", "1"), (2, "", "2"), (0, "plain text", "3"), (0, "", "4")])
        self.assertEqual({result["source"] for result in results}, {"nats"})
        self.assertEqual({result["subscription"] for result in results}, {self.path})
        self.assertEqual({result["subject"] for result in results}, {f"{self.stream}.new"})
        self.assertEqual(self.server.subscription(self.path)["state"], "DEACTIVATED")
        self.assertIn("4 messages received, 4 runs started", listener.text())
        first = self.server.subscription(self.path)["subscription_id"]

        # Again: nothing is left, and the subscription comes back under its id.
        listener = self.once(self.path, "--idle-exit", "1s", "--events", "events.jsonl")
        self.assertEqual(listener.events, [])
        lines = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        self.assertEqual([line["event_type"] for line in lines],
                         [f"subscription.{word}" for word in ["registered", "activated", "draining", "deactivated"]])
        self.assertEqual(lines[0]["subscription_id"], first)
        self.assertEqual(len(self.server.results(self.path)), 4)

    def test_in_batches(self):
        self.publish(*({"n": number} for number in range(10)))
        spec = self.spec(dispatch=", batch_dispatch: true, batch_max: 4")
        self.once(spec, "--max-messages", 10)
        self.assertEqual(sorted(result["n"] for result in self.server.results(self.path)), list(range(10)))

    def test_delivered_twice_start_one_run(self):
        self.publish({"n": 1}, {"n": 2})
        self.once(self.spec(), "--max-messages", 2)
        self.nats.consumer(self.stream, "again")
        listener = self.once(self.spec(consumer="again"), "--max-messages", 2)
        statuses = [event["status"] for event in listener.events if "status" in event]
        self.assertEqual(statuses, ["duplicate", "duplicate"])
        self.assertEqual(len(self.server.results(self.path)), 2)

    def test_killed_between_dispatch_and_ack(self):
        self.nats.consumer(self.stream, "noetl", ack_wait=1_000_000_000)
        gate = Gate(self.server)
        self.addCleanup(gate.close)
        gate.hold = True
        self.publish({"n": 1})
        listener = self.listen(self.spec(), url=gate.url)
        self.assertTrue(gate.held.wait(SECONDS_MAX), "the start did not arrive")
        listener.process.kill()  # the run is there, the listener has not heard of it
        listener.process.wait()
        self.assertEqual(len(self.server.results(self.path)), 1)
        self.assertFalse(self.all_acked())
        self.assertEqual(self.server.subscription(self.path)["state"], "ACTIVE")
        listener = self.once(self.spec(), "--max-messages", 1)
        self.assertIn("duplicate", [event.get("status") for event in listener.events])
        wait_for("the ack", self.all_acked)
        self.assertEqual(len(self.server.results(self.path)), 1)

    def test_killed_again_and_again(self):
        self.nats.consumer(self.stream, "noetl", ack_wait=1_000_000_000)
        numbers = itertools.count()
        spec = self.spec()
        for events in [1, 2, 3, 5, 8, 13, 21]:
            self.publish(*({"n": next(numbers)} for _ in range(2 * events)))
            listener = self.listen(spec)
            listener.next("message.dispatched", events)
            listener.process.kill()
            listener.process.wait()
        listener = self.listen(spec)
        wait_for("the acks", self.all_acked)
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertEqual(sorted(result["n"] for result in self.server.results(self.path)),
                         list(range(next(numbers))))

    def test_headers_decide(self):
        spec = self.spec("""  headers:
    directives:
      - { header: X-Playbook, controls: dispatch.playbook, allowed: [demo/other] }
      - { header: X-Key, controls: idempotency_key }
    trace: { propagate: w3c }
  dedup: { enabled: true }
""", dispatch=", payload_from: message.body")
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.publish({"n": 1}, headers={"X-Playbook": "demo/other", "traceparent": trace})
        self.publish({"n": 2}, headers={"X-Playbook": "demo/evil", "X-Key": "k"})
        self.publish({"n": 3}, headers={"X-Key": "k"})
        listener = self.once(spec, "--max-messages", 3)
        results = self.server.results(self.path)
        self.assertEqual([(result["by"], json.loads(result["body"])["n"]) for result in results],
                         [("other", 1), ("order", 2)])
        applied = [event for event in listener.events
                   if event["event_type"] == "subscription.message.directives_applied"]
        self.assertEqual([event["route_override"] for event in applied], [{"playbook": "demo/other"}, {}])
        self.assertEqual(applied[0]["trace"], {"traceparent": trace})
        events = self.server.call("GET", f"/api/executions/{applied[0]['execution_id']}/events?include_payload=true")
        audit = [event for event in events["events"]
                 if event["event_type"] == "subscription.message.directives_applied"]
        self.assertEqual(len(audit), 1, events)
        self.assertIn(trace, json.dumps(events))

    def test_refused_too_often_are_given_up(self):
        self.publish({"n": 1})
        spec = self.spec("  runtime: { max_deliver: 3 }\n", playbook="demo/missing")
        listener = self.once(spec, "--max-messages", 1, "--data", "data")
        self.assertEqual(listener.types().count("message.nacked"), 2)
        dead = next(event for event in listener.events if event["event_type"].endswith("dead_lettered"))
        self.assertEqual((dead["message_id"], dead["attempts"]), ("1", 3))
        self.assertIn("demo/missing", dead["reason"])
        letter = json.loads((self.folder / dead["file"]).read_text())
        self.assertEqual((letter["message"]["data"], letter["subscription"]), ({"n": 1}, self.path))
        wait_for("the end of the message", self.all_acked)
        self.assertIn("1 given up", listener.text())

    def test_the_api_pauses_resumes_and_ends_it(self):
        listener = self.listen(self.spec())
        identity = listener.next("activated")["subscription_id"]

        def act(action):
            self.server.call("POST", f"/api/subscriptions/{identity}/{action}")

        act("pause")
        listener.next("paused")
        self.publish({"n": 1})
        self.assertEqual(self.nats.info(self.stream, "noetl")["num_pending"], 1)
        act("resume")
        listener.next("resumed")
        listener.next("message.acked")
        act("drain")
        self.assertEqual(listener.end(), 0, listener.text())
        self.assertEqual(listener.types()[-2:], ["draining", "deactivated"])
        self.assertEqual(self.server.subscription(self.path)["state"], "DEACTIVATED")
        self.assertEqual(len(self.server.results(self.path)), 1)

    def test_one_that_is_paused_stays_so(self):
        self.server.register(self.spec().read_text())
        row = self.server.call("POST", "/api/subscriptions/register", {"path": self.path})
        for action in ["activate", "pause"]:
            self.server.call("POST", f"/api/subscriptions/{row['subscription_id']}/{action}")
        listener = self.listen(self.path)
        listener.next("paused")
        self.assertNotIn("activated", listener.types())
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())

    def test_ctrl_c_ends_it(self):
        for sign in [signal.SIGINT, signal.SIGTERM]:
            listener = self.listen(self.spec())
            listener.next("activated")
            self.publish({"n": 1})
            listener.next("message.acked")
            self.assertEqual(listener.end(sign), 0, listener.text())
            self.assertEqual(listener.types()[-1], "deactivated")

    def test_limits(self):
        self.publish({"n": 1}, {"n": 2})
        spec = self.spec("  limits: { max_dispatch_per_sec: 0.25, max_in_flight: 50 }\n")
        listener = self.once(spec, "--max-messages", 2)
        self.assertEqual(len(self.server.results(self.path)), 2)
        limited = [event for event in listener.events if event["event_type"] == "subscription.rate_limited"]
        self.assertEqual([event["reason"] for event in limited], ["dispatch_rate"])

    def test_a_consumer_that_is_removed_is_made_again(self):
        self.nats.consumer(self.stream, "noetl")
        listener = self.listen(self.spec())
        listener.next("activated")
        self.publish({"n": 1})
        listener.next("message.acked")
        self.nats.call(f"$JS.API.CONSUMER.DELETE.{self.stream}.noetl")
        self.publish({"n": 2})
        listener.next("message.acked", 2)  # the first one comes again
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertEqual([result["n"] for result in self.server.results(self.path)], [1, 2])

    def test_a_login_for_nats(self):
        other = NatsServer("--user", "ann", "--pass", "s3cret")
        self.addCleanup(other.close)
        client = Nats(other.port, user="ann", **{"pass": "s3cret"})
        self.addCleanup(client.close)
        client.stream(self.stream)
        client.publish(f"{self.stream}.new", {"n": 1})
        spec = self.spec(url=other.url)
        self.fails(5, "does not let this program in", "NATS_USER",
                   arguments=[spec, "--server-url", self.server.url])
        self.once(spec, "--max-messages", 1, NATS_USER="ann", NATS_PASSWORD="s3cret")
        client.publish(f"{self.stream}.new", {"n": 2})
        self.server.call("POST", "/api/credentials", {
            "name": f"nats_{self.stream}", "type": "nats",
            "data": {"nats_url": other.url, "username": "ann", "password": "s3cret"}})
        self.once(self.spec(url=None, auth=f"nats_{self.stream}"), "--max-messages", 1)
        self.assertEqual(len(self.server.results(self.path)), 2)


class OverPubSub(Case):
    def setUp(self):
        super().setUp()
        self.pubsub = PubSub()
        self.endpoint = self.enterContext(http_service(self.pubsub.answer))

    def spec(self, more="", **fields):
        return super().spec(more, **{"source": "pubsub", "url": None, "stream": None, "consumer": None,
                                     "endpoint": self.endpoint, "subscription": PubSub.NAME, **fields})

    def test_messages_become_runs(self):
        directives = ("  headers: { directives: [ { header: X-Playbook, controls: dispatch.playbook, "
                      "allowed: [demo/other] } ] }\n")
        first = self.pubsub.publish({"n": 1})
        second = self.pubsub.publish({"n": 2}, **{"x-playbook": "demo/other"})
        self.once(self.spec(directives), "--max-messages", 2)
        self.assertEqual([(result["n"], result["by"], result["id"], result["source"])
                          for result in self.server.results(self.path)],
                         [(1, "order", first, "pubsub"), (2, "other", second, "pubsub")])
        self.assertEqual(self.pubsub.messages, {})

    def test_refused_ones_are_given_up(self):
        self.pubsub.publish({"n": 1})
        spec = self.spec("  runtime: { max_deliver: 2 }\n", playbook="demo/missing")
        listener = self.once(spec, "--max-messages", 1, "--data", "data")
        self.assertEqual(listener.types().count("message.nacked"), 1)
        self.assertEqual(listener.types().count("message.dead_lettered"), 1)
        self.assertEqual([call for call in self.pubsub.calls if call != "pull"],
                         ["modifyAckDeadline", "acknowledge"])
        self.assertEqual(self.pubsub.messages, {})

    def test_mistakes(self):
        at = ["--server-url", self.server.url]
        self.fails(5, f"Pub/Sub at http://127.0.0.1:{(port := free_port())} cannot be reached",
                   arguments=[self.spec(endpoint=f"http://127.0.0.1:{port}"), *at])
        self.fails(2, "has no subscription", arguments=[self.spec(subscription="projects/p/subscriptions/x"), *at])
        self.fails(2, "needs a token", "spec.auth", arguments=[self.spec(endpoint=None), *at])


class Outage(Case):
    """The server goes away; each test has one of its own."""

    def setUp(self):
        super().setUp()
        self.own = Server(self.folder / "server")
        self.addCleanup(self.own.stop)
        self.own.start()
        self.own.register(PLAYBOOK.replace("NAME", "order"))

    def numbers(self):
        return [result["n"] for result in self.own.results(self.path)]

    def test_messages_come_again(self):
        listener = self.listen(self.spec(), url=self.own.url)
        listener.next("activated")
        self.own.stop()
        self.publish({"n": 1})
        event = listener.next("message.nacked")
        self.assertEqual((event["delivered"], event["delay_ms"]), (1, 2000))
        self.own.start()
        listener.next("message.acked")
        self.assertEqual(self.numbers(), [1])
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertIn("cannot be reached", listener.text())

    def test_a_spool_takes_them(self):
        spec = self.spec("""  spool:
    mode: buffer_and_ack
    backend: local_disk
    path: spool
    ordering: global
    circuit: { trip_after: 2, probe_after_ms: 200 }
""")
        listener = self.listen(spec, url=self.own.url)
        listener.next("activated")
        self.own.stop()
        self.publish(*({"n": number} for number in range(1, 4)))
        listener.next("message.spooled", 3)
        wait_for("the acks", self.all_acked)
        self.assertEqual(len(list((self.folder / "spool").glob("0*.json"))), 3)
        wait_for("the circuit", lambda: (self.folder / "spool" / "circuit.json").exists())
        listener.process.kill()
        listener.process.wait()

        self.own.start()
        self.publish({"n": 4})
        listener = self.listen(spec, url=self.own.url)
        self.assertEqual(listener.next("spool.recovered")["messages"], 3)
        listener.next("message.replayed", 3)
        # The fourth goes straight, or waits behind the others: it depends on when the circuit closes.
        wait_for("the runs", lambda: len(self.numbers()) == 4)
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertEqual(self.numbers(), [1, 2, 3, 4])
        self.assertIn("circuit.closed", listener.types())
        self.assertEqual(list((self.folder / "spool").glob("0*.json")), [])

    def test_probes_find_it_again(self):
        spec = self.spec(f"""  spool:
    mode: buffer_and_ack
    backend: local_disk
    path: spool
    circuit:
      trip_after: 1
      probe_after_ms: 3600000
      probe_interval_ms: 100
      downstream: [ {{ name: default, type: http, target: "{self.own.url}/health" }} ]
""")
        listener = self.listen(spec, url=self.own.url)
        listener.next("activated")
        self.own.stop()
        self.publish({"n": 1})
        listener.next("message.spooled")
        self.assertIn("circuit.opened", listener.types())
        self.own.start()
        listener.next("circuit.closed")
        listener.next("message.replayed")
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertEqual(self.numbers(), [1])

    def test_nats_goes_away(self):
        other = NatsServer()
        self.addCleanup(other.close)
        client = Nats(other.port)
        client.stream(self.stream)
        listener = self.listen(self.spec(url=other.url), url=self.own.url)
        listener.next("activated")
        client.publish(f"{self.stream}.new", {"n": 1})
        listener.next("message.acked")
        client.close()
        other.stop()
        wait_for("the complaint", lambda: "cannot be reached" in listener.text())
        other.start()
        client = Nats(other.port)
        self.addCleanup(client.close)
        client.publish(f"{self.stream}.new", {"n": 2})
        listener.next("message.acked")
        self.assertEqual(listener.end(signal.SIGINT), 0, listener.text())
        self.assertEqual(self.numbers(), [1, 2])


class Local(Case):
    @classmethod
    def setUpClass(cls):
        cls.nats_server = NatsServer()

    @classmethod
    def tearDownClass(cls):
        cls.nats_server.close()

    def setUp(self):
        super().setUp()
        (self.folder / "order.yaml").write_text(PLAYBOOK.replace("NAME", "order"))

    def listen(self, *arguments, **more):
        arguments = [*arguments, "--dispatch", "local", "--data", "data"]
        listener = Listener(self.folder, self.home, arguments, **more)
        self.addCleanup(listener.close)
        return listener

    def runs(self):
        done = subprocess.run([NOETL, "executions", "--data", "data", "--json"], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=True, cwd=self.folder, env=environment(self.home))
        return json.loads(done.stdout)

    def test_runs_here(self):
        self.publish({"n": 1}, {"n": 2})
        listener = self.once(self.spec(), "--max-messages", 2)
        self.assertEqual(listener.types()[:2], ["registered", "activated"])
        self.assertEqual(listener.types()[-2:], ["draining", "deactivated"])
        self.assertEqual([run["status"] for run in self.runs()], ["COMPLETED", "COMPLETED"])
        shown = subprocess.run([NOETL, "show", "last", "--data", "data", "--result"], capture_output=True, text=True,
                               timeout=SECONDS_MAX, check=True, cwd=self.folder, env=environment(self.home))
        self.assertEqual(json.loads(shown.stdout)["n"], 2)
        wait_for("the acks", self.all_acked)

        # Delivered once more, to another process: a note says that they have their runs.
        listener = self.once(self.spec(consumer="again"), "--max-messages", 2)
        self.assertEqual([event["status"] for event in listener.events if "status" in event],
                         ["duplicate", "duplicate"])
        self.assertEqual(len(self.runs()), 2)

    def test_a_playbook_by_its_file(self):
        self.publish({"n": 1})
        self.once(self.spec(playbook="order.yaml"), "--max-messages", 1)
        self.assertEqual([run["path"] for run in self.runs()], ["demo/order"])

    def test_ends_after_its_runs(self):
        slow = PLAYBOOK.replace("NAME", "slow").split("workflow:")[0] + """workflow:
  - step: start
    tool: { kind: shell, cmds: "while [ ! -e flag ]; do sleep 0.05; done" }
"""
        (self.folder / "slow.yaml").write_text(slow.replace("flag", str(self.folder / "flag")))
        self.publish({"n": 1})
        listener = self.listen(self.spec(playbook="demo/slow"))
        listener.next("message.acked")
        listener.process.send_signal(signal.SIGINT)
        wait_for("the wait", lambda: "waiting for 1 run" in listener.text())
        (self.folder / "flag").touch()
        self.assertEqual(listener.end(), 0, listener.text())
        self.assertEqual([run["status"] for run in self.runs()], ["COMPLETED"])

    def test_the_second_ctrl_c_leaves(self):
        slow = PLAYBOOK.replace("NAME", "slow").split("workflow:")[0] + """workflow:
  - step: start
    tool: { kind: shell, cmds: "sleep 1003" }
"""
        (self.folder / "slow.yaml").write_text(slow)
        self.publish({"n": 1})
        listener = self.listen(self.spec(playbook="demo/slow"))
        listener.next("message.acked")
        listener.process.send_signal(signal.SIGINT)
        wait_for("the wait", lambda: "waiting for 1 run" in listener.text())
        self.assertEqual(listener.end(signal.SIGINT), 130)

    def test_killed_after_the_start(self):
        self.nats.consumer(self.stream, "noetl", ack_wait=1_000_000_000)
        self.publish({"n": 1})
        self.once(self.spec(), "--max-messages", 1)
        journal = next((self.folder / "data" / "subscriptions").glob("*/started.jsonl"))
        self.assertIn(f"{self.path}:1", journal.read_text())
        # A note about a run that was never started counts for nothing.
        self.publish({"n": 2})
        with journal.open("a") as file:
            file.write(json.dumps({"key": f"{self.path}:2", "execution_id": "77", "until_us": 1 << 60}) + "\n{\"ke")
        listener = self.once(self.spec(), "--max-messages", 1)
        self.assertIn("started", [event.get("status") for event in listener.events])
        self.assertEqual(len(self.runs()), 2)

    def test_what_it_cannot_do(self):
        local = ["--dispatch", "local", "--data", "data"]
        self.fails(2, "no playbook 'demo/missing'", "none beside",
                   arguments=[self.spec(playbook="demo/missing"), *local])
        self.fails(2, "there is no file 'subs/x'", "--dispatch server", arguments=["subs/x", *local])
        self.fails(2, "spec.auth", arguments=[self.spec(auth="x"), *local])
        self.fails(2, "leave the server away", arguments=[self.spec(), "--server-url", "http://x", *local])


class Mistakes(Case):
    def at(self, spec, *more):
        return [spec, "--server-url", self.server.url, *more]

    def test_of_the_document(self):
        self.fails(2, "spec.subscription.yaml:5:11: E090 spec.source 'kafka' cannot be served",
                   "it serves nats and pubsub", arguments=self.at(self.spec(source="kafka")))
        self.fails(2, "spec.subscription is missing", arguments=self.at(self.spec(source="pubsub")))
        push = "  ingress: { gateway_path: /in/x, verify: { type: bearer, secret: s } }\n"
        self.fails(2, "needs no listener", arguments=self.at(self.spec(push, source="webhook", mode="push")))
        self.fails(2, ":6:9: E090 spec.mode must be one of pull, push", arguments=self.at(self.spec(mode="sideways")))
        spool = "  spool:\n    mode: buffer_and_ack\n    backend: s3\n    bucket: b\n"
        self.fails(2, ":13:14: E090 spec.spool.backend 's3' cannot be used", "local_disk",
                   arguments=self.at(self.spec(spool)))
        directive = "  headers:\n    directives:\n      - { header: x, controls: dispatch.playbook }\n"
        self.fails(2, ":13:9: E090 spec.headers.directives[0].allowed is missing",
                   arguments=self.at(self.spec(directive)))
        (self.folder / "flow.yaml").write_text(PLAYBOOK)
        self.fails(2, "flow.yaml:2:7: E001 this is a 'Playbook'", arguments=self.at("flow.yaml"))
        (self.folder / "bad.yaml").write_text("a: [")
        self.fails(2, "bad.yaml:", arguments=self.at("bad.yaml"))
        self.fails(2, "missing.yaml", arguments=self.at("missing.yaml"))
        self.fails(2, "no file and no document 'subs/none'", arguments=self.at("subs/none"))
        self.fails(2, "--idle-exit", arguments=self.at(self.spec(), "--idle-exit", "soon"))
        self.fails(2, "--dispatch", arguments=self.at(self.spec(), "--dispatch", "moon"))

    def test_of_places(self):
        nobody = free_port()
        self.fails(5, f"NATS at nats://127.0.0.1:{nobody} cannot be reached", "NATS_URL",
                   arguments=self.at(self.spec(url=f"nats://u:p@127.0.0.1:{nobody}")))
        self.fails(5, "cannot be reached", "--server-url",
                   arguments=[self.spec(), "--server-url", f"http://127.0.0.1:{nobody}"])
        self.fails(2, "where is NATS?", arguments=self.at(self.spec(url=None)))
        self.fails(2, "has no stream 'nowhere'", arguments=self.at(self.spec(stream="nowhere")))
        self.nats.consumer(self.stream, "pushed", deliver_subject="somewhere")
        self.fails(2, "pushes its messages", arguments=self.at(self.spec(consumer="pushed")))
        self.nats.consumer(self.stream, "lazy", ack_policy="none")
        self.fails(2, "must be explicit", arguments=self.at(self.spec(consumer="lazy")))
        self.fails(1, "credential", arguments=self.at(self.spec(url=None, auth="nobody")))

    def test_a_spool_of_another(self):
        spool = "  spool: { mode: buffer_and_ack, backend: local_disk, path: spool }\n"
        listener = self.listen(self.spec(spool))
        listener.next("activated")
        self.fails(1, "another listener uses the spool", arguments=self.at(self.spec(spool)))
        self.assertEqual(listener.end(signal.SIGINT), 0)


if __name__ == "__main__":
    NOETL = str(pathlib.Path(sys.argv[1]).resolve())
    sys.argv.pop(1)
    unittest.main(verbosity=1)
