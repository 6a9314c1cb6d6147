#!/usr/bin/env python3
"""What the compilers made of the switch and of the thread slot.

usage: disassembly_test.py --work DIR [--library FILE] [unittest arguments]

A fiber that goes on under another thread must not use what it had read from the old one: so each
look at the slot must be a load of its own, before and after the switch, however it is compiled.
And where branches are checked, on either architecture, each must land where one may.
"""

import argparse
import re
import sys
import unittest
from pathlib import Path

from toolbox import ARCH, ROOT, check, compile_all, have, main, need, run

CONTEXT = ROOT / "src/arch/context.cpp"
SLOT = ROOT / "src/arch/thread_slot.cpp"
VICTIM = ARCH / "slot_victim.cpp"
PROGRAM = ARCH / "migration_victim.cpp"

AARCH64 = "aarch64-linux-gnu-g++"
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
WAYS = {
    "O2": ["-O2"],
    "O2-pic": ["-O2", "-fPIC"],
    "O3-pic-frame-pointer": ["-O3", "-fPIC", "-fno-omit-frame-pointer"],
}
LOOKS = ["weft_look_at_slot", "weft_look_at_carrier", "weft_look_at_fiber"]


class Machine:
    """How one architecture spells what we look for."""

    def __init__(self, objdump, load, leave):
        self.objdump = objdump
        self.load = re.compile(load)  # reads the slot's value, or all of its address
        self.leave = re.compile(leave)  # the jump to the other context

    def functions(self, path):
        """name -> instructions, in order of address"""
        found = {}
        code = None
        for line in check(self.objdump, "-dr", "--no-show-raw-insn", path).split("\n"):
            if match := re.match(r"[0-9a-f]+ <([\w.]+)>:$", line):
                code = found.setdefault(match[1], [])
            elif code is not None and (match := re.match(r"\s+[0-9a-f]+:\s+(.*)", line)):
                code.append(match[1].strip())
        return found

    def looks(self, code):
        """How many loads stand before and after the switch."""
        switches = [i for i, text in enumerate(code) if self.leave.match(text)]
        assert len(switches) == 1, f"{len(switches)} switches in:\n" + "\n".join(code)
        loads = [i for i, text in enumerate(code) if self.load.match(text)]
        before = sum(i < switches[0] for i in loads)
        return before, len(loads) - before


# An x86-64 thread-local is read by its segment, or found by a call.
X86 = Machine("objdump", r"mov\w*\s+%fs:|R_X86_64_\w+\s+__tls_get_addr", r"jmp\w*\s+\*0x10\(%")
ARM = Machine("aarch64-linux-gnu-objdump", r"mrs\s+x\d+, tpidr_el0|blr\s", r"br\s+x9\b")


class SlotIsReadTwice(unittest.TestCase):
    def look(self, machine, path):
        functions = machine.functions(path)
        for name in LOOKS:
            with self.subTest(function=name):
                before, after = machine.looks(functions[name])
                self.assertGreaterEqual(before, 1, "not read before the switch")
                self.assertGreaterEqual(after, 1, "what was read before the switch is used after")

    def by(self, compiler, machine):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                folder = options.work / f"{compiler}-{way}"
                (path,) = compile_all(compiler, flags, [VICTIM], folder)
                self.look(machine, path)

    @need("g++", "objdump")
    def test_gcc(self):
        self.by("g++", X86)

    @need("clang++", "objdump")
    def test_clang(self):
        self.by("clang++", X86)

    @need(AARCH64, ARM.objdump)
    def test_gcc_for_aarch64(self):
        self.by(AARCH64, ARM)

    def linked(self, compiler, *flags):
        """With all of the code in the optimiser's hands at once; then run."""
        name = "".join(flags).replace("=", "-")
        sources = [CONTEXT, SLOT, VICTIM, PROGRAM]
        objects = compile_all(compiler, ["-O2", *flags], sources, options.work / (compiler + name))
        path = options.work / f"migration-{compiler}{name}"
        lld = ["-fuse-ld=lld"] if compiler == "clang++" else []
        check(compiler, "-O2", "-pthread", *flags, *lld, *objects, "-o", path)
        self.assertEqual(run(path).stdout, "right right\n")
        (name,) = [n for n in X86.functions(path) if n.startswith("weft_look_at_slot")]
        before, after = X86.looks(X86.functions(path)[name])
        self.assertGreaterEqual(min(before, after), 1)

    @need("g++", "objdump")
    def test_gcc_link_time_optimisation(self):
        self.linked("g++", "-flto=2")
        self.linked("g++", "-flto=2", "-flto-partition=max")

    @need("clang++", "objdump", "ld.lld")
    def test_clang_link_time_optimisation(self):
        self.linked("clang++", "-flto")
        self.linked("clang++", "-flto=thin")

    @need("g++", "objdump")
    def test_the_test_notices(self):
        """An ordinary thread_local fails the same examination: its address is found once."""
        (path,) = compile_all("g++", WAYS["O2-pic"], [VICTIM], options.work / "g++-O2-pic")
        before, after = X86.looks(X86.functions(path)["weft_look_at_thread_local"])
        self.assertEqual(before + after, 1)


