#!/usr/bin/env python3
"""run.py NOETL [--write-docs]: the program from outside.

Each test runs the binary as a user would and looks at what it prints and at its exit code. With
--write-docs, docs/cli.md is written from the help texts instead; without it, a test compares them.
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs" / "cli.md"
COMMANDS = ["validate", "fmt", "test", "graph", "simulate", "schema", "version", "completion"]
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
| 1 | failed: a test, a simulation that wedged or never ended, a file that `fmt --check` would change |
| 2 | an invalid playbook or test, a file that cannot be read, wrong usage |

`validate --json` prints `{files: [{file, valid, diagnostics: [{code, severity, path, line, column,
message, hint}]}], errors, warnings, valid}`. `simulate --json` prints `{playbook, first_seed,
last_seed, runs, statuses, paths, other_paths, unreached_steps, untaken_arcs, failures, wedged, endless,
broken, healthy}`; each failure has `error`, `runs` and the first `seed`.

The format of tests and of `simulate --script` is described in [tests as text](playbook-tests.md).

```text
"""


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
        unittest.main(argv=sys.argv[:1])
