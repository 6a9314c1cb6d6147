#!/usr/bin/env python3
"""A backtrace inside a fiber reaches the fiber's first frame, and ends there without complaint.

usage: gdb_test.py VICTIM ...

Each VICTIM is gdb_victim.cpp, built in some way. It stops at a number of places: in a fresh fiber,
in one that had parked, in one called on its parent's stack, and so on.
"""

import re
import sys
import unittest

from toolbox import main, need, run

# place -> functions between the fiber's first frame and the place, outermost first
PLACES = {
    "root": ["run_root"],
    "fresh": ["run_child"],
    "resumed": ["run_child"],
    "yielded": ["run_child"],
    "in place": ["run_root", "run_child_in_place"],
    "in place, yielded": ["run_root", "run_child_in_place"],
    "in a handler": ["run_root"],
    "simulated": [],
}
COMPLAINTS = re.compile(
    r"Backtrace stopped|previous frame|corrupt stack|Cannot access memory|\?\?", re.IGNORECASE)
FORBIDDEN = re.compile(r"ptrace: Operation not permitted|Cannot create process|"
                       r"Could not trace the inferior", re.IGNORECASE)


def backtraces(victim):
    """place -> the functions of its backtrace, innermost first; and all that gdb said"""
    commands = ["set pagination off", "set width 0", "set print frame-arguments none",
                "set debuginfod enabled off", "break weft_stop_here", "run"]
    for _ in PLACES:
        commands += [r'printf "PLACE %s\n", $rdi', "bt 100", "continue"]
    script = [part for command in commands for part in ("-ex", command)]
    done = run("gdb", "-nx", "-batch", *script, victim)
    traces = {}
    for text in done.stdout.split("PLACE ")[1:]:
        place, _, rest = text.partition("\n")
        frames = re.findall(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(.*?) \(", rest, re.MULTILINE)
        traces[place] = [re.sub(r"[<(].*", "", frame.split("::")[-1]) for frame in frames]
    return traces, done.stdout


class Backtrace(unittest.TestCase):
    @need("gdb")
    def test_ends_at_the_first_frame(self):
        for victim in victims:
            traces, said = backtraces(victim)
            if FORBIDDEN.search(said):
                self.skipTest("this system does not let gdb trace a process")
            with self.subTest(victim=victim.rsplit("/", 1)[-1]):
                self.assertEqual(list(traces), list(PLACES), said)
                self.assertNotRegex(said, COMPLAINTS)
                for place, way in PLACES.items():
                    self.check(place, way, traces[place])

    def check(self, place, way, frames):
        shown = f"{place}: {frames}"
        self.assertEqual(frames[0], "weft_stop_here", shown)
        self.assertEqual(frames[1:11], ["descend"] * 10, shown)
        outer = frames[:10:-1]  # outermost first
        self.assertEqual(outer[:2], ["weft_context_entry", "run_fibers"], shown)
        found = iter(outer)
        for function in way:
            self.assertIn(function, found, shown)


if __name__ == "__main__":
    victims = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not victims:
        sys.exit(__doc__)
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    main()
