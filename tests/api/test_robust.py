"""Clients that mean harm or do not know better: the server lives on and others are served.

Header and path attacks, slow clients by the hundred, ten thousand idle connections.
"""
import resource
import socket
import time

from harness import Failure, case, check, expect

INNER = "a-token-of-workers"

SERVER = {"worker": True, "settings": {"NOETL_INTERNAL_API_TOKEN": INNER}}

# Two seconds more than the server gives a client for its header.
HEADER_SECONDS_MAX = 12
IDLE_CONNECTIONS = 10_000
# What one idle connection may cost, sockets of the system aside.
IDLE_BYTES_MAX = 8 << 10

FLOW = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: robust, path: robust/flow}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: noop, result: {n: "{{ workload.n }}"}}
"""


def talk(server, data, timeout=30):
    """What the server sends to these bytes until it closes; it must do one of both."""
    with socket.create_connection((server.host, server.port), timeout=timeout) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was read
        received = b""
        try:
            while piece := line.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        except TimeoutError as error:
            raise Failure(f"no answer to {data[:80]!r}") from error
        return received


def statuses(received):
    """The status codes of all answers in these bytes."""
    return [int(line.split(b" ")[1]) for line in received.split(b"\r\n")
            if line.startswith(b"HTTP/1.1 ")]


def request(target, headers="", body="", method="GET"):
    return f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{body}".encode("latin-1")


def works(server, number):
    """A run from start to end."""
    started = check(server.post("/api/execute", {"path": "robust/flow", "workload": {"n": number}}),
                    200)
    check(server.get(f"/api/executions/{started['execution_id']}/wait?timeout_seconds=30"), 200,
          {"status": "COMPLETED"})


@case
def runs_are_possible(server):
    check(server.post("/api/catalog/register", {"content": FLOW}), 200)
    works(server, 1)


@case
def requests_cannot_be_smuggled(server):
    inner = "GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
    for headers in (f"Content-Length: {len(inner)}\r\nTransfer-Encoding: chunked\r\n",
                    "Content-Length: 5\r\nContent-Length: 6\r\n",
                    "Content-Length: +5\r\n", "Content-Length: 5, 5\r\n", "Content-Length: -1\r\n",
                    "Content-Length: 99999999999999999999\r\n", "Content-Length: 0x10\r\n",
                    "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: x\r\n",
                    "Transfer-Encoding : chunked\r\n", " Transfer-Encoding: chunked\r\n"):
        answers = statuses(talk(server, request("/api/execute", headers, inner, "POST")))
        expect(len(answers) <= 1 and all(400 <= status < 600 for status in answers),
               f"{headers!r} was answered with {answers}")
        expect(500 not in answers, f"{headers!r} was answered with 500")


@case
def headers_are_bounded_and_clean(server):
    for headers in ("X-Long: " + "a" * (1 << 20) + "\r\n",
                    "".join(f"X-{number}: 1\r\n" for number in range(20_000)),
                    "X-Nul: a\0b\r\n", "X\0Y: 1\r\n", "no colon\r\n", ": no name\r\n",
                    "X-Bare: a\rb\r\n"):
        answers = statuses(talk(server, request("/api/version", headers)))
        expect(len(answers) <= 1 and all(status in (400, 431) for status in answers),
               f"{headers[:40]!r} was answered with {answers}")
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "a b", ""):
        data = f"GET /api/version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        answers = statuses(talk(server, data))
        expect(answers and 400 <= answers[0] < 500, f"Host {host!r} was answered with {answers}")


@case
def answers_carry_nothing_that_was_sent(server):
    """No header of an answer can be made by a client: line breaks in paths and ids stay encoded."""
    for target in ("/api/executions/%0d%0aX-Made:%201", "/api/catalog/%0d%0aX-Made:%201/ui_schema"):
        received = talk(server, request(target, "X-Request-ID: a%0d%0aX-Made: 1\r\n"))
        head = received.split(b"\r\n\r\n")[0].lower()
        expect(b"\r\nx-made" not in head, f"a header was made: {head!r}")


@case
def paths_do_not_leave_their_place(server):
    for target in ("/../../etc/passwd", "/api/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                   "/api/internal/objects/../../../etc/passwd",
                   "/api/internal/objects/%2e%2e%2f%2e%2e%2fetc/passwd",
                   "/api/internal/objects//etc/passwd", "/api/%00", "/api/executions/%c0%ae",
                   "/api/executions/%zz", "/api/executions/%", "//api//version", "/api/version/",
                   "/" + "a/" * 5_000, "/api/executions/" + "9" * 5_000, "*",
                   "http://evil.example/api/version", "/api/version?" + "a=b&" * 5_000,
                   "/api/version#x", "/api/ver\\..\\sion", "/\xff\xfe"):
        received = talk(server, request(target, f"Authorization: Bearer {INNER}\r\n"))
        answers = statuses(received)
        expect(len(answers) == 1 and 200 <= answers[0] < 500, f"{target[:60]!r}: {answers}")
        expect(b"root:" not in received, f"{target!r} gave a file of the system")


@case
def bodies_that_explode_are_refused(server):
    deep = b'{"path":"robust/flow","workload":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for data in (deep, b"{" * 1_000_000, b'"' + b"\\u0000" * 100_000 + b'"', b"\xff" * 1_000):
        answer = server.request("POST", "/api/execute", raw=data,
                                headers={"Content-Type": "application/json"})
        expect(400 <= answer.status < 500, f"{data[:40]!r}: {answer.status}")


@case
def slow_clients_hold_nobody_up(server):
    lines = []
    try:
        for number in range(300):
            line = socket.create_connection((server.host, server.port), timeout=HEADER_SECONDS_MAX)
            line.sendall(b"POST /api/execute HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                         if number % 2 else b"G")
            lines.append(line)
        works(server, 2)
        # A byte a second is not enough: the whole header has its time.
        deadline = time.monotonic() + HEADER_SECONDS_MAX + 20
        open_lines = list(lines)
        while open_lines:
            expect(time.monotonic() < deadline, f"{len(open_lines)} slow clients are still served")
            for line in list(open_lines):
                try:
                    line.settimeout(0.001)
                    line.sendall(b"x")
                    if line.recv(4096) == b"":
                        open_lines.remove(line)
                except TimeoutError:
                    pass
                except OSError:
                    open_lines.remove(line)
            time.sleep(0.2)
        works(server, 3)
    finally:
        for line in lines:
            line.close()


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@case
def ten_thousand_idle_connections(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expect(hard >= IDLE_CONNECTIONS + 600,
           f"this test needs {IDLE_CONNECTIONS + 600} open files; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = resident_bytes(server)
    lines = []
    try:
        for number in range(IDLE_CONNECTIONS):
            # 127.0.0.x: one address has too few ports for repeated runs.
            lines.append(socket.create_connection((server.host, server.port), timeout=30,
                                                  source_address=(f"127.0.0.{1 + number % 8}", 0)))
        # A new connection is served beside them, and so is the last of them.
        works(server, 4)
        lines[-1].sendall(request("/health"))
        expect(lines[-1].recv(65536).startswith(b"HTTP/1.1 200"), "the last connection is not served")
        grown = resident_bytes(server) - before
        expect(grown < IDLE_CONNECTIONS * IDLE_BYTES_MAX, f"{grown} bytes for idle connections")
    finally:
        for line in lines:
            line.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    works(server, 5)
