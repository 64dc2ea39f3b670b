"""Workers in processes of their own: what they get from the server, what they show of themselves, TLS."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile

from harness import ANSWER_SECONDS_MAX, KEPT_VARIABLES, LISTENING, STOP_SECONDS_MAX, case, expect
from http_service import http_service
from runs import HEAD, ONE_STEP, Runs, event_of, inside, outside, same, success, yes
from worker import Worker, worker_of

TOKEN = "token-of-the-sealed-credential-51c0"
# The exit code of a command line whose server cannot be reached.
UNREACHABLE = 5


# ---- the result of one step, for a parent in another process

CHILD = HEAD + """workload: {other: false}
workflow:
  - step: first
    tool: { kind: noop }
    next: { arcs: [ { step: second, when: "{{ not workload.other }}" }, { step: third } ] }
  - step: second
    tool: { kind: noop }
  - step: third
    tool: { kind: noop }
"""


def answer_with(api, data):
    command = api.lease_one()
    events = success(command)
    events[0]["payload"]["result"]["context"]["data"] = data
    api.lease(events=events)


@case
def wait_tells_the_result_of_a_step(server):
    api = Runs(server)
    run = api.start(api.register(CHILD)[0])
    open_run = api.get(f"/api/executions/{run}/wait?timeout_ms=1&return_step=first")
    same(open_run["status"], "RUNNING")
    outside("data", open_run)
    answer_with(api, {"n": 1, "password": "hidden-value"})
    answer_with(api, {"n": 2})
    wait = f"/api/executions/{run}/wait?timeout_ms=60000"
    same(api.get(wait)["status"], "COMPLETED")
    outside("data", api.get(wait))
    first = api.get(wait + "&return_step=first")
    same((first["status"], first["data"]["n"]), ("COMPLETED", 1))
    outside("hidden-value", json.dumps(first))
    same(api.get(wait + "&return_step=first&redact=false")["data"],
         {"n": 1, "password": "hidden-value"})
    same(api.get(wait + "&return_step=second")["data"], {"n": 2})
    outside("step_missing", api.get(wait + "&return_step=second"))
    # Without a name, and when the step did not run: what the run gave.
    same(api.get(wait + "&return_step=")["data"], {"n": 2})
    for name in ("third", "nobody"):
        missing = api.get(wait + f"&return_step={name}")
        same((missing["data"], missing["step_missing"]), ({"n": 2}, True))


@case
def wait_tells_why_a_child_failed(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    command = api.lease_one()
    failed = {**event_of(command, "command.failed", error="the reason of it"), "status": "FAILED",
              "error": "the reason of it"}
    stored = api.lease(events=[failed])["events"]
    same([event["status"] for event in stored], ["ok"])
    end = api.get(f"/api/executions/{run}/wait?timeout_ms=60000&return_step=start")
    same(end["status"], "FAILED")
    inside("Failed steps: start", end["error"])
    inside("the reason of it", end["error"])
    outside("data", end)


# ---- what a worker shows of itself

def page(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


@case
def metrics_and_health(server):
    api = Runs(server)
    with worker_of(server, {"WORKER_METRICS_BIND": "127.0.0.1:0"}, ["--pool", api.pool]) as worker:
        port = int(worker.said(r"metrics and health address=127\.0\.0\.1:(\d+)").group(1))
        worker.said("registered")
        same(page(port, "/health"), (200, '{"status":"ok"}\n'))
        same(page(port, "/ready"), (200, '{"status":"ready"}\n'))
        same(api.wait(api.start(api.register(ONE_STEP)[0]))["status"], "COMPLETED")
        text = api.until(lambda: re.search(
            r'(?s).*noetl_worker_dispatch_duration_seconds_count\{tool_kind="noop"\} 1\n.*',
            page(port, "/metrics")[1])).group(0)
        for line in ("noetl_worker_slots 4", "noetl_worker_ready 1", "noetl_worker_spool_records 0",
                     "noetl_worker_leases_lost_total 0", "noetl_worker_claim_succeeded_total 1",
                     'noetl_worker_dispatch_errors_total{tool_kind="noop"} 0'):
            inside(line + "\n", text)
        for path in ("/", "/metrics/x", "/api/executions"):
            same(page(port, path)[0], 404)
        same(page(port, "/metrics", "POST")[0], 405)


@case
def a_worker_that_leaves_is_not_ready(server):
    api = Runs(server)
    path = api.register(HEAD + "workflow:\n  - step: start\n"
                        "    tool: { kind: shell, cmds: 'sleep 600' }\n")[0]
    with worker_of(server, {"WORKER_METRICS_BIND": "127.0.0.1:0"}, ["--pool", api.pool]) as worker:
        port = int(worker.said(r"address=127\.0\.0\.1:(\d+)").group(1))
        run = api.start(path)
        api.until(lambda: "noetl_worker_concurrent_dispatches 1\n" in page(port, "/metrics")[1])
        worker.process.send_signal(signal.SIGTERM)
        same(api.until(lambda: page(port, "/ready")[0] == 503 and page(port, "/ready")[1]),
             '{"status":"draining"}\n')
        same(page(port, "/health")[0], 200)
        api.post(f"/api/executions/{run}/cancel", {})
        same(worker.ended(), 0)


@case
def two_workers_share_one_machine(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        # Asked for: an error that names the variable.
        worker = Worker(server.binary, f"http://127.0.0.1:{server.port}", {"WORKER_METRICS_BIND": address})
        same(worker.ended(), 2)
        inside(f"WORKER_METRICS_BIND: cannot listen on {address}", worker.text())
    # Not asked for: the first has the default address (or another program has), the second none.
    with worker_of(server, {"WORKER_METRICS_BIND": None}) as first:
        first.said("registered")
        with worker_of(server, {"WORKER_METRICS_BIND": None}) as second:
            second.said("no metrics and health of this worker")
            second.said("registered")


# ---- sealed credentials

@case
def credentials_come_sealed(server):
    tokens = []

    def guarded(request):
        tokens.append(request.headers.get("Authorization"))
        return 200, {"ok": True}

    api = Runs(server)
    api.post("/api/credentials", {"name": "sealed_api", "type": "bearer", "data": {"token": TOKEN}})
    with http_service(guarded) as url:
        step = ("workflow:\n  - step: start\n    tool:\n      kind: http\n"
                f"      url: {url}/\n      auth: ALIAS\n")
        known = api.register(HEAD + step.replace("ALIAS", "sealed_api"))[0]
        unknown = api.register(HEAD + step.replace("ALIAS", "nobody_knows"))[0]
        keychain = api.register(
            HEAD + "keychain: [{ name: alias, kind: credential, credential: sealed_api }]\n"
            + step.replace("ALIAS", "alias"))[0]
        settings = {"NOETL_SEALED_CREDENTIALS": "1", "WORKER_ID": "sealed-one", "NOETL_LOG": "debug"}
        with worker_of(server, settings, ["--pool", api.pool]) as worker:
            run = api.start(known)
            same(api.wait(run)["status"], "COMPLETED")
            same(api.wait(api.start(keychain))["status"], "COMPLETED")
            failed = api.wait(api.start(unknown))
            same(failed["status"], "FAILED")
            row = api.get("/api/worker/pools?name=sealed-one")[0]
            same(len(row["runtime"]["worker_public_key"]), 44)
    same(tokens, [f"Bearer {TOKEN}"] * 2)
    audited = 'noetl_secret_audit_writes_total{operation="%s",outcome="ok",status="ok"} %d\n'
    text = api.get_text("/metrics")
    yes(audited % ("get_sealed", 2) in text)
    yes(audited % ("get_credential", 0) in text)
    outside(TOKEN, worker.text())
    outside(TOKEN, json.dumps(api.events(run)))
    sealed = server.get("/api/credentials/sealed_api/sealed?worker_id=sealed-one")
    yes(sealed.status in (200, 400))  # the key leaves with the worker
    outside(TOKEN.encode(), sealed.data)


# ---- TLS

def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}")


def certificate(folder, name, signer):
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey",
            f"{signer}.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")


class TlsServer:
    """A server that wants certificates of its own authority, and gives one."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        environment = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        environment.update({"NOETL_TLS_CERT": str(folder / "server.pem"),
                            "NOETL_TLS_KEY": str(folder / "server.key"),
                            "NOETL_TLS_CLIENT_CA": str(folder / "ours.pem")})
        self.log = open(folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [binary, "server", "--port", "0", "--no-worker", "--data", str(folder / "data")],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        found = None
        for line in self.process.stdout:
            found = LISTENING.search(line)
            if found:
                break
        expect(found, "the server did not start")
        same(found.group(1), "https")
        self.port = int(found.group(3))
        self.context = ssl.create_default_context(cafile=folder / "ours.pem")
        self.context.load_cert_chain(folder / "client.pem", folder / "client.key")

    def call(self, method, path, body=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context,
                                                 timeout=ANSWER_SECONDS_MAX)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        same(response.status, 200)
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_SECONDS_MAX)
        self.log.close()


