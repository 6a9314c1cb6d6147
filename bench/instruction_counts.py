#!/usr/bin/env python3
"""Counts the instructions of weft's hottest operations, and compares them with their bounds.

BIN_DIR holds count_yield, count_spawn_join and count_park_wake of a release build. Each runs under
callgrind with N and with 2N operations; the difference, divided by N, is what one operation costs.
A time would depend on the machine and on who else uses it; a count depends on the compiler only, so
the bounds (instruction_bounds.json) are kept per compiler. --record writes new ones: what was
counted, and a tenth.

Exit status: 0 within the bounds, 1 above one of them, 2 wrong usage or a program that failed,
77 nothing to compare with (no bounds for this compiler, or no valgrind).
"""

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BOUNDS = Path(__file__).with_name("instruction_bounds.json")
PROGRAMS = {  # program: what one operation is
    "count_yield": "yield, to another fiber's stack",
    "count_spawn_join": "nursery with one child, from spawn to join",
    "count_park_wake": "park and wake, through an Event",
}
OPERATIONS = 20_000  # N
MARGIN = 1.1
SKIPPED = 77


class Trouble(Exception):
    """Something other than a count above its bound."""


def run(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    except OSError as error:
        raise Trouble(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Trouble(f"{' '.join(command)}: not done after {error.timeout:.0f} s") from error
    except subprocess.CalledProcessError as error:
        text = f"{' '.join(command)}: exit status {error.returncode}\n{error.stderr}"
        raise Trouble(text) from error


def build_of(directory):
    """What the programs were built with, such as "g++-12-x86_64"."""
    builds = {run([str(directory / name), "--build"]).stdout.strip() for name in PROGRAMS}
    if len(builds) != 1:
        raise Trouble(f"programs of different builds in {directory}: {', '.join(sorted(builds))}")
    build = builds.pop()
    if build.endswith(("-checked", "-unoptimised")):
        raise Trouble(f"{directory} holds a {build} build; counts are for release builds")
    return build


def instructions(program, operations):
    with tempfile.TemporaryDirectory() as scratch:
        profile = f"--callgrind-out-file={scratch}/profile"
        command = ["valgrind", "--tool=callgrind", profile, str(program), str(operations)]
        collected = re.search(r"Collected\s*:\s*(\d+)", run(command).stderr)
    if not collected:
        raise Trouble(f"callgrind said nothing about {program}")
    return int(collected[1])


def count(directory):
    """Program name -> instructions per operation."""
    counts = {}
    for name in PROGRAMS:
        once, twice = (instructions(directory / name, n * OPERATIONS) for n in (1, 2))
        counts[name] = (twice - once) / OPERATIONS
    return counts


def read_bounds():
    return json.loads(BOUNDS.read_text()) if BOUNDS.exists() else {}


def record(build, counts):
    bounds = read_bounds()
    bounds[build] = {
        name: {"counted": round(value, 1), "bound": math.ceil(value * MARGIN)}
        for name, value in counts.items()
    }
    BOUNDS.write_text(json.dumps(bounds, indent=2, sort_keys=True) + "\n")
    print(f"recorded in {BOUNDS.name} for {build}")


def compare(build, counts, bounds):
    above = []
    for name, value in counts.items():
        bound = bounds[name]["bound"]
        verdict = "ok" if value <= bound else "ABOVE"
        print(f"{value:8.1f}  bound {bound:5}  {verdict:5}  {PROGRAMS[name]}")
        if value > bound:
            above.append(name)
    for name in above:
        print(
            f"{name}: {counts[name]:.1f} instructions per operation with {build}, at most "
            f"{bounds[name]['bound']} are allowed ({bounds[name]['counted']} when recorded).\n"
            "If the operation had to become dearer, say why in the commit and record the new "
            f"count: bench/{Path(__file__).name} --record BIN_DIR"
        )
    return not above


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s [--record] BIN_DIR",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", action="store_true")
    parser.add_argument("directory", type=Path, metavar="BIN_DIR")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed (Debian: valgrind)")
        return SKIPPED
    try:
        directory = options.directory.resolve()
        build = build_of(directory)
        bounds = read_bounds().get(build)
        if bounds is None and not options.record:
            print(f"skipped: {BOUNDS.name} has no bounds for {build}; add them with --record")
            return SKIPPED
        counts = count(directory)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2
    if options.record:
        record(build, counts)
        return 0
    return 0 if compare(build, counts, bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
