"""Subscriptions, and what a gateway asks about those that messages are pushed to."""
import json
import subprocess
import urllib.parse

from harness import case, check, expect, in_parallel

TOKEN = "a-token-of-the-gateway"
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN, "NOETL_OUTBOX_DRAINER": "external",
                       "NOETL_SQL_API_ENABLED": "true"}}
INNER = {"Authorization": f"Bearer {TOKEN}"}

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: target, path: subs/target}
workflow:
- step: start
  tool: {kind: python, code: "return 1"}
"""

STATUS = {"subscription_id": str, "path": str, "catalog_id": str, "state": str,
          "last_event_type": str, "updated_at": lambda text: text.endswith("Z")}


def pulled(path, note=""):
    return f"""kind: Subscription
metadata: {{path: {path}}}
spec:
  source: nats
  mode: pull
  dispatch: {{playbook: subs/target}}
# {note}
"""


def pushed(path, listener, verify="{type: bearer, secret: hook_secret}", more=""):
    return f"""kind: Subscription
metadata: {{path: {path}}}
spec:
  source: webhook
  mode: push
  ingress:
    gateway_path: /ingress/{listener}
    verify: {verify}
  dispatch: {{playbook: subs/target{more}}}
"""


def documented(server, content):
    return check(server.post("/api/catalog/register", {"content": content}), 200)


def registered(server, path):
    documented(server, pulled(path))
    return check(server.post("/api/subscriptions/register", {"path": path}), 200, STATUS)


def act(server, row, action):
    return server.post(f"/api/subscriptions/{row['subscription_id']}/{action}")


def events_of(server, row):
    """(type, seq) of its log, from the table itself."""
    answer = check(server.post("/api/postgres/execute", {
        "query": "SELECT event_type, stream_version, status, envelope_checksum FROM event "
                 f"WHERE execution_id = {row['subscription_id']} ORDER BY stream_version"}), 200)
    return answer["result"]


@case
def register_and_get(server):
    entry = documented(server, pulled("subs/a"))
    first = check(server.post("/api/subscriptions/register", {"path": "subs/a"}), 200, {
        **STATUS, "path": "subs/a", "state": "REGISTERED",
        "last_event_type": "subscription.registered", "catalog_id": entry["catalog_id"]})
    expect(first["subscription_id"].isdigit(), f"{first}")
    again = check(server.post("/api/subscriptions", {"path": " subs/a "}), 200)
    expect(again == first, f"{again} {first}")
    got = check(server.get(f"/api/subscriptions/{first['subscription_id']}"), 200)
    expect(got == first, f"{got}")
    # Another version of the document is still the same subscription.
    documented(server, pulled("subs/a", "changed"))
    again = check(server.post("/api/subscriptions/register", {"path": "subs/a"}), 200)
    expect(again == first, f"{again}")
    as_text = check(server.get("/api/subscriptions?ids=string"), 200)["subscriptions"][0]
    expect(as_text["subscription_id"] == first["subscription_id"], f"{as_text}")


@case
def refusals(server):
    documented(server, PLAYBOOK)
    for route in ("/api/subscriptions", "/api/subscriptions/register"):
        error = check(server.post(route, {"path": "subs/none"}), 404)
        expect("subs/none" in error["error"], f"{error}")
        error = check(server.post(route, {"path": "subs/target"}), 422)
        expect("playbook" in error["error"] and "Subscription" in error["error"], f"{error}")
        for body in ({}, {"path": 5}, {"path": ""}, {"path": "  "}, {"path": None}, {"path": ["a"]},
                     [], "text", 5):
            check(server.post(route, body), 422)
        check(server.post(route, raw="{", headers={"Content-Type": "application/json"}), 400)
        check(server.post(route, raw='{"path":"subs/a"}', headers={"Content-Type": "text/plain"}), 415)
    check(server.get("/api/subscriptions/12345"), 404)
    for wrong in ("x", "-1", "0", "1.5", "99999999999999999999"):
        check(server.get(f"/api/subscriptions/{wrong}"), 400)
        check(server.post(f"/api/subscriptions/{wrong}/pause"), 400)
    check(server.post("/api/subscriptions/12345/pause"), 404)
    check(server.get("/api/subscriptions?cursor=x"), 400)
    check(server.get("/api/subscriptions?limit=x"), 400)


@case
def actions(server):
    row = registered(server, "subs/actions")
    steps = [("activate", "ACTIVE", "activated"), ("activate", "ACTIVE", "activated"),
             ("pause", "PAUSED", "paused"), ("pause", "PAUSED", "paused"),
             ("resume", "ACTIVE", "resumed"), ("resume", "ACTIVE", "resumed"),
             ("drain", "DRAINING", "draining"), ("drain", "DRAINING", "draining"),
             ("deactivate", "DEACTIVATED", "deactivated"),
             ("deactivate", "DEACTIVATED", "deactivated"),
             ("activate", "ACTIVE", "activated")]
    for action, state, event in steps:
        check(act(server, row, action), 200, {
            **STATUS, "subscription_id": row["subscription_id"], "state": state,
            "last_event_type": f"subscription.{event}"})
    log = events_of(server, row)
    expect([event["event_type"] for event in log]
           == ["subscription.registered"] + [f"subscription.{step[2]}" for step in steps], f"{log}")
    expect([event["stream_version"] for event in log] == list(range(1, len(log) + 1)), f"{log}")
    expect(log[-1]["status"] == "ACTIVE", f"{log[-1]}")
    check(server.post(f"/api/subscriptions/{row['subscription_id']}/pause", {"ignored": 1}), 200,
          {"state": "PAUSED"})


@case
def wrong_states(server):
    row = registered(server, "subs/wrong")
    refused = {"REGISTERED": ["pause", "resume", "drain"], "DRAINING": ["activate", "pause", "resume"],
               "DEACTIVATED": ["pause", "resume", "drain"]}
    ways = {"REGISTERED": [], "DRAINING": ["activate", "drain"], "DEACTIVATED": ["deactivate"]}
    for state, way in ways.items():
        for action in way:
            check(act(server, row, action), 200)
        before = len(events_of(server, row))
        for action in refused[state]:
            error = check(act(server, row, action), 422)
            expect(state in error["error"] and action in error["error"]
                   and "deactivate" in error["error"], f"{error}")
        for action in ("dance", "register", "Activate", "%20"):
            error = check(act(server, row, action), 422)
            expect("activate, pause, resume, drain, deactivate" in error["error"], f"{error}")
        expect(len(events_of(server, row)) == before, "a refused action left an event")
        expect(check(server.get(f"/api/subscriptions/{row['subscription_id']}"), 200)["state"] == state,
               state)


@case
def a_path_has_one(server):
    first = registered(server, "subs/one")
    check(act(server, first, "deactivate"), 200)
    second = check(server.post("/api/subscriptions", {"path": "subs/one"}), 200,
                   {"state": "REGISTERED"})
    expect(second["subscription_id"] != first["subscription_id"], f"{second}")
    error = check(act(server, first, "activate"), 422)
    expect(second["subscription_id"] in error["error"], f"{error}")
    check(act(server, second, "deactivate"), 200)
    check(act(server, first, "activate"), 200, {"state": "ACTIVE"})
    again = check(server.post("/api/subscriptions", {"path": "subs/one"}), 200)
    expect(again["subscription_id"] == first["subscription_id"], f"{again}")


@case
def many_at_once(server):
    documented(server, pulled("subs/many"))

    def register(index):
        route = "/api/subscriptions" + ("/register" if index % 2 else "")
        return check(server.client().post(route, {"path": "subs/many"}), 200)["subscription_id"]
    ids = in_parallel(16, register)
    expect(len(set(ids)) == 1, f"{ids}")
    row = {"subscription_id": ids[0]}
    expect(len(events_of(server, row)) == 1, "registered more than once")
    check(act(server, row, "activate"), 200)
    in_parallel(16, lambda index: check(
        act(server.client(), row, ("pause", "resume")[index % 2]), 200))
    log = events_of(server, row)
    expect([event["stream_version"] for event in log] == list(range(1, 19)), f"{log}")


@case
def pages(server):
    rows = [registered(server, f"subs/page{index}") for index in range(5)]
    listed, cursor = [], ""
    for _ in range(100):
        page = check(server.get(f"/api/subscriptions?limit=2{cursor}"), 200, {"subscriptions": list})
        expect(len(page["subscriptions"]) <= 2, f"{page}")
        listed += page["subscriptions"]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    ids = [int(row["subscription_id"]) for row in listed]
    expect(ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids), f"{ids}")
    expect(listed[:5] == list(reversed(rows)), f"{listed[:5]}")
    whole = check(server.get("/api/subscriptions?limit=1000"), 200, {"next_cursor": None})
    expect(whole["subscriptions"] == listed, "pages differ from the whole")


@case
def removed_documents(server):
    row = registered(server, "subs/removed")
    inner = server.client(INNER)
    check(inner.post("/api/catalog/delete", {"path": "subs/removed"}), 200, {"mode": "archived"})
    check(server.post("/api/subscriptions", {"path": "subs/removed"}), 404)
    check(server.get(f"/api/subscriptions/{row['subscription_id']}"), 200, {"path": "subs/removed"})
    check(inner.post("/api/catalog/restore", {"path": "subs/removed"}), 200)
    again = check(server.post("/api/subscriptions", {"path": "subs/removed"}), 200)
    expect(again["subscription_id"] == row["subscription_id"], f"{again}")
    documented(server, pulled("subs/unused"))
    check(inner.post("/api/catalog/delete", {"path": "subs/unused"}), 200, {"mode": "deleted"})
    check(server.post("/api/subscriptions", {"path": "subs/unused"}), 404)


@case
def runs_do_not_see_them(server):
    row = registered(server, "subs/apart")
    check(act(server, row, "activate"), 200)
    run_id = row["subscription_id"]
    before = check(server.get("/api/executions?limit=1000"), 200)
    expect(run_id not in json.dumps(before), "a subscription is listed as a run")
    check(server.get(f"/api/executions/{run_id}"), 404)
    check(server.get(f"/api/executions/{run_id}/status"), 404)
    check(server.post(f"/api/executions/{run_id}/cancel"), 404)
    stats = check(server.get("/api/dashboard/stats"), 200)
    expect(stats["active_executions"] == 0, f"{stats}")
    # A restart finds nothing to take up, and the subscription as it was.
    expect(server.stop() == 0, server.log_text())
    for command in (["verify"], ["doctor"], ["purge", "--older-than", "1d"]):
        done = subprocess.run([server.binary, *command, "--data", server.directory],
                              capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")
    server.start()
    got = check(server.get(f"/api/subscriptions/{run_id}"), 200, {"state": "ACTIVE"})
    again = check(server.post("/api/subscriptions", {"path": "subs/apart"}), 200)
    expect(again == got, f"{again}")
    check(act(server, row, "pause"), 200, {"state": "PAUSED"})
    expect(len(events_of(server, row)) == 3, "events of the log")


@case
def copies_go_out(server):
    inner = server.client(INNER)
    row = registered(server, "subs/outbox")
    claimed = check(inner.post("/api/internal/outbox/claim", {"limit": 1000}), 200)["rows"]
    mine = [each for each in claimed if str(each["execution_id"]) == row["subscription_id"]]
    expect([each["subject"] for each in mine] == ["noetl.events.subscription.registered"], f"{mine}")
    expect(mine[0]["payload"]["status"] == "REGISTERED", f"{mine}")
    # Nobody else writes into its log.
    answer = server.post("/api/events", {"execution_id": row["subscription_id"], "step": "x",
                                         "event_type": "subscription.paused"})
    expect(400 <= answer.status < 500, str(answer))
    expect(len(events_of(server, row)) == 1, "a foreign event")


# ---- ingress

@case
def ingress(server):
    inner = server.client(INNER)
    check(server.post("/api/credentials", {"name": "hook_secret", "type": "generic",
                                           "data": {"secret": "whsec_1"}}), 200)
    documented(server, pushed("subs/stripe", "stripe",
                              "{type: hmac_sha256, header: stripe-signature, secret: hook_secret}",
                              ", execution_pool: fast"))
    answer = inner.get("/api/internal/ingress/stripe")
    got = check(answer, 200, {
        "listener": "stripe", "catalog_path": "subs/stripe", "source": "webhook",
        "subscription_id": str, "state": "REGISTERED",
        "verify": {"type": "hmac_sha256", "header": "stripe-signature", "secret": "whsec_1"},
        "dispatch": {"playbook": "subs/target", "payload_from": "message.json",
                     "execution_pool": "fast"}})
    expect("directives" not in got and "audience" not in got["verify"], f"{got}")
    expect(answer.header("Cache-Control") == "no-store", str(answer.headers))
    row = check(server.post("/api/subscriptions", {"path": "subs/stripe"}), 200)
    expect(row["subscription_id"] == got["subscription_id"], f"{row}")
    expect(check(inner.get("/api/internal/ingress/stripe"), 200) == got, "asked again")
    audit = check(inner.get("/api/internal/secret-audit?credential=hook_secret"), 200)["rows"]
    expect(any(each["operation"] == "get_credential" and each["outcome"] == "ok" for each in audit),
           f"{audit}")

    documented(server, """kind: Subscription
