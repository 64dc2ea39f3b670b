"""What /metrics counts: exact differences around requests of every kind."""
import base64
import contextlib

from harness import case, expect, running, wait_until
from http_service import http_service
from runs import HEAD, ONE_STEP, Runs, TWO_STEPS, event_of, same, success, yes

TOKEN = "a-token-of-workers"
INNER = {"Authorization": f"Bearer {TOKEN}"}
SERVER = {"settings": {"NOETL_INTERNAL_API_TOKEN": TOKEN, "METRICS_SECRET": "s3cret",
                       "NOETL_KEYCHAIN_ENV_VARS": "METRICS_SECRET"}}

LIMITED = HEAD + """executor: { spec: { timeout: 1 } }
workflow:
  - step: start
    tool: { kind: noop }
"""
KEYCHAIN = HEAD + """keychain:
  - { name: from_env, kind: secrets, provider: env, map: { k: METRICS_SECRET } }
  - { name: forbidden, kind: secrets, provider: env, map: { k: PATH } }
  - { name: from_http, kind: http, method: GET, endpoint: "URL" }
  - { name: fixed, kind: static, map: { k: v } }
  - { name: unknown, kind: credential, credential: not_there }
workflow:
  - step: start
    tool: { kind: noop }
"""

ALWAYS_THERE = """
    events_ingested_total event_ingest_duration_seconds event_ingest_phase_seconds
    write_requests_total write_request_duration_seconds execute_outcomes_total execute_batch_size
    command_row_insert_failed_total orchestrate_drive_total terminal_dedup_total state_build_total
    state_build_event_scans_total projection_advanced_total events_projected_total
    events_projected_duplicates_total events_materialized_total event_ingest_published_total
    event_ingest_publish_skipped_total event_stream_published_total event_stream_skipped_total
    event_stream_cursor event_hotpath_reads_total result_store_put_total
    result_store_put_duration_seconds result_store_resolve_total
    result_store_resolve_duration_seconds object_store_ops_total credentials_sealed_total
    secret_resolve_total secret_resolve_duration_seconds secret_refresh_total
    secret_audit_writes_total wallet_rotate_total auth_sync_total auth_jwt_verify_total
    auth_jwks_total catalog_delete_total cleanup_rows_purged_total orphan_sweep_total
    nonconvergence_sweep_total container_callback_total container_callback_stale_total
    execution_affinity_total sharding_config_parse_failed server_build_info executions_running
    commands command_queue_age_seconds outbox_pending outbox_oldest_age_seconds db_pool_in_use
    db_pool_idle db_pool_waiting claims_total""".split()


# ---- reading them

def metrics_text(server):
    client = server.client()
    answer = client.get("/metrics")
    client.close()
    expect(answer.status == 200, str(answer))
    return answer.data.decode()


def figures(server):
    """Every series with its value."""
    lines = metrics_text(server).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def family(series):
    return series.split("{")[0]


@contextlib.contextmanager
def counts(server, *parts):
    """The families that `parts` name change by what they say, and by nothing else."""
    wanted = {series: count for part in parts for series, count in part.items()}
    before = figures(server)
    yield
    after = figures(server)
    families = {family(series) for series in wanted}
    changed = {series: value - before.get(series, 0) for series, value in after.items()
               if family(series) in families and value != before.get(series, 0)}
    same(changed, {series: count for series, count in wanted.items() if count})


def series_of(name, label, values, **fixed):
    """{series: count} of one family, by the values of one label."""
    found = {}
    for value, count in values.items():
        labels = sorted({**fixed, label: value}.items())
        found[name + "{" + ",".join(f'{key}="{text}"' for key, text in labels) + "}"] = count
    return found


def ingested(event_type, ok=0, error=0):
    return {**series_of("noetl_events_ingested_total", "status", {"ok": ok, "error": error},
                        event_type=event_type),
            **series_of("noetl_event_ingest_duration_seconds_count", "event_type",
                        {event_type: ok + error})}


