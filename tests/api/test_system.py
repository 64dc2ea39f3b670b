"""Health, metrics, the database, sessions, and the rules that all routes share."""
import base64
import json
import socket

from harness import Failure, case, check, expect, running

TOKEN = "a-token-of-administrators"
INNER = "a-token-of-workers"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": INNER, "NOETL_SQL_API_ENABLED": "true"}}

# Routes that take nothing and so can only fail by method, place or token.
PLAIN = ["/openapi.json", "/api/openapi.json", "/api/version", "/api/pool/status", "/api/status",
         "/api/threads", "/api/profiler/status", "/api/dashboard/stats", "/api/dashboard/widgets",
         "/api/db/validate"]


@case
def health(server):
    for path in ("/health", "/api/health/live"):
        check(server.get(path), 200, {"status": "ok"})
    for path in ("/api/health", "/api/health/ready"):
        check(server.get(path), 200, {"status": "ok", "database": "connected", "nats": "disabled",
                                      "uptime_seconds": int, "version": str})
    answer = server.request("HEAD", "/health")
    expect(answer.status == 200 and answer.data == b"", f"HEAD has a body\n{answer}")


@case
def metrics(server):
    answer = server.get("/metrics")
    expect(answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8", str(answer))
    for text in ('noetl_server_build_info{version="', "noetl_http_requests_total{",
                 'noetl_events_ingested_total{event_type="call.done",status="ok"} 0'):
        expect(text in answer.data.decode(), f"{text} is missing\n{answer}")


@case
def status(server):
    check(server.get("/api/status"), 200, {
        "system": {"cpu_percent": float, "memory_percent": float, "total_memory_mb": float,
                   "used_memory_mb": float, "available_memory_mb": float},
        "process": {"pid": server.process.pid, "cpu_percent": float, "memory_rss_mb": float,
                    "memory_vms_mb": float, "num_threads": lambda count: count > 1,
                    "start_time": int, "uptime_seconds": int}})
    threads = check(server.get("/api/threads"), 200)
    expect(len(threads) > 1, f"{threads}")
    check(server.get("/api/pool/status"), 200, {
        "pool_min": int, "pool_max": int, "pool_size": int, "pool_available": int,
        "requests_waiting": 0, "utilization": float, "slots_available": int, "status": "ok"})
    check(server.get("/api/version"), 200, {"name": str, "version": str, "started_at": str})


@case
def profiler(server):
    check(server.get("/api/profiler/status"), 200, {"is_profiling": False, "profiler_type": None})
    for action in ("start", "stop"):
        path = f"/api/profiler/memory/{action}"
        check(server.post(path), 200, {"status": "info"})
        check(server.post(path, headers={"Host": "evil.example"}), 403)


@case
def document(server):
    body = check(server.get("/openapi.json"), 200, {"openapi": "3.1.0", "paths": dict})
    expect(body == check(server.get("/api/openapi.json"), 200), "two documents differ")
    expect("/api/health" in body["paths"], "a path is missing")


@case
def dashboard(server):
    check(server.get("/api/dashboard/stats"), 200, {
        "status": "ok",
        "stats": {name: int for name in (
            "total_executions", "successful_executions", "failed_executions",
            "cancelled_executions", "running_executions", "total_playbooks", "total_workers")},
        "total_playbooks": int, "total_executions": int, "active_executions": int,
        "success_rate": float, "recent_executions": list})
    widgets = check(server.get("/api/dashboard/widgets"), 200)["widgets"]
    expect([widget["id"] for widget in widgets] == ["execution-trend", "recent-executions"],
           str(widgets))
    expect(len(widgets[0]["data"]) == 7, str(widgets))


@case
def sql(server):
    def execute(**body):
        return server.post("/api/postgres/execute", body)

    check(execute(query="SELECT 1 AS one"), 200,
          {"status": "ok", "result": [{"one": 1}], "truncated": False})
    check(execute(query="SELECT ? || ? AS t", parameters=["a", "b"]), 200, {"result": [{"t": "ab"}]})
    check(execute(query="SELECT count(*) AS n FROM noetl.event", schema="noetl"), 200,
          {"result": [{"n": int}]})
    encoded = base64.b64encode(b"SELECT 2 AS two").decode()
    check(execute(query_base64=encoded, query="ignored"), 200, {"result": [{"two": 2}]})
    many = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 2000) SELECT n FROM c"
    body = check(execute(query=many), 200, {"truncated": True})
    expect(len(body["result"]) == 1000, "the rows are not cut")
    for bad in ({}, {"query": ""}, {"query": 5}, {"query_base64": "*"}, {"query": "SELECT"},
                {"query": "DELETE FROM event"}, {"query": "SELECT 1", "parameters": "x"},
                {"query": "SELECT 1", "credential": "pg"}, {"query": "SELECT 1; SELECT 2"},
                {"query": "SELECT data_encrypted FROM credential"}, {"procedure": "p"}):
        check(execute(**bad), 422)
    check(server.post("/api/postgres/execute", [1]), 422)