metadata: {path: subs/oidc}
spec:
  source: pubsub
  mode: push
  ingress:
    gateway_path: /ingress/gcp/
    verify: {type: pubsub_oidc, audience: me, service_account: it}
  dispatch: {playbook: subs/target, payload_from: message.data}
  headers: {directives: [{header: x-pool, controls: execution_pool}]}
""")
    got = check(inner.get("/api/internal/ingress/gcp"), 200, {
        "verify": {"type": "pubsub_oidc", "audience": "me", "service_account": "it"},
        "dispatch": {"payload_from": "message.data"},
        "directives": [{"header": "x-pool", "controls": "execution_pool"}]})
    expect("secret" not in got["verify"], f"{got}")


@case
def ingress_secrets(server):
    inner = server.client(INNER)
    for index, (data, secret) in enumerate((
            ("plain text", "plain text"), ({"token": "t"}, "t"), ({"value": "v", "key": "k"}, "v"),
            ({"key": "k"}, "k"), ({"password": "p"}, "p"), ({"user": "u"}, None), ({"secret": 5}, None),
            ([1], None))):
        check(server.post("/api/credentials", {"name": f"secret{index}", "type": "generic",
                                               "data": data}), 200)
        documented(server, pushed(f"subs/secret{index}", f"hook{index}",
                                  f"{{type: bearer, secret: secret{index}}}"))
        answer = inner.get(f"/api/internal/ingress/hook{index}")
        if secret is None:
            error = check(answer, 422)
            expect(f"secret{index}" in error["error"], f"{error}")
        else:
            check(answer, 200, {"verify": {"type": "bearer", "secret": secret}})
    documented(server, pushed("subs/nosecret", "nosecret", "{type: bearer, secret: nobody_has_it}"))
    error = check(inner.get("/api/internal/ingress/nosecret"), 422)
    expect("nobody_has_it" in error["error"], f"{error}")


@case
def ingress_refusals(server):
    inner = server.client(INNER)
    check(inner.get("/api/internal/ingress/none"), 404)
    check(inner.get("/api/internal/ingress/" + urllib.parse.quote("a b/ü", safe="")), 404)
    documented(server, pulled("subs/pulled"))
    check(inner.get("/api/internal/ingress/pulled"), 404)
    for header in ({}, {"Authorization": "Bearer other"}, {"Authorization": f"Basic {TOKEN}"}):
        check(server.client(header).get("/api/internal/ingress/none"), 403)
    # A listener belongs to one path.
    documented(server, pushed("subs/first", "shared"))
    error = check(server.post("/api/catalog/register", {"content": pushed("subs/second", "shared")}),
                  409)
    expect("subs/first" in error["error"] and "shared" in error["error"], f"{error}")
    check(server.post("/api/subscriptions", {"path": "subs/second"}), 404)
    for path in ("/", "//", "stripe", ""):
        content = pushed("subs/third", "x").replace("/ingress/x", f"'{path}'")
        error = check(server.post("/api/catalog/register", {"content": content}), 422)
        expect("spec.ingress.gateway_path" in error["error"], f"{error}")
    # Removed documents do not listen; what was theirs is free.
    check(inner.post("/api/catalog/delete", {"path": "subs/first"}), 200)
    check(inner.get("/api/internal/ingress/shared"), 404)
    documented(server, pushed("subs/second", "shared"))
    documented(server, pushed("subs/second", "moved"))
    check(inner.get("/api/internal/ingress/shared"), 404)
    documented(server, pushed("subs/first", "shared"))


@case
def ingress_twice(server):
    inner = server.client(INNER)
    check(server.post("/api/credentials", {"name": "hook_secret", "type": "generic",
                                           "data": "s"}), 200)
    documented(server, pushed("subs/left", "both"))
    documented(server, pushed("subs/left", "left"))
    documented(server, pushed("subs/right", "both"))
    check(inner.get("/api/internal/ingress/both"), 200, {"catalog_path": "subs/right"})
    # Without its newest version the first has its former listener again.
    check(inner.post("/api/catalog/delete", {"path": "subs/left", "version": 2}), 200)
    error = check(inner.get("/api/internal/ingress/both"), 409)
    expect("subs/left" in error["error"] and "subs/right" in error["error"], f"{error}")
    check(inner.post("/api/catalog/delete", {"path": "subs/left"}), 200)
    check(inner.get("/api/internal/ingress/both"), 200, {"catalog_path": "subs/right"})
