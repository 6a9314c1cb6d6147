#!/usr/bin/env python3
"""AddressSanitizer, ThreadSanitizer and Valgrind understand weft's stacks, and only because told.

usage: sanitizer_test.py --work DIR --victim PROGRAM [unittest arguments]

Builds sanitizer_victim.cpp with each sanitizer, all of weft in it, and runs its programs. PROGRAM
is the same file built without any, for Valgrind.
"""

import argparse
import sys
import unittest
from pathlib import Path

from toolbox import ARCH, ROOT, check, compile_all, library_sources, main, need, run

VICTIM = ARCH / "sanitizer_victim.cpp"


def compile_library(compiler, flags, folder):
    """In one piece, which is much faster; file by file if two files have a name in common."""
    together = folder / "library.cpp"
    folder.mkdir(parents=True, exist_ok=True)
    sources = library_sources()
    text = "".join(f'#include "{source}"\n' for source in sources)
    if not together.exists() or together.read_text() != text:
        together.write_text(text)
    try:
        return compile_all(compiler, flags, [together], folder)
    except AssertionError:
        return compile_all(compiler, flags, sources, folder)


def build(compiler, *sanitizer):
    folder = options.work / compiler
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", f"-I{ROOT / 'src'}", *sanitizer]
    objects = compile_library(compiler, flags, folder) + compile_all(compiler, flags, [VICTIM],
                                                                     folder)
    victim = folder / "victim"
    check(compiler, *sanitizer, "-pthread", *objects, "-o", victim)
    return victim


class Checked(unittest.TestCase):
    def expect_clean(self, done):
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ended", done.stdout)
        for text in ("ERROR", "WARNING"):
            self.assertNotIn(text, done.stdout)


class Sanitized(Checked):
    """The victim, built by COMPILER with FLAG and run with OPTIONS; each subclass names its own."""

    @classmethod
    def setUpClass(cls):
        cls.victim = build(cls.COMPILER, cls.FLAG)

    def run_victim(self, program):
        return run(self.victim, program, env=self.OPTIONS)


@need("g++")
class AddressSanitizer(Sanitized):
    COMPILER, FLAG = "g++", "-fsanitize=address"
    # The fake stack, where locals wait for a while after their function returned, is per fiber.
    OPTIONS = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:abort_on_error=0"}

    def test_programs_are_clean(self):
        for program in ("unwind-told", "abandon", "everything"):
            with self.subTest(program=program):
                self.expect_clean(self.run_victim(program))

    def test_complains_if_it_is_not_told(self):
        done = self.run_victim("unwind-untold")
        self.assertRegex(done.stdout, "ignoring requested __asan_handle_no_return|ERROR")

    def test_finds_an_overflow_in_a_fibers_frame(self):
        done = self.run_victim("overflow")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("stack-buffer-overflow", done.stdout)
        self.assertIn("sanitizer_victim.cpp", done.stdout)
        self.assertNotIn("ended", done.stdout)

    def test_finds_a_use_after_return_in_a_fiber(self):
        done = self.run_victim("use-after-return")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("stack-use-after-return", done.stdout)
        self.assertIn("leak_a_local", done.stdout)
        self.assertNotIn("ended", done.stdout)


@need("clang++")
class ThreadSanitizer(Sanitized):
    COMPILER, FLAG = "clang++", "-fsanitize=thread"
    OPTIONS = {"TSAN_OPTIONS": "halt_on_error=1:atexit_sleep_ms=20:abort_on_error=0"}

    def test_programs_are_clean(self):
        for program in ("unwind-told", "abandon", "everything"):
            with self.subTest(program=program):
                self.expect_clean(self.run_victim(program))

    def test_mixes_fibers_up_if_it_is_not_told(self):
        """The callers of a race are then those of another fiber."""
        for program, mixed in (("race-told", False), ("race-untold", True)):
            with self.subTest(program=program):
                done = self.run_victim(program)
                self.assertIn("WARNING: ThreadSanitizer: data race", done.stdout)
                self.assertIn("race_beside", done.stdout)
                self.assertEqual("descend" in done.stdout, mixed, done.stdout)

    def test_finds_a_race_between_fibers_of_two_threads(self):
        done = self.run_victim("race")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("WARNING: ThreadSanitizer: data race", done.stdout)
        self.assertIn("count_without_a_lock", done.stdout)


@need("valgrind")
class Valgrind(Checked):
    def run_victim(self, program):
        return run("valgrind", "--error-exitcode=9", "--leak-check=full", options.victim, program)

    def test_programs_are_clean(self):
        done = self.run_victim("everything")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ended", done.stdout)
        self.assertIn("ERROR SUMMARY: 0 errors", done.stdout)
        self.assertNotIn("client switching stacks", done.stdout)

    def test_wonders_if_it_is_not_told(self):
        done = self.run_victim("unwind-untold")
        self.assertIn("client switching stacks", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1].split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--victim", type=Path, required=True)
    options, rest = parser.parse_known_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sys.argv[1:] = rest
    main()