@case
def sql_is_off_by_default(server):
    with running(server) as other:
        body = check(other.post("/api/postgres/execute", {"query": "SELECT 1"}), 403,
                     {"code": "disabled"})
        expect("NOETL_SQL_API_ENABLED" in body["error"], str(body))


@case
def database(server):
    check(server.post("/api/db/init"), 200, {"status": "ok", "valid": True, "applied": []})
    check(server.post("/api/db/init", headers={"Origin": "http://evil.example"}), 403)
    check(server.get("/api/db/validate"), 200, {"status": "ok", "valid": True, "missing": []})


@case
def shards(server):
    path = "/api/runtime/shard-info"
    for execution, count, shard in ((1, 1024, 405), (42, 16, 3), (320816801799737344, 2, 0),
                                    (2**63 - 1, 1024, 780), (-1, 16, 9)):
        check(server.get(f"{path}?execution_id={execution}&shard_count={count}"), 200,
              {"execution_id": execution, "shard_index": shard, "seed": 0})
    check(server.get(f"{path}?execution_id=42&shard_count=16&ids=string"), 200,
          {"execution_id": "42", "shard_index": 3})
    check(server.get(f"{path}?execution_id=42&shard_count=16", headers={"X-Noetl-Ids": "string"}),
          200, {"execution_id": "42"})
    for query in ("", "?execution_id=1", "?execution_id=x&shard_count=2",
                  "?execution_id=1&shard_count=0", "?execution_id=1&shard_count=1025"):
        check(server.get(path + query), 400)


@case
def cells_and_the_internal_token(server):
    path = "/api/internal/cells"
    check(server.get(path, headers={"Authorization": f"Bearer {INNER}"}), 200,
          {"shard_count": 256, "default_cell": str, "cells": [dict]})
    check(server.get(path, headers={"Authorization": f"bearer {INNER}"}), 200)
    for header in (None, "", "Bearer", "Bearer wrong", f"Basic {INNER}", INNER, f"Bearer {INNER}x"):
        check(server.get(path, headers={"Authorization": header}), 403)


@case
def internal_routes_of_a_server_without_a_token(server):
    paths = check(server.get("/openapi.json"), 200)["paths"]
    internal = [(method.upper(), path) for path, operations in paths.items()
                if path.startswith("/api/internal/") for method in operations]
    expect(internal, "there are no internal routes")
    with running(server) as other:
        for method, path in internal:
            plain = path.replace("{execution_id}", "1").replace("{", "").replace("}", "")
            check(other.request(method, plain), 503)
            check(other.request(method, plain, headers={"Authorization": "Bearer x"}), 503)
            check(server.request(method, plain), 403)
            # The token is looked at before the body.
            check(server.request(method, plain, raw="{", headers={"Content-Type": "text/plain"}), 403)


# ---- rules of all routes

@case
def unknown_paths_and_methods(server):
    for path in ("/", "/api", "/api/", "/api/nothing", "/api/health/", "//api/health", "/%00"):
        check(server.get(path), 404, {"code": "not_found"})
    body = check(server.get("/api/helth"), 404)
    expect("/api/health" in body["error"], str(body))
    answer = server.post("/api/health")
    check(answer, 405, {"code": "method_not_allowed"})
    expect(answer.header("Allow") == "GET, HEAD, OPTIONS", str(answer.headers))
    for path in PLAIN:
        check(server.delete(path), 405)
    answer = server.request("OPTIONS", "/api/health")
    expect(answer.status == 204 and answer.header("Allow"), str(answer))


@case
def plain_routes_from_another_site(server):
    for path in PLAIN:
        check(server.get(path), 200)
        check(server.get(path, headers={"Sec-Fetch-Site": "cross-site"}), 403)


@case
def hosts_and_origins(server):
    for host in ("localhost", "localhost:1", "127.0.0.1", "127.1.2.3:99", "[::1]:8082"):
        check(server.get("/api/version", headers={"Host": host}), 200)
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8082", "10.0.0.1"):
        body = check(server.get("/api/version", headers={"Host": host}), 403, {"code": "forbidden"})
        expect(host.split(":")[0] in body["error"], str(body))
    own = f"127.0.0.1:{server.port}"
    check(server.get("/api/version", headers={"Host": own, "Origin": f"http://{own}"}), 200)
    for origin in ("http://evil.example", "null", "http://localhost:1", f"http://localhost:{server.port}"):
        answer = server.get("/api/version", headers={"Host": own, "Origin": origin})
        check(answer, 403)
        expect(answer.header("Access-Control-Allow-Origin") is None, str(answer.headers))


@case
def bodies(server):
    path = "/api/auth/validate"
    for raw, status in (("{", 400), ("{} x", 400), ('{"a":1,}', 400), (b"\xff\xfe", 400), ("", 400),
                        ("[" * 200 + "]" * 200, 400), ("[]", 422), ("1", 422), ('"x"', 422)):
        body = check(server.post(path, raw=raw, headers={"Content-Type": "application/json"}), status)
        if raw == '{"a":1,}':
            expect("1:8" in body["error"], str(body))
    check(server.post(path, raw="{}", headers={"Content-Type": "text/plain"}), 415)
    check(server.post(path, raw="{}"), 415)
    check(server.post(path, {"session_token": "x" * 100_000}), 413, {"code": "too_large"})
    check(server.get("/health"), 200)


