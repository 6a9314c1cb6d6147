#!/usr/bin/env python3
"""Tests bench/run.sh and bench/report.py on a stand-in for weft-bench and with no peer at all.

usage: run_test.py                     the harness alone
       run_test.py WEFT_BENCH Real     the harness on the real program, with tiny counts
       run_test.py WEFT_BENCH Servers  its servers, by hand and under load beside the raw loops
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE / "run.sh"
REPORT = HERE / "report.py"
WEFT_BENCH = None

# Ever slower: 10, 11, 12 in the first pass, 20, 21, 22 in the second and so on.
STAND_IN = """#!/bin/bash
if [[ "$1" == --build ]]; then echo stand-in; exit; fi
echo "$*" >>"$0.calls"
n=$(grep -c "^$1 $2$" "$0.calls")
case "$1" in
  yield) for i in 0 1 2; do echo "yield_1 $((10 * n + i)) ns"; done ;;
  echo_words) echo "words $n req/s" ;;
  memory) echo "mem_1m 4321.5 B" ;;
  cores) echo "cores $(nproc) cores" ;;
  kidnap) echo "kidnap_all $((90 + n)) % kept"; echo "isolation -2.5 %" ;;
  crash) echo "half 1 ns"; exit 3 ;;
  *) exit 2 ;;
