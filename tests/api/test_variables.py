"""Values that the steps of a run share."""
from harness import case, check, expect

RUN = 325481002387804160


@case
def three_shapes(server):
    check(server.post(f"/api/vars/{RUN}", {"variables": [
        {"var_name": "total", "var_value": 3},
        {"var_name": "rows", "var_value": [1, None], "var_type": "computed", "source_step": "load"}]}),
        200, {"execution_id": RUN, "variables_set": 2, "status": "ok"})
    check(server.post(f"/api/vars/{RUN}", {"variables": {"a": {"b": 1}}, "var_type": "step_result",
                                           "source_step": "s"}), 200, {"variables_set": 1})
    check(server.post(f"/api/vars/{RUN}", {"bare": "text", "other": None}), 200, {"variables_set": 2})
    listed = check(server.get(f"/api/vars/{RUN}"), 200)
    expect([row["var_name"] for row in listed] == ["a", "bare", "other", "rows", "total"], f"{listed}")
    check(server.get(f"/api/vars/{RUN}/rows"), 200, {
        "var_type": "computed", "var_value": [1, None], "source_step": "load", "created_at": str,
        "accessed_at": str, "access_count": 1})
    check(server.get(f"/api/vars/{RUN}/a"), 200, {"var_type": "step_result", "var_value": {"b": 1},
                                                  "source_step": "s"})
    check(server.get(f"/api/vars/{RUN}/bare"), 200, {"var_type": "user_defined", "source_step": None})


@case
def reads_are_counted(server):
    run = RUN + 1
    check(server.post(f"/api/vars/{run}", {"x": 1}), 200)
    created = check(server.get(f"/api/vars/{run}/x"), 200, {"access_count": 1})["created_at"]
    check(server.get(f"/api/vars/{run}"), 200, [{"access_count": 1}])
    check(server.post(f"/api/vars/{run}", {"x": 2}), 200)
    check(server.get(f"/api/vars/{run}/x"), 200,
          {"access_count": 2, "var_value": 2, "created_at": created})


@case
def all_or_none(server):
    run = RUN + 2
    long_name = "n" * 257
    for body in ({"variables": [{"var_name": "good", "var_value": 1},
                                {"var_name": "bad", "var_value": 1, "var_type": "nonsense"}]},
                 {"variables": [{"var_name": "good", "var_value": 1}, {"var_name": "x"}]},
                 {"variables": [{"var_value": 1}]}, {"variables": [3]}, {"good": 1, "": 2},
                 {"good": 1, long_name: 2}, {"good": 1, "large": "x" * (1 << 20)},
                 {"good": 1, "nul": "a\0b"}, [1]):
        check(server.post(f"/api/vars/{run}", body), 422)
    check(server.get(f"/api/vars/{run}"), 200, [])
    check(server.post(f"/api/vars/{run}", {"variables": [{"var_name": "x", "var_value": 1},
                                                         {"var_name": "x", "var_value": 2}]}),
          200, {"variables_set": 1})
    check(server.get(f"/api/vars/{run}/x"), 200, {"var_value": 2})
    check(server.post(f"/api/vars/{run}", {"ä" * 256: 1, "edge": "x" * ((1 << 20) - 2)}), 200,
          {"variables_set": 2})
    check(server.post(f"/api/vars/{run}", {}), 200, {"variables_set": 0})


@case
def removal(server):
    run = RUN + 3
    check(server.post(f"/api/vars/{run}", {"a/b": 1, "c": 2, "d": 3}), 200)
    check(server.get(f"/api/vars/{run}/a%2Fb"), 200, {"var_name": "a/b"})
    check(server.delete(f"/api/vars/{run}/c"), 200,
          {"execution_id": run, "var_name": "c", "status": "deleted"})
    check(server.delete(f"/api/vars/{run}/c"), 404)
    check(server.get(f"/api/vars/{run}/c"), 404)
    check(server.delete(f"/api/vars/{run}"), 200,
          {"execution_id": run, "variables_deleted": 2, "status": "ok"})
    check(server.delete(f"/api/vars/{run}"), 200, {"variables_deleted": 0})


@case
def ids_in_the_path(server):
    for path in ("/api/vars/x", "/api/vars/-1", "/api/vars/0", "/api/vars/99999999999999999999"):
        check(server.get(path), 400)
        check(server.delete(path), 400)
        check(server.post(path, {"a": 1}), 400)
        check(server.get(path + "/a"), 400)
    check(server.get(f"/api/vars/{RUN}?ids=string"), 200)
