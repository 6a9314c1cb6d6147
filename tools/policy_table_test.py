#!/usr/bin/env python3
"""Holds the table of constants in docs/scheduler.md against src/engine/policy.hpp."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "src" / "engine" / "policy.hpp"
DOCUMENT = ROOT / "docs" / "scheduler.md"
UNITS = {"microseconds": " us", "milliseconds": " ms", "nanoseconds": " ns", "": ""}


def constants():
    """Name -> value, as the document writes it."""
    pattern = r"constexpr [\w:]+ (k\w+) = (?:(\w+)\{)?([\d']+)\}?;"
    return {
        name: f"{int(number.replace(chr(39), '')):,}" + UNITS[unit]
        for name, unit, number in re.findall(pattern, HEADER.read_text())
    }


def table():
    return dict(re.findall(r"^\| `(k\w+)` \| ([^|]+?) \|", DOCUMENT.read_text(), re.MULTILINE))


def main():
    wanted, found = constants(), table()
    if len(wanted) < 5:
        sys.exit(f"{HEADER.name}: only {len(wanted)} constants found: has the form changed?")
    wrong = [
        f"{name}: the header says {wanted.get(name, 'nothing')}, the document "
        f"{found.get(name, 'nothing')}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]
    if wrong:
        sys.exit("docs/scheduler.md, the table of constants:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
