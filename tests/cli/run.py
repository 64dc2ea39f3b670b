#!/usr/bin/env python3
"""run.py NOETL [--write-docs]: the program from outside.

Each test runs the binary as a user would and looks at what it prints and at its exit code. With
--write-docs, docs/cli.md is written from the help texts instead; without it, a test compares them.
"""
import atexit
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

# Settings of the caller's shell must not change what is tested.
for name in [name for name in os.environ if name.startswith("NOETL_")]:
    del os.environ[name]

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs" / "cli.md"
COMMANDS = ["executions", "show", "events", "logs", "cancel", "verify", "backup",
            "restore", "purge", "doctor", "up", "server", "worker", "subscribe",
            "status", "rerun", "register", "catalog", "credential", "query", "workers", "cleanup", "db",
            "context", "auth",
            "run", "resume", "validate", "fmt", "test", "graph", "simulate", "schema", "version", "completion"]
SECONDS_MAX = 120
NOETL = ""

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: t, path: demo/t }
"""
GOOD = HEAD + """workflow:
  - step: start
    tool: { kind: noop, result: { n: 1 } }
"""

DOCS_HEAD = """# Commands

This page is printed from the help texts of the program (`tests/cli/run.py NOETL --write-docs`), and a
test compares them.

Text goes to the output, complaints and progress to the error stream. Colours appear only on a terminal
and not when `NO_COLOR` is set. When the reader goes away, the rest is dropped and the exit code stays.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed: a run, a test, a simulation that wedged or never ended, a file that `fmt --check` would change; a run with soft errors under `--strict` |
| 2 | an invalid playbook or test, a file that cannot be read, wrong usage |
| 3 | the run was cancelled, by Ctrl-C or by somebody else |
| 4 | waited long enough (`--timeout`); the run goes on |
| 5 | the server cannot be reached |
| 77 | a login is needed, or has expired |
| 130 | left by a second Ctrl-C: nothing was recorded, `noetl resume` continues |

`validate --json` prints `{files: [{file, valid, diagnostics: [{code, severity, path, line, column,
message, hint}]}], errors, warnings, valid}`. `simulate --json` prints `{playbook, first_seed,
last_seed, runs, statuses, paths, other_paths, unreached_steps, untaken_arcs, failures, wedged, endless,
broken, healthy}`; each failure has `error`, `runs` and the first `seed`.

`run --json` and `resume ID --json` print `{execution_id, path, status, result, error, soft_errors, steps:
[{step, run, status, duration_ms, error?}], duration_ms}`; `resume --json` prints `{runs: [...]}`. Ids are
texts. `-o yaml` prints the same as YAML.

`run deploy` begins with the step `deploy` when the `noetl.yaml` of the current directory has one, and `run
FILE --target STEP` with any step. Such a run has the path of the playbook with `.from-STEP` behind it.

