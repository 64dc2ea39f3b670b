"""Credentials, the keychain, the audit."""
import base64
import datetime
import pathlib

from harness import Failure, case, check, expect, in_parallel, running

TOKEN = "a-token-of-workers"
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN}}
INNER = {"Authorization": f"Bearer {TOKEN}"}
SECRET = "n0b0dy-may-read-this"

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: secrets, path: secrets/one}
keychain:
- name: alias
  kind: credential
  credential: "{{ workload.which }}"
workload: {which: stored_one}
workflow:
- step: start
  tool: {kind: python, code: "return 1"}
"""


def put(server, name, **more):
    body = {"name": name, "type": "postgres", "data": {"user": "u", "password": SECRET}}
    return check(server.post("/api/credentials", {**body, **more}), 200, {"id": str, "name": name})


def registered(server):
    """Id of a catalog entry."""
    return check(server.post("/api/catalog/register", {"content": PLAYBOOK}), 200)["catalog_id"]


def audit(server, query=""):
    return check(server.client(INNER).get("/api/internal/secret-audit" + query), 200)["rows"]


@case
def round_trip(server):
    made = put(server, "pg_demo", tags=["db"], description="a database", meta={"team": 1})
    expect("data" not in made and made["tags"] == ["db"], f"{made}")
    for identifier in ("pg_demo", made["id"]):
        shown = check(server.get(f"/api/credentials/{identifier}"), 200, made)
        expect("data" not in shown, f"{shown}")
        shown = server.get(f"/api/credentials/{identifier}?include_data=true")
        check(shown, 200, {"id": made["id"], "data": {"user": "u", "password": SECRET}})
        expect(shown.header("Cache-Control") == "no-store", str(shown.headers))
    again = put(server, "pg_demo", data={"token": "2"})
    expect(again["id"] == made["id"] and again["created_at"] == made["created_at"], f"{again}")
    expect(not {"tags", "description", "meta"} & set(again), f"{again}")
    check(server.delete("/api/credentials/pg_demo"), 200, {"message": str, "id": made["id"]})
    check(server.delete("/api/credentials/pg_demo"), 404)
    check(server.get("/api/credentials/pg_demo"), 404)
    check(server.get("/api/credentials/pg_demo?include_data=true"), 404)


@case
def merge_keeps_what_is_left_out(server):
    put(server, "merged", tags=["a"], description="first")
    body = {"name": "merged", "type": "postgres", "data": {"x": 1}, "description": "second"}
    check(server.post("/api/credentials?merge=true", body), 200,
          {"tags": ["a"], "description": "second"})


@case
def refusals(server):
    good = {"name": "x", "type": "t", "data": {}}
    for change in ({"name": None}, {"name": " "}, {"type": ""}, {"data": None}, {"tags": "a"},
                   {"tags": [1]}, {"description": 3}):
        check(server.post("/api/credentials", {**good, **change}), 422)
    check(server.post("/api/credentials", [1]), 422)
    check(server.get("/api/credentials/pg?include_data=perhaps"), 400)
    check(server.get("/api/credentials/pg?include_data=true&execution_id=x"), 400)
    check(server.get("/api/credentials?cursor=x"), 400)


@case
def concurrent_upserts(server):
    answers = in_parallel(16, lambda index: put(server.client(), "contended", data={"n": index}))
    expect(len({answer["id"] for answer in answers}) == 1, f"{answers}")


@case
def listing(server):
    for index in range(5):
        put(server, f"list_{index}", type="listed", description="50% of_all" if index == 3 else "none")
    listed = check(server.get("/api/credentials?type=listed"), 200, {"filter": {"type": "listed"}})
    names = [item["name"] for item in listed["items"]]
    expect(names == [f"list_{index}" for index in (4, 3, 2, 1, 0)], f"{names}")
    expect(SECRET not in str(listed) and not any("data" in item for item in listed["items"]), "data")
    found = check(server.get("/api/credentials?q=LIST_2&type=listed"), 200,
                  {"filter": {"type": "listed", "q": "LIST_2"}})
    expect([item["name"] for item in found["items"]] == ["list_2"], f"{found}")
    found = check(server.get("/api/credentials?q=0%25%20of_"), 200)
    expect([item["name"] for item in found["items"]] == ["list_3"], f"{found}")
    found = check(server.get("/api/credentials?q=%25&type=listed"), 200)
    expect(len(found["items"]) == 1, f"{found}")
    seen, query = [], "/api/credentials?type=listed&limit=2"
    cursor = ""
    while cursor is not None:
        page = check(server.get(query + (f"&cursor={cursor}" if cursor else "")), 200)
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
    expect(seen == names, f"{seen}")
    expect("filter" not in check(server.get("/api/credentials"), 200), "no filter was asked for")


@case
def nothing_plain_on_the_disk(server):
    put(server, "on_disk")
    for path in pathlib.Path(server.directory).rglob("*"):
        if path.is_file():
            expect(SECRET.encode() not in path.read_bytes(), f"{path} holds the secret")


@case
def keychain_of_the_playbook(server):
    put(server, "stored_one", data={"token": "t1"})
    registered(server)
    run = check(server.post("/api/execute", {"path": "secrets/one"}), 200)["execution_id"]
    check(server.get(f"/api/credentials/alias?include_data=true&execution_id={run}"), 200, {
        "id": "0", "name": "alias", "type": "keychain", "data": {"token": "t1"}, "created_at": str})
    check(server.get(f"/api/credentials/nothing?include_data=true&execution_id={run}"), 404)
    check(server.get(f"/api/credentials/alias?execution_id={run}"), 404)
    check(server.get("/api/credentials/alias?include_data=true&execution_id=12345"), 404)


@case
def sealed(server):
    put(server, "sealed_one")
    key = base64.b64encode(bytes(range(1, 33))).decode()
    check(server.post("/api/worker/pool/register",
                      {"name": "sealer", "runtime": {"worker_public_key": key}}), 200)
    check(server.post("/api/worker/pool/register", {"name": "keyless", "runtime": {}}), 200)
    route = "/api/credentials/sealed_one/sealed?worker_id="
    texts = set()
    for _ in range(2):
        answer = check(server.get(route + "sealer"), 200,
                       {"alg": "x25519-hkdf-sha256-chacha20-poly1305", "v": 1, "eph_pub": str,
                        "ciphertext": str})
        expect(len(base64.b64decode(answer["eph_pub"])) == 32, f"{answer}")
        texts.add(answer["ciphertext"])
    expect(len(texts) == 2, "the same text twice")
    for worker in ("keyless", "nobody", ""):
        check(server.get(route + worker), 400)
    check(server.get("/api/credentials/none/sealed?worker_id=sealer"), 404)
    # What the keychain of a run holds, for that run only.
    put(server, "stored_one", data={"token": "t1"})
    registered(server)
    run = check(server.post("/api/execute", {"path": "secrets/one"}), 200)["execution_id"]
    route = "/api/credentials/alias/sealed?worker_id=sealer"
    check(server.get(f"{route}&execution_id={run}"), 200, {"v": 1, "ciphertext": str})
    check(server.get(f"/api/credentials/none/sealed?worker_id=sealer&execution_id={run}"), 404)
    for other in (route, f"{route}&execution_id=12345"):
        check(server.get(other), 404)
    rows = audit(server, f"?credential=alias&execution_id={run}")
    expect(("get_sealed", "ok", "sealer") in
           [(row["operation"], row["outcome"], row["worker_id"]) for row in rows], f"{rows}")
    outcomes = {row["outcome"] for row in audit(server) if row["operation"] == "get_sealed"}
    expect(outcomes >= {"ok", "no_pubkey", "credential_not_found"}, f"{outcomes}")


@case
def keychain_round_trip(server):
    route = f"/api/keychain/{registered(server)}/openai"
    key = route.split("/")[3]
    check(server.get(route), 200, {"status": "not_found"})
    check(server.delete(route), 200, {"status": "not_found"})
    check(server.post(route, {"data": {"token": "t"}, "expires_in": 3600}), 200,
          {"status": "success", "cache_key": f"openai:{key}:global", "expires_at": str})
    for count in (1, 2):
        check(server.get(route), 200, {"status": "found", "data": {"token": "t"}, "auto_renew": False,
                                       "expires_at": str, "access_count": count})
    check(server.post(route, {"data": 2, "scope_type": "local", "execution_id": "77",
                              "auto_renew": True, "renew_config": {"every": 1}}), 200,
          {"cache_key": f"openai:{key}:77"})
    check(server.get(route + "?scope_type=local&execution_id=77"), 200, {"data": 2, "auto_renew": True})
    check(server.post(route, {"data": 3, "scope_type": "shared", "execution_id": 77}), 200,
          {"cache_key": f"openai:{key}:shared:77"})
    listed = check(server.get(f"/api/keychain/catalog/{key}"), 200, {"catalog_id": key})
    expect(len(listed["entries"]) == 3, f"{listed}")
    expect(all("data" not in entry and not entry["expired"] for entry in listed["entries"]), "data")
    expect({entry.get("execution_id") for entry in listed["entries"]} == {"77", None}, f"{listed}")
    check(server.delete(route), 200, {"status": "deleted", "cache_key": f"openai:{key}:global"})
    check(server.get(route), 200, {"status": "not_found"})


@case
def keychain_lifetimes(server):
    catalog = registered(server)

    def lifetime(name, **body):
        answer = check(server.post(f"/api/keychain/{catalog}/{name}", {"data": 1, **body}), 200)
        until = datetime.datetime.fromisoformat(answer["expires_at"].replace("Z", "+00:00"))
        return (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    expect(86300 < lifetime("global") <= 86400, "global")
    expect(500 < lifetime("local", scope_type="local", execution_id=5) <= 600, "local")
    expect(90 < lifetime("told", expires_in=100) <= 100, "told")
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()
    expect(3500 < lifetime("at", expires_at=later, expires_in=5) <= 3600, "expires_at goes first")


@case
def keychain_refusals(server):
    catalog = registered(server)
    route = f"/api/keychain/{catalog}/name"
    for body in ({}, {"data": 1, "scope_type": "wide"}, {"data": 1, "scope_type": "local"},
                 {"data": 1, "scope_type": "shared"}, {"data": 1, "expires_in": 0},
                 {"data": 1, "expires_in": 31536001}, {"data": 1, "expires_at": "soon"},
                 {"data": 1, "expires_at": "2020-01-01T00:00:00Z"}, {"data": 1, "auto_renew": 1}, [1]):
        check(server.post(route, body), 422)
    check(server.post("/api/keychain/12345/name", {"data": 1}), 404)
    for path in ("/api/keychain/x/name", "/api/keychain/catalog/x"):
        check(server.get(path), 400)
    check(server.delete("/api/keychain/x/name"), 400)
    check(server.get(route + "?execution_id=x"), 400)


@case
def every_read_is_audited(server):
    put(server, "audited")
    before = len(audit(server, "?credential=audited"))
    check(server.get("/api/credentials/audited"), 200)
    expect(len(audit(server, "?credential=audited")) == before, "a read without data is none")
    check(server.get("/api/credentials/audited?include_data=true&execution_id=42&worker_id=w"), 200)
    rows = audit(server, "?credential=audited&execution_id=42")
    expect(len(rows) == 1, f"{rows}")
    row = rows[0]
    expect(row["operation"] == "get_credential" and row["outcome"] == "ok", f"{row}")
    expect(row["worker_id"] == "w" and row["execution_id"] == 42, f"{row}")
    expect(row["kek_version"] == "v1" and row["server_region"] is None, f"{row}")
    expect(isinstance(row["audit_id"], int), f"{row}")
    expect(audit(server, "?credential=audited&to=2020-01-01T00:00:00Z") == [], "to")
    expect(len(audit(server, "?credential=audited&from=2020-01-01T00:00:00Z")) == before + 1, "from")
    expect(len(audit(server, "?limit=1")) == 1, "limit")
    inner = server.client(INNER)
    for query in ("?from=soon", "?execution_id=x", "?limit=x"):
        check(inner.get("/api/internal/secret-audit" + query), 400)


@case
def master_keys(server):
    put(server, "wrapped")
    inner = server.client(INNER)
    status = check(inner.get("/api/internal/wallet/key-status"), 200)
    expect(status["credential"].get("v1", 0) >= 1, f"{status}")
    rotated = check(inner.post("/api/internal/wallet/rotate-kek", {}), 200)
    for table in ("credential", "keychain"):
        expect(set(rotated[table]) == {"processed", "rewrapped", "skipped", "failed", "last_id"},
               f"{rotated}")
    expect(rotated["credential"]["rewrapped"] == 0 and rotated["credential"]["skipped"] >= 1,
           f"{rotated}")
    for body in ({"batch_size": 0}, {"max_batches": 0}, {"batch_size": "x"}):
        check(inner.post("/api/internal/wallet/rotate-kek", body), 422)


@case
def another_key_is_noticed_at_the_start(server):
    def key(letter):
        return {"NOETL_ENCRYPTION_KEY": base64.b64encode(letter * 32).decode()}

    with running(server, settings=key(b"a")) as own:
        put(own, "kept")
        own.stop()
        own.settings = key(b"b")
        try:
            own.start()
        except Failure as failure:
            expect("'kept' cannot be opened" in str(failure), str(failure))
        else:
            raise Failure("it started with a key that opens nothing")
        own.settings = {**key(b"b"), "NOETL_KEY_CHECK": "false"}
        own.start()
        own.stop()
        own.settings = key(b"a")
        own.start()
        check(own.get("/api/credentials/kept?include_data=true"), 200, {"data": {"password": SECRET}})


@case
def inner_routes_need_the_token(server):
    for client, status in ((server, 403), (server.client({"Authorization": "Bearer other"}), 403)):
        check(client.get("/api/internal/wallet/key-status"), status)
        check(client.get("/api/internal/secret-audit"), status)
        check(client.post("/api/internal/wallet/rotate-kek", {}), status)


@case
def with_login(server):
    with running(server, settings={"NOETL_AUTH_MODE": "token", "NOETL_API_TOKEN": "boss",
                                   "NOETL_INTERNAL_API_TOKEN": TOKEN}) as guarded:
        check(guarded.get("/api/credentials"), 401)
        check(guarded.get("/api/credentials/x?include_data=true"), 401)
        boss = guarded.client({"Authorization": "Bearer boss"})
        check(boss.post("/api/credentials", {"name": "x", "type": "t", "data": {"a": 1}}), 200)
        check(boss.get("/api/credentials/x?include_data=true"), 200, {"data": {"a": 1}})
        check(guarded.client(INNER).get("/api/credentials/x?include_data=true"), 200,
              {"data": {"a": 1}})
