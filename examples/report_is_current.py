#!/usr/bin/env python3
"""Fails unless what a document quotes of a test program's output is what the program prints.

usage: report_is_current.py DOCUMENT PROGRAM

The program's simulated tests are run, and every line of the document's shell blocks that begins
with WEFT_ is given to a shell beside the program. Each block of text in the document must be a part
of what one of them printed. What differs from build to build is left out of the comparison: where
the sources lie, how fast it went, and which functions were inlined.
"""

import pathlib
import re
import subprocess
import sys

SIMULATED = "--gtest_filter=-Shop.*"  # that one is for real: now and then it fails

VARIES = [
    (r"\S*/examples/", "examples/"),
    (r"[\d,]+ runs/s", "N runs/s"),
    (r"\(\d+ ms( total)?\)", r"(N ms\1)"),
    (r"( is preempted) in .*", r"\1"),
]


def steady(text):
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text)
    return text


def blocks(document, language):
    """Text and line number of each block in that language."""
    for block in re.finditer(rf"^```{language}\n(.*?)^```$", document, re.MULTILINE | re.DOTALL):
        yield block[1], document.count("\n", 0, block.start()) + 1


def printed(command, folder):
    run = subprocess.run(command, shell=True, cwd=folder, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode != 1:
        sys.exit(f"{command}\nended with {run.returncode}, and should fail:\n{run.stdout}")
    return steady(run.stdout)


def main(path, program):
    document = pathlib.Path(path).read_text()
    folder, name = pathlib.Path(program).parent, pathlib.Path(program).name
    commands = [f"./{name} '{SIMULATED}'"]
    for block, _ in blocks(document, "sh"):
        commands += [line for line in block.splitlines() if line.startswith("WEFT_")]
    outputs = {command: printed(command, folder) for command in commands}
    failed = False
    for block, line in blocks(document, "text"):
        if not any("\n" + steady(block) in output for output in outputs.values()):
            failed = True
            print(f"{path}:{line}: nobody prints this:\n{block}")
    if failed:
        for command, output in outputs.items():
            print(f"$ {command}\n{output}")
    sys.exit(1 if failed or len(commands) < 2 else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
