#!/usr/bin/env python3
"""Tests of tidy.py: a clean tree passes, and each kind of violation is reported where it is.

Every case is the clean tree with one change, and names all the problems that must come of it.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import rules
import tidy

CLEAN = {
    "include/weft/base/a.hpp": (
        "// Mentions std::mutex and thread_local, which is no use of them.\n"
        "#pragma once\n"
        "#include <atomic>\n"
        "inline std::atomic<int> a_count{1'000'000};\n"
        "inline const char* a_text() { return \"std::mutex /* \\\" printf(\"; }\n"
        'inline const char* a_raw() { return R"x(std::thread ")" puts()x"; }\n'
    ),
    "include/weft/core/b.hpp": '#pragma once\n#include <weft/base/a.hpp>\ninline int b = 2;\n',
    "include/weft/event.hpp": "#pragma once\n#include <weft/core/b.hpp>\n",
    "include/weft/nursery.hpp": "#pragma once\n#include <weft/core/b.hpp>\n",
    "include/weft/weft.hpp": (
        "#pragma once\n#include <weft/event.hpp>\n#include <weft/nursery.hpp>\n"
    ),
    "src/CMakeLists.txt": "target_sources(weft PRIVATE\n  base/a.cpp core/b.cpp)\n",
    "src/base/a.cpp": "#include <weft/base/a.hpp>\n",
    "src/core/b.cpp": '#include "b_private.hpp"\n#include <weft/core/b.hpp>\n',
    "src/core/b_private.hpp": "#pragma once\n#include <weft/base/a.hpp>\n",
    "src/engine/e_private.hpp": "#pragma once\n#include <weft/core/b.hpp>\n",
    "tests/CMakeLists.txt": "weft_test(b_test SOURCES core/b_test.cpp)\n",
    "tests/core/b_test.cpp": "#include <mutex>\nusing namespace std;\nstd::mutex m;\n",
    "docs/protocol.md": (
        "# Protocol\n\n<!-- table:edges -->\n\n| a | b |\n\n<!-- end -->\n" + "long " * 30 + "end\n"
    ),
    "Makefile": "all:\n\t@echo all\n",
    "hello.expected": "any form \t\n\tof text",
}
PRINTED = "<!-- table:edges -->\n| a | b |\n<!-- end -->\n"

A, B = "include/weft/base/a.hpp", "include/weft/core/b.hpp"


def added(path, text, line=None, check=None):
    """A case: `text` at the end of `path`; a problem of `check` in its line `line`, if given."""
    before = CLEAN.get(path, "")
    number = before.count("\n") + (line or 1)
    return {path: before + text}, [(path, number, check)] if check else []


def cases():
    yield "clean", {}, []

    # layers
    yield "core -> scope", *added(B, "#include <weft/nursery.hpp>\n", 1, "layers")
    yield "sync -> scope", *added("include/weft/event.hpp", "#include <weft/nursery.hpp>\n", 1,
                                  "layers")
    yield "source, quoted", *added("src/core/b.cpp", '#include "engine/e_private.hpp"\n', 1,
                                   "layers")
    yield "source, relative", *added("src/core/b.cpp", '#include "../engine/e_private.hpp"\n', 1,
                                     "layers")
    yield "umbrella", *added("src/core/b.cpp", "#include <weft/weft.hpp>\n", 1, "layers")
    yield "quoted stranger", *added("src/core/b.cpp", '#include "elsewhere.hpp"\n', 1, "layers")
    yield "public header of no layer", *added("include/weft/new.hpp", "#pragma once\n", 1, "layers")
    yield "commented include", *added(B, "// #include <weft/nursery.hpp>\n")

    # headers
    yield "not alone", *added("src/core/c.hpp", "#pragma once\nstd::string name;\n", 1, "headers")
    yield "no guard", *added("src/core/c.hpp", "struct C {};\n", 1, "headers")

    # bans: each catches its example outside its exceptions and ignores it inside of them
    for ban in rules.BANS:
        suffix = ".hpp" if ban.headers_only else ".cpp"
        for path in (f"src/core/x{suffix}", "include/weft/core/x.hpp"):
            yield ban.example, *added(path, f"\n{ban.example}\n", 2, "bans")
        yield ban.example, *added(f"src/core/x{suffix}", f"// {ban.example}\n")
        for place in ban.except_in:
            path = place if place.endswith("pp") else place + "x.hpp"
            yield f"{ban.example} in {path}", *added(path, f"{ban.example}\n")

    # macros
    yield "macro", *added(B, "#define WEFT_FAST 1\n", 1, "macros")
    for name, places in rules.ALLOWED_MACROS.items():
        yield name, *added(places[0] + "x.hpp", f"#define {name} 1\n")
    yield "macro away from home", *added(B, "#define WEFT_ASAN 1\n", 1, "macros")

    # form
    yield "columns", *added(A, f"//{'x' * 99}\n", 1, "form")
    yield "columns to the brim", *added(A, f"//{'é' * 98}\n")
    yield "tab", *added(A, "//\tx\n", 1, "form")
    yield "trailing blank", *added(A, "// x \n", 1, "form")
    yield "carriage return", *added(A, "// x\r\n", 1, "form")
    yield "no newline", *added(A, "// x", 1, "form")
    yield "long file", *added("src/core/l.hpp", "//\n" * 501, 501, "form")
    yield "long file elsewhere", *added("docs/l.md", "x\n" * 501)

    # words
    for word in ("TO" "DO", "FIX" "ME", "/ro" "ot/x", "/ho" "me/me/x", "/wo" "rk/x"):
        yield word, *added("docs/notes.md", f"see {word}: x\n", 1, "words")
    yield "other words", *added("docs/notes.md", "frame/wo" "rk/x METHODOLOGY src/root/x\n")

    # sources
    yield "unbuilt source", *added("src/core/c.cpp", "\n", 1, "sources")
    yield "unbuilt test", *added("tests/core/c_test.cpp", "\n", 1, "sources")
    yield "source named in a comment only", {
        "src/core/c.cpp": "\n",
        "src/CMakeLists.txt": CLEAN["src/CMakeLists.txt"] + "# core/c.cpp\n",
    }, [("src/core/c.cpp", 1, "sources")]
    yield "part of a name", *added("src/a.cpp", "\n", 1, "sources")

    # tables
    doc = "docs/protocol.md"
    yield "changed table", {doc: CLEAN[doc].replace("| b", "| c")}, [(doc, 3, "tables")]
    yield "stale table", *added(doc, "<!-- table:gone -->\n<!-- end -->\n", 1, "tables")
    yield "missing table", {doc: "# Protocol\n"}, [(doc, 1, "tables")]


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())


def problems_in(root, checks, cxx):
    arguments = ["--root", str(root), "--cxx", cxx, "--spec-tables", str(root / "build/tables")]
    return tidy.run(tidy.parse(arguments + checks))[1]


def make_tree(folder, change):
    root = Path(folder)
    write(root, CLEAN | change)
    write(root, {"build/tables": f"#!/bin/sh\ncat <<'END'\n{PRINTED}END\n"})
    (root / "build/tables").chmod(0o755)
    return root


def try_case(name, change, expected, cxx):
    """Compilation is slow: only cases about headers, and the clean tree, run that check."""
    wants_headers = not change or any(check == "headers" for _, _, check in expected)
    checks = [c for c in tidy.CHECKS if c != "headers" or wants_headers]
    with tempfile.TemporaryDirectory() as folder:
        root = make_tree(folder, change)
        found = problems_in(root, checks, cxx)
    # A new file may break other rules on purpose-built trees: compare what the case is about.
    about = {check for _, _, check in expected} or set(tidy.CHECKS) - {"sources", "layers"}
    if name == "clean":
        about = set(tidy.CHECKS)
    got = [(p.path, p.line, p.check) for p in found if p.check in about]
    if sorted(got) != sorted(expected):
        print(f"case {name!r}: expected {expected}, got")
        print("".join(f"  {p}\n" for p in found) or "  nothing")
        return False
    return True


def try_fix(cxx):
    with tempfile.TemporaryDirectory() as folder:
        doc = CLEAN["docs/protocol.md"]
        root = make_tree(folder, {"docs/protocol.md": doc.replace("| b", "| c")})
        tables = ["--root", str(root), "--spec-tables", str(root / "build/tables"), "tables"]
        tidy.run(tidy.parse(["--fix"] + tables))
        same = (root / "docs/protocol.md").read_text() == doc
        if not same or problems_in(root, ["tables"], cxx):
            print("--fix did not repair the table")
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cxx", default="g++")
    cxx = parser.parse_args().cxx
    results = [try_case(*case, cxx) for case in cases()] + [try_fix(cxx)]
    caught = {check for _, _, expected in cases() for _, _, check in expected}
    if untried := set(tidy.CHECKS) - caught:
        print(f"no case makes these checks fail: {untried}")
        results.append(False)
    print(f"{len(results)} cases, {results.count(False)} failed")
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