`server start` and `worker start` come back when the service is ready; it goes on in the background and
writes to `server.log` in the data directory, or `worker.log` in the folder of the worker's state. `server
stop` and `worker stop` end a service of this machine, also one that was started in the foreground. They
find it by the lock that it holds on `server.pid` or `worker.pid`: what such a file says about a process that
is gone does no harm. A server stops its tools, and the next one continues their runs; a worker finishes its
commands first, for `NOETL_WORKER_DRAIN_TIMEOUT_SECONDS` at most.

The first Ctrl-C (or SIGTERM) stops the tools and records the cancel when they have ended, or after 10
seconds. When another process uses the data directory, `run` hands its playbook to that process and
follows the run; when that process goes away, it continues the run itself.

The format of tests and of `simulate --script` is described in [tests as text](playbook-tests.md).

```text
"""


# Contexts of whoever runs the tests must not matter.
os.environ["HOME"] = tempfile.mkdtemp(prefix="noetl-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)


def noetl(*arguments, text=None, **options):
    return subprocess.run([NOETL, *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False, **options)


def documentation():
    page = DOCS_HEAD + noetl("--help").stdout + "```\n"
    for command in COMMANDS:
        lines = [line.rstrip() for line in noetl(command, "--help").stdout.strip().split("\n")]
        page += f"\n## {command}\n\n```text\n" + "\n".join(lines) + "\n```\n"
    return page


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def file(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    def check(self, done, code, *, out=(), err=()):
        shown = f"\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, code, shown)
        for part in [out] if isinstance(out, str) else out:
            self.assertIn(part, done.stdout, shown)
        for part in [err] if isinstance(err, str) else err:
            self.assertIn(part, done.stderr, shown)


class General(Case):
    def test_help_has_examples_for_every_command(self):
        overview = noetl("--help")
        self.check(overview, 0, out=COMMANDS)
        for command in COMMANDS:
            self.check(noetl(command, "--help"), 0, out=["Usage:", "Examples:", f"noetl {command}"])
            self.check(noetl("help", command), 0, out="Examples:")

    def test_no_command_is_wrong_usage(self):
        self.check(noetl(), 2, err="Usage:")

    def test_unknown_command_is_met_with_a_suggestion(self):
        self.check(noetl("vaildate"), 2, err="did you mean 'validate'?")
        self.check(noetl("qqqqqqqqq"), 2, err="noetl --help")

    def test_unknown_option_and_missing_argument(self):
        self.check(noetl("validate", "--nope", "x"), 2, err="noetl validate --help")
        for command in ["validate", "fmt", "test", "graph", "simulate", "completion"]:
            self.check(noetl(command), 2, err="required")

    def test_missing_file(self):
        for command in ["validate", "fmt", "test", "graph", "simulate"]:
            self.check(noetl(command, self.folder / "none.yaml"), 2, err=["none.yaml", "o such file"])

    def test_a_directory_where_a_file_is_meant(self):
        self.check(noetl("graph", self.folder), 2, err="directory")

    def test_a_reader_that_goes_away(self):
        for command in ["schema", "completion bash"]:
            done = subprocess.run(["bash", "-c", f"set -o pipefail; '{NOETL}' {command} | head -c 1"],
                                  capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            self.check(done, 0)
            self.assertEqual(done.stderr, "")

    def test_version(self):
        self.check(noetl("version"), 0, out=["noetl 0.", "("])
        self.assertEqual(noetl("--version").stdout, noetl("version").stdout)

    def test_docs_are_the_help_texts(self):
        self.assertEqual(DOCS.read_text(encoding="utf-8"), documentation(),
                         "run tests/cli/run.py NOETL --write-docs")

    def test_schema_is_json(self):
        schema = json.loads(noetl("schema").stdout)
        self.assertIn("$schema", schema)


class Validate(Case):
    def test_valid(self):
        self.check(noetl("validate", self.file("a.yaml", GOOD)), 0, out="1 file, 0 errors, 0 warnings")

    def test_error_shows_place_line_caret_and_hint(self):
        path = self.file("a.yaml", GOOD + "    next: { arcs: [ { step: strat } ] }\n")
        done = noetl("validate", path)
        self.check(done, 2, out=[f"{path}:7:", "E272", "did you mean 'start'", "step: strat", "^", "1 error"])

    def test_stdin(self):
        self.check(noetl("validate", "-", text=GOOD), 0, out="1 file, 0 errors")
        self.check(noetl("validate", "-", text=GOOD.replace("kind: noop", "kind: nop")), 2, out="-:6:")

    def test_json(self):
        bad = self.file("b.yaml", GOOD.replace("kind: noop", "kind: nop"))
        done = noetl("validate", "--json", self.file("a.yaml", GOOD), bad)
        self.check(done, 2)
        document = json.loads(done.stdout)
        self.assertEqual([f["valid"] for f in document["files"]], [True, False])
        self.assertFalse(document["valid"])
        diagnostic = document["files"][1]["diagnostics"][0]
        self.assertEqual(set(diagnostic),
                         {"code", "severity", "path", "line", "column", "message", "hint"})
        self.assertEqual(diagnostic["line"], 6)
        self.assertEqual(document["errors"], 1)

    def test_strict_counts_warnings(self):
        text = GOOD.replace("v10", "v2").replace("- step", "- colour: red\n    step")
        path = self.file("a.yaml", text)
        self.check(noetl("validate", path), 0, out=["W100", "1 warning"])
        self.check(noetl("validate", "--strict", path), 2, out="W100")

    def test_directories_are_searched_for_playbooks(self):
        (self.folder / "deep").mkdir()
        self.file("deep/a.yaml", GOOD)
        self.file("deep/b.yml", GOOD)
        self.file("deep/values.yaml", "replicas: 3\n")
        self.file("deep/notes.txt", "kind: Playbook\n")
        self.check(noetl("validate", self.folder), 0, out="2 files")
        empty = self.folder / "empty"
        empty.mkdir()
        self.check(noetl("validate", empty), 2, err="no playbook")

    def test_examples(self):
        self.check(noetl("validate", "--strict", EXAMPLES), 0)

    def colours(self, **environment):
        """What a terminal gets."""
        path = self.file("a.yaml", GOOD.replace("kind: noop", "kind: nop"))
        parent, child = pty.openpty()
        with os.fdopen(parent, "rb", buffering=0) as reader:
            variables = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            variables.update({"TERM": "xterm"}, **environment)
            process = subprocess.Popen([NOETL, "validate", str(path)], stdout=child, stderr=child, env=variables)
            os.close(child)
            output = b""
            while True:
                try:
                    part = reader.read(4096)
                except OSError:
                    break
                if not part:
                    break
                output += part
            self.assertEqual(process.wait(timeout=SECONDS_MAX), 2)
        return b"\x1b[" in output

    def test_colours_only_on_a_terminal_without_no_color(self):
        self.assertTrue(self.colours())
        self.assertFalse(self.colours(NO_COLOR="1"))
        self.assertFalse(self.colours(TERM="dumb"))
        path = self.file("b.yaml", GOOD.replace("kind: noop", "kind: nop"))
        self.assertNotIn("\x1b[", noetl("validate", path).stdout)


# name: document, and what the answer must contain besides a line and exit code 2.
BROKEN = {
    "indentation": (HEAD + "workflow:\n  - step: start\n     tool: { kind: noop }\n", ["a.yaml:"]),
    "tabs": (HEAD + "workflow:\n\t- step: start\n", ["tab"]),
    "unknown step in next": (GOOD + "    next: { arcs: [ { step: nowhere } ] }\n", ["E272", "nowhere"]),
    "misspelt key": (GOOD + "    nxet: { arcs: [ { step: start } ] }\n", ["nxet", "next"]),
    "endless cycle": (HEAD + """workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [ { step: again } ] }
  - step: again
    tool: { kind: noop }
    next: { arcs: [ { step: start } ] }
