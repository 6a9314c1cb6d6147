#!/usr/bin/env python3
"""Tests the program `weft` from outside: what it prints, and how it refuses.

usage: tour_test.py WEFT
"""

import os
import pty
import re
import resource
import subprocess
import sys
import unittest

WEFT = None


def weft(*arguments, **options):
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, **options)


def on_a_terminal(*arguments, **environment):
    """Exit status and text of a run whose output is a terminal."""
    ours, theirs = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k not in ("TERM", "NO_COLOR")}
    with subprocess.Popen([WEFT, *arguments], stdout=theirs, env={**base, **environment}) as run:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:
            pass  # Linux's way to say that the other side is closed
    os.close(ours)
    return run.returncode, text.decode()


def chapters():
    return [line.split()[0] for line in weft("tour", "--list").stdout.splitlines()]


class Tour(unittest.TestCase):
    def test_every_chapter_is_visited_in_the_order_of_the_list(self):
        run = weft("tour")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        visited = re.findall(r"^\[(\d+)/(\d+)\] (\w+): \S", run.stdout, re.MULTILINE)
        names = chapters()
        self.assertGreaterEqual(len(names), 10)
        expected = [(str(i), str(len(names)), name) for i, name in enumerate(names, 1)]
        self.assertEqual(visited, expected)
        closings = re.findall(r"^  \([\d.,]+ ms\)$", run.stdout, re.MULTILINE)
        self.assertEqual(len(closings), len(names), run.stdout)
        self.assertEqual(run.stderr, "")
        self.assertNotIn("\033", run.stdout)

    def test_chapters_can_be_chosen(self):
        run = weft("tour", "deadlock", "hello")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("[1/2] deadlock: ", run.stdout)
        self.assertIn("[2/2] hello: ", run.stdout)
        self.assertIn('fiber #2 "warp" on event wait "weft ready"', run.stdout)

    def test_a_chapter_that_sees_something_else_fails_the_tour(self):
        faults = "madvise_guard:every1:ENOMEM,mprotect:every1:ENOMEM"  # whichever guards there are
        run = weft("tour", "hello", "overflow", env={**os.environ, "WEFT_FAULTS": faults})
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertEqual(run.stdout.count("FAILED: "), 2, run.stdout)
        self.assertIn("2 of 2 chapters failed", run.stdout)

    def test_a_terminal_gets_emphasis_unless_it_objects(self):
        for environment, wanted in [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                    ({"TERM": "xterm", "NO_COLOR": "1"}, False)]:
            status, text = on_a_terminal("tour", "hello", **environment)
            self.assertEqual(status, 0, text)
            self.assertIn("cloth", text)
            self.assertEqual("\033[1m" in text, wanted, environment)

    def test_a_terminal_sees_progress_and_nothing_of_it_stays(self):
        for chapter in ("forkjoin", "channels"):
            with self.subTest(chapter=chapter):
                status, text = on_a_terminal("tour", chapter, TERM="xterm", NO_COLOR="1")
                self.assertEqual(status, 0, text)
                bars = re.findall(r"\r    \[([#.]{40})\] +(\d+) % ", text)
                self.assertGreaterEqual(len({done for _, done in bars}), 20, text)
                self.assertEqual({done for bar, done in bars if "." not in bar}, {"100"}, text)
                for line in text.replace("\r\n", "\n").split("\n"):
                    visible = [part for part in line.split("\r") if part.strip()][-1:]
                    self.assertFalse(visible and "[#" in visible[0], line)

    def test_channels_lose_nothing_and_miss_no_time_out(self):
        run = weft("tour", "channels")
        self.assertEqual(run.returncode, 0, run.stdout)
        pattern = r"through 100 fibers +(\S+)\n.*received, time-outs noticed +(\S+), (\S+)\n"
        figures = re.search(pattern, run.stdout, re.DOTALL).groups()
        through, seen, quiet = (int(figure.replace(",", "")) for figure in figures)
        self.assertGreaterEqual(through, 1000)
        self.assertGreater(quiet, seen)

    def test_simulation_finds_the_fault_replays_it_and_sees_it_gone(self):
        run = weft("tour", "simulation")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stderr, "")
        found, smaller = map(int, re.search(r"made smaller +(\d+), (\d+)\n", run.stdout).groups())
        self.assertGreater(found, smaller, run.stdout)
        self.assertIn("exception: one chair, sold 2 times\n", run.stdout)
        self.assertRegex(run.stdout, r'step \d+ +0 s +#2 "Ann" +is preempted')
        self.assertRegex(run.stdout, r'weft::replay\("w1:[0-9a-f]+p:[0-9.x]+\*", test\)\n')
        self.assertEqual(run.stdout.count("| one chair, sold 2 times\n"), 1, run.stdout)
        self.assertRegex(run.stdout, r"schedules tried, failures +[1-9]\d+, 0\n")

    def test_every_connection_is_answered(self):
        run = weft("tour", "connections", env={**os.environ, "WEFT_IO": "epoll"})
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertIn("Underneath, epoll: asked for.", run.stdout)
        at_once, messages = (int(figure.replace(",", "")) for figure in re.search(
            r"connections at a time +(\S+)\n.*messages there and back +(\S+)\n",
            run.stdout, re.DOTALL).groups())
        wanted = 10_000 if "release build" in run.stdout else 500
        self.assertTrue(at_once >= wanted or "Fewer than" in run.stdout, run.stdout)
        self.assertEqual(messages % at_once, 0)

    def test_with_few_descriptors_there_are_fewer_connections_and_it_says_why(self):
        run = weft("tour", "connections",
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)))
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        if "Fewer than" in run.stdout:  # the privileged raise their limit
            self.assertRegex(run.stdout, r"connections at a time +200\n")
            self.assertIn("the limit of open files (ulimit -Hn) is 300.", run.stdout)

    def test_clients_that_nobody_serves_say_so_and_fail(self):
        nobody = "127.0.0.1:1"
        run = weft("--clients", nobody, "3", stdin=subprocess.DEVNULL)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("refused", run.stderr)

    def test_a_heart_beats_beside_kidnapped_workers(self):
        run = weft("tour", "kidnap")
        self.assertEqual(run.returncode, 0, run.stdout)
        strips = dict(re.findall(r"(?m)^    (\S.*?)  +([|:.]{20,})(?:  .*)?$", run.stdout))
        self.assertEqual(len(strips), 5, run.stdout)
        self.assertEqual(len({len(strip) for strip in strips.values()}), 1, run.stdout)
        for label in ("nobody blocks", "all in blocking()"):
            self.assertRegex(strips[label], "[|:]", run.stdout)
        blocked = next(strip for label, strip in strips.items() if label.startswith("all ")
                       and label.endswith(" blocked"))
        self.assertRegex(blocked, "[|:]", run.stdout)
        self.assertRegex(run.stdout, r"(?m)^  [1-9]\d* stand-ins? in all\.")
        alone = weft("tour", "kidnap", env={**os.environ, "WEFT_MAX_WORKERS": "2"})
        if len(os.sched_getaffinity(0)) <= 2:
            self.assertEqual(alone.returncode, 0, alone.stdout)
            self.assertIn("Nobody stood in", alone.stdout)
        status, text = on_a_terminal("tour", "kidnap", TERM="xterm", NO_COLOR="1")
        self.assertEqual(status, 0, text)
        self.assertIn("\r    nobody blocks ", text)  # live, …
        for line in text.replace("\r\n", "\n").split("\n"):  # … and gone again
            if "\r" in line:
                *_, drawn, blank, _ = line.split("\r")
                self.assertEqual(blank, " " * len(drawn), line)


