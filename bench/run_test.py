#!/usr/bin/env python3
"""Tests bench/run.sh on a stand-in for weft-bench and with no peer at all."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

RUN = Path(__file__).with_name("run.sh")

# Ever slower: 10, 11, 12 in the first pass, 20, 21, 22 in the second and so on.
STAND_IN = """#!/bin/bash
echo "$*" >>"$0.calls"
n=$(grep -c "^$1 $2$" "$0.calls")
case "$1" in
  yield) for i in 0 1 2; do echo "yield_1 $((10 * n + i)) ns"; done ;;
  echo_words) echo "words $n req/s" ;;
  crash) echo "half 1 ns"; exit 3 ;;
  *) exit 2 ;;
esac
"""


class Run(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.bin = Path(self.scratch.name) / "bin"
        self.bin.mkdir()
        stand_in = self.bin / "weft-bench"
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)

    def tearDown(self):
        self.scratch.cleanup()

    def run_sh(self, *arguments, **environment):
        environment = {**os.environ, "ONLY": "^no such peer$", "PEERS": "", **environment}
        return subprocess.run([RUN, *arguments], capture_output=True, text=True, env=environment)

    def test_best_and_median_of_the_passes(self):
        run = self.run_sh(self.bin, WORKLOADS="yield", PASSES="3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| W1 yield, 1 fiber | ns | 11 / 21 |", run.stdout)
        for line in ("- machine: ", "- date: ", "- versions: ", "- command: "):
            self.assertIn(line, run.stdout)
        results = Path(self.scratch.name) / "results"
        self.assertEqual((results / "results.md").read_text(), run.stdout)
        self.assertEqual(len((results / "results.csv").read_text().splitlines()), 1 + 9)

    def test_more_can_be_better_and_unknown_metrics_are_shown(self):
        run = self.run_sh(self.bin, WORKLOADS="echo_words nothing", PASSES="3", WORKERS="1 2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(re.findall(r"\| words \| req/s \| 3 / 2 \|", run.stdout)), 2)
        self.assertIn("1 worker, pinned to one core:", run.stdout)
        self.assertIn("2 workers:", run.stdout)

    def test_a_failure_of_weft_fails_the_run(self):
        run = self.run_sh(self.bin, WORKLOADS="crash", PASSES="1")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("- weft, crash, 1 worker(s): 3", run.stdout)

    def test_bad_input(self):
        for arguments, environment in [
            ([], {}),
            (["/nonexistent"], {}),
            ([self.bin, self.bin], {}),
            ([self.bin], {"PASSES": "0"}),
            ([self.bin], {"PASSES": "many"}),
        ]:
            run = self.run_sh(*arguments, **environment)
            self.assertEqual(run.returncode, 2, (arguments, environment))
            self.assertEqual(run.stdout, "")
        run = self.run_sh(self.bin, WORKLOADS="nothing")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no program offers these workloads", run.stderr)


if __name__ == "__main__":
    unittest.main()
