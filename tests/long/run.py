#!/usr/bin/env python3
"""run.py NOETL [--items N] [--events N] [--folder DIR] [--table FILE]

Long runs: is the cost of an item the same at the end as at the beginning, and the memory?

1. A loop of --items items (default 1,000,000) in one run. `noetl show` is asked meanwhile. In the
   middle the process is killed and `noetl resume` goes on.
2. A loop that makes --events events (default 10,000,000; 0: left out), undisturbed.

Times are those of the log, read from the database file itself; what the process costs in processor
time is compared as well, for a busy machine changes only the former. Prints a table of the figures
with their targets; the exit code is 1 when one is missed.
"""
import argparse
import atexit
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PLAYBOOK = HERE / "items.yaml"
POLL_SECONDS = 0.2
SECONDS_MAX = 4 * 3600
# Each of a few looks while the run goes on.
SHOWS = 10
MIB = 1 << 20

RSS_PEAK_MIB = 300
RSS_GROWTH_MIB = 64
COST_RATIO = 1.2
SHOW_SECONDS = 1.0
RESTART_MS = 200

# What the trial says about the playbook.
TRIAL_ITEMS = 1_000


class Figures:
    def __init__(self):
        self.rows = []
        self.missed = 0

    def add(self, name, value, unit="", limit=None, digits=0):
        missed = limit is not None and value > limit
        self.missed += missed
        target = "" if limit is None else f"<= {limit:,}"
        self.rows.append((name, f"{value:,.{digits}f} {unit}".strip(), target,
                          "" if limit is None else "missed" if missed else "ok"))
        print(f"  {name}: {self.rows[-1][1]} {target} {self.rows[-1][3]}", flush=True)

    def text(self):
        rows = [("figure", "measured", "target", "")] + self.rows
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                         for row in rows) + "\n"


class Log:
    """The log of the only run of a data directory, read beside the process that writes it."""

    def __init__(self, data):
        self.connection = sqlite3.connect(f"file:{data}/noetl.db?mode=ro", uri=True, timeout=60)
        self.execution = self.one("SELECT execution_id FROM execution")

    def one(self, sql, *values):
        row = self.connection.execute(sql, values).fetchone()
        return row[0] if row else None

    def head(self):
        return self.one("SELECT head FROM execution WHERE execution_id = ?", self.execution)

    def time_us(self, seq):
        return self.one("SELECT ingest_time FROM event WHERE execution_id = ? AND stream_version = ?",
                        self.execution, seq)

    def first_after(self, time_us):
        """The number of the first event that was stored after that; times only grow."""
        low, high = 1, self.head()
        while low < high:
            middle = (low + high) // 2
            if self.time_us(middle) > time_us:
                high = middle
            else:
                low = middle + 1
        return low

    def cost_ratio(self):
        head = self.head()
        tenth = head // 10
        first = self.time_us(tenth) - self.time_us(1)
        last = self.time_us(head) - self.time_us(head - tenth + 1)
        return last / max(first, 1)


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}


class Process:
    """`noetl run` or `noetl resume`, watched until it ends, and no longer there than this program."""

    def __init__(self, *arguments):
        self.began_us = time.time_ns() // 1_000
        self.process = subprocess.Popen(
            [arguments[0], *map(str, arguments[1:])], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=environment())
        self.peak_bytes = 0
        self.code = None
        atexit.register(self.kill)

    def rss_bytes(self):
        try:
            pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self):
        """All its threads, without its children."""
        try:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ended(self):
        if self.code is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.process.returncode = self.code
                self.peak_bytes = usage.ru_maxrss * 1024
        return self.code is not None

    def wait(self):
        until = time.monotonic() + SECONDS_MAX
        while not self.ended() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def kill(self):
        if not self.ended():
            self.process.send_signal(signal.SIGKILL)
            self.wait()

    def expect_success(self):
        if self.code != 0:
            sys.exit(f"failed: exit code {self.code}: {self.process.stderr.read().decode()}")


def start(arguments, data, items):
    process = Process(arguments.noetl, "run", PLAYBOOK, "--data", data, "--set", f"items={items}")
    until = time.monotonic() + 60
    while time.monotonic() < until and not process.ended():
        with contextlib.suppress(sqlite3.Error):
            log = Log(data)
            if log.execution is not None and log.head():
                return process, log
        time.sleep(0.01)
    process.expect_success()
    sys.exit("failed: the run did not start")


def events_per_item(arguments, folder):
    data = folder / "trial"
    process, log = start(arguments, data, TRIAL_ITEMS)
    process.wait()
    process.expect_success()
    return round(Log(data).head() / TRIAL_ITEMS)


def show_seconds(arguments, data):
    began = time.monotonic()
    done = subprocess.run([arguments.noetl, "show", "last", "--json", "--data", str(data)],
                          capture_output=True, text=True, check=False, env=environment())
    if done.returncode != 0:
        sys.exit(f"failed: `noetl show`: {done.stderr}")
    json.loads(done.stdout)
    return time.monotonic() - began