def phases(normalize, emit):
    return series_of("noetl_event_ingest_phase_seconds_count", "phase",
                     {"normalize": normalize, "emit": emit})


def drive(**stages):
    return series_of("noetl_orchestrate_drive_total", "stage", stages)


def reads(site, **outcomes):
    return series_of("noetl_event_hotpath_reads_total", "outcome", outcomes, site=site)


def claims(**outcomes):
    return series_of("noetl_claims_total", "outcome", outcomes)


def told(pool, count):
    return series_of("noetl_command_publish_total", "pool", {pool: count}, route="legacy")


def started(entry, **outcomes):
    return series_of("noetl_execute_outcomes_total", "outcome", outcomes, entry=entry)


def writes(endpoint, ok=0, error=0):
    return {**series_of("noetl_write_requests_total", "status", {"ok": ok, "error": error},
                        endpoint=endpoint),
            **series_of("noetl_write_request_duration_seconds_count", "endpoint",
                        {endpoint: ok + error})}


def audits(operation, **outcomes):
    return series_of("noetl_secret_audit_writes_total", "outcome", outcomes, operation=operation,
                     status="ok")


def resolved(provider, ok=0, error=0):
    return {**series_of("noetl_secret_resolve_total", "status", {"ok": ok, "error": error},
                        provider=provider, region="local"),
            **series_of("noetl_secret_resolve_duration_seconds_count", "region",
                        {"local": ok + error}, provider=provider)}


def sweep(name, **outcomes):
    return series_of(f"noetl_{name}_sweep_total", "outcome", outcomes)


def claim(api, event_id, worker=None, status=200):
    return api.post(f"/api/commands/{event_id}/claim", {"worker_id": worker or api.worker},
                    status=status)


# ---- the families