def tls_settings(folder, authority_name, client=None, key=None):
    settings = {"NOETL_TLS_CA": str(folder / f"{authority_name}.pem")} if authority_name else {}
    if client:
        settings["NOETL_TLS_CLIENT_CERT"] = str(folder / f"{client}.pem")
        settings["NOETL_TLS_CLIENT_KEY"] = str(folder / f"{key or client}.key")
    return settings


AUTHORITY = ["NOETL_TLS_CA"]
PAIR = ["NOETL_TLS_CLIENT_CERT", "NOETL_TLS_CLIENT_KEY"]
# What is set, what the worker and the command line say of it, and what the command line advises to set.
REFUSED = [
    ({"authority_name": "other", "client": "client"}, "certificate problem|certificate verify failed",
     AUTHORITY),
    ({"authority_name": None, "client": "client"}, "certificate problem|certificate verify failed",
     AUTHORITY),
    ({"authority_name": "ours"}, "certificate required", PAIR),
    ({"authority_name": "ours", "client": "stranger"}, "alert unknown ca", PAIR),
    ({"authority_name": "ours", "client": "client", "key": "server"}, "server.key", PAIR),
    ({"authority_name": "nowhere", "client": "client"}, "nowhere.pem", AUTHORITY),
]


@case
def tls_with_certificates_on_both_sides(server):
    with tempfile.TemporaryDirectory(prefix="noetl-tls-") as name:
        folder = pathlib.Path(name)
        for each in ("ours", "other"):
            authority(folder, each)
        for each, signer in (("server", "ours"), ("client", "ours"), ("stranger", "other")):
            certificate(folder, each, signer)
        secured = TlsServer(server.binary, folder)
        url = f"https://localhost:{secured.port}"
        try:
            works(secured, folder, url)
            for parts, reason, advice in REFUSED:
                worker = Worker(server.binary, url, tls_settings(folder, **parts))
                yes(worker.ended() not in (0, None))
                text = worker.text()
                expect(re.search(f"noetl worker: .*({reason}).*NOETL_TLS_CA", text, re.S), text)
                told = command_line(server.binary, url, tls_settings(folder, **parts))
                same(told.returncode, UNREACHABLE)
                expect(re.search(reason, told.stderr), told.stderr)
                same(re.findall(r"NOETL_TLS_\w+", told.stderr), advice)
                outside("is it running", told.stderr)
            plain = command_line(server.binary, f"https://localhost:{server.port}", {})
            inside("does this port speak TLS?", plain.stderr)
        finally:
            secured.stop()


def works(secured, folder, url):
    good = tls_settings(folder, "ours", "client")
    content = HEAD.replace("PATH", "tls/one") + ("workflow:\n  - step: start\n"
                                                 "    tool: { kind: noop, result: {n: 5} }\n")
    secured.call("POST", "/api/catalog/register", {"content": content})
    with worker_of(secured, good, url=url) as worker:
        worker.said("registered")
        run = secured.call("POST", "/api/execute", {"path": "tls/one"})["execution_id"]
        end = secured.call("GET", f"/api/executions/{run}/wait?timeout_ms=60000&return_step=start")
        same((end["status"], end["data"]), ("COMPLETED", {"n": 5}))
        told = command_line(secured.binary, url, good)
        same((told.returncode, told.stderr), (0, ""))
        inside("tls/one", told.stdout)


def command_line(binary, url, settings):
    with tempfile.TemporaryDirectory(prefix="noetl-home-") as home:
        environment = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        environment.update(settings, HOME=home)
        return subprocess.run([binary, "--server-url", url, "executions"], env=environment, text=True,
                              capture_output=True, check=False, timeout=ANSWER_SECONDS_MAX)