""", ["again"]),
    "bad template": (GOOD.replace("n: 1", 'n: "{{ 1 + }}"'), ["E404"]),
    "unknown filter": (GOOD.replace("n: 1", 'n: "{{ x | defualt(1) }}"'), ["E401", "default"]),
    "duplicate names": (GOOD + "  - step: start\n    tool: { kind: noop }\n", ["E210", "start"]),
    "duplicate keys": (GOOD + "    tool: { kind: noop }\n", ["E004"]),
    "wrong types": (HEAD + "workflow: 7\n", ["workflow"]),
    "wrong type of a step": (HEAD + "workflow:\n  - start\n", ["a.yaml:"]),
    "unknown api version": (GOOD.replace("noetl.io/v10", "noetl.io/v11"), ["Unsupported API version"]),
    "10 MB": (GOOD + "# " + "x" * 10_000_000 + "\n", ["E006", "4194304", "hint:"]),
    "deep nesting": (HEAD + "workload: { a: " + "[" * 5_000 + "]" * 5_000 + " }\n" + GOOD[len(HEAD):], ["E006", "nesting depth", "hint:"]),
    "alias bomb": (HEAD + "workload:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"  a{i}: &a{i} [{', '.join(['*a' + str(i - 1)] * 10)}]\n" for i in range(1, 12))
        + GOOD[len(HEAD):], ["E003"]),
    "binary garbage": (bytes(range(256)) * 64, ["a.yaml"]),
    "empty": ("", ["a.yaml"]),
    "not a map": ("- 1\n- 2\n", ["a.yaml"]),
}


class Broken(Case):
    def test_every_broken_playbook_is_refused_with_a_place_and_a_remedy(self):
        for name, (content, parts) in BROKEN.items():
            with self.subTest(name):
                path = self.file("a.yaml", content)
                done = noetl("validate", path)
                self.check(done, 2, out=parts)
                document = json.loads(noetl("validate", "--json", path).stdout)
                errors = [d for d in document["files"][0]["diagnostics"] if d["severity"] == "error"]
                self.assertTrue(errors, name)
                for error in errors:
                    self.assertGreater(error["line"], 0, name)
                    self.assertTrue(error["hint"], name)
                self.assertLess(len(done.stdout), 100_000, name)
                for command in ["fmt", "graph", "simulate"]:
                    refused = noetl(command, path)
                    self.check(refused, 2, err="a.yaml")
                    self.assertEqual(refused.stdout, "")


class Format(Case):
    def test_print_check_write(self):
        path = self.file("a.yaml", "# hello\n" + GOOD)
        printed = noetl("fmt", path)
        self.check(printed, 0, out=["# hello", "kind: noop"])
        self.check(noetl("fmt", "--check", path), 1, out="not in canonical form")
        self.assertEqual(path.read_text(encoding="utf-8"), "# hello\n" + GOOD)
        path.chmod(0o640)
        self.check(noetl("fmt", "--write", path), 0, out="written")
        self.assertEqual(path.read_text(encoding="utf-8"), printed.stdout)
        self.assertEqual(path.stat().st_mode & 0o777, 0o640)
        self.check(noetl("fmt", "--check", path), 0)
        self.check(noetl("fmt", "--write", path), 0)
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_stdin(self):
        self.check(noetl("fmt", "-", text=GOOD), 0, out="kind: Playbook")
        self.check(noetl("fmt", "--write", "-", text=GOOD), 2, err="standard input")
        self.check(noetl("fmt", "--write", "--check", "x"), 2)

    def test_formatted_playbooks_stay_valid(self):
        for example in sorted(EXAMPLES.glob("*.yaml")):
            self.check(noetl("validate", "--strict", "-", text=noetl("fmt", example).stdout), 0)


class TextTests(Case):
    def test_pass_fail_malformed(self):
        test = "--- playbook\n" + GOOD + "--- expect\nstatus: COMPLETED\nresult: {\"n\": 1}\n"
        good = self.file("good.test", test)
        self.check(noetl("test", good), 0, out="1 passed, 0 failed")
        self.check(noetl("test", "-v", good), 0, out="ok")
        self.file("bad.test", test.replace('"n": 1', '"n": 2'))
        failed = noetl("test", self.folder)
        self.check(failed, 1, out=["bad.test:10: result:", 'expected: {"n":2}', 'got:      {"n":1}',
                                   "1 passed, 1 failed"])
        self.file("odd.test", test.replace("status:", "statsu:"))
        self.check(noetl("test", self.folder), 2, out=["odd.test:9:", "did you mean 'status'?"])

    def test_nothing_to_run(self):
        self.check(noetl("test", self.folder), 2, err="no *.test")


class Graph(Case):
    def test_text_and_svg(self):
        example = EXAMPLES / "branches.yaml"
        self.check(noetl("graph", example), 0, out=["receive", "ship"])
        self.check(noetl("graph", example, "--svg"), 0, out=["<svg", "</svg>"])
        self.check(noetl("graph", "--svg", example), 0, out="<svg")
        out = self.folder / "b.svg"
        self.check(noetl("graph", example, "--svg", out), 0)
        self.assertIn("<svg", out.read_text(encoding="utf-8"))
        self.check(noetl("graph", example, "--svg", self.folder / "none" / "b.svg"), 1, err="b.svg")


CYCLE = HEAD.replace("v10", "v2") + """workflow:
  - step: start
    tool: { kind: http, url: "http://x" }
    next:
      arcs:
        - { step: low, when: "{{ start.score < 50 }}" }
        - { step: high, when: "{{ start.level == 'gold' }}" }
        - { step: start, when: "{{ false }}" }
  - step: low
    tool: { kind: noop }
  - step: high
    tool: { kind: noop }
