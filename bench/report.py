#!/usr/bin/env python3
"""Turns what run.sh collected into JSON, tables and a plot; puts recorded results in the README.

usage: report.py RESULTS_DIR [program ...]   programs are the columns, in this order
       report.py --readme RESULTS.json [BLOCK]
                                             records a run in the repository and in README.md
       report.py --check                     whether README.md shows what is recorded

RESULTS_DIR holds results.csv (program, workers, metric, unit, pass, value) and about.csv (key,
value); results.json, results.md and results.svg are written beside them, and the tables printed.
A BLOCK of README.md, between <!-- BLOCK:begin --> and <!-- BLOCK:end -->, shows one recorded run:
`bench`, the default, or `bench-net`.

Everything but the CSV comes of the JSON alone. Cells are "best / median" over the passes; a program
that prints a metric several times in one pass counts once, with the median.
"""

import csv
import json
import os
import platform
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import plot

ROOT = Path(os.environ.get("WEFT_BENCH_ROOT") or Path(__file__).resolve().parent.parent)
README = ROOT / "README.md"
BLOCKS = {  # where each has its results
    "bench": ROOT / "bench" / "results" / "recorded.json",
    "bench-net": ROOT / "bench" / "results" / "recorded-net.json",
}
FORMAT = 1

METRICS = {  # in the order of the rows
    "yield_1": "W1 yield, 1 fiber",
    "yield_1000": "W1 yield, 1000 fibers",
    "spawn_seq": "W2 spawn and join, one at a time",
    "spawn_batch_cold": "W2 spawn 100,000 and wait, first batch, each",
    "spawn_batch": "W2 spawn 100,000 and wait, warm, each",
    "spawn_batch_joinset": "W2 the same, JoinSet",
    "async_seq": "W2 async and get, one at a time",
    "event_pingpong": "event ping-pong, round trip",
    "pingpong": "W3 channel ping-pong, round trip",
    "pingpong_rdv": "W3 the same, flume bounded(0)",
    "buf_1x1": "W4 buffered 128, 1 to 1, per item",
    "buf_4x4": "W4 buffered 128, 4 to 4, per item",
    "select4": "W5 select of 4, unbuffered, per item",
    "select4_buf": "W5 select of 4, capacity 128, per item",
    "ring": "W6 ring of 503, per hop",
    "skynet": "W7 skynet, a million leaves",
    "skynet_peak": "W7 peak memory",
    "mem_10k": "W8 memory per parked thread, of 10,000",
    "mem_10k_tables": "W8 page tables per parked thread, of 10,000",
    "mem_10k_create": "W8 create, each, of 10,000",
    "mem_10k_teardown": "W8 tear down, each, of 10,000",
    "mem_100k": "W8 memory per parked fiber, of 100,000",
    "mem_100k_tables": "W8 page tables per parked fiber, of 100,000",
    "mem_100k_create": "W8 create, each, of 100,000",
    "mem_100k_teardown": "W8 tear down, each, of 100,000",
    "mem_1m": "W8 memory per parked fiber, of a million",
    "mem_1m_tables": "W8 page tables per parked fiber, of a million",
    "mem_1m_create": "W8 create, each, of a million",
    "mem_1m_teardown": "W8 tear down, each, of a million",
    "guard_limit": "W8 fibers with a guard page until mmap fails",
    "sleep_cpu": "W9 100,000 sleepers, CPU",
    "sleep_late_mean": "W9 lateness, mean",
    "sleep_late_max": "W9 lateness, most",
    "timer_seq": "W9 timer, create and cancel",
    "timer_bulk": "W9 a million created, then cancelled, each",
    "mutex": "W10 mutex, 64 fibers",
    "mutex_yield": "W10 mutex held over a yield",
    "fib_25": "W11 fib(25), per spawn",
    "fib_30": "W11 fib(30), per spawn",
    "sieve": "W12 sieve, 2000 primes",
    "echo_64": "W13 echo, 64 connections",
    "echo_64_srv_cpu": "W13 echo, 64: server CPU",
    "echo_64_srv_busy": "W13 echo, 64: server core busy",
    "echo_64_cli_busy": "W13 echo, 64: client core busy",
    "echo_64_p50": "W13 echo, 64: median latency",
    "echo_64_p99": "W13 echo, 64: 99 % latency",
    "echo_1000": "W13 echo, 1000 connections",
    "echo_1000_srv_cpu": "W13 echo, 1000: server CPU",
    "echo_1000_srv_busy": "W13 echo, 1000: server core busy",
    "echo_1000_cli_busy": "W13 echo, 1000: client core busy",
    "echo_1000_p50": "W13 echo, 1000: median latency",
    "echo_1000_p99": "W13 echo, 1000: 99 % latency",
    "http_64": "W13 HTTP hello, 64 connections",
    "http_64_srv_cpu": "W13 HTTP hello: server CPU",
    "http_64_p50": "W13 HTTP hello: median latency",
    "http_64_p99": "W13 HTTP hello: 99 % latency",
    "cancel_100k": "W14 cancel 100,000 parked",
    "cancel_100k_unwound": "W14 the same, by an exception",
    "cancel_1m": "W14 cancel a million parked fibers",
    "sim_mutex": "W19 simulated steps, 20 fibers and a mutex, preemption",
    "sim_channel": "W19 simulated steps, 3 to 2 by a buffer of 10, preemption",
    "sim_sleep": "W19 sleep_for(1h) in virtual time",
    "sim_ticker": "W19 1,000 simulated hours, a tick a second",
    "sim_explore": "W19 schedules of 10,000 fibers, by explore",
    "conn_10k": "W20 memory per idle connection, of 10,000",
    "conn_10k_tables": "W20 page tables per idle connection, of 10,000",
    "conn_10k_cpu": "W20 CPU of 5 s with 10,000 idle connections",
    "pipe_fused": "W22 pipeline of 10 steps in one fiber, per item and step",
    "pipe_stages": "W22 pipeline of 10 stages, buffers of 128, per item and stage",
    "par_map": "W23 par_map of 10 us of work, in order, per item",
}
ROBUSTNESS = {  # what others do to a fiber; in tables of their own
    "kidnap_half": "W15 heartbeats, half of the workers in system calls",
    "kidnap_all": "W15 heartbeats, all workers in system calls",
    "kidnap_all_asked": "W15 the same calls by `blocking`",
    "kidnap_half_socket": "W15 heartbeats of a socket, half of the workers in system calls",
    "kidnap_all_socket": "W15 heartbeats of a socket, all workers in system calls",
    "herd_wake": "W16 herd of 10,000, release to run, median",
    "herd_wake_p99": "W16 the same, 99 %",
    "herd_wakes": "W16 herd of 10,000, wakes per release",
    "hogs_gap_p99": "W17 heartbeat gap beside a hog per worker, 99 %",
    "hogs_gap_max": "W17 the same, most",
    "isolation_item": "W18 a pipeline of 4 stages alone, per item",
    "isolation": "W18 the same, a pipeline per worker: slower by",
    "isolation_cpu": "W18 and uses more CPU by",
    "idle_switches": "idle process, voluntary context switches",
    "wake_storm": "a million wakes across workers, each",
}
METRICS.update(ROBUSTNESS)
MORE_IS_BETTER = {"req/s", "fibers", "% kept", "steps/s", "runs/s"}


