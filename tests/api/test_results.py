"""Results that are too large for an event, and bytes under names."""
import hashlib
import json
import urllib.parse

from harness import case, check, expect

TOKEN = "a-token-of-workers"
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN}}
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
                     "ref": str, "bytes": 1, "sha256": str, "created_at": str}]})
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
