"""The catalog: documents in versions under paths."""
import base64

from harness import case, check, expect, in_parallel

TOKEN = "a-token-of-workers"
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN}}
INNER = {"Authorization": f"Bearer {TOKEN}"}


def playbook(path, note="", labels=""):
    return (f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: hello, path: {path}{labels}}}\n"
            f"workload:\n  who: world  # ui:description=whom to greet\n  code: x  # ui:secret\n"
            f"workflow:\n- step: start\n  tool: {{kind: python, code: \"return 1{note}\"}}\n")


def register(server, content, **options):
    return check(server.post("/api/catalog/register", {"content": content, **options}), 200,
                 {"catalog_id": str, "version": int})


@case
def register_text_and_base64(server):
    first = register(server, playbook("a/one"))
    expect(first["status"] == "success" and first["version"] == 1, f"{first}")
    expect(first["path"] == "a/one" and first["kind"] == "playbook", f"{first}")
    again = register(server, base64.b64encode(playbook("a/one").encode()).decode())
    expect(again["status"] == "unchanged", f"{again}")
    expect(again["catalog_id"] == first["catalog_id"], f"{again}")
    second = register(server, playbook("a/one", " + 1"))
    expect(second["status"] == "success" and second["version"] == 2, f"{second}")


@case
def register_other_kinds(server):
    for kind in ("Credential", "MCP", "Agent", "Memory"):
        answer = register(server, f"kind: {kind}\nmetadata: {{path: kinds/{kind}}}\n")
        expect(answer["kind"] == kind.lower(), f"{answer}")
    answer = register(server, "metadata: {name: kinds/none}\n", resource_type="Memory")
    expect(answer["kind"] == "memory" and answer["path"] == "kinds/none", f"{answer}")
    register(server, "kind: Subscription\nmetadata: {path: kinds/sub}\n"
                     "spec: {source: nats, mode: pull, dispatch: {playbook: a/one}}\n")
    answer = check(server.post("/api/catalog/register", {
        "content": "kind: Subscription\nmetadata: {path: kinds/bad}\nspec: {source: mail}\n"}), 422)
    expect(any(problem["path"] == "spec.source" for problem in answer["details"]), f"{answer}")


@case
def register_refuses(server):
    for content in ("a: [", "kind: Playbook\n", "kind: Playbook\nmetadata: {}\n",
                    "kind: Sandwich\nmetadata: {name: x}\n", "just text"):
        answer = check(server.post("/api/catalog/register", {"content": content}), 422)
        expect(answer["details"] and {"code", "message", "line", "column"} <= set(answer["details"][0]),
               f"{answer}")
    for body in ({}, {"content": 3}, {"content": "  "}, []):
        check(server.post("/api/catalog/register", body), 422)
    check(server.post("/api/catalog/register", raw="{", headers={"Content-Type": "application/json"}),
          400)
    broken = playbook("a/broken").replace("kind: python", "kind: nonsense")
    answer = check(server.post("/api/catalog/register", {"content": broken}), 422)
    expect(answer["details"][0]["line"] == 9, f"{answer}")
    check(server.post("/api/catalog/register?validate=false", {"content": broken}), 200,
          {"path": "a/broken", "version": 1})


@case
def versions_are_counted_without_gaps(server):
    def work(index):
        return register(server.client(), playbook("a/many", f" + {index}"))["version"]
    expect(sorted(in_parallel(20, work)) == list(range(1, 21)), "versions have gaps")
    check(server.post("/api/catalog/resource", {"path": "a/many"}), 200, {"version": 20})