# ---- CSV to JSON ---------------------------------------------------------------------------------


def machine():
    """What the figures were measured on."""
    cpu = memory = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            memory = f"{int(line.split()[1]) / 1048576:.0f} GiB"
    return {
        "cpu": cpu or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": memory,
        "kernel": f"{platform.system()} {platform.release()}",
    }


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def values_of(rows):
    """(workers, metric) -> program -> one value per pass; and the units."""
    passes = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    units = {}
    for row in rows:
        if row["unit"] == "FAILED":
            continue
        units[row["metric"]] = row["unit"]
        key = int(row["workers"]), row["metric"]
        passes[key][row["program"]][int(row["pass"])].append(float(row["value"]))
    values = {
        key: {
            program: [statistics.median(of_pass[n]) for n in sorted(of_pass)]
            for program, of_pass in by_program.items()
        }
        for key, by_program in passes.items()
    }
    return values, units


def to_results(rows, about, order):
    values, units = values_of(rows)
    programs = list(order)
    for row in rows:
        if row["program"] not in programs:
            programs.append(row["program"])
    known = list(METRICS)
    result_rows = []
    for workers, metric in sorted(
        values, key=lambda k: (k[0], known.index(k[1]) if k[1] in METRICS else len(known), k[1])
    ):
        better = "more" if units[metric] in MORE_IS_BETTER else "less"
        best_of = max if better == "more" else min
        result_rows.append({
            "metric": metric,
            "title": METRICS.get(metric, metric),
            "unit": units[metric],
            "workers": workers,
            "better": better,
            "programs": {
                program: {"best": best_of(of), "median": statistics.median(of), "passes": of}
                for program, of in values[workers, metric].items()
            },
        })
    failures = {
        (r["program"], r["metric"], int(r["workers"]), int(r["value"]))
        for r in rows
        if r["unit"] == "FAILED"
    }
    return {
        "format": FORMAT,
        "machine": machine(),
        **about,
        "programs": programs,
        "rows": result_rows,
        "failures": [
            dict(zip(("program", "workload", "workers", "status"), failure))
            for failure in sorted(failures)
        ],
    }


# ---- JSON to markdown ----------------------------------------------------------------------------


def shown(value):
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def table(rows, programs):
    programs = [p for p in programs if any(p in row["programs"] for row in rows)]
    yield "| workload | unit | " + " | ".join(programs) + " |"
    yield "|---|---|" + "---|" * len(programs)
    for row in rows:
        cells = []
        for program in programs:
            of = row["programs"].get(program)
            cells.append(f"{shown(of['best'])} / {shown(of['median'])}" if of else "–")
        yield f"| {row['title']} | {row['unit']} | {' | '.join(cells)} |"


