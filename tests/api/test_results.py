"""Results that are too large for an event, and bytes under names."""
import hashlib
import json
import urllib.parse

from harness import case, check, expect, wait_until

TOKEN = "a-token-of-workers"
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN, "NOETL_SQL_API_ENABLED": "true"}}
INNER = {"Authorization": f"Bearer {TOKEN}"}

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: results, path: results/one}
workflow:
- step: start
  tool: {kind: python, code: "return 1"}
"""


def started(server):
    check(server.post("/api/catalog/register", {"content": PLAYBOOK}), 200)
    return int(check(server.post("/api/execute", {"path": "results/one"}), 200)["execution_id"])


def resolve(server, ref, more=""):
    return server.get("/api/result/resolve?ref=" + urllib.parse.quote(ref, safe="") + more)


@case
def put_and_resolve(server):
    run = started(server)
    data = {"rows": [1, 2, 3]}
    stored = check(server.put(f"/api/result/{run}", {"name": "load_rows", "data": data,
                                                     "source_step": "load_rows"}), 200, {
        "store": "db", "scope": "execution", "bytes": 16, "expires_at": None,
        "sha256": hashlib.sha256(b'{"rows":[1,2,3]}').hexdigest()})
    expect(stored["ref"].startswith(f"noetl://execution/{run}/result/load_rows/"), f"{stored}")
    check(resolve(server, stored["ref"]), 200)
    expect(resolve(server, stored["ref"]).json == data, "the value differs")
    again = check(server.put(f"/api/result/{run}", {"name": "load_rows", "data": data}), 200)
    expect(again["ref"] == stored["ref"], f"{again}")
    other = check(server.put(f"/api/result/{run}", {"name": "load_rows", "data": [4]}), 200)
    expect(other["ref"] != stored["ref"], f"{other}")


@case
def odd_names_and_values(server):
    run = started(server)
    for name in ("a/b", "a b", "%2F", "ä", "x" * 512):
        for value in (None, 1.5, "text", [], {"deep": [{}]}):
            stored = check(server.put(f"/api/result/{run}", {"name": name, "data": value}), 200)
            expect(resolve(server, stored["ref"]).json == value, f"{name} {value}")


@case
def refusals(server):
    run = started(server)
    check(server.put("/api/result/12345", {"name": "x", "data": 1}), 404)
    check(server.put("/api/result/x", {"name": "x", "data": 1}), 400)
    for body in ({"data": 1}, {"name": "x"}, {"name": " ", "data": 1}, {"name": "x" * 513, "data": 1},
                 {"name": "x", "data": "a\0b"}, [1]):
        check(server.put(f"/api/result/{run}", body), 422)
    check(server.get("/api/result/resolve"), 400)
    for ref in ("x", "http://a/b", f"noetl://execution/{run}/result/x", "noetl://execution/x/result/a/1"):
        check(resolve(server, ref), 400)
    check(resolve(server, f"noetl://execution/{run}/result/x/1"), 404)
    check(resolve(server, "noetl://default/main/results/42/step/0/0/1"), 404)


@case
def lifetimes(server):
    run = started(server)

    def put(name, **more):
        return server.put(f"/api/result/{run}", {"name": name, "data": 1, **more})

    for scope in ("step", "execution", "workflow", "permanent"):
        check(put(scope, scope=scope), 200, {"scope": scope, "expires_at": None})
    for index, ttl in enumerate((60, 0.5, "90s", "12h", "7d", "1.5m", "30")):
        check(put(f"ttl{index}", ttl=ttl), 200, {"expires_at": lambda text: text.endswith("Z")})
    check(put("none", ttl=None), 200, {"expires_at": None})
    for ttl in (0, -1, "", "x", "-5s", "0s", True, [], {}, 1e300, "100000d"):
        error = check(put("bad", ttl=ttl), 422)
        expect("ttl" in error["error"], f"{error}")
    for scope in ("", "forever", "Step", 5, []):
        error = check(put("bad", scope=scope), 422)
        expect("scope" in error["error"], f"{error}")
    check(put("bad", scope="permanent", ttl=60), 422)
    # The same again is kept as long as the longer one wants.
    first = check(put("again", ttl=60), 200)
    second = check(put("again", ttl=600), 200)
    expect(second["ref"] == first["ref"] and second["expires_at"] > first["expires_at"], f"{second}")
    third = check(put("again", ttl=60), 200)
    expect(third["expires_at"] == second["expires_at"], f"{third}")
    check(put("again"), 200, {"expires_at": None, "ref": first["ref"]})


@case
def expired_results(server):
    run = started(server)
    stored = check(server.put(f"/api/result/{run}", {"name": "short", "data": [1], "ttl": 0.2}), 200)
    kept = check(server.put(f"/api/result/{run}", {"name": "long", "data": [2], "ttl": "1h"}), 200)
    wait_until("the expiry of the result", lambda: resolve(server, stored["ref"]).status == 404)
    error = check(resolve(server, stored["ref"]), 404)
    expect(stored["ref"] in error["error"], f"{error}")
    listed = check(server.get(f"/api/result/{run}/list"), 200)["results"]
    expect([row["name"] for row in listed] == ["long"], f"{listed}")
    expect(listed[0]["expires_at"] == kept["expires_at"], f"{listed}")
    purged = check(server.client(INNER).post("/api/internal/cleanup/purge", {}), 200,
                   {"results_purged": int, "outbox_purged": int})
    expect(purged["results_purged"] >= 0, f"{purged}")
    rows = check(server.post("/api/postgres/execute", {
        "query": f"SELECT name FROM result_store WHERE execution_id = {run} AND put = 1"}), 200)
    expect(rows["result"] == [{"name": "long"}], f"{rows}")
    check(resolve(server, kept["ref"]), 200)


@case
def references_of_objects(server):
    inner = server.client(INNER)
    objects = "/api/internal/objects/"
    short = "noetl/env=dev/execution=77/results/load/0/3/1.json"
    check(inner.put(objects + short + "?media_type=application/json", raw=b'{"rows": [1]}'), 200)
    expect(resolve(server, "noetl://default/main/results/77/load/0/3/1").json == {"rows": [1]}, "short")
    for tenant in ("acme", "other"):
        key = (f"noetl/env=dev/region=local/cell=local-0/shard=s0001/tenant={tenant}/project=main/"
               "date=2026-06-18/execution=78/results/load/0/0/1.json")
        check(inner.put(objects + key, raw=json.dumps({"of": tenant}).encode()), 200)
    for tenant in ("acme", "other"):
        expect(resolve(server, f"noetl://{tenant}/main/results/78/load/0/0/1").json == {"of": tenant},
               tenant)
    for ref in ("noetl://third/main/results/78/load/0/0/1", "noetl://acme/beta/results/78/load/0/0/1",
                "noetl://acme/main/results/78/load/0/0/2", "noetl://acme/main/results/79/load/0/0/1"):
        check(resolve(server, ref), 404)
    for ref in ("noetl://acme/main/results/x/load/0/0/1", "noetl://acme/main/results/78/load/0/0",
                "noetl://acme/main/results/78//0/0/1", "noetl://acme/main/results/78/load/0/0/1/2",
                "noetl://acme/main/result/78/load/0/0/1", "noetl://acme/main/results/0/load/0/0/1"):
        check(resolve(server, ref), 400)
    key = "noetl/execution=80/results/load/0/0/1.json"
    check(inner.put(objects + key, raw=b"not JSON"), 200)
    check(resolve(server, "noetl://a/b/results/80/load/0/0/1"), 500)
    check(inner.put(objects + key, raw=b'{"password": "p4ssword"}'), 200)
    ref = "noetl://a/b/results/80/load/0/0/1"
    expect(resolve(server, ref, "&redact=true").json == {"password": "***"}, "redact=true")


@case
def large_results(server):
    run = started(server)
    text = "x" * (60 << 20)
    stored = check(server.put(f"/api/result/{run}", {"name": "large", "data": [text]}), 200,
                   {"bytes": len(text) + 4})
    got = resolve(server, stored["ref"])
    expect(got.status == 200 and got.data == json.dumps([text]).encode(), "the large value differs")
    answer = server.client().put(f"/api/result/{run}", {"name": "larger", "data": "x" * (65 << 20)})
    expect(answer.status == 413, f"413 was expected, not {answer.status}")
    check(server.delete(f"/api/result/{run}"), 200)


@case
def redaction(server):
    run = started(server)
    stored = check(server.put(f"/api/result/{run}", {
        "name": "s", "data": {"password": "p4ssword", "author": "me"}}), 200)
    expect(resolve(server, stored["ref"]).json == {"password": "p4ssword", "author": "me"},
           "workers need the value as it is")
    expect(resolve(server, stored["ref"], "&redact=true").json
           == {"password": "***", "author": "me"}, "redact=true")


@case
def list_and_delete(server):
    run = started(server)
    for index in range(5):
        check(server.put(f"/api/result/{run}", {"name": f"r{index}", "data": index,
                                                "source_step": "s"}), 200)
    listed = check(server.get(f"/api/result/{run}/list"), 200,
                   {"execution_id": str(run), "next_cursor": None})["results"]
    expect([row["name"] for row in listed] == [f"r{index}" for index in range(5)], f"{listed}")
    check(server.get(f"/api/result/{run}/list?limit=1"), 200, {
        "results": [{"result_id": str, "name": "r0", "scope": "execution", "source_step": "s",
                     "ref": str, "bytes": 1, "sha256": str, "created_at": str, "expires_at": None}]})
    page = check(server.get(f"/api/result/{run}/list?limit=3"), 200)
    rest = check(server.get(f"/api/result/{run}/list?limit=3&cursor={page['next_cursor']}"), 200,
                 {"next_cursor": None})
    expect(page["results"] + rest["results"] == listed, "pages")
    check(server.delete(f"/api/result/{run}"), 200, {"results_deleted": 5, "status": "ok"})
    check(server.get(f"/api/result/{run}/list"), 200, {"results": []})
    check(resolve(server, listed[0]["ref"]), 404)
    check(server.get("/api/result/12345/list"), 404)
    check(server.delete("/api/result/12345"), 404)
    check(server.get(f"/api/result/{run}/list?cursor=x"), 400)


@case
def objects(server):
    inner = server.client(INNER)
    route = "/api/internal/objects/noetl/env=dev/execution=42/results/s/0/0/1.json"
    data = bytes(range(256))
    digest = hashlib.sha256(data).hexdigest()
    check(inner.put(route + "?media_type=application/json", raw=data), 200, {
        "key": "noetl/env=dev/execution=42/results/s/0/0/1.json", "digest": digest, "bytes": 256})
    got = inner.get(route)
    expect(got.status == 200 and got.data == data, str(got))
    expect(got.header("Content-Type") == "application/json", str(got.headers))
    expect(got.header("ETag") == f'"{digest}"', str(got.headers))
    same = inner.get(route, headers={"If-None-Match": f'"x", "{digest}"'})
    expect(same.status == 304 and same.data == b"", str(same))
    for header, part in (("bytes=0-9", data[:10]), ("bytes=250-", data[250:]),
                         ("bytes=-6", data[-6:]), ("bytes=100-1000", data[100:])):
        got = inner.get(route, headers={"Range": header})
        expect(got.status == 206 and got.data == part, f"{header}\n{got}")
    expect(got.header("Content-Range") == "bytes 100-255/256", str(got.headers))
    got = inner.get(route, headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    expect(got.status == 200 and got.data == data, str(got))
    outside = inner.get(route, headers={"Range": "bytes=256-"})
    check(outside, 416)
    expect(outside.header("Content-Range") == "bytes */256", str(outside.headers))

    check(inner.put(route, raw=b"new"), 200, {"bytes": 3})
    got = inner.get(route)
    expect(got.data == b"new" and got.header("Content-Type") == "application/octet-stream", str(got))
    check(inner.put("/api/internal/objects/empty", raw=b""), 200, {"bytes": 0})
    expect(inner.get("/api/internal/objects/empty").data == b"", "empty")


@case
def object_keys(server):
    inner = server.client(INNER)
    for key in ("a/../b", "..", "a//b", "a/.", "a%00b", "a%5Cb", "x" * 1025, "/a"):
        for answer in (inner.put(f"/api/internal/objects/{key}", raw=b"x"),
                       inner.get(f"/api/internal/objects/{key}")):
            expect(answer.status in (400, 404, 422), f"{key[:20]}\n{answer}")
    check(inner.get("/api/internal/objects/none"), 404)
    check(inner.put("/api/internal/objects/x?media_type=nonsense", raw=b"x"), 422)
    check(inner.put("/api/internal/objects/x?media_type=a/b%0D%0AX:1", raw=b"x"), 422)
    check(server.put("/api/internal/objects/x", raw=b"x"), 403)
    check(server.get("/api/internal/objects/x"), 403)