"""


class Simulate(Case):
    def test_report(self):
        done = noetl("simulate", EXAMPLES / "retry.yaml", "--seeds", "1..50")
        self.check(done, 0, out=["50 runs", "COMPLETED", "collect > report"])

    def test_json_is_the_same_for_the_same_seeds(self):
        path = self.file("a.yaml", CYCLE)
        first = noetl("simulate", path, "--seeds", "5..60", "--json")
        self.check(first, 0)
        self.assertEqual(first.stdout, noetl("simulate", path, "--seeds", "5..60", "--json").stdout)
        report = json.loads(first.stdout)
        self.assertEqual(report["runs"], 56)
        self.assertEqual(sum(report["statuses"].values()), 56)
        # Invented payloads meet both sides of the conditions.
        self.assertEqual(report["unreached_steps"], [])
        self.assertEqual([arc["target"] for arc in report["untaken_arcs"]], ["start"])
        self.assertTrue(report["healthy"])
        for name in ["wedged", "endless", "broken"]:
            self.assertEqual(report[name], [])

    def test_script_input_and_set(self):
        path = self.file("a.yaml", GOOD.replace("n: 1", 'n: "{{ a }}{{ b }}"') + """    next:
      arcs: [ { step: yes, when: "{{ start.n == '12' }}" }, { step: no } ]
  - step: yes
    tool: { kind: python, code: "x" }
  - step: no
""")
        script = self.file("s.txt", "# always\nyes: fail \"as told\"\n")
        data = self.file("in.json", '{"a": 1, "b": 3}')
        done = noetl("simulate", path, "--input", data, "--set", "b=2", "--script", script, "--json")
        self.check(done, 0)
        report = json.loads(done.stdout)
        self.assertEqual(report["statuses"], {"FAILED": 20})
        self.assertIn("as told", report["failures"][0]["error"])
        self.assertEqual(report["unreached_steps"], ["no"])

    def test_a_run_that_never_ends(self):
        path = self.file("a.yaml", GOOD + """    next: { arcs: [ { step: again, when: "{{ start.n == 1 }}" } ] }
  - step: again
    tool: { kind: noop }
    next: { arcs: [ { step: start, when: "{{ start.n == 1 }}" } ] }
""")
        self.check(noetl("simulate", path, "--seeds", "1"), 1, out="Never ended")

    def test_wrong_usage(self):
        path = self.file("a.yaml", GOOD)
        for seeds in ["x", "5..2", "1..99999999999", "-1"]:
            self.check(noetl("simulate", path, "--seeds=" + seeds), 2, err="seeds")
        self.check(noetl("simulate", path, "--set", "novalue"), 2, err="NAME=VALUE")
        self.check(noetl("simulate", path, "--input", self.file("i.json", "[1]")), 2, err="JSON map")
        self.check(noetl("simulate", path, "--script", self.file("s.txt", "start: maybe\n")), 2,
                   err="s.txt:1:")

# A step that says that it runs by making a file, and ends when another file is there.
WAITS = HEAD.replace("demo/t", "demo/waits") + """workload: { begun: none, go: none }
workflow:
  - step: wait
    tool:
      kind: shell
      env: { BEGUN: "{{ begun }}", GO: "{{ go }}" }
      command: |
        touch "$BEGUN"
        while [ ! -e "$GO" ]; do sleep 0.05; done
    next: { arcs: [ { step: after } ] }
  - step: after
    tool: { kind: noop, result: { all: well } }
"""
FAILS = HEAD + """workflow:
  - step: start
    tool: { kind: shell, command: "echo on the way; exit 3" }
