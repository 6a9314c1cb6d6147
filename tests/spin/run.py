#!/usr/bin/env python3
"""Checks the Promela models of the lifecycle with spin.

usage: run.py [--jobs N] [--long] [--list] [NAME ...]

Each run is one row of RUNS: a model, its parameters, what the search must find and how many states
it stores. The search is deterministic, so a count that changes means that a model changed: look at
it, and record the new number. Exit code 77: spin is not installed.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DOCUMENT = ROOT / "docs" / "protocol.md"
SKIPPED = 77

CLEAN = "no error"
ASSERTION = "assertion violated"
LOST_WAKE = "invalid end state"  # somebody waits for ever
CYCLE = "acceptance cycle"  # a fair schedule in which it never happens

SAFETY = ("-DSAFETY",)
FAIR = ("-DNFAIR=3",)  # liveness, under weak fairness


@dataclass(frozen=True)
class Run:
    name: str
    model: str
    defines: str
    expect: str
    states: int  # stored, exactly
    compile: tuple = SAFETY
    options: str = ""  # of the search itself
    long: bool = False  # only with --long: more memory or time than a daily test should take


RUNS = [
    # The park/wake protocol as it is.
    Run("park-1", "park", "", CLEAN, 946),
    Run("park-2", "park", "NW=2", CLEAN, 4_969),
    Run("park-2x2", "park", "NW=2 R=2", CLEAN, 55_526),
    Run("park-3x3", "park", "NW=3 R=3", CLEAN, 2_540_439),
    Run("park-three-workers", "park", "NW=2 R=2 WORKERS=3", CLEAN, 99_606),
    Run("park-cancel", "park", "CANCEL", CLEAN, 10_848),
    Run("park-cancel-2x2", "park", "NW=2 R=2 CANCEL", CLEAN, 695_982),
    Run("park-late", "park", "R=2 LATE", CLEAN, 48_537),
    Run("park-late-cancel", "park", "R=2 LATE CANCEL", CLEAN, 912_334),
    Run("park-yield", "park", "NW=2 R=2 YIELD", CLEAN, 61_037),
    Run("park-late-cancel-2x2", "park", "NW=2 R=2 LATE CANCEL", CLEAN, 8_011_814, long=True),
    Run("park-literal", "park", "NW=2 R=2 CANCEL LITERAL", CLEAN, 709_684),
    # Every wake leads to running, and the fiber comes to its end.
    Run("park-live", "park", "LIVE", CLEAN, 2_059, FAIR, "-a -f"),
    Run("park-live-2", "park", "NW=2 LIVE", CLEAN, 10_753, FAIR, "-a -f"),
    # The faults: each must be found.
    Run("fault-own-stack", "park", "OWN_STACK", ASSERTION, 184),
    Run("fault-yield-near", "park", "YIELD YIELD_NEAR", ASSERTION, 481),
    Run("fault-two-words", "park", "TWO_WORDS", LOST_WAKE, 269),
    Run("fault-self-must", "park", "NW=2 R=2 TWO_WORDS SELF_MUST", ASSERTION, 13_582, SAFETY, "-E"),
    Run("fault-enqueue-parking", "park", "ENQ_PARKING", ASSERTION, 151),
    Run("fault-no-nudge", "park", "CANCEL NO_NUDGE", LOST_WAKE, 3_140),
    Run("fault-nudge-late", "park", "CANCEL NUDGE_LATE", LOST_WAKE, 5_620),
    Run("fault-clear-late", "park", "CANCEL CLEAR_LATE", LOST_WAKE, 8_500),
    Run("fault-no-ticket", "park", "R=2 LATE NO_TICKET", ASSERTION, 7_603),
    Run("fault-ticket-apart", "park", "R=2 LATE TICKET_APART", ASSERTION, 7_725),
    Run("fault-ticket-restart", "park", "R=2 LATE TICKET_RESTART", ASSERTION, 7_603),
    Run("fault-steal-verdict", "park", "NW=2 R=2 STEAL_VERDICT", LOST_WAKE, 15_698),
    Run("fault-leave-arm", "park", "LEAVE_ARM", ASSERTION, 160),
    Run("fault-move-unlocked", "park", "NW=2 MOVE_UNLOCKED", ASSERTION, 343),
    Run("fault-live", "park", "LIVE TWO_WORDS", CYCLE, 267, FAIR, "-a -f"),
    # Nurseries: one word, open join, nested, destroyed right after the join; cancellation.
    Run("nursery", "nursery", "", CLEAN, 3_054),
    Run("nursery-in-2", "nursery", "IN=2", CLEAN, 23_652),
    Run("nursery-out-2", "nursery", "OUT=2", CLEAN, 704_200),
    Run("nursery-cancel", "nursery", "CANCEL", CLEAN, 13_032),
    Run("nursery-cancel-in-2", "nursery", "IN=2 CANCEL", CLEAN, 386_914),
    Run("nursery-cancel-out-2", "nursery", "OUT=2 CANCEL", CLEAN, 5_474_448, long=True),
    Run("fault-check-then-wait", "nursery", "CHECK_THEN_WAIT", LOST_WAKE, 57),
    Run("fault-count-then-look", "nursery", "COUNT_THEN_LOOK", ASSERTION, 47),
    Run("fault-touch-after", "nursery", "TOUCH_AFTER", ASSERTION, 73),
    Run("fault-unshielded", "nursery", "CANCEL UNSHIELDED", ASSERTION, 96),
    Run("fault-flag-first", "nursery", "CANCEL FLAG_FIRST", LOST_WAKE, 7_590),
    Run("fault-sweep-first", "nursery", "CANCEL SWEEP_FIRST", LOST_WAKE, 8_143),
    Run("fault-top-only", "nursery", "CANCEL TOP_ONLY", LOST_WAKE, 5_412),
    Run("fault-no-detach", "nursery", "CANCEL NO_DETACH", ASSERTION, 7_041),
]


class Broken(Exception):
    pass


def call(command, where):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def search(run, where):
    """What the search found, how many states it stored, and the full text."""
    defines = [f"-D{define}" for define in run.defines.split()]
    call(["spin", *defines, "-a", str(HERE / f"{run.model}.pml")], where)
    speed = "-O1" if run.states > 100_000 else "-O0"  # most searches take less than the compiler
    call(["cc", speed, "-w", "-DMEMLIM=2000", *run.compile, "-o", "pan", "pan.c"], where)
    text = call(["./pan", "-m100000", *run.options.split()], where)
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    if not errors or not states or "search not completed" in text and errors[1] == "0":
        raise Broken(f"the search was not completed\n{text}")
    if errors[1] == "0":
        return CLEAN, int(states[1]), text
    found = re.search(f"pan:1: ({ASSERTION}|{LOST_WAKE}|{CYCLE})", text)
    return found[1] if found else "an unknown error", int(states[1]), text


def judge(run):
    """None, or what is wrong with the run; and a line to print."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-spin-") as where:
        try:
            found, states, text = search(run, where)
        except Broken as broken:
            return f"could not be run: {broken}", run.name
    line = f"{run.name:24} {states:>9,} states  {time.monotonic() - start:5.1f} s  {found}"
    if found != run.expect:
        return f"expected: {run.expect}, found: {found}\n{text}", line
    if states != run.states:
        wrong = f"expected {run.states} states: the model changed; record {states} if it should"
        return wrong, line
    return None, line


