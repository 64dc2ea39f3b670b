#!/usr/bin/env python3
"""run.py NOETL [PATTERN] [--jobs N]: the HTTP API from outside.

Runs every case of tests/api/test_*.py (or of the files whose names hold PATTERN), one server a file.
When all files ran, every route of the server's own document must have been called at least once with
success and once with an error; those that were not are listed, and that is a failure too.
"""
import argparse
import concurrent.futures
import importlib.util
import pathlib
import re
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import harness  # noqa: E402  pylint: disable=wrong-import-position

# Routes that cannot fail for a caller who may call them: they take nothing.
NEVER_FAIL = {
    "GET /health", "GET /api/health", "GET /api/health/live", "GET /api/health/ready", "GET /metrics",
}


def load(path):
    """The module and its cases."""
    harness.CASES.clear()
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module, list(harness.CASES)


def run_file(binary, module, cases):
    """(passed, failures, calls, document) of one file."""
    failures, passed, document = [], 0, None
    options = getattr(module, "SERVER", {})
    server = harness.Server(binary, **options)
    try:
        server.start()
        document = server.client().get("/openapi.json").json
        for function in cases:
            try:
                function(server)
                passed += 1
            except harness.Failure as error:
                failures.append(f"{module.__name__}.{function.__name__}: {error}")
            except Exception:  # pylint: disable=broad-except
                failures.append(f"{module.__name__}.{function.__name__}:\n{traceback.format_exc()}")
        if server.process is not None and server.stop() != 0:
            failures.append(f"{module.__name__}: the server ended with an error\n{server.log_text()}")
    except harness.Failure as error:
        failures.append(f"{module.__name__}: {error}")
    finally:
        if server.process is not None:
            server.kill()
        server.remove()
    return passed, failures, server.calls, document


def templates(document):
    """(method, path of the document, pattern), those with the fewest parameters first."""
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rests = {parameter["name"] for parameter in operation["parameters"]
                     if parameter.get("x-rest")}
            pattern = ""
            for part in re.split(r"(\{[^}]+\})", path):
                if not part.startswith("{"):
                    pattern += re.escape(part)
                else:
                    pattern += ".+" if part[1:-1] in rests else "[^/]+"
            found.append((method.upper(), path, re.compile(pattern + r"\Z"), len(rests)))
    return sorted(found, key=lambda entry: (entry[3], entry[1].count("{"), -len(entry[1])))


def uncovered(document, calls):
    """What no test asked for: texts."""
    known = templates(document)
    good, bad = set(), set()
    for method, path, status in calls:
        method = "GET" if method == "HEAD" else method
        for known_method, template, pattern, _ in known:
            if method == known_method and pattern.match(path):
                (good if status < 400 else bad).add(f"{method} {template}")
                break
    texts = []
    for method, template, _, _ in known:
        name = f"{method} {template}"
        if name not in good:
            texts.append(f"{name} was never called with success")
        if name not in bad and name not in NEVER_FAIL:
            texts.append(f"{name} was never called with an error")
    return sorted(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.binary).resolve())
    files = [path for path in sorted(HERE.glob("test_*.py")) if arguments.pattern in path.name]
    if not files:
        print(f"no file of tests has {arguments.pattern!r} in its name", file=sys.stderr)
        return 2

    started = time.monotonic()
    loaded = [load(path) for path in files]
    passed, failures, calls, document = 0, [], [], None
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(run_file, binary, module, cases) for module, cases in loaded]
        for job in jobs:
            some_passed, some_failures, some_calls, some_document = job.result()
            passed += some_passed
            failures += some_failures
            calls += some_calls
            document = document or some_document
    if not arguments.pattern and document:
        failures += uncovered(document, calls)
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{passed} passed, {len(failures)} failed, {len(calls)} requests, "
          f"{time.monotonic() - started:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