"""


class RunCase(Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"

    def run_it(self, *arguments, **options):
        return noetl("run", *arguments, "--data", self.data, **options)

    def document(self, *arguments, code=0):
        done = self.run_it(*arguments, "--json")
        self.check(done, code)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def begin(self, name, *arguments):
        """A run of WAITS in another process that is in its first step."""
        begun, go = self.folder / f"{name}.begun", self.folder / f"{name}.go"
        process = subprocess.Popen(
            [NOETL, "run", self.file("waits.yaml", WAITS), "--data", self.data, "--set", f"begun={begun}",
             "--set", f"go={go}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.wait_for(begun.exists)
        return process, go

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def finish(self, process):
        out, err = process.communicate(timeout=SECONDS_MAX)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), end, "nothing happened")
            time.sleep(0.01)


class Run(RunCase):
    def test_a_file(self):
        done = self.run_it(EXAMPLES / "hello.yaml")
        self.check(done, 0, err=["step greet: completed in", "step shout: completed in", "COMPLETED in",
                                 "noetl show"])
        self.assertEqual(json.loads(done.stdout), {"text": "HELLO, WORLD!"})

    def test_json(self):
        document = self.document(EXAMPLES / "branches.yaml")
        self.assertEqual(set(document), {"execution_id", "path", "status", "result", "error",
                                         "soft_errors", "steps", "duration_ms"})
        self.assertEqual(document["status"], "COMPLETED")
        self.assertIsNone(document["error"])
        self.assertIsInstance(document["execution_id"], str)
        steps = {step["step"]: step["status"] for step in document["steps"]}
        self.assertEqual(steps["customs"], "SKIPPED")
        self.assertEqual(steps["ship"], "COMPLETED")

    def test_payload(self):
        path = self.file("a.yaml", GOOD.replace("n: 1", 'a: "{{ a }}", b: "{{ b }}", c: "{{ c }}"'))
        data = self.file("in.json", '{"a": 1, "b": 1, "c": 1}')
        document = self.document(path, "--set", "c=[3]", "--payload", '{"b": 2, "c": 2}', "--input", data)
        self.assertEqual(document["result"], {"a": 1, "b": 2, "c": [3]})
        self.check(self.run_it(path, "--payload", "[1]"), 2, err="JSON map")
        self.check(self.run_it(path, "--set", "x"), 2, err="NAME=VALUE")

    def test_names_and_versions(self):
        path = self.file("a.yaml", GOOD)
        self.document(path)
        path.write_text(GOOD.replace("n: 1", "n: 2"), encoding="utf-8")
        self.document(path)
        self.document(path)  # the same content is no new version
        self.assertEqual(self.document("demo/t")["result"], {"n": 2})
        self.assertEqual(self.document("catalog://demo/t@1")["result"], {"n": 1})
        self.check(self.run_it("demo/t@3"), 2, err="version 3 of playbook 'demo/t'")
        self.check(self.run_it("demo/t@x"), 2, err="not a version")

    def test_a_mistyped_name_leaves_nothing_behind(self):
        self.check(self.run_it("demo/none"), 2, err=["demo/none", "--data"])
        self.check(self.run_it("none.yaml"), 2, err=["none.yaml", "o such file"])
        self.assertFalse(self.data.exists())

    def test_the_playbook_of_the_directory(self):
        self.check(noetl("run", cwd=self.folder), 2, err=["noetl.yaml", "main.yaml"])
        self.file("main.yaml", GOOD)
        self.check(noetl("run", cwd=self.folder), 0, out='"n": 1')
        self.file("noetl.yaml", GOOD.replace("n: 1", "n: 2"))
        self.check(noetl("run", cwd=self.folder), 0, out='"n": 2')
        self.assertTrue((self.folder / ".noetl").is_dir())

    def test_standard_input(self):
        self.check(self.run_it("-", text=GOOD), 0, out='"n": 1')

    def test_nothing_starts_when_the_playbook_is_wrong(self):
        path = self.file("a.yaml", GOOD + "    next: { arcs: [ { step: strat } ] }\n")
        self.check(self.run_it(path), 2, err=[f"{path}:7:", "E272"])
        other = HEAD.replace("demo/t", "demo/o") + """workflow:
  - step: start
    tool: { kind: duckdb, query: "select 1" }