def notes(readelf_output):
    """file -> the features that its property note declares"""
    features = {}
    name = ""
    for line in readelf_output.split("\n"):
        if match := re.match(r"File: (.*)", line):
            name = match[1]
        if match := re.search(r"(?:x86|AArch64) feature: (.*)", line):
            features[name] = set(match[1].split(", "))
    return features


class BranchesLand(unittest.TestCase):
    @need("g++", "objdump", "readelf")
    def test_x86_entry_and_resume(self):
        compilers = ["g++"] + (["clang++"] if have("clang++") else [])
        for compiler in compilers:
            with self.subTest(compiler=compiler):
                flags = ["-O2", "-fcf-protection=branch"]
                folder = options.work / f"{compiler}-cet"
                context, victim = compile_all(compiler, flags, [CONTEXT, VICTIM], folder)
                self.assertEqual(X86.functions(context)["weft_context_entry"][0], "endbr64")
                for name in LOOKS:
                    code = X86.functions(victim)[name]
                    (at,) = [i for i, text in enumerate(code) if X86.leave.match(text)]
                    self.assertEqual(code[at + 1], "endbr64", f"{name} is resumed elsewhere")
                for path in (context, victim):
                    self.assertEqual(notes(check("readelf", "-n", path)), {"": {"IBT"}})

    @need("g++", "readelf")
    def test_shadow_stacks_are_not_claimed(self):
        """One object that claims less is enough: what is linked with it claims no more."""
        folder = options.work / "cet-link"
        (victim,) = compile_all("g++", ["-O2", "-fPIC", "-fcf-protection=full"], [VICTIM], folder)
        self.assertEqual(notes(check("readelf", "-n", victim)), {"": {"IBT", "SHSTK"}})
        (context,) = compile_all("g++", ["-O2", "-fPIC", "-fcf-protection=branch"], [CONTEXT],
                                 folder)
        alone = folder / "alone.so"
        check("g++", "-shared", "-nostdlib", victim, "-o", alone)
        self.assertEqual(notes(check("readelf", "-n", alone)), {"": {"IBT", "SHSTK"}})
        together = folder / "together.so"
        check("g++", "-shared", "-nostdlib", victim, context, "-o", together)
        self.assertEqual(notes(check("readelf", "-n", together)), {"": {"IBT"}})

    @need("readelf")
    def test_library_claims_branch_tracking_only(self):
        if not options.library or options.library.suffix != ".a":
            self.skipTest("no static library was given")
        found = notes(check("readelf", "-n", "-W", options.library))
        context = [features for name, features in found.items() if "context.cpp" in name]
        self.assertEqual(context, [{"IBT"}])

    @need(AARCH64, ARM.objdump, "readelf")
    def test_aarch64_entry_and_resume(self):
        flags = ["-O2", "-mbranch-protection=standard"]
        folder = options.work / "aarch64-bti"
        context, victim = compile_all(AARCH64, flags, [CONTEXT, VICTIM], folder)
        self.assertRegex(ARM.functions(context)["weft_context_entry"][0], r"bti\s+jc")
        for name in LOOKS:
            code = ARM.functions(victim)[name]
            (at,) = [i for i, text in enumerate(code) if ARM.leave.match(text)]
            self.assertRegex(code[at + 1], r"bti\s+j")
        for path in (context, victim):
            self.assertEqual(notes(check("readelf", "-n", path)), {"": {"BTI", "PAC"}})

    @need(AARCH64, QEMU[0])
    def test_aarch64_with_checks_on(self):
        """In a library, because the C library's start files would not pass the checks."""
        flags = ["-O2", "-fPIC", "-mbranch-protection=standard", "-mno-outline-atomics"]
        folder = options.work / "aarch64-bti-run"
        objects = compile_all(AARCH64, flags, [CONTEXT, SLOT, VICTIM, PROGRAM], folder)
        check(AARCH64, "-shared", "-nostartfiles", "-Wl,--defsym=__dso_handle=0", *objects,
              "-o", folder / "libmigration.so")
        program = folder / "migration"
        check(AARCH64, "-xc++", "/dev/null", "-xnone", f"-L{folder}", "-lmigration",
              f"-Wl,-rpath,{folder}", "-o", program)
        done = run(*QEMU, "-cpu", "max", program)
        self.assertEqual((done.returncode, done.stdout), (0, "right right\n"))
        refused = run("bash", "-c", 'ulimit -c 0; "$@" 2>&1', "-", *QEMU, "-cpu", "max", program,
                      "no-landing")
        self.assertIn("Illegal instruction", refused.stdout, "branches were not checked at all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1].split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--library", type=Path)
    options, rest = parser.parse_known_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sys.argv[1:] = rest
    main()
