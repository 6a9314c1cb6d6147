"""What tidy.py checks, as data. To change a rule, change it here."""

from dataclasses import dataclass

# ---- layers: who may include whom (docs/architecture.md) -----------------------------------------

MAY_INCLUDE = {
    "base": {"base"},
    "arch": {"arch", "base"},
    "core": {"core", "arch", "base"},
    "sync": {"sync", "core", "base"},
    "scope": {"scope", "core", "base"},
    "net": {"net", "stream", "scope", "sync", "core", "base"},
    "stream": {"stream", "sync", "scope", "core"},
    "csp": {"csp", "stream", "sync", "scope", "core"},
    "engine": {"engine", "core", "arch", "base"},
    "inspect": {"inspect", "engine", "core"},
}

# Headers directly in include/weft/: the layer each belongs to.
PUBLIC_HEADERS = {
    "error": "core",
    "result": "core",
    "this_fiber": "core",
    "time": "core",
    "barrier": "sync",
    "broadcast": "sync",
    "channel": "sync",
    "cond_var": "sync",
    "event": "sync",
    "latch": "sync",
    "mutex": "sync",
    "once": "sync",
    "rate_limiter": "sync",
    "select": "sync",
    "semaphore": "sync",
    "shared_mutex": "sync",
    "sync": "sync",
    "watch": "sync",
    "cancel": "scope",
    "fiber_local": "core",
    "future": "scope",
    "nursery": "scope",
    "supervisor": "scope",
    "blocking": "stream",
    "file": "net",
    "net": "net",
    "pipe": "net",
    "process": "net",
    "signals": "net",
    "ordered_tasks": "stream",
    "pool": "stream",
    "stream": "stream",
    "csp": "csp",
    "blocking_io": "engine",
    "engine": "engine",
    "engine_kit": "engine",
    "explore": "engine",
    "gtest": "engine",
    "sim": "engine",
    "sim_world": "engine",
    "stop_on_signal": "engine",
    "inspect": "inspect",
}

# May include everything, and nothing below may include it.
UMBRELLA = "include/weft/weft.hpp"

# Quoted includes that name no file of include/ or src/.
FOREIGN_INCLUDES = {
    "model_sync.hpp",  # tests/model, in model builds only
}

# ---- headers: how each is compiled alone ---------------------------------------------------------

HEADER_FLAGS = (
    "-std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion "
    "-Werror -DWEFT_SPEC_ASSERT=1"
).split()

# ---- bans: code that must not be written, and what to write instead ------------------------------

EVERYWHERE = ("include/", "src/")
BASE = ("include/weft/base/", "src/base/")
ARCH = ("include/weft/arch/", "src/arch/")
ENGINE = ("include/weft/engine/", "include/weft/engine.hpp", "src/engine/")
REAL_CLOCK = ("src/core/thread.cpp",)  # monotonic_now()
# They stand in for the C library's locks, clocks and sleeps.
LOCK_WATCH = ("src/arch/held_locks.cpp",)
TRIPWIRE = ("src/arch/tripwire.cpp",)
SYSTEM_CALLS = ("src/arch/fault.cpp",)  # the calls that tests can make fail


@dataclass(frozen=True)
class Ban:
    pattern: str  # a regular expression, tried on each line with comments and strings blanked out
    instead: str
    example: str  # a line the ban must catch; the self-test tries it
    where: tuple = EVERYWHERE
    except_in: tuple = ()
    headers_only: bool = False