class Words(unittest.TestCase):
    def test_version(self):
        run = weft("--version")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, r"^weft \d+\.\d+\.\d+\n$")

    def test_help(self):
        run = weft("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("usage: weft tour [chapter ...]", run.stdout)

    def test_options_are_a_list_for_programs(self):
        run = weft("tour", "--options", env={**os.environ, "WEFT_WORKERS": "3"})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        self.assertEqual({len(row) for row in rows}, {4}, run.stdout)
        options = {name: (variable, value) for name, variable, value, _ in rows}
        self.assertEqual(options["FiberIo.workers"], ("WEFT_WORKERS", "3"))
        self.assertEqual(options["FiberIo.stack_bytes"], ("WEFT_STACK_BYTES", "262144"))
        for name in ("FiberIo.max_fibers", "FiberIo.on_deadlock", "SimIo.seed", "process.faults"):
            self.assertIn(name, options)

    def test_options_are_a_table_for_people(self):
        status, text = on_a_terminal("tour", "--options", TERM="xterm")
        self.assertEqual(status, 0, text)
        rows = re.findall(r"^  \w+ +(?:WEFT_\w+|-) +\S+  +\S.*$", text, re.MULTILINE)
        self.assertGreaterEqual(len(rows), 8, text)
        starts = {re.match(r"  \w+ +\S+ +", row).end() for row in rows}
        self.assertEqual(len(starts), 1, text)

    def test_an_environment_that_makes_no_sense_is_named(self):
        run = weft("tour", "--options", env={**os.environ, "WEFT_WORKERS": "many"})
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn('weft: WEFT_WORKERS is "many"', run.stderr)

    def test_what_is_wrong_is_named_on_stderr_and_the_exit_status_is_2(self):
        for arguments, complaint in [
            ([], "nothing to do"),
            (["tuor"], 'there is no command "tuor"'),
            (["--verbose"], 'there is no command "--verbose"'),
            ([""], 'there is no command ""'),
            (["--clients"], 'there is no command "--clients"'),
            (["--clients", "127.0.0.1:1", "many"], 'there is no command "--clients"'),
            (["--version", "now"], "--version goes alone"),
            (["tour", "nosuch"], 'there is no chapter "nosuch"; the chapters are hello, '),
            (["tour", "hello", "nosuch"], 'there is no chapter "nosuch"'),
            (["tour", ""], 'there is no chapter ""'),
            (["tour", "--all"], 'tour has no option "--all"'),
            (["tour", "--list", "hello"], "--list goes alone"),
            (["tour", "hello", "--options"], "--options goes alone"),
        ]:
            with self.subTest(arguments=arguments):
                run = weft(*arguments)
                self.assertEqual(run.returncode, 2)
                self.assertEqual(run.stdout, "")
                self.assertIn("weft: " + complaint, run.stderr)
                self.assertIn("usage: ", run.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([WEFT, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("No space left", run.stderr)


if __name__ == "__main__":
    WEFT = sys.argv.pop(1)
    unittest.main()