"""
        path = self.file("o.yaml", other)
        self.check(self.run_it(path), 2, err=[f"{path}:6:", "cannot run the tool kind 'duckdb'", "shell"])
        caller = self.file("c.yaml", GOOD.replace("kind: noop, result: { n: 1 }", "kind: playbook, path: demo/o"))
        self.check(self.run_it(caller), 2, err=["o.yaml:6:", "duckdb"])
        self.assertFalse(self.data.exists())

    def test_dry_run(self):
        done = self.run_it(EXAMPLES / "parent.yaml", "--dry-run", "--set", "numbers=[7]")
        self.check(done, 0, out=["would run examples/parent", "may call examples/parent-child", "7"])
        self.assertFalse(self.data.exists())

    def test_failure(self):
        path = self.file("a.yaml", FAILS)
        self.check(self.run_it(path), 1, err=["step start: failed in", "FAILED in"])
        document = self.document(path, code=1)
        self.assertEqual(document["status"], "FAILED")
        self.assertIn("start", document["error"])
        self.assertEqual(document["steps"][0]["status"], "FAILED")
        self.assertTrue(document["steps"][0]["error"])

    def test_soft_errors(self):
        path = self.file("a.yaml", FAILS.replace("v10", "v2"))
        self.check(self.run_it(path), 0, err=["completed with an error", "1 error did not stop the run"])
        self.check(self.run_it(path, "--strict"), 1)
        self.assertEqual(len(self.document(path)["soft_errors"]), 1)

    def test_what_tools_write(self):
        path = self.file("a.yaml", FAILS.replace("exit 3", "exit 0"))
        self.check(self.run_it(path, "-v"), 0, err="start | on the way")
        self.assertNotIn("on the way", self.run_it(path).stderr)

    def test_children(self):
        done = self.run_it(EXAMPLES / "parent.yaml")
        self.check(done, 0, out='"sum": 14', err=["step squares: started, 0/3", "(3/3)"])
        (self.folder / "sub").mkdir()
        self.file("sub/child.yaml", GOOD.replace("demo/t", "demo/child"))
        caller = self.file("c.yaml", GOOD.replace("kind: noop, result: { n: 1 }",
                                                  "kind: playbook, return_step: start, path: sub/child.yaml"))
        self.check(self.run_it(caller), 0, out='"n": 1', err=["calls sub/child.yaml", "  step start: completed"])

    def test_a_child_that_nobody_waits_for_is_not_lost(self):
        begun, go = self.folder / "begun", self.folder / "go"
        self.file("waits.yaml", WAITS)
        caller = self.file("c.yaml", GOOD.replace(
            "kind: noop, result: { n: 1 }",
            f'kind: playbook, path: demo/waits, input: {{ begun: "{begun}", go: "{go}" }}'))
        self.check(self.run_it(caller), 0, out='"started"', err="It started 1 run")
        go.touch()
        self.check(noetl("resume", "--data", self.data), 0, out='"all": "well"')

    def test_a_large_result_is_summarised(self):
        path = self.file("a.yaml", GOOD.replace("n: 1", 'n: "{{ text }}", small: 5'))
        data = self.file("in.json", json.dumps({"text": "x" * 300_000}))
        done = self.run_it(path, "--input", data)
        self.check(done, 0, out='"small": 5', err=["summary", "noetl://execution/"])
        self.assertLess(len(done.stdout), 10_000)
        self.assertEqual(len(self.document(path, "--input", data)["result"]["n"]), 300_000)

    def test_a_data_directory_that_cannot_be(self):
        file = self.file("data", "not a directory")
        self.check(self.run_it(self.file("a.yaml", GOOD)), 1, err=[str(file), "--data DIR"])

    def test_the_tour(self):
        done = self.run_it(EXAMPLES / "tour.yaml")
        self.check(done, 0, out='"vehicle": "truck"', err="calls examples/tour-child")


class Terminal(RunCase):
    def show(self, *arguments, **environment):
        """What a terminal of 60 columns gets, and the exit code."""
        parent, child = pty.openpty()
        termios.tcsetwinsize(child, (24, 60))
        with os.fdopen(parent, "rb", buffering=0) as reader:
            variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
            variables.update({"TERM": "xterm", "LANG": "C.UTF-8"}, **environment)
            process = subprocess.Popen([NOETL, "run", *map(str, arguments), "--data", str(self.data)],
                                       stdout=subprocess.DEVNULL, stderr=child, env=variables)
            os.close(child)
            output = b""
            while True:
                try:
                    part = reader.read(4096)
                except OSError:
                    break
                if not part:
                    break
                output += part
            return output.decode("utf-8"), process.wait(timeout=SECONDS_MAX)

    @staticmethod
    def screen(output):
        """What is on the screen in the end: the codes that we use, nothing else."""
        lines, row = [""], 0
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", output):
            if part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif part.endswith("A") and part.startswith("\x1b"):
                row -= int(part[2:-1])
            elif part == "\x1b[J":
                del lines[row + 1:]
                lines[row] = ""
            elif not part.startswith(("\x1b", "\r")):
                lines[row] += part
        return lines

    def test_live(self):
        output, code = self.show(EXAMPLES / "tour.yaml")
        self.assertEqual(code, 0, output)
        self.assertIn("░", output)
        self.assertIn("/40", output)
        screen = self.screen(output)
        self.assertTrue(all(len(line) < 60 for line in screen[:-3]), screen)
        self.assertFalse([line for line in screen if "•" in line], screen)
        self.assertEqual(len([line for line in screen if line.startswith("✓ weigh")]), 1, screen)
        self.assertTrue([line for line in screen if line.startswith("  ✓ shortest")], screen)
        self.assertTrue([line for line in screen if line.startswith("↷ van")], screen)

    def test_plain_letters_without_utf8(self):
        output, code = self.show(EXAMPLES / "branches.yaml", LANG="C", NO_COLOR="1")
        self.assertEqual(code, 0, output)
        self.assertTrue(output.isascii())
        self.assertIn("+ receive", output)
        self.assertNotIn("\x1b[3", output)

    def test_no_cursor_movements_on_a_dumb_terminal(self):
        output, code = self.show(EXAMPLES / "hello.yaml", TERM="dumb")
        self.assertEqual(code, 0)
        self.assertNotIn("\x1b", output)
        self.assertIn("step greet: completed in", output)


class Interrupted(RunCase):
    def test_ctrl_c_cancels(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            process, _ = self.begin(f"a{number}")
            process.send_signal(number)
            self.check(self.finish(process), 3, err=["stopping", "CANCELLED", "interrupted by the user"])
        self.check(noetl("resume", "--data", self.data), 0, err="nothing to resume")

    def test_ctrl_c_under_json_is_one_document(self):
        process, _ = self.begin("a", "--json")
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.check(done, 3)
        self.assertEqual(json.loads(done.stdout)["status"], "CANCELLED")

    def test_the_second_ctrl_c_leaves_and_resume_continues(self):
        # The tool does not listen, so that there is time for the second one.
        text = WAITS.replace("touch", "trap '' TERM; touch")
        begun, go = self.folder / "begun", self.folder / "go"
        process = subprocess.Popen(
            [NOETL, "run", self.file("stubborn.yaml", text), "--data", self.data, "--set", f"begun={begun}",
             "--set", f"go={go}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.wait_for(begun.exists)
        process.send_signal(signal.SIGINT)
        self.assertIn("stopping", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=SECONDS_MAX), 130)
        go.touch()
        self.check(noetl("resume", "--data", self.data), 0, out='"all": "well"', err="COMPLETED in")
        self.check(noetl("resume", "--data", self.data), 0, err="nothing to resume")

    def test_a_killed_run_is_resumed_by_its_id(self):
        process, go = self.begin("a")
        process.kill()
        process.wait()
        go.touch()
        self.check(self.run_it(self.file("a.yaml", GOOD)), 0)
        done = noetl("resume", "--json", "--data", self.data)
        self.check(done, 0)
        runs = json.loads(done.stdout)["runs"]
        if runs:  # the run before may have taken it up and ended it
            self.assertEqual([run["result"] for run in runs], [{"all": "well"}])

    def test_resume_of_an_ended_or_unknown_run(self):
        self.check(noetl("resume", "1", "--data", self.data), 1, err="--data DIR")
        self.assertFalse(self.data.exists())
        first = self.document(self.file("a.yaml", GOOD))["execution_id"]
        self.check(noetl("resume", first, "--data", self.data), 0, out='"n": 1', err="has ended already")
        failed = self.document(self.file("b.yaml", FAILS), code=1)["execution_id"]
        self.check(noetl("resume", failed, "--data", self.data), 1, err="FAILED")
        self.check(noetl("resume", "1", "--data", self.data), 1, err=["no run 1", "noetl executions"])
        self.check(noetl("resume", "x", "--data", self.data), 2, err="not the id of a run")

    def test_earlier_runs_are_mentioned(self):
        process, go = self.begin("a")
        process.kill()
        process.wait()
        self.check(self.run_it(self.file("a.yaml", GOOD)), 0, err="also continuing 1 earlier run;")
        go.touch()
        self.check(noetl("resume", "--data", self.data), 0, out='"all": "well"')


class TwoProcesses(RunCase):
    def test_the_owner_runs_it(self):
        owner, go = self.begin("a")
        self.assertTrue((self.data / "control").is_socket())
        self.assertEqual((self.data / "control").stat().st_mode & 0o777, 0o600)
        done = self.run_it(EXAMPLES / "parent.yaml")
        self.check(done, 0, out='"sum": 14', err="step squares: completed in")
        self.assertEqual(self.document(self.file("a.yaml", GOOD))["result"], {"n": 1})
        self.assertEqual(self.document("demo/t")["result"], {"n": 1})
        self.assertIsNone(owner.poll())
        go.touch()
        self.check(self.finish(owner), 0, out='"all": "well"')
        self.assertFalse((self.data / "control").exists())

    def test_ctrl_c_cancels_only_the_own_run(self):
        owner, go = self.begin("a")
        guest, _ = self.begin("b")
        guest.send_signal(signal.SIGINT)
        self.check(self.finish(guest), 3, err="CANCELLED")
        go.touch()
        self.check(self.finish(owner), 0, out='"all": "well"')

    def test_the_guest_takes_over_when_the_owner_goes(self):
        for leave in ["end", "die"]:
            owner, owner_go = self.begin(f"a-{leave}")
            guest, go = self.begin(f"b-{leave}")
            if leave == "die":
                owner.kill()
                owner.wait()
            else:
                owner_go.touch()
                self.check(self.finish(owner), 0)
            self.assertIn("continuing here", guest.stderr.readline())
            go.touch()
            self.check(self.finish(guest), 0, out='"all": "well"')

    def test_resume_follows_the_owner(self):
        owner, go = self.begin("a")
        follower = subprocess.Popen([NOETL, "resume", "--data", self.data], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, follower)
        go.touch()
        self.check(self.finish(owner), 0)
        done = self.finish(follower)
        self.assertEqual(done.returncode, 0, done.stderr)


class Tasks(Case):
    """`run` with a step to begin with, and its forms of output."""
    PLAYBOOK = HEAD + """workflow:
  - step: start
    tool: { kind: noop, result: { at: start } }
    next: { arcs: [ { step: build } ] }
  - step: build
    tool: { kind: noop, result: { at: build } }
  - step: deploy now
    tool: { kind: noop, result: { at: deploy } }
