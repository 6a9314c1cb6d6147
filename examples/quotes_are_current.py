#!/usr/bin/env python3
"""Fails unless every block of C++ in a document is, word for word, a part of its program.

usage: quotes_are_current.py DOCUMENT PROGRAM[,PROGRAM...] [DOCUMENT PROGRAM ...]
"""

import pathlib
import re
import sys


def strange_blocks(document, program):
    """The blocks of `document` that `program` does not contain, each with its line number."""
    text = pathlib.Path(document).read_text()
    source = "".join("\n" + pathlib.Path(part).read_text() for part in program.split(","))
    blocks = list(re.finditer(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    if not blocks:
        yield 1, "(there is no block of C++ at all)\n"
    for block in blocks:
        if "\n" + block[1] not in source:
            yield text.count("\n", 0, block.start()) + 1, block[1]


def main(arguments):
    if not arguments or len(arguments) % 2:
        sys.exit(__doc__)
    failed = False
    for document, program in zip(arguments[::2], arguments[1::2]):
        for line, block in strange_blocks(document, program):
            failed = True
            print(f"{document}:{line}: not in {program}; copy it from there:\n{block}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