BANS = [
    Ban(
        r"\bstd::atomic\w*",
        "weft::Atomic<T> and Sync::fence of <weft/base/sync.hpp>, which the model checker can see",
        "std::atomic<int> count{0};",
        except_in=BASE,
    ),
    Ban(
        r"\bstd::(\w+_)?mutex\b|\bstd::(lock_guard|unique_lock|scoped_lock|shared_lock)\b"
        r"|#\s*include\s*<(shared_)?mutex>|\bpthread_mutex_\w+",
        "weft::Lock with weft::Locked of <weft/base/sync.hpp>",
        "static std::mutex guard;",
        except_in=LOCK_WATCH + TRIPWIRE,
    ),
    Ban(
        r"\bstd::condition_variable|#\s*include\s*<condition_variable>|\bpthread_cond_\w+",
        "Sync::sleep and Sync::wake of <weft/base/sync.hpp>",
        "std::condition_variable_any changed;",
        except_in=TRIPWIRE,
    ),
    Ban(
        r"\bstd::j?thread\b|#\s*include\s*<thread>|\bpthread_create\s*\(",
        "a worker of the engine, started by arch::sys_pthread_create",
        "std::jthread helper{f};",
        except_in=BASE + ENGINE + SYSTEM_CALLS,
    ),
    Ban(
        r"\b(steady_clock|high_resolution_clock)::now\b|\bsystem_clock\b"
        r"|\b(clock_gettime|gettimeofday)\b",
        "Clock::now(), which a simulated engine answers as well",
        "auto now = std::chrono::steady_clock::now();",
        except_in=ENGINE + REAL_CLOCK + TRIPWIRE,
    ),
    Ban(
        r"\brandom_device\b|\bs?rand\s*\(|#\s*include\s*<random>",
        "io().random(), which a simulated engine seeds",
        "std::random_device entropy;",
        except_in=ENGINE,
    ),
    Ban(
        r"\bthis_thread::sleep_(for|until)\b|\b(usleep|nanosleep)\s*\(",
        "weft::sleep_for, or an Event that says when to go on",
        "std::this_thread::sleep_for(1ms);",
        except_in=ENGINE + TRIPWIRE,
    ),
    Ban(
        r"\bthread_local\b|\b__thread\b",
        "a pointer kept behind an accessor of src/arch (the compiler caches addresses over a park)",
        "static thread_local int depth = 0;",
        except_in=ARCH,
    ),
    Ban(
        r"\b(printf|puts|putchar)\s*\(|\bstd::cout\b|\bstdout\b",
        "the ostream or descriptor the caller gave; diagnostics go to stderr",
        'std::printf("here");',
    ),
    Ban(
        r"\busing\s+namespace\b",
        "qualified names, or a using-declaration inside a function",
        "using namespace std::chrono_literals;",
        where=("include/", "src/", "tests/"),
        headers_only=True,
    ),
]

# ---- macros: the only ones that may be defined in include/ and src/, and where -------------------

ALLOWED_MACROS = {
    "WEFT_MODEL": EVERYWHERE,
    "WEFT_MUTANTS": EVERYWHERE,
    "WEFT_SPEC_ASSERT": EVERYWHERE,
    # GoogleTest's tests are macros.
    "WEFT_SIM_TEST": ("include/weft/gtest.hpp",),
    # Two compilers tell of their sanitizers in two ways.
    "WEFT_ASAN": ARCH,
    "WEFT_TSAN": ARCH,
    # The clobber list of an asm statement can only be put together by the preprocessor.
    "WEFT_CLOBBERED_MORE": ARCH,
    "WEFT_CLOBBERED_VECTORS": ARCH,
    "WEFT_CLOBBERED_BASE": ARCH,
    "WEFT_BASE_SAVED": ARCH,
    "WEFT_BASE_RESTORED": ARCH,
}

# ---- form: how text files look -------------------------------------------------------------------

COLUMNS_MAX = 100
LINES_MAX = 500  # in include/ and src/: a file is one mechanism
LONG_LINES_IN = ("*.md", "*.json", "LICENSE")
TABS_IN = ("Makefile", "*.mk", "*.go")
ANY_FORM_IN = ("*.expected",)

# ---- words: text that must not be in the repository ----------------------------------------------
# (The brackets keep these patterns from matching themselves.)

WORDS = [
    (r"\bTO[D]O\b|\bFIX[M]E\b", "do it, or open an issue"),
    (r"(?<![\w.])/(wor[k]|roo[t]|hom[e])/", "a path relative to the repository"),
]

# ---- sources: files that the build must name -----------------------------------------------------
# Each file with such a suffix under the directory is named in the CMakeLists.txt of its own or of a
# parent directory, by its path from there.

LISTED = [("src", (".cpp", ".S")), ("tests", (".cpp",))]

# ---- tables: documents that hold tables printed by the program spec-tables -----------------------

TABLE_DOCS = ["docs/protocol.md"]