"""

    def setUp(self):
        super().setUp()
        self.file("noetl.yaml", self.PLAYBOOK)

    def steps(self, *arguments):
        done = noetl("run", *arguments, "--json", cwd=self.folder)
        self.check(done, 0)
        document = json.loads(done.stdout)
        return [step["step"] for step in document["steps"]], document

    def test_target(self):
        self.assertEqual(self.steps()[0], ["start", "build"])
        for way in [["build"], ["noetl.yaml", "-t", "build"], ["--target", "build"], ["demo/t", "-t", "build"]]:
            steps, document = self.steps(*way)
            self.assertEqual(steps, ["build"], way)
            self.assertEqual(document["path"], "demo/t.from-build")
        self.assertEqual(self.steps("-t", "deploy now")[1]["path"], "demo/t.from-deploy-now")
        # The whole playbook is still what its name means.
        self.assertEqual(self.steps("demo/t")[0], ["start", "build"])

    def test_target_that_is_none(self):
        self.check(noetl("run", "-t", "dploy", cwd=self.folder), 2,
                   err="'dploy' is not a step of demo/t (have: start, build, deploy now)")
        self.assertFalse((self.folder / ".noetl").exists())
        self.check(noetl("run", "dploy", cwd=self.folder), 2, err="no playbook 'dploy'")

    def test_files_of_tasks(self):
        (self.folder / "automation").mkdir()
        self.file("automation/nightly.yaml", GOOD)
        self.check(noetl("run", "nightly", cwd=self.folder), 0, out='"n": 1')

    def test_output(self):
        done = noetl("run", "-o", "yaml", cwd=self.folder)
        self.check(done, 0, out=["status: COMPLETED", "  at: build"])
        self.check(noetl("run", "-o", "json", cwd=self.folder), 0, out='"status":"COMPLETED"')
        self.check(noetl("run", "-o", "table", cwd=self.folder), 0, out='"at": "build"', err="COMPLETED")
        self.check(noetl("resume", "-o", "yaml", cwd=self.folder), 0, out="runs: []")
        self.check(noetl("run", "-o", "xml", cwd=self.folder), 2, err="xml not in")

    def test_a_repeated_option_takes_one_word(self):
        done = noetl("run", "--set", "a=1", "--set", "b=2", "noetl.yaml", "--dry-run", cwd=self.folder)
        self.check(done, 0, out=["would run demo/t", '"a": 1', '"b": 2'])

    def test_numbers(self):
        for words in [["run", "-V", "0"], ["run", "-V", "one"], ["worker", "--slots", "0"],
                      ["executions", "--limit", "0"], ["events", "last", "--after", "-1"]]:
            self.check(noetl(*words, cwd=self.folder), 2, err="is not a whole number from")


class Completion(Case):
    def complete(self, *words):
        script = self.file("noetl.bash", noetl("completion", "bash").stdout)
        line = f"""source {script}