def check_steps():
    """Each step of a model that stands for a function of the product is listed in the document,
    with the file that holds the function; so neither can be renamed or dropped in silence."""
    table = re.search(r"<!-- steps -->\n(.*?)<!-- end -->", DOCUMENT.read_text(), re.DOTALL)
    listed = {}
    for row in table[1].splitlines() if table else []:
        cells = [cell.strip(" `") for cell in row.strip("|").split("|")]
        if cells[0].endswith(".pml"):
            listed.setdefault(cells[0], {})[cells[1]] = cells[3]
    for model in sorted({f"{run.model}.pml" for run in RUNS}):
        head, steps = (HERE / model).read_text().split("*/", 1)
        tags = set(re.findall(r"@(\w+(?:::\w+)*)", steps))
        for tag in sorted(tags - set(listed.get(model, {}))):
            yield f"{model} has a step @{tag} that {DOCUMENT.name} does not list"
        for tag, source in listed.get(model, {}).items():
            if tag not in tags:
                yield f"{DOCUMENT.name} lists @{tag}, which is no step of {model}"
            path = ROOT / source
            function = tag.split("::")[-1]
            if not path.is_file() or not re.search(rf"\b{function}\(", path.read_text()):
                yield f"{DOCUMENT.name} says that {source} holds {tag}, and it does not"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    wanted = [run for run in RUNS if options.long or not run.long]
    runs = [run for run in RUNS if run.name in options.names] if options.names else wanted
    if unknown := set(options.names) - {run.name for run in runs}:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    if options.list:
        for run in runs:
            print(f"{run.name:24} {run.model}.pml {run.defines}: {run.expect}")
        return 0

    problems = list(check_steps())
    for problem in problems:
        print(f"STEPS: {problem}")
    if not shutil.which("spin"):
        print("SKIPPED: spin is not installed (Debian package: spin)")
        return 1 if problems else SKIPPED
    print(call(["spin", "-V"], HERE).strip())
    start = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for run, (wrong, line) in zip(runs, pool.map(judge, runs)):
            print(line, flush=True)
            if wrong:
                problems.append(wrong)
                print(f"FAILED: {run.name}: {wrong}", flush=True)
    print(f"{len(runs)} searches in {time.monotonic() - start:.0f} s, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