@case
def request_ids(server):
    answer = server.get("/api/nothing", headers={"X-Request-Id": "my-request-1"})
    check(answer, 404, {"request_id": "my-request-1"})
    expect(answer.header("X-Request-Id") == "my-request-1", str(answer.headers))
    one = check(server.get("/api/nothing"), 404)["request_id"]
    two = check(server.get("/api/nothing"), 404)["request_id"]
    expect(one and two and one != two, f"{one} {two}")


@case
def what_is_no_http(server):
    for data in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /health HTTP/1.1\r\nbad header\r\n\r\n",
                 b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            answer = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    answer += chunk
            except OSError:
                pass  # closed on us: fine when there was an answer or none
        if answer:
            expect(answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5"), repr(answer))
            body = json.loads(answer.split(b"\r\n\r\n", 1)[1])
            expect({"error", "status", "code"} <= set(body), repr(body))
    check(server.get("/health"), 200)


# ---- sessions

@case
def sessions_without_login(server):
    for path in ("/api/auth/validate", "/api/auth/session/validate"):
        check(server.post(path, {"session_token": "any"}), 200,
              {"status": "ok", "valid": True, "user": {"display_name": "local", "roles": ["admin"]}})
        check(server.post(path, {"session_token": 5}), 422)
    check(server.post("/api/auth/login", {"token": "any"}), 200, {"status": "success"})
    check(server.post("/api/auth/login", {"token": 5}), 422)
    for path in ("/api/auth/check-access", "/api/auth/check-playbook-access"):
        check(server.post(path, {"playbook_path": "a"}), 200, {"data": {"allowed": True}})
        check(server.post(path, {}), 422)
        check(server.post(path, {"playbook_path": ["a"]}), 422)


@case
def login(server):
    settings = {"NOETL_API_TOKEN": TOKEN, "NOETL_INTERNAL_API_TOKEN": INNER,
                "NOETL_CORS_ORIGINS": "https://page.example"}
    with running(server, settings=settings) as other:
        for path in ("/health", "/api/health", "/api/health/live", "/api/health/ready", "/metrics"):
            expect(other.get(path).status == 200, f"{path} is not open")
        for path in PLAIN:
            answer = other.get(path)
            check(answer, 401, {"code": "unauthorized"})
            expect(answer.header("WWW-Authenticate") == "Bearer", str(answer.headers))
            check(other.get(path, headers=BEARER), 200)
        check(other.get("/api/version", headers={"Authorization": "Bearer wrong"}), 401)
        check(other.get("/api/version", headers={"Authorization": f"Bearer {INNER}"}), 200)
        check(other.get("/api/internal/cells", headers=BEARER), 403)

        check(other.post("/api/auth/login", {"token": "wrong"}), 200,
              {"status": "error", "data": {"error": str, "message": str}})
        check(other.post("/api/auth/login", {"auth0_token": "eyJ.x.y"}), 200, {"status": "error"})
        session = check(other.post("/api/auth/login", {"auth0_token": TOKEN}), 200,
                        {"status": "success", "user": {"roles": ["admin"]}})["session_token"]
        check(other.get("/api/version", headers={"Authorization": f"Bearer {session}"}), 200)
        check(other.get("/api/version", headers={"X-Session-Token": session}), 200)
        check(other.post("/api/auth/validate", {"session_token": session}), 200, {"valid": True})
        check(other.post("/api/auth/validate", {"session_token": "wrong"}), 200, {"valid": False})
        access = {"session_token": session, "playbook_path": "a", "action": "execute"}
        check(other.post("/api/auth/check-playbook-access", access), 200, {"data": {"allowed": True}})
        access["session_token"] = "wrong"
        check(other.post("/api/auth/check-playbook-access", access), 200, {"data": {"allowed": False}})

        page = {"Origin": "https://page.example"}
        answer = other.request("OPTIONS", "/api/version", headers=page)
        expect(answer.header("Access-Control-Allow-Origin") == page["Origin"], str(answer.headers))
        answer = other.get("/api/version", headers={**page, **BEARER})
        expect(answer.header("Access-Control-Allow-Origin") == page["Origin"], str(answer.headers))
        answer = other.request("OPTIONS", "/api/version", headers={"Origin": "https://evil.example"})
        expect(answer.header("Access-Control-Allow-Origin") is None, str(answer.headers))


@case
def metrics_can_be_off(server):
    with running(server, settings={"NOETL_DISABLE_METRICS": "true"}) as other:
        check(other.get("/metrics"), 404)


@case
def the_log_has_no_token(server):
    text = server.log_text()
    if INNER in text or TOKEN in text:
        raise Failure("a token is in the log")
