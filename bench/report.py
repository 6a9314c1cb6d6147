#!/usr/bin/env python3
"""Turns the values that run.sh collected into tables: one per number of workers.

usage: report.py results.csv [program ...]      columns in this order, the rest behind

Rows are metrics, columns are programs, cells are "best / median" over the passes. A program that
prints a metric several times in one pass counts once, with the median.
"""

import csv
import statistics
import sys
from collections import defaultdict

METRICS = {  # in the order of the rows
    "yield_1": "W1 yield, 1 fiber",
    "yield_1000": "W1 yield, 1000 fibers",
    "spawn_seq": "W2 spawn and join, one at a time",
    "spawn_batch_cold": "W2 spawn 100,000 and wait, first batch, each",
    "spawn_batch": "W2 spawn 100,000 and wait, warm, each",
    "spawn_batch_joinset": "W2 the same, JoinSet",
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
    "mem_10k_create": "W8 create, each, of 10,000",
    "mem_10k_teardown": "W8 tear down, each, of 10,000",
    "mem_100k": "W8 memory per parked fiber, of 100,000",
    "mem_100k_create": "W8 create, each, of 100,000",
    "mem_100k_teardown": "W8 tear down, each, of 100,000",
    "mem_1m": "W8 memory per parked fiber, of a million",
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
    "echo_64_cli_busy": "W13 echo, 64: client core busy",
    "echo_64_p50": "W13 echo, 64: median latency",
    "echo_64_p99": "W13 echo, 64: 99 % latency",
    "echo_1000": "W13 echo, 1000 connections",
    "echo_1000_srv_cpu": "W13 echo, 1000: server CPU",
    "echo_1000_cli_busy": "W13 echo, 1000: client core busy",
    "echo_1000_p50": "W13 echo, 1000: median latency",
    "echo_1000_p99": "W13 echo, 1000: 99 % latency",
    "http_64": "W13 HTTP hello, 64 connections",
    "http_64_srv_cpu": "W13 HTTP hello: server CPU",
    "cancel_100k": "W14 cancel 100,000 parked",
}
MORE_IS_BETTER = {"req/s", "fibers"}


def shown(value):
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


class Results:
    def __init__(self, rows, programs):
        passes = defaultdict(lambda: defaultdict(list))
        self.programs = list(programs)
        self.units = {}
        self.failures = set()
        for row in rows:
            program, workers, metric = row["program"], int(row["workers"]), row["metric"]
            if program not in self.programs:
                self.programs.append(program)
            if row["unit"] == "FAILED":
                self.failures.add((program, workers, metric, row["value"]))
                continue
            self.units[metric] = row["unit"]
            passes[program, workers, metric][row["pass"]].append(float(row["value"]))
        self.values = {
            key: [statistics.median(values) for values in of_pass.values()]
            for key, of_pass in passes.items()
        }

    def cell(self, program, workers, metric):
        values = self.values.get((program, workers, metric))
        if not values:
            return "–"
        best = (max if self.units[metric] in MORE_IS_BETTER else min)(values)
        return f"{shown(best)} / {shown(statistics.median(values))}"

    def table(self, workers):
        seen = {metric for _, of, metric in self.values if of == workers}
        metrics = [m for m in METRICS if m in seen] + sorted(seen - set(METRICS))
        programs = [
            p for p in self.programs if any((p, workers, m) in self.values for m in metrics)
        ]
        yield "| workload | unit | " + " | ".join(programs) + " |"
        yield "|---|---|" + "---|" * len(programs)
        for metric in metrics:
            cells = [self.cell(program, workers, metric) for program in programs]
            yield f"| {METRICS.get(metric, metric)} | {self.units[metric]} | {' | '.join(cells)} |"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], newline="") as file:
        results = Results(csv.DictReader(file), sys.argv[2:])
    if not results.values:
        sys.exit("no values: no program offers these workloads")
    for workers in sorted({of for _, of, _ in results.values}):
        pinned = "1 worker, pinned to one core" if workers == 1 else f"{workers} workers"
        print(f"\n{pinned}:\n")
        print("\n".join(results.table(workers)))
    if results.failures:
        print("\nFailed (exit status; 124 is the time limit):")
        for program, workers, workload, status in sorted(results.failures):
            print(f"- {program}, {workload}, {workers} worker(s): {status}")


if __name__ == "__main__":
    main()
