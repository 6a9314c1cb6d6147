#!/usr/bin/env python3
"""Checks of the repository that no compiler makes. The rules are data, in rules.py.

usage: tidy.py [--root DIR] [--cxx COMPILER] [--spec-tables PROGRAM] [--fix] [CHECK ...]

Each CHECK is one of: layers headers bans macros form words sources tables. Without any, all run,
but `tables` only if --spec-tables is given. --fix rewrites the tables in the documents.
"""

import argparse
import fnmatch
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import rules

HEADER = (".hpp", ".h")
CODE = (".hpp", ".h", ".cpp", ".c", ".S")


class Problem(NamedTuple):
    path: str
    line: int
    check: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.check}] {self.text}"


# ---- the tree ------------------------------------------------------------------------------------


class Tree:
    """The repository's text files: path from the root -> text."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts = {}
        for path in sorted(self._paths()):
            try:
                # Not read_text(): it would hide carriage returns.
                self.texts[path] = (self.root / path).read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                pass  # not a text file
        self._code = {}

    def _paths(self):
        """What git tracks or would track; all files but build trees where there is no git."""
        git = ["git", "-C", self.root, "ls-files", "-z", "-co", "--exclude-standard"]
        try:
            listed = subprocess.run(git, capture_output=True, check=True).stdout.decode()
        except (OSError, subprocess.CalledProcessError):
            listed = ""
        paths = [p for p in listed.split("\0") if p and (self.root / p).is_file()]
        return paths or list(self._walk())

    def _walk(self):
        for folder, subfolders, files in os.walk(self.root):
            subfolders[:] = [
                s for s in subfolders if s not in (".git", "__pycache__") and s[:5] != "build"
            ]
            for name in files:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def under(self, prefixes, suffixes=CODE):
        for path in self.texts:
            if path.startswith(tuple(prefixes)) and path.endswith(suffixes):
                yield path

    def code(self, path, strings=False):
        """The lines of a source file with comments blanked out, and strings too unless asked."""
        key = (path, strings)
        if key not in self._code:
            self._code[key] = blank(self.texts[path], strings).split("\n")
        return self._code[key]


TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)")
      | (?P<number>\b[0-9][\w.']*)          # before characters: 1'000 has no string in it
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.VERBOSE | re.DOTALL,
)


def blank(text, keep_strings):
    def replace(token):
        kept = token["number"] or (keep_strings and not token["comment"])
        return token[0] if kept else re.sub(r"[^\n]", " ", token[0])

    return TOKEN.sub(replace, text)


# ---- the checks ----------------------------------------------------------------------------------


def layer_of(path):
    """The layer a file of include/ or src/ belongs to; None if rules.py does not say."""
    if path.startswith("include/weft/"):
        parts = path.split("/")[2:]
        layer = parts[0] if len(parts) > 1 else rules.PUBLIC_HEADERS.get(Path(parts[0]).stem)
    else:
        parts = path.split("/")[1:]
        layer = parts[0] if len(parts) > 1 else None
    return layer if layer in rules.MAY_INCLUDE else None


def included_file(tree, path, name, quoted):
    """The file of include/ or src/ that `#include name` in `path` means, or None."""
    candidates = ["include/" + name]
    if quoted:
        candidates += [os.path.normpath(os.path.join(os.path.dirname(path), name)), "src/" + name]
    for candidate in candidates:
        if candidate in tree.texts:
            return candidate
    return None


def check_layers(tree, _):
    for path in tree.under(("include/", "src/")):
        if path == rules.UMBRELLA:
            continue
        layer = layer_of(path)
        if layer is None:
            yield Problem(path, 1, "layers", "in no layer; see MAY_INCLUDE and PUBLIC_HEADERS")
            continue
        for number, line in enumerate(tree.code(path, strings=True), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not match or match[2] in rules.FOREIGN_INCLUDES:
                continue
            quoted = match[1] == '"'
            target = included_file(tree, path, match[2], quoted)
            if target is None:
                if quoted:
                    yield Problem(path, number, "layers", f"{match[2]} is not in include/ or src/")
            elif target == rules.UMBRELLA:
                yield Problem(path, number, "layers", f"{match[2]} is for users; include the parts")
            elif layer_of(target) not in rules.MAY_INCLUDE[layer]:
                allowed = ", ".join(sorted(rules.MAY_INCLUDE[layer]))
                text = f"{layer} may not include {layer_of(target)}, only: {allowed}"
                yield Problem(path, number, "layers", text)


def check_headers(tree, options):
    def compile_alone(path):
        base, name = path.split("/", 1)
        twice = f'#include "{name}"\n' * 2  # twice: it must guard itself
        command = [options.cxx, *rules.HEADER_FLAGS, "-x", "c++", "-"]
        command += ["-I", tree.root / base, "-I", tree.root / "include", "-I", tree.root / "src"]
        run = subprocess.run(command, input=twice, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return None
        text = "does not compile alone: include what it uses\n" + run.stderr.rstrip()
        return Problem(path, 1, "headers", text)

    # What a source of the library includes first is compiled alone by the build.
    first_include = re.compile(r'^#include [<"]([^>"]+)', re.MULTILINE)
    sources = (tree.texts[path] for path in tree.under(("src/",), (".cpp",)))
    built = {first[1] for first in map(first_include.search, sources) if first}

    def unproven(path):
        return path.split("/", 1)[1] not in built or "#pragma once" not in tree.texts[path]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(filter(unproven, tree.under(("include/", "src/"), HEADER)))
        yield from filter(None, pool.map(compile_alone, paths))


def check_bans(tree, _):
    for ban in rules.BANS:
        pattern = re.compile(ban.pattern)
        for path in tree.under(ban.where, HEADER if ban.headers_only else CODE):
            if path.startswith(ban.except_in or ("\0",)):
                continue
            for number, line in enumerate(tree.code(path), 1):
                if match := pattern.search(line):
                    text = f"`{match[0]}` is banned here; use {ban.instead}"
                    yield Problem(path, number, "bans", text)


def check_macros(tree, _):
    for path in tree.under(("include/", "src/")):
        for number, line in enumerate(tree.code(path), 1):
            match = re.match(r"\s*#\s*define\s+(\w+)", line)
            if match and not path.startswith(rules.ALLOWED_MACROS.get(match[1], ("\0",))):
                text = f"macro {match[1]}; use constexpr, a template or a function"
                yield Problem(path, number, "macros", text)


def check_form(tree, _):
    def matches(path, patterns):
        return any(fnmatch.fnmatch(os.path.basename(path), pattern) for pattern in patterns)

    for path, text in tree.texts.items():
        if not text or matches(path, rules.ANY_FORM_IN):
            continue
        lines = text.split("\n")
        if lines.pop():
            yield Problem(path, len(lines) + 1, "form", "no newline at the end of the file")
        for number, line in enumerate(lines, 1):
            if len(line) > rules.COLUMNS_MAX and not matches(path, rules.LONG_LINES_IN):
                text = f"{len(line)} columns; at most {rules.COLUMNS_MAX}"
                yield Problem(path, number, "form", text)
            if "\t" in line and not matches(path, rules.TABS_IN):
                yield Problem(path, number, "form", "tab; use spaces")
            if line != line.rstrip():
                yield Problem(path, number, "form", "blanks at the end of the line")
        if len(lines) > rules.LINES_MAX and path.startswith(("include/", "src/")):
            text = f"{len(lines)} lines; at most {rules.LINES_MAX}: a file is one mechanism"
            yield Problem(path, rules.LINES_MAX + 1, "form", text)


def check_words(tree, _):
    for pattern, instead in rules.WORDS:
        for path, text in tree.texts.items():
            for number, line in enumerate(text.split("\n"), 1):
                if match := re.search(pattern, line):
                    yield Problem(path, number, "words", f"`{match[0]}` here; use {instead}")


def check_sources(tree, _):
    def is_named(path):
        for folder in Path(path).parents:
            lists = tree.texts.get(str(folder / "CMakeLists.txt"), "")
            lists = re.sub(r"#.*", "", lists)
            name = re.escape(str(Path(path).relative_to(folder)))
            if re.search(rf"(?<![\w./-]){name}(?![\w./-])", lists):
                return True
        return False

    for folder, suffixes in rules.LISTED:
        for path in tree.under((folder + "/",), suffixes):
            if not is_named(path):
                text = f"not built: add it to {folder}/CMakeLists.txt"
                yield Problem(path, 1, "sources", text)


TABLE = re.compile(r"(<!-- table:([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def check_tables(tree, options):
    run = subprocess.run([options.spec_tables], capture_output=True, text=True, check=True)
    printed = {name: body.strip("\n") for _, name, body, _ in TABLE.findall(run.stdout)}
    if not printed:
        yield Problem(str(options.spec_tables), 1, "tables", "prints no table")
    missing = set(printed)
    for path in rules.TABLE_DOCS:
        text = tree.texts.get(path)
        if text is None:
            yield Problem(path, 1, "tables", "does not exist")
            continue
        for match in TABLE.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            missing.discard(match[2])
            if match[2] not in printed:
                yield Problem(path, number, "tables", f"no data prints a table {match[2]}")
            elif match[3].strip("\n") != printed[match[2]] and not options.fix:
                message = f"table {match[2]} differs from the data; run `make tables`"
                yield Problem(path, number, "tables", message)
        if options.fix:
            fixed = TABLE.sub(
                lambda m: f"{m[1]}\n{printed[m[2]]}\n\n{m[4]}" if m[2] in printed else m[0], text
            )
            if fixed != text:
                (tree.root / path).write_text(fixed)
    for name in sorted(missing):
        text = f"has no place for table {name}: <!-- table:{name} --> and <!-- end -->"
        yield Problem(rules.TABLE_DOCS[0], 1, "tables", text)


CHECKS = {
    "layers": check_layers,
    "headers": check_headers,
    "bans": check_bans,
    "macros": check_macros,
    "form": check_form,
    "words": check_words,
    "sources": check_sources,
    "tables": check_tables,
}


def parse(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--root", default=Path(__file__).resolve().parents[2])
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--spec-tables")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    options = parser.parse_args(arguments)
    if unknown := set(options.checks) - set(CHECKS):
        parser.error(f"no such check: {' '.join(sorted(unknown))}")
    if options.spec_tables is None and ("tables" in options.checks or options.fix):
        parser.error("tables need --spec-tables")
    return options


def run(options):
    tree = Tree(options.root)
    chosen = options.checks or [c for c in CHECKS if c != "tables" or options.spec_tables]
    return tree, sorted({problem for name in chosen for problem in CHECKS[name](tree, options)})


def main():
    options = parse(sys.argv[1:])
    tree, problems = run(options)
    for problem in problems:
        print(problem)
    print(f"{len(tree.texts)} files, {len(problems)} problems")
    return 1 if problems or not tree.texts else 0


if __name__ == "__main__":
    sys.exit(main())