@case
def every_family_is_there_at_zero(server):
    with running(server) as other:
        text = metrics_text(other)
        names = {line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")}
        missing = [name for name in ALWAYS_THERE if "noetl_" + name not in names]
        same(missing, [])
        for series, value in figures(other).items():
            if family(series).endswith("_total") and not series.startswith("noetl_http_"):
                expect(value == 0, f"{series} is {value} on a new server")


@case
def starts(server):
    api = Runs(server)
    path = api.register(ONE_STEP)[0]
    body = {"path": path, "execution_pool": api.pool}
    once = {**body, "dedup": {"key": api.pool}}
    with counts(server, started("single", new=3, duplicate=2, error=4),
                {"noetl_execute_batch_size_count": 0}):
        run = api.start(path)
        first = api.post("/api/execute", once)["execution_id"]
        same(api.post("/api/execute", once)["status"], "duplicate")
        same(api.post("/api/execute", {**body, "execution_id": first})["status"], "duplicate")
        api.post("/api/execute", {}, status=422)
        api.post("/api/execute", {"path": "not/there"}, status=404)
        api.post(f"/api/executions/{run}/rerun", {})
        api.post(f"/api/executions/{run}/rerun", {"path": path}, status=422)
        api.post("/api/executions/12345/rerun", {}, status=404)
    with counts(server, drive(dispatched=1, applied=1), reads("execute", hit=1), told(api.pool, 0)):
        api.start(path)


@case
def batches_of_starts(server):
    api = Runs(server)
    item = {"path": api.register(ONE_STEP)[0], "execution_pool": api.pool}
    once = {**item, "dedup": {"key": api.pool}}
    sizes = {5: 1, 10: 1, 25: 1, 50: 1, 100: 1, 250: 1, 500: 1, 1000: 1, "+Inf": 1}
    with counts(server, started("batch", new=2, duplicate=1, error=2),
                {"noetl_execute_batch_size_count": 1, "noetl_execute_batch_size_sum": 5},
                series_of("noetl_execute_batch_size_bucket", "le", sizes)):
        answer = api.post("/api/execute/batch",
                          {"executions": [item, once, once, {"path": "not/there"}, {}]})
        same((answer["started"], answer["duplicates"], answer["failed"]), (2, 1, 2))
        api.post("/api/execute/batch", {"executions": []}, status=422)


@case
def events_one_by_one(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = claim(api, api.issued(run))
    done, completed = ({**event, "worker_id": api.worker} for event in success(command))
    with counts(server, ingested("call.done", ok=2, error=1), ingested("other", ok=1, error=1),
                ingested("command.completed", ok=1), ingested("playbook.failed", error=1),
                phases(normalize=5, emit=5), drive(dispatched=5, applied=3)):
        api.post("/api/events", {**done, "claim_token": 99}, status=409)
        api.post("/api/events", done)
        api.post("/api/events", done)  # a repetition is no error
        api.post("/api/events", {**done, "event_type": "tool.says"})
        api.post("/api/events", completed)
        api.post("/api/events", {**done, "event_type": "playbook.failed"}, status=403)
        api.post("/api/events", {"step": "start"}, status=422)
    with counts(server, ingested("call.done", error=1), drive(dispatched=0)):
        api.post("/api/events", {**done, "execution_id": 12345}, status=404)


@case
def events_of_a_batch(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    command = claim(api, api.issued(run))
    batch = {"execution_id": run, "worker_id": api.worker, "events": success(command)}
    with counts(server, ingested("call.done", ok=2, error=1),
                ingested("command.completed", ok=2, error=1), ingested("other", error=1),
                phases(normalize=2, emit=2), drive(dispatched=2, applied=1)):
        api.post("/api/events/batch", batch)
        api.post("/api/events/batch", batch)
        api.post("/api/events/batch", {**batch, "events": success(command) + [{}]}, status=422)
    with counts(server, phases(0, 0), ingested("other")):
        api.post("/api/events/batch", {**batch, "events": []})


@case
def claims_one_by_one(server):
    api = Runs(server)
    path = api.register(ONE_STEP)[0]
    run = api.start(path)
    event_id = api.issued(run)
    cancelled = api.issued(gone := api.start(path))
    api.post(f"/api/executions/{gone}/cancel", {})
    with counts(server, claims(claimed=1, repeated=1, active_claim=1, cancelled=1, not_found=1,
                               already_terminal=1),
                reads("claim", hit=2), told(api.pool, 0)):
        command = claim(api, event_id)
        claim(api, event_id)
        claim(api, event_id, "stranger", 409)
        claim(api, cancelled, status=409)
        claim(api, 12345, status=404)
        api.post("/api/events/batch", {"execution_id": run, "worker_id": api.worker,
                                       "events": success(command)})
        claim(api, event_id, status=409)


@case
def leases(server):
    api = Runs(server)
    run = api.start(api.register(TWO_STEPS)[0])
    with counts(server, claims(claimed=2, repeated=1), told(api.pool, 2), phases(1, 1),
                ingested("call.done", ok=1), ingested("command.completed", ok=1)):
        first = api.lease(wait_ms=30000, request_id="one")["commands"][0]
        same(api.lease(wait_ms=30000, request_id="one")["commands"][0]["event_id"],
             first["event_id"])
        api.lease(events=success(first), max=0)
        second = api.lease_one()
        same(second["node_name"], "second")
    with counts(server, claims(), ingested("call.done", ok=1, error=2),
                ingested("command.completed", ok=1, error=1), phases(2, 2)):
        api.lease(events=[{**event_of(second, "call.done"), "claim_token": 99}], max=0)
        api.lease(events=success(second), max=0)
        api.post("/api/commands/lease", {"events": success(second)}, status=422)
        yes(api.wait(run)["completed"])


@case
def a_worker_of_the_server(server):
    with running(server, worker=True) as other:
        api = Runs(other)
        path = api.register(ONE_STEP)[0]
        with counts(other, claims(claimed=1), told(api.pool, 1), ingested("call.done")):
            yes(api.wait(api.start(path))["completed"])


@case
def ends_of_runs(server):
    api = Runs(server)
    run = api.start(api.register(ONE_STEP)[0])
    with counts(server, {'noetl_terminal_dedup_total{outcome="suppressed"}': 2}):
        api.post(f"/api/executions/{run}/cancel", {})
        api.post(f"/api/executions/{run}/cancel", {})
        api.post(f"/api/executions/{run}/finalize", {"status": "FAILED"}, status=409)
        api.post("/api/executions/12345/cancel", {}, status=404)


@case
def states_are_built_after_a_restart(server):
    with running(server) as other:
        api = Runs(other)
        run = api.start(api.register(TWO_STEPS)[0])
        other.kill()
        other.start()
        full = {'noetl_state_build_total{mode="full",outcome="ok"}': 1,
                "noetl_state_build_event_scans_total": 1}
        with counts(other, full, reads("state_build", hit=1), reads("claim", hit=1)):
            api.lease_one()
        # What has no state builds none.
        with counts(other, {series: 0 for series in full}):
            api.post("/api/executions/12345/cancel", {}, status=404)
            api.get(f"/api/executions/{run}/status")


@case
def a_projection_builds_states(server):
    api = Runs(server)
    run = int(api.start(api.register(ONE_STEP)[0]))
    with counts(server, {'noetl_state_build_total{mode="full",outcome="ok"}': 1,
                         "noetl_state_build_event_scans_total": 1,
                         "noetl_projection_advanced_total": 1}):
        api.post("/api/internal/projection/advance", {"execution_ids": [run, 12345]}, headers=INNER)


@case
def what_ends_by_time(server):
    with running(server, settings={"NOETL_LEASE_SECONDS": "1"}) as other:
        api = Runs(other)
        path = api.register(ONE_STEP)[0]
        limited = api.register(LIMITED)[0]
        with counts(other, sweep("nonconvergence", candidate=1, terminated=1)):
            same(api.wait(api.start(limited))["status"], "FAILED")
        api.start(path)
        api.lease_one()
        lost = 'noetl_orphan_sweep_total{outcome="terminated"}'
        wait_until("the lease to end", lambda: figures(other)[lost] == 1)
        expect(figures(other)['noetl_orphan_sweep_total{outcome="candidate"}'] >= 1, "no candidate")


# ---- what is stored

@case
def the_catalog(server):
    api = Runs(server)
    path = api.fresh_path()
    used = api.register(TWO_STEPS)[0]
    api.start(used)

    def delete(which, **more):
        return api.post("/api/catalog/delete", {"path": which, **more}, headers=INNER)

    with counts(server, writes("catalog_register", ok=3, error=2), writes("catalog_delete")):
        api.register(ONE_STEP, path)
        api.register(ONE_STEP, path)  # unchanged
        api.call("PUT", f"/api/catalog/playbook/content?playbook_id={path}",
                 {"content": TWO_STEPS.replace("PATH", path)})
        api.post("/api/catalog/register", {"content": "kind: [}"}, status=422)
        api.post("/api/catalog/register", {}, status=422)
    outcomes = {"deleted": 1, "archived": 1, "already_archived": 2, "no_match": 2, "restored": 1}
    with counts(server, series_of("noetl_catalog_delete_total", "outcome", outcomes),
                writes("catalog_delete", ok=5, error=1)):
        same(delete(path)["mode"], "deleted")
        delete(path)  # no match
        same(delete(used)["mode"], "archived")
        delete(used)
        delete(used, version=1)
        api.post("/api/catalog/delete", {}, status=422, headers=INNER)
        api.post("/api/catalog/restore", {"path": used}, headers=INNER)
        api.post("/api/catalog/restore", {"path": used}, headers=INNER)  # no match


@case
def workers(server):
    api = Runs(server)
    name = {"name": api.worker}
    with counts(server, writes("runtime_register", ok=1, error=1),
                writes("runtime_heartbeat", ok=2, error=1)):
        api.post("/api/worker/pool/register", name)
        api.post("/api/worker/pool/register", {}, status=422)
        api.post("/api/worker/pool/heartbeat", name)
        api.post("/api/worker/pool/heartbeat", name)
        api.post("/api/worker/pool/heartbeat", {**name, "kind": "nothing"}, status=422)


@case
def credentials(server):
    api = Runs(server)
    body = {"name": api.pool, "type": "t", "data": {"k": "v"}}
    route = f"/api/credentials/{api.pool}"
    with counts(server, writes("credentials_upsert", ok=1, error=1),
                audits("get_credential", ok=1, credential_not_found=1)):
        api.post("/api/credentials", body)
        api.post("/api/credentials", {**body, "data": None}, status=422)
        api.get(route)
        api.get(route + "?include_data=true")
        api.get("/api/credentials/not_there?include_data=true", status=404)

    key = base64.b64encode(bytes(range(1, 33))).decode()
    api.post("/api/worker/pool/register",
             {"name": api.worker, "runtime": {"worker_public_key": key}})
    keyless = api.worker + "-keyless"
    api.post("/api/worker/pool/register", {"name": keyless})
    sealed = {"ok": 2, "no_pubkey": 1, "worker_not_found": 1, "not_found": 1}
    with counts(server, series_of("noetl_credentials_sealed_total", "status", sealed),
                audits("get_sealed", ok=2, no_pubkey=2, credential_not_found=1)):
        for _ in range(2):
            api.get(f"{route}/sealed?worker_id={api.worker}")
        api.get(f"{route}/sealed?worker_id={keyless}", status=400)
        api.get(f"{route}/sealed?worker_id=nobody", status=400)
        api.get(f"/api/credentials/not_there/sealed?worker_id={api.worker}", status=404)
        api.get(f"{route}/sealed", status=400)


@case
def the_keychain_as_a_store(server):
    api = Runs(server)
    entry = api.register(ONE_STEP)[1]["catalog_id"]
    route = f"/api/keychain/{entry}/token"
    with counts(server, writes("keychain_set", ok=1, error=2), audits("resolve_keychain", ok=1)):
        api.get(route)
        api.post(route, {"data": {"k": "v"}})
        api.post(route, {}, status=422)
        api.post("/api/keychain/12345/token", {"data": 1}, status=404)
        api.get(route)


@case
def keychains_of_playbooks(server):
    api = Runs(server)
    with http_service(lambda _: (200, {"token": "t"})) as url:
        text = KEYCHAIN.replace("URL", f"{url}/token")
        run = api.start(api.register(text.replace("k: PATH", "k: HOME"))[0])

        def find(alias, status=200):
            api.get(f"/api/credentials/{alias}?include_data=true&execution_id={run}", status=status)

        # Each is looked for among the credentials by the route and by the keychain before it is
        # resolved, and `unknown` is one that the keychain looks for once more.
        with counts(server, resolved("env", ok=1, error=1), resolved("http", ok=1),
                    audits("resolve_keychain", ok=4, provider_fetch_error=1, credential_not_found=2),
                    audits("get_credential", credential_not_found=12)):
            find("from_env")
            refused = server.get(f"/api/credentials/forbidden?include_data=true&execution_id={run}")
            expect(refused.status >= 400, str(refused))
            find("from_http")
            find("from_http")  # kept
            find("fixed")
            find("unknown", status=404)


@case
def new_master_keys(server):
    api = Runs(server)
    api.post("/api/credentials", {"name": api.pool, "type": "t", "data": {"k": "v"}})
    before = figures(server)
    answer = api.post("/api/internal/wallet/rotate-kek", {}, headers=INNER)
    after = figures(server)
    for table, found in answer.items():
        for status in ("rewrapped", "skipped", "failed"):
            series = f'noetl_wallet_rotate_total{{status="{status}",table="{table}"}}'
            same(after[series] - before[series], found[status])
    yes(answer["credential"]["skipped"] >= 1)