def tables(results):
    for workers in sorted({row["workers"] for row in results["rows"]}):
        pins = {1: "1 worker, pinned to one core", 2: "2 workers, pinned to two cores"}
        pinned = pins.get(workers, f"{workers} workers")
        rows = [row for row in results["rows"] if row["workers"] == workers]
        of_speed = [row for row in rows if row["metric"] not in ROBUSTNESS]
        of_robustness = [row for row in rows if row["metric"] in ROBUSTNESS]
        if of_speed:
            yield f"\n{pinned}:\n"
            yield from table(of_speed, results["programs"])
        if of_robustness:
            yield f"\nRobustness, {pinned}:\n"
            yield from table(of_robustness, results["programs"])


def facts(results):
    here = results["machine"]
    cores = f"{here['cores']} core" + ("" if here["cores"] == 1 else "s")
    yield f"- machine: {here['cpu']}, {cores}, {here['memory']}, {here['kernel']}"
    passes = f"{results['passes']} pass" + ("" if results["passes"] == 1 else "es")
    yield f"- date: {results['date']}, {passes}, cells are best / median"
    yield f"- versions: {', '.join(results['versions'])}"
    yield f"- command: `{results['command']}`"
    if "scale" in results:
        yield f"- **counts made smaller by {results['scale']}: this shows that it runs, no more**"


def markdown(results):
    lines = [*facts(results), *tables(results)]
    if results["failures"]:
        lines.append("\nFailed (exit status; 124 is the time limit):")
        for f in results["failures"]:
            lines.append(
                f"- {f['program']}, {f['workload']}, {f['workers']} worker(s): {f['status']}"
            )
    return "\n".join(lines) + "\n"


# ---- the README ----------------------------------------------------------------------------------


def readme_block(results, recorded):
    if results is None:
        return "\n"
    picture = recorded.with_suffix(".svg").relative_to(ROOT)
    return (
        f"\n![weft and its peers, best of the passes, logarithmic]({picture})\n\n"
        f"{markdown(results)}\n"
    )


def marks(block):
    return f"<!-- {block}:begin -->", f"<!-- {block}:end -->"


def replaced(text, block, content):
    begin_mark, end_mark = marks(block)
    before, begin, rest = text.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        sys.exit(f"{README.name} has no {begin_mark} … {end_mark}")
    return before + begin_mark + "\n" + content.lstrip("\n") + end_mark + after


def load(path):
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        sys.exit(f"{path}: not results of format {FORMAT}")
    return results


def dump(results):
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def record(path, block):
    results = load(path)
    if "scale" in results:
        sys.exit(f"{path}: of a run with smaller counts, which are not figures to record")
    recorded = BLOCKS[block]
    text = replaced(README.read_text(), block, readme_block(results, recorded))
    recorded.parent.mkdir(parents=True, exist_ok=True)
    recorded.write_text(dump(results))
    recorded.with_suffix(".svg").write_text(plot.svg(results))
    README.write_text(text)
    print(f"recorded: {recorded.relative_to(ROOT)}, its plot, and the tables of {README.name}")


def check():
    """A figure in the README that nobody measured is found here."""
    for block, recorded in BLOCKS.items():
        results = load(recorded) if recorded.exists() else None
        text = README.read_text()
        if not results and marks(block)[0] not in text:
            continue
        if replaced(text, block, readme_block(results, recorded)) != text:
            sys.exit(f"{README.name} does not show {recorded.relative_to(ROOT)}: "
                     f"bench/report.py --readme {recorded.relative_to(ROOT)} {block} "
                     "writes it anew")
        if results and recorded.with_suffix(".svg").read_text() != plot.svg(results):
            sys.exit(f"{recorded.with_suffix('.svg').relative_to(ROOT)} is not the plot of the "
                     "results")


# --------------------------------------------------------------------------------------------------


def about_run(path):
    """What run.sh knows about the run. A key that comes several times is a list."""
    about = {"versions": []}
    for row in read_csv(path):
        if row["key"] == "version":
            about["versions"].append(row["value"])
        else:
            about[row["key"]] = int(row["value"]) if row["key"] == "passes" else row["value"]
    return about


def report(folder, order):
    results = to_results(read_csv(folder / "results.csv"), about_run(folder / "about.csv"), order)
    if not results["rows"] and not results["failures"]:
        sys.exit("no values: no program offers these workloads")
    text = markdown(results)
    (folder / "results.json").write_text(dump(results))
    (folder / "results.md").write_text(text)
    (folder / "results.svg").write_text(plot.svg(results))
    print(text, end="")


def main():
    words = sys.argv[1:]
    if words and words[0] == "--readme" and len(words) in (2, 3):
        block = words[2] if len(words) == 3 else "bench"
        if block not in BLOCKS:
            sys.exit(f"{block}: no such block; there are {', '.join(BLOCKS)}")
        record(Path(words[1]), block)
    elif words == ["--check"]:
        check()
    elif words and not words[0].startswith("-"):
        report(Path(words[0]), words[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
