"""Workers of the original project against this server: nothing lost, nothing doubled."""
import random
import threading

from harness import case, check, expect, wait_until
from original_runs import TWO_STEPS, Bell, check_log, drive, register, start, status
from original_worker import Gone, OriginalWorker

# A dead worker is noticed soon.
SERVER = {"settings": {"NOETL_COMMAND_CLAIM_LEASE_SECONDS": "2"}}

MIXED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: mixed, path: old/mixed}
workload: {items: [1, 2, 3, 4]}
workflow:
  - step: start
    tool: {kind: python, code: "return 1"}
    next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: side}]}
  - step: each
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: python, code: "return item", args: {item: "{{ item }}"}}
    next: [{step: join}]
  - step: side
    tool: {kind: python, code: "return 1"}
    next: [{step: join}]
  - step: join
    tool: {kind: python, code: "return 1"}
"""


@case
def runs_a_playbook(server):
    register(server, TWO_STEPS)
    execution = start(server, "old/two", workload={"who": "ann"})
    worker = OriginalWorker(f"http://{server.host}:{server.port}", "old-1", 1)
    worker.register()
    seen = []

    def tool(_, command):
        seen.append(command)
        return {"n": 7}

    drive(server, [execution], [worker], tool, 1)
    expect(status(server, execution) == "COMPLETED", "it did not complete")
    first, second = seen
    expect(first["action"] == "python" and first["node_name"] == "start", str(first))
    expect(first["context"]["tool_config"]["args"]["who"] == "ann", str(first["context"]))
    expect(first["context"]["render_context"]["workload"]["who"] == "ann", str(first["context"]))
    expect(second["context"]["tool_config"]["args"]["first"] == 7, str(second["context"]))
    check_log(server, execution, 2)
    # What was claimed waits for nobody.
    metrics = server.get("/metrics").data.decode()
    expect('\nnoetl_commands{status="pending"} 0\n' in metrics, metrics)
    status_code, _ = worker.deregister()
    expect(status_code == 200, "it could not leave")


@case
def lost_answers_are_repeated(server):
    register(server, MIXED)
    generator = random.Random(5)
    lock = threading.Lock()

    def lose(_):
        with lock:
            return generator.random() < 0.3

    url = f"http://{server.host}:{server.port}"
    workers = [OriginalWorker(url, f"lossy-{n}", 10 + n, lose) for n in range(3)]
    for worker in workers:
        while True:
            try:
                worker.register()
                break
            except OSError:
                pass
        worker.heartbeat = lambda: None
    executions = [start(server, "old/mixed") for _ in range(10)]
    drive(server, executions, workers, lambda worker, command: {"n": 1}, 5)
    for execution in executions:
        expect(status(server, execution) == "COMPLETED", f"{execution} did not complete")
        check_log(server, execution, 7)
    expect(sum(worker.lost_answers for worker in workers) > 20, "no answer was lost")


@case
def workers_die_and_are_replaced(server):
    register(server, MIXED)
    url = f"http://{server.host}:{server.port}"
    workers = [OriginalWorker(url, f"mortal-{n}", 40 + n) for n in range(3)]
    for worker in workers:
        worker.register()
    generator = random.Random(9)
    lock = threading.Lock()
    deaths = []

    def tool(worker, _):
        with lock:
            dies = generator.random() < 0.15 and len(deaths) < 4
            if dies:
                deaths.append(worker.name)
        if dies:
            worker.dead = True  # in the middle of its tool: nobody hears of it again
            raise Gone()
        return {"n": 1}

    def replace(_):
        for worker in [w for w in workers if w.dead]:
            workers.remove(worker)
            workers.append(OriginalWorker(url, f"heir-{len(deaths)}-{worker.name}", 60 + len(deaths)))
            workers[-1].register()

    executions = [start(server, "old/mixed") for _ in range(6)]
    drive(server, executions, workers, tool, 9, replace)
    expect(len(deaths) == 4, f"only {deaths} died")
    for execution in executions:
        expect(status(server, execution) == "COMPLETED", f"{execution} did not complete")
        check_log(server, execution, 7)


@case
def a_zombie_changes_nothing(server):
    register(server, TWO_STEPS)
    execution = start(server, "old/two")
    url = f"http://{server.host}:{server.port}"
    zombie, heir = OriginalWorker(url, "zombie", 80), OriginalWorker(url, "heir", 81)
    zombie.register()
    heir.register()
    notification = Bell(server, [execution], 1).ring()[0]
    command = zombie.claim(notification["event_id"])
    zombie.emit(command, "command.started", "STARTED",
                {"command_id": command["meta"]["command_id"]})

    def replaced():
        heir.heartbeat()
        issued = {entry["event_id"] for entry in Bell(server, [execution], 1).ring()}
        return len(issued) > 1

    wait_until("a new attempt", replaced)
    # It wakes up and goes on as if nothing had happened.
    command_id = command["meta"]["command_id"]
    zombie.emit(command, "call.done", "COMPLETED", {
        "command_id": command_id, "call_index": 0,
        "result": {"status": "success", "context": {"data": {"n": "zombie"}}}})
    zombie.emit(command, "command.completed", "success", {"command_id": command_id})
    expect(status(server, execution) == "RUNNING", "the zombie ended the run")
    expect(zombie.claim(notification["event_id"]) is None, "a replaced command was claimed")
    drive(server, [execution], [heir], lambda worker, command: {"n": "heir"}, 3)
    check_log(server, execution, 2)
