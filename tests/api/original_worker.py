"""A worker as the original project's workers are, written from its protocol and from nothing else.

It registers, is told of commands by a notification, claims each by the id of its event, posts one
event after the other, and sends heartbeats. A lost answer is repeated with the same event id. It
knows no claim token, no lease route and no batch.
"""
import http.client
import itertools
import json
import socket
import threading
import time
import urllib.parse

RETRY_STATUS = {408, 429, 502, 503, 504}
TRIES = 4
EPOCH_MS = 1704067200000


class Ids:
    """Ids of one producer: milliseconds, a node, a sequence."""

    def __init__(self, node):
        self.node, self.sequence, self.lock = node & 1023, itertools.count(), threading.Lock()

    def next(self):
        with self.lock:
            sequence = next(self.sequence) & 4095
        return (int(time.time() * 1000) - EPOCH_MS) << 22 | self.node << 12 | sequence


class Gone(Exception):
    """The worker was told to die."""


class OriginalWorker:
    def __init__(self, url, name, node, lose=lambda what: False):
        """`lose(what)` says whether the answer to this request never arrives."""
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.name, self.ids, self.lose = name, Ids(node), lose
        self.dead = False
        self.ran, self.declined, self.lost_answers = [], 0, 0

    # ---- HTTP

    def call(self, method, path, body):
        if self.dead:
            raise Gone()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, json.dumps(body),
                               {"Content-Type": "application/json"})
            if self.lose(path):
                # Wait until the server has answered, and do not look.
                connection.sock.recv(1, socket.MSG_PEEK)
                self.lost_answers += 1
                raise OSError("the answer was lost")
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()

    def register(self):
        status, _ = self.call("POST", "/api/worker/pool/register", {
            "name": self.name, "component_type": "worker_pool", "status": "ready",
            "runtime": {"kind": "rust"}, "hostname": "host", "labels": {"pool_name": "default"}})
        assert status == 200, status

    def heartbeat(self):
        return self.call("POST", "/api/worker/pool/heartbeat", {"name": self.name})

    def deregister(self):
        return self.call("POST", "/api/worker/pool/deregister",
                         {"name": self.name, "component_type": "worker_pool"})

    # ---- one command

    def claim(self, event_id):
        """The command, or None: somebody else has it, or it is over."""
        for _ in range(TRIES):
            try:
                status, body = self.call("POST", f"/api/commands/{event_id}/claim",
                                         {"worker_id": self.name})
            except OSError:
                continue  # the same worker may claim again
            if status in (200, 201):
                return body
            if status == 409:
                self.declined += 1
                return None
            if status == 404:
                raise AssertionError(f"command {event_id} is not known")
            assert status in RETRY_STATUS, (status, body)
            time.sleep(0.05)
        return None

    def emit(self, command, event_type, status, context):
        """One event, repeated under one id until it is answered. False: it was refused."""
        event = {"execution_id": command["execution_id"], "event_type": event_type,
                 "step": command["node_name"], "status": status,
                 "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                 "context": context, "event_id": self.ids.next(), "worker_id": self.name,
                 "meta": {"attempts": command["meta"].get("attempts", 0)}}
        for _ in range(TRIES):
            try:
                code, body = self.call("POST", "/api/events", event)
            except OSError:
                continue
            if code == 200:
                assert body["status"] == "ok", body
                return True
            if code == 409:
                return False
            assert code in RETRY_STATUS, (code, body)
            time.sleep(0.05)
        return False

    def run(self, notification, tool):
        """Claims, runs `tool(command)`, reports. What it gives is the data of the result."""
        command = self.claim(notification["event_id"])
        if command is None:
            return None
        command_id = command["meta"]["command_id"]
        if not self.emit(command, "command.started", "STARTED", {"command_id": command_id}):
            return None
        try:
            data = tool(command)
        except Gone:
            raise
        except Exception as error:  # pylint: disable=broad-except
            self.emit(command, "call.error", "FAILED",
                      {"command_id": command_id, "call_index": 0, "error": str(error)})
            self.emit(command, "command.failed", "FAILED",
                      {"command_id": command_id, "error": str(error)})
            return command
        self.emit(command, "call.done", "COMPLETED", {
            "command_id": command_id, "call_index": 0,
            "result": {"status": "success", "context": {"data": data}}})
        if self.emit(command, "command.completed", "success", {"command_id": command_id}):
            self.ran.append(command_id)
        return command
