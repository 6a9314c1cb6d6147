#!/usr/bin/env python3
"""Counts the colour-blind part of the suite: which tests run under BlockingIo, which do not, why.

Fails if needs_concurrency.hpp names a test that does not exist, or does not ask to run under
BlockingIo. That what it says is true, the tests themselves check as they run.
"""
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
LIST = TESTS / "support/needs_concurrency.hpp"
RUNNERS = {"on_blocking", "on_both_engines", "everywhere"}  # of support/engines.hpp
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
FUNCTION = re.compile(r"^(?:inline )?void (\w+)\(", re.M)
OUTCOME = re.compile(r"  // These (.*)\.$")
NEED = re.compile(r"  (\w+),\s*// (.*)$")
LISTED = re.compile(r'^\s*\{"(?:(\w+)/)?(\w+\.\w+)(?:/\w+)?",\s*Need::(\w+)\}', re.M)
ROW = "| {:<81} | {:<31} | {:>5} |"


def calls(text, names):
    return any(re.search(rf"\b{name}\(", text) for name in names)


def pieces(text, pattern):
    """Each match with the text up to the next thing at the margin that is a test or a function."""
    starts = sorted({m.start() for p in (TEST, FUNCTION) for m in p.finditer(text)})
    for match in pattern.finditer(text):
        end = min((s for s in starts if s > match.start()), default=len(text))
        yield match, text[match.end():end]


def tests_of(path):
    """The tests of a file whose bodies are given to BlockingIo, directly or by the file's own
    function, which hides one of the same name."""
    text = path.read_text()
    runners = set(RUNNERS)
    for function, body in pieces(text, FUNCTION):
        body = body[:body.find("\n}\n") + 1]
        runners.discard(function[1])
        if calls(body, runners | RUNNERS):
            runners.add(function[1])
    for test, body in pieces(text, TEST):
        if calls(body, runners):
            yield f"{test[1]}.{test[2]}"


def main():
    found = {test for path in sorted(TESTS.rglob("*")) if path.suffix in (".cpp", ".hpp")
             and path.name != "engines.hpp" for test in tests_of(path)}
    header = LIST.read_text()
    needs, outcome = {}, ""
    for line in header[:header.index("struct NeedsConcurrency")].splitlines():
        if match := OUTCOME.match(line):
            outcome = match[1]
        elif outcome and (match := NEED.match(line)):
            needs[match[1]] = (match[2], outcome)
    counts = dict.fromkeys(needs, 0)
    instances = []  # those named by their parameter
    left, errors = set(found), []
    for instance, test, need in LISTED.findall(header):
        if test not in found:
            errors.append(f"{test}: no such test, or it is not run under BlockingIo")
        elif instance:
            instances.append(test)
        elif test not in left:
            errors.append(f"{test}: twice")
        else:
            left.discard(test)
            counts[need] += 1
    print(ROW.format("the test", "under BlockingIo", "tests"))
    print(ROW.format("---", "---", "---:"))
    print(ROW.format("needs no turns", "runs", len(left)))
    for need, number in counts.items():
        print(ROW.format(*needs[need], number))
    partly = [test for test in instances if test in left]
    print(f"\n{len(found)} tests. {len(set(partly))} of those that run do not with some of their "
          f"parameters: {len(partly)} instances.")
    for error in errors:
        print(f"{LIST.name}: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
