"""What the scripts of this directory share: finding tools, compiling, and saying why not."""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ARCH = Path(__file__).resolve().parent
ROOT = ARCH.parents[1]
INCLUDE = ["-std=c++20", "-pthread", f"-I{ROOT / 'include'}"]

SKIPPED = 77  # the exit code of a script that could check nothing


def have(*tools):
    return all(shutil.which(tool) for tool in tools)


def need(*tools):
    """A decorator: skips the test, by name of what is missing, unless all `tools` exist."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


def run(*command, cwd=None, env=None, timeout=300):
    """Runs a command; its exit code is the caller's business. Output and errors come as one."""
    command = [str(part) for part in command]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(command, cwd=cwd, env=environment, timeout=timeout, text=True,
                          errors="replace", check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def check(*command, cwd=None):
    """Runs a command that must succeed, and returns its output."""
    done = run(*command, cwd=cwd)
    if done.returncode != 0:
        words = " ".join(str(part) for part in command)
        raise AssertionError(f"exit code {done.returncode}: {words}\n{done.stdout}")
    return done.stdout


def compile_all(compiler, flags, sources, folder):
    """Compiles each source into `folder`, two at a time and through ccache; returns the objects."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = ["ccache"] if have("ccache") else []
    objects = [folder / (Path(source).stem + ".o") for source in sources]
    waiting = [
        [*launcher, compiler, *INCLUDE, *flags, "-c", str(source), "-o", str(to)]
        for source, to in zip(sources, objects)
    ]
    running = []
    while waiting or running:
        while waiting and len(running) < 2:
            command = waiting.pop(0)
            running.append((command, subprocess.Popen(command)))
        command, process = running.pop(0)
        if process.wait() != 0:
            for _, other in running:
                other.wait()
            raise AssertionError("does not compile: " + " ".join(command))
    return objects


def library_sources():
    """The files of src/ that run fibers: not what is above them, nor what needs liburing."""
    left_out = {"ring.cpp", "uring_reactor.cpp"}
    return sorted(path for path in (ROOT / "src").glob("*/*.cpp")
                  if path.parent.name != "net" and path.name not in left_out)


def main():
    """Like unittest.main(), but a run in which everything was skipped exits with SKIPPED."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    sys.stderr.flush()
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun == len(result.skipped) else 0)