esac
"""
SVG = "{http://www.w3.org/2000/svg}"


def run_sh(*arguments, **environment):
    environment = {**os.environ, "PEERS": "", "WORKERS": "1", **environment}
    return subprocess.run([RUN, *arguments], capture_output=True, text=True, env=environment)


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.results = self.root / "results"

    def stand_in(self):
        program = self.bin / "weft-bench"
        program.write_text(STAND_IN)
        program.chmod(0o755)

    def json(self):
        return json.loads((self.results / "results.json").read_text())

    def check_plot(self):
        """The plot is XML, and nothing in it is outside of it. Returns its texts."""
        root = ElementTree.parse(self.results / "results.svg").getroot()
        self.assertEqual(root.tag, SVG + "svg")
        width, height = float(root.get("width")), float(root.get("height"))
        for bar in root.iter(SVG + "rect"):
            x, y, w = (float(bar.get(name)) for name in ("x", "y", "width"))
            self.assertGreater(w, 0)
            self.assertTrue(0 <= x and x + w <= width and 0 <= y <= height, bar.attrib)
        for line in (self.results / "results.svg").read_text().splitlines():
            self.assertLessEqual(len(line), 100, line)
        return [text.text.strip() for text in root.iter(SVG + "text")]

    def check_markdown(self, text):
        """Every table has as many cells in each row."""
        tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        self.assertTrue(tables, text)
        for table in tables:
            widths = {row.count("|") for row in table.splitlines()}
            self.assertEqual(len(widths), 1, table)
        for line in ("- machine: ", "- date: ", "- versions: ", "- command: "):
            self.assertIn(line, text)


class Harness(Scratch):
    def setUp(self):
        super().setUp()
        self.stand_in()

    def test_best_and_median_of_the_passes(self):
        run = run_sh(self.bin, WORKLOADS="yield", PASSES="3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| W1 yield, 1 fiber | ns | 11 / 21 |", run.stdout)
        self.check_markdown(run.stdout)
        self.assertEqual((self.results / "results.md").read_text(), run.stdout)
        self.assertEqual(len((self.results / "results.csv").read_text().splitlines()), 1 + 9)
        results = self.json()
        self.assertEqual(results["passes"], 3)
        self.assertEqual(results["programs"], ["weft"])
        (row,) = results["rows"]
        values = {"best": 11, "median": 21, "passes": [11, 21, 31]}
        self.assertEqual(row["programs"]["weft"], values)
        self.assertIn("stand-in", results["versions"][0])
        self.assertIn('WORKLOADS="yield"', results["command"])
        self.assertGreaterEqual(results["machine"]["cores"], 1)

    def test_more_can_be_better_and_unknown_metrics_are_shown(self):
        run = run_sh(self.bin, WORKLOADS="echo_words nothing", PASSES="3", WORKERS="1 2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(re.findall(r"\| words \| req/s \| 3 / 2 \|", run.stdout)), 2)
        self.assertIn("1 worker, pinned to one core:", run.stdout)
        self.assertIn("2 workers, pinned to two cores:", run.stdout)
        self.assertIn("requests per second (more is better)", self.check_plot())

    def test_robustness_has_tables_of_its_own(self):
        run = run_sh(self.bin, WORKLOADS="yield kidnap", PASSES="3", WORKERS="1 2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.check_markdown(run.stdout)
        titles = re.findall(r"^\S.*(?=:\n\n\|)", run.stdout, re.MULTILINE)
        pins = ["1 worker, pinned to one core", "2 workers, pinned to two cores"]
        self.assertEqual(titles, [t for p in pins for t in (p, f"Robustness, {p}")])
        # More heartbeats are better; less than nothing is lost to a neighbour, and has no bar.
        kept = "| W15 heartbeats, all workers in system calls | % kept | 93 / 92 |"
        self.assertEqual(run.stdout.count(kept), 2, run.stdout)
        self.assertIn("slower by | % | -2.5 / -2.5 |", run.stdout)
        texts = self.check_plot()
        self.assertIn("heartbeats kept, % (more is better)", texts)
        self.assertIn("-2.5", texts)

    def test_workers_have_as_many_cores(self):
        run = run_sh(self.bin, WORKLOADS="cores", PASSES="1", WORKERS="1 2")
        self.assertEqual(run.returncode, 0, run.stderr)
        seen = {row["workers"]: row["programs"]["weft"]["best"] for row in self.json()["rows"]}
        self.assertEqual(seen, {1: 1, 2: min(2, len(os.sched_getaffinity(0)))})

    def test_the_plot_has_a_bar_for_every_value(self):
        run = run_sh(self.bin, WORKLOADS="yield memory", PASSES="1", WORKERS="1 2")
        self.assertEqual(run.returncode, 0, run.stderr)
        texts = self.check_plot()
        self.assertEqual(texts.count("weft"), 4)
        for words in ("1 worker", "2 workers", "time, ns", "memory, bytes", "4,322"):
            self.assertIn(words, texts)

    def test_a_failure_of_weft_fails_the_run(self):
        run = run_sh(self.bin, WORKLOADS="crash", PASSES="1")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("- weft, crash, 1 worker(s): 3", run.stdout)
        (failure,) = self.json()["failures"]
        self.assertEqual((failure["workload"], failure["status"]), ("crash", 3))

    def test_bad_input(self):
        for arguments, environment in [
            ([], {}),
            (["/nonexistent"], {}),
            ([self.bin, self.bin], {}),
            ([self.bin], {"PASSES": "0"}),
            ([self.bin], {"PASSES": "many"}),
            ([self.bin], {"WORKERS": "1,2"}),
            ([self.bin], {"WORKERS": "0"}),
        ]:
            run = run_sh(*arguments, **environment)
            self.assertEqual(run.returncode, 2, (arguments, environment))
            self.assertEqual(run.stdout, "")
        run = run_sh(self.bin, WORKLOADS="nothing")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no program offers these workloads", run.stderr)


class Readme(Scratch):
    TEXT = "# top\n\n<!-- bench:begin -->\n{}<!-- bench:end -->\n\nbelow\n"

    def setUp(self):
        super().setUp()
        self.stand_in()
        self.readme = self.root / "README.md"
        self.readme.write_text(self.TEXT.format("of old\n"))

    def report(self, *arguments):
        return subprocess.run([REPORT, *arguments], capture_output=True, text=True,
                              env={**os.environ, "WEFT_BENCH_ROOT": str(self.root)})

    def record(self, **environment):
        run = run_sh(self.bin, WORKLOADS="yield", PASSES="1", **environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.report("--readme", self.results / "results.json")

    def test_what_was_recorded_is_what_the_readme_shows(self):
        run = self.record()
        self.assertEqual(run.returncode, 0, run.stderr)
        text = self.readme.read_text()
        self.assertTrue(text.startswith("# top\n\n<!-- bench:begin -->\n!["), text)
        self.assertTrue(text.endswith("<!-- bench:end -->\n\nbelow\n"), text)
        self.assertNotIn("of old", text)
        self.check_markdown(text)
        self.assertTrue((self.root / "bench/results/recorded.svg").exists())
        self.assertEqual(self.report("--check").returncode, 0)
        self.assertEqual(self.report("--readme", self.root / "bench/results/recorded.json")
                         .returncode, 0)
        self.assertEqual(self.readme.read_text(), text)

    def test_a_block_of_its_own(self):
        self.record()
        bench = self.readme.read_text()
        net = [self.results / "results.json", "bench-net"]
        self.assertIn("has no <!-- bench-net:begin -->", self.report("--readme", *net).stderr)
        self.assertFalse((self.root / "bench/results/recorded-net.json").exists())
        self.readme.write_text(bench + "<!-- bench-net:begin -->\n<!-- bench-net:end -->\n")
        self.assertEqual(self.report("--check").returncode, 0)
        self.assertEqual(self.report("--readme", *net).returncode, 0)
        text = self.readme.read_text()
        self.assertTrue(text.startswith(bench), text)
        self.assertIn("bench/results/recorded-net.svg", text)
        self.assertEqual(self.report("--check").returncode, 0)
        self.readme.write_text(bench + text[len(bench):].replace("| 11 / 11 |", "| 1 / 1 |"))
        self.assertIn("recorded-net.json", self.report("--check").stderr)
        self.assertIn("no such block", self.report("--readme", net[0], "nosuch").stderr)

    def test_a_figure_that_was_not_measured_is_found(self):
        self.record()
        self.readme.write_text(self.readme.read_text().replace("| 11 / 11 |", "| 1 / 1 |"))
        run = self.report("--check")
        self.assertEqual(run.returncode, 1)
        self.assertIn("bench/report.py --readme", run.stderr)

    def test_nothing_recorded_is_nothing_shown(self):
        self.assertEqual(self.report("--check").returncode, 1)
        self.readme.write_text(self.TEXT.format(""))
        self.assertEqual(self.report("--check").returncode, 0)

    def test_what_is_refused(self):
        run = self.record(WEFT_BENCH_SCALE="0.5")
        self.assertEqual(run.returncode, 1)
        self.assertIn("smaller counts", run.stderr)
        self.assertIn("of old", self.readme.read_text())
        for arguments in (["--readme", "/nonexistent"], ["--readme"], [], ["--help"]):
            self.assertEqual(self.report(*arguments).returncode, 1, arguments)
        self.readme.write_text("no markers")
        self.assertIn("has no <!-- bench:begin -->", self.record().stderr)

    def test_the_repository_itself(self):
        run = subprocess.run([REPORT, "--check"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)


class Real(Scratch):
    def setUp(self):
        super().setUp()
        if WEFT_BENCH is None:
            self.skipTest("needs the program weft-bench as an argument")
        shutil.copy(WEFT_BENCH, self.bin / "weft-bench")

    def test_every_workload_runs_and_every_result_is_right(self):
        run = run_sh(self.bin, WORKLOADS="yield spawn event mem100k mem1m sleepers timers cancel "
                     "cancel1m mutex fib fib30 kidnap herd hogs isolation idle wake_storm "
                     "sim idle_connections",
                     PASSES="1", WORKERS="1 2",
                     WEFT_BENCH_SCALE="0.002")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.check_markdown(run.stdout)
        self.check_plot()
        results = self.json()
        self.assertEqual(results["failures"], [])
        for workers in (1, 2):
            seen = {row["metric"] for row in results["rows"] if row["workers"] == workers}
            self.assertLessEqual({
                "yield_1", "yield_1000", "spawn_seq", "spawn_batch_cold", "spawn_batch",
                "async_seq", "event_pingpong", "sleep_cpu", "sleep_late_max", "timer_seq",
                "timer_bulk", "cancel_100k", "cancel_100k_unwound", "cancel_1m",
                "mem_100k", "mem_1m", "mem_1m_tables", "mem_1m_create",
                "mem_1m_teardown", "kidnap_half", "kidnap_all", "kidnap_all_asked",
                "kidnap_half_socket", "kidnap_all_socket", "conn_10k", "conn_10k_tables",
                "conn_10k_cpu", "herd_wake", "herd_wake_p99", "herd_wakes", "hogs_gap_p99",
                "hogs_gap_max", "idle_switches",
            }, seen)
            self.assertEqual({"sim_mutex", "sim_channel", "sim_sleep", "sim_ticker",
                              "sim_explore"} <= seen, workers == 1)
            # One worker has no neighbour and nobody to wake across.
            self.assertEqual({"isolation", "wake_storm"} <= seen, workers == 2)
            self.assertEqual(sum(metric.startswith("fib_") for metric in seen), 2)
        for row in results["rows"]:
            if row["unit"] == "ns":
                self.assertGreater(row["programs"]["weft"]["best"], 0, row)

    def test_what_the_program_does_not_offer(self):
        for arguments, status in [(["nosuch", "1"], 2), (["nosuch", "2"], 2), (["yield", "0"], 1),
                                  (["yield", "two"], 1), ([], 1), (["echo", "1", "65536"], 1),
                                  (["echo", "1", "port"], 1)]:
            run = subprocess.run([WEFT_BENCH, *arguments], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (status, ""), arguments)

    def test_what_the_machine_does_not_allow_is_left_out(self):
        run = subprocess.run(["bash", "-c", 'ulimit -n 1000; "$0" idle_connections 1', WEFT_BENCH],
                             capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        self.assertIn("ulimit -Hn is 1000", run.stderr)


class Servers(Scratch):
    HELLO = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n"
             b"hello world\n")

    def setUp(self):
        super().setUp()
        if WEFT_BENCH is None:
            self.skipTest("needs the program weft-bench as an argument")

    def start(self, *command):
        """Returns the port that the server says it listens on."""
        self.server = subprocess.Popen([WEFT_BENCH, *command, "0"], stdout=subprocess.PIPE,
                                       text=True)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        name, self.port, what = self.server.stdout.readline().split()
        self.assertEqual((name, what), ("port", command[0]))

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", int(self.port)), timeout=60)
        self.addCleanup(connection.close)
        return connection

    def stop(self):
        """In order, and with what it has used as its last word."""
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(60), 0)
        self.assertRegex(self.server.stdout.read(), r"^(echo|http)_server_cpu [0-9.e-]+ s\n$")

    def expect(self, connection, answer):
        seen = b""
        while len(seen) < len(answer):
            got = connection.recv(len(answer) - len(seen))
            self.assertTrue(got, seen)
            seen += got
        self.assertEqual(seen, answer)

    def test_echo(self):
        for workers in ("1", "2"):
            self.start("echo", workers)
            connections = [self.connect() for _ in range(20)]
            for turn in range(3):
                for i, c in enumerate(connections):
                    c.sendall(bytes([i, turn]) * 32)
                for i, c in reversed(list(enumerate(connections))):
                    self.expect(c, bytes([i, turn]) * 32)
            long = bytes(range(256)) * 100
            connections[0].sendall(long)
            self.expect(connections[0], long)
            connections[1].shutdown(socket.SHUT_WR)
            self.assertEqual(connections[1].recv(1), b"")
            self.stop()  # with connections open

    def test_http(self):
        self.start("http", "1")
        c = self.connect()
        get = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
        for _ in range(2):
            c.sendall(get)
            self.expect(c, self.HELLO)
        c.sendall(get * 100)  # more than one buffer, so that a head is cut
        self.expect(c, self.HELLO * 100)
        for part in (get[:3], get[3:-2], get[-2:]):
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c.sendall(part)
        self.expect(c, self.HELLO)
        for last in (b"GET / HTTP/1.1\r\nconnection: Close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
            c = self.connect()
            c.sendall(last)
            self.expect(c, self.HELLO)
            self.assertEqual(c.recv(1), b"")
        for bad, status in ((b"POST / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
                            (b"GET /" + b"a" * 4091, b"HTTP/1.1 431 ")):
            c = self.connect()
            c.sendall(bad)
            self.expect(c, status)
            while c.recv(4096):
                pass
        self.stop()

    def test_a_port_that_is_taken(self):
        self.start("echo", "1")
        run = subprocess.run([WEFT_BENCH, "echo", "1", self.port], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("Address already in use", run.stderr)
        self.stop()

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs a core for the load")
    def test_under_load_beside_the_raw_loops(self):
        shutil.copy(WEFT_BENCH, self.bin / "weft-bench")
        workloads = ["echo"] + ["http"] * bool(shutil.which("wrk"))
        run = run_sh(self.bin, WORKLOADS=" ".join(workloads), PASSES="1", LOAD_SECONDS="1",
                     CONNECTIONS="8 64", PEERS="installed",
                     ONLY="^(weft-epoll|weft-uring|epoll|uring)$")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.check_markdown(run.stdout)
        results = self.json()
        self.assertEqual(results["failures"], [])
        of_weft = {row["metric"] for row in results["rows"] if "weft" in row["programs"]}
        wanted = {f"echo_{n}{what}" for n in (8, 64) for what in ("", "_srv_cpu", "_p50", "_p99")}
        if "http" in workloads:
            wanted |= {"http_64", "http_64_srv_cpu", "http_64_p50", "http_64_p99"}
        self.assertLessEqual(wanted, of_weft)
        self.assertLessEqual({"weft-epoll", "epoll"}, set(results["programs"]))
        for row in results["rows"]:
            for of in row["programs"].values():
                self.assertGreater(of["best"], 0, row)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        WEFT_BENCH = Path(sys.argv.pop(1)).resolve()
    unittest.main()