COMP_WORDS=({' '.join(map(repr, words))}) COMP_CWORD={len(words) - 1}
_noetl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, cwd=self.folder)
        return done.stdout.split()

    def test_bash(self):
        script = self.file("noetl.bash", noetl("completion", "bash").stdout)
        subprocess.run(["bash", "-n", str(script)], check=True)
        self.assertEqual(set(self.complete("noetl", "")), {"help", *COMMANDS})
        self.assertEqual(self.complete("noetl", "va"), ["validate"])
        self.assertEqual(set(self.complete("noetl", "validate", "--")), {"--help", "--json", "--strict"})
        self.assertEqual(set(self.complete("noetl", "completion", "")), {"bash", "zsh", "fish"})
        self.file("flow.yaml", GOOD)
        self.assertEqual(self.complete("noetl", "graph", "fl"), ["flow.yaml"])

    def test_other_shells(self):
        for shell in ["zsh", "fish"]:
            self.check(noetl("completion", shell), 0, out=COMMANDS + ["strict"])
        self.check(noetl("completion", "tcsh"), 2, err="bash, zsh, fish")


if __name__ == "__main__":
    NOETL = str(pathlib.Path(sys.argv[1]).resolve())
    if "--write-docs" in sys.argv:
        DOCS.write_text(documentation(), encoding="utf-8")
    else:
        # Cases in files of their own; they use this one.
        from reads import Reads  # noqa: F401
        from services import Services  # noqa: F401
        unittest.main(argv=sys.argv[:1])