Sample = collections.namedtuple("Sample", "head rss processor")


def watch(process, log, until_head, looks=None):
    """Until so many events are stored. Samples of the process, and what each look took."""
    seen, took = [], []
    while not process.ended():
        head = log.head()
        seen.append(Sample(head, process.rss_bytes(), process.processor_seconds()))
        if looks and head >= until_head * (len(took) + 1) / (SHOWS + 1) and len(took) < SHOWS:
            took.append(looks())
        if head >= until_head:
            break
        time.sleep(POLL_SECONDS)
    return seen, took


def growth_mib(seen):
    """Memory after the first tenth, and the most after that."""
    head = seen[-1].head
    early = [sample.rss for sample in seen if sample.head <= head / 10]
    late = [sample.rss for sample in seen if sample.head > head / 10 and sample.rss]
    return (max(late) - max(early)) / MIB if early and late else 0


def processor_ratio(first, last, span):
    """Processor time an event of the last `span` events, by that of the first ones."""

    def cost(samples):
        samples = [sample for sample in samples if sample.processor]
        return (samples[-1].processor - samples[0].processor) / (samples[-1].head - samples[0].head)

    begin, end = first[0].head, last[-1].head
    return (cost([sample for sample in last if sample.head >= end - span]) /
            cost([sample for sample in first if sample.head <= begin + span]))


def add_ratios(figures, name, log, first, last):
    figures.add(f"{name}: time of the last tenth / the first", log.cost_ratio(), "", COST_RATIO, 2)
    figures.add(f"{name}: processor time of the last tenth / the first",
                processor_ratio(first, last, log.head() / 10), "", COST_RATIO, 2)


def killed_run(arguments, folder, per_item, figures):
    data = folder / "killed"
    items = arguments.items
    name = f"{items:,} items"
    process, log = start(arguments, data, items)
    before, took = watch(process, log, items * per_item // 2, lambda: show_seconds(arguments, data))
    process.kill()
    if process.code != -signal.SIGKILL:
        sys.exit(f"failed: it ended before it was killed, with {process.code}")
    killed_us = time.time_ns() // 1_000
    again = Process(arguments.noetl, "resume", "--data", data)
    after, _ = watch(again, log, items * per_item)
    again.wait()
    again.expect_success()
    log = Log(data)
    figures.add(f"{name}: events", log.head())
    figures.add(f"{name}: peak memory", max(process.peak_bytes, again.peak_bytes) / MIB, "MiB",
                RSS_PEAK_MIB)
    add_ratios(figures, name, log, before, after)
    if took:
        figures.add(f"{name}: `noetl show` meanwhile, slowest", max(took), "s", SHOW_SECONDS, 3)
    first = log.first_after(killed_us)
    figures.add(f"{name}: from the restart to its first event",
                (log.time_us(first) - again.began_us) / 1_000, "ms", RESTART_MS)
    seconds = (log.time_us(log.head()) - log.time_us(1)) / 1e6
    figures.add(f"{name}: items per second", items / seconds)
    done = log.one("SELECT count(*) FROM loop_result WHERE execution_id = ?", log.execution)
    figures.add(f"{name}: results missing", items - done, "", 0)
    shutil.rmtree(data)


def undisturbed_run(arguments, folder, per_item, figures):
    data = folder / "undisturbed"
    items = arguments.events // per_item
    name = f"{arguments.events:,} events"
    process, log = start(arguments, data, items)
    seen, _ = watch(process, log, items * per_item)
    process.wait()
    process.expect_success()
    figures.add(f"{name}: events", log.head())
    figures.add(f"{name}: peak memory", process.peak_bytes / MIB, "MiB", RSS_PEAK_MIB)
    figures.add(f"{name}: growth of memory after the first tenth", growth_mib(seen), "MiB",
                RSS_GROWTH_MIB)
    add_ratios(figures, name, log, seen, seen)
    seconds = (log.time_us(log.head()) - log.time_us(1)) / 1e6
    figures.add(f"{name}: events per second", log.head() / seconds)
    size = sum(file.stat().st_size for file in data.glob("noetl.db*"))
    figures.add(f"{name}: bytes of disk per event", size / log.head())
    shutil.rmtree(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("noetl")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=pathlib.Path, help="where the data goes, several gigabytes")
    parser.add_argument("--table", type=pathlib.Path, help="the table goes here, too")
    arguments = parser.parse_args()
    # Ends by itself then, and cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="noetl-long-", dir=arguments.folder) as folder:
        folder = pathlib.Path(folder)
        per_item = events_per_item(arguments, folder)
        figures.add("events per item", per_item)
        killed_run(arguments, folder, per_item, figures)
        if arguments.events:
            undisturbed_run(arguments, folder, per_item, figures)
    print("\n" + figures.text(), end="")
    if arguments.table:
        arguments.table.write_text(figures.text())
    sys.exit(1 if figures.missed else 0)


if __name__ == "__main__":
    main()