@case
def resource(server):
    entry = register(server, playbook("r/one", labels=", labels: {team: a}"))
    register(server, playbook("r/one", " + 1"))
    shown = check(server.post("/api/catalog/resource", {"catalog_id": entry["catalog_id"]}), 200, {
        "catalog_id": entry["catalog_id"], "path": "r/one", "kind": "playbook", "version": 1,
        "content": playbook("r/one", labels=", labels: {team: a}"), "meta": {"team": "a"},
        "payload": {"who": "world"}, "created_at": str})
    expect(shown["layout"][0]["step"] == "start", f"{shown}")
    resource_of = "/api/catalog/resource"
    check(server.post(resource_of, {"catalog_id": int(entry["catalog_id"])}), 200, {"version": 1})
    for version, wanted in (("latest", 2), ("1", 1), (1, 1), (2, 2), (None, 2)):
        check(server.post(resource_of, {"path": "r/one", "version": version}), 200,
              {"version": wanted})
    check(server.post(resource_of, {"path": "r/none"}), 404)
    check(server.post(resource_of, {"path": "r/one", "version": 9}), 404)
    check(server.post(resource_of, {"catalog_id": "12345"}), 404)
    for body in ({}, {"catalog_id": "x"}, {"path": "r/one", "version": "x"}, {"path": ""}):
        check(server.post(resource_of, body), 422)


@case
def listing(server):
    for index in range(3):
        register(server, playbook("list/a", f" + {index}"))
        register(server, playbook("list/b", f" + {index}"))
    register(server, "kind: Memory\nmetadata: {path: list/m}\n")

    def entries(**body):
        return check(server.post("/api/catalog/list", body), 200, {"entries": list})
    everything = entries(path_prefix="list/")
    expect(len(everything["entries"]) == 7 and everything["next_cursor"] is None, f"{everything}")
    ids = [int(entry["catalog_id"]) for entry in everything["entries"]]
    expect(ids == sorted(ids, reverse=True), f"{ids}")
    for kind in ("playbook", "Playbook", "PLAYBOOK"):
        expect(len(entries(resource_type=kind, path_prefix="list/")["entries"]) == 6, kind)
    newest = entries(path_prefix="list/", latest_only=True)["entries"]
    expect(sorted((entry["path"], entry["version"]) for entry in newest)
           == [("list/a", 3), ("list/b", 3), ("list/m", 1)], f"{newest}")
    expect(len(entries(path="list/a")["entries"]) == 3, "path is exact")
    bare = entries(path="list/a", include_content=False)["entries"]
    expect(all(entry["content"] is None and "layout" in entry for entry in bare), f"{bare}")

    seen, cursor = [], None
    while True:
        page = entries(path_prefix="list/", limit=3, cursor=cursor)
        seen += [int(entry["catalog_id"]) for entry in page["entries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        expect(isinstance(cursor, str), f"{cursor!r}")
    expect(seen == ids, f"{seen} {ids}")
    for body in ({"limit": 0}, {"limit": 1001}, {"cursor": "x"}, {"latest_only": 3}, []):
        check(server.post("/api/catalog/list", body), 422)


@case
def agents(server):
    register(server, "kind: Agent\nmetadata: {path: agents/one, capabilities: [search, write]}\n")
    register(server, playbook("agents/two", labels=", agent: true, capabilities: [search]"))
    register(server, playbook("agents/none"))

    def paths(route, body):
        answer = check(server.post(route, body), 200, {"entries": list})
        return sorted(entry["path"] for entry in answer["entries"]
                      if entry["path"].startswith("agents/"))
    expect(paths("/api/catalog/agents/list", {}) == ["agents/one", "agents/two"], "agents")
    expect(paths("/api/catalog/agents/list", None) == ["agents/one", "agents/two"], "no body")
    both = {"capabilities": ["search", "write"]}
    expect(paths("/api/catalog/agents/list", both) == ["agents/one"], "capabilities")
    expect(paths("/api/catalog/list", {"agent_only": True}) == ["agents/one", "agents/two"], "list")
    check(server.post("/api/catalog/agents/list", {"capabilities": "search"}), 422)


@case
def ui_schema(server):
    register(server, playbook("forms/deep/er"))
    register(server, playbook("forms/deep/er", " + 1"))
    shown = check(server.get("/api/catalog/forms/deep/er/ui_schema"), 200, {
        "path": "forms/deep/er", "version": 2, "kind": "playbook", "title": "hello",
        "description_markdown": None, "exposed_in_ui": False, "generated_at": str})
    expect(shown["fields"][0] == {
        "name": "who", "kind": "string", "default": "world", "description": "whom to greet",
        "secret": False, "credential_glob": None, "options": None, "children": None}, f"{shown}")
    expect(shown["fields"][1]["secret"] is True, f"{shown}")
    check(server.get("/api/catalog/forms/deep/er/ui_schema?version=1"), 200, {"version": 1})
    check(server.get("/api/catalog/forms/deep/er/ui_schema?version=9"), 404)
    check(server.get("/api/catalog/forms/none/ui_schema"), 404)
    check(server.get("/api/catalog/forms/deep/er/schema"), 404)
    check(server.get("/api/catalog/forms/deep/er/ui_schema?version=x"), 422)


@case
def validate(server):
    route = "/api/catalog/playbooks/validate"
    check(server.post(route, {"content": playbook("v/one")}), 200,
          {"valid": True, "errors": [], "path": "v/one", "kind": "playbook"})
    broken = playbook("v/one").replace("kind: python", "kind: nonsense")
    check(server.post(route, {"content": broken}), 422,
          {"valid": False, "errors": lambda errors: errors[0]["line"] == 9})
    check(server.post(route, {}), 422)
    check(server.post("/api/catalog/resource", {"path": "v/one"}), 404)


@case
def content(server):
    route = "/api/catalog/playbook/content?playbook_id="
    entry = register(server, playbook("c/one"))
    check(server.get(route + entry["catalog_id"]), 200, {"content": playbook("c/one"), "version": 1})
    check(server.get(route + "c/one"), 200, {"content": playbook("c/one")})
    check(server.put(route + "c/one", {"content": playbook("c/one", " + 1")}), 200,
          {"status": "success", "version": 2})
    check(server.get(route + "c/one"), 200, {"content": playbook("c/one", " + 1"), "version": 2})
    check(server.put(route + "c/one", {"content": playbook("c/other")}), 422)
    check(server.put(route + "c/one", {"content": "a: ["}), 422)
    check(server.get(route + "c/none"), 404)
    check(server.get("/api/catalog/playbook/content"), 400)
    check(server.put(route + "c/none", {"content": playbook("c/none")}), 404)


@case
def delete_and_restore(server):
    for note in ("", " + 1", " + 2"):
        register(server, playbook("d/one", note))
    inner = server.client(INNER)
    for route in ("/api/catalog/delete", "/api/catalog/restore"):
        check(server.post(route, {"path": "d/one"}), 403)
        check(inner.post(route, {}), 422)
        check(inner.post(route, {"path": " "}), 422)
        check(inner.post(route, {"path": "d/one", "version": "x"}), 422)
        check(inner.post(route, {"path": "d/none"}), 200, {"count": 0, "mode": "none", "deleted": []})
    check(inner.post("/api/catalog/delete", {"path": " d/one ", "version": 2}), 200,
          {"status": "success", "count": 1, "mode": "deleted", "path": "d/one",
           "deleted": [{"catalog_id": str, "version": 2}]})
    check(server.post("/api/catalog/resource", {"path": "d/one", "version": 2}), 404)
    check(inner.post("/api/catalog/delete", {"path": "d/one"}), 200, {"count": 2, "mode": "deleted"})
    check(server.post("/api/catalog/resource", {"path": "d/one"}), 404)


@case
def entries_with_runs_are_archived(server):
    entry = register(server, playbook("d/used"))
    check(server.post("/api/execute", {"path": "d/used"}), 200)
    inner = server.client(INNER)
    check(inner.post("/api/catalog/delete", {"path": "d/used"}), 200, {"count": 1, "mode": "archived"})
    check(server.post("/api/catalog/resource", {"path": "d/used"}), 404)
    check(server.post("/api/catalog/resource", {"catalog_id": entry["catalog_id"]}), 200,
          {"archived_at": str})
    listed = check(server.post("/api/catalog/list", {"path": "d/used"}), 200)
    expect(listed["entries"] == [], f"{listed}")
    listed = check(server.post("/api/catalog/list", {"path": "d/used", "include_archived": True}), 200)
    expect(len(listed["entries"]) == 1, f"{listed}")
    check(inner.post("/api/catalog/restore", {"path": "d/used"}), 200, {"count": 1})
    check(inner.post("/api/catalog/restore", {"path": "d/used"}), 200, {"count": 0})
    check(server.post("/api/catalog/resource", {"path": "d/used"}), 200, {"version": 1})
