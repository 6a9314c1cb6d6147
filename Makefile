# Everything a contributor types. The work is done by CMake (CMakePresets.json) and ctest; each
# target first sees to it that the Debian packages of scripts/packages.txt are there.

JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

PRESETS := dev release asan tsan ubsan model bench clang aarch64

.PHONY: all
all: build-dev

.PHONY: help
help:
	@echo 'make             build preset dev into build/dev'
	@echo 'make run         build preset release and take the tour: build/release/bin/weft tour'
	@echo 'make test        build preset dev and run its tests, all but the long ones'
	@echo 'make test-long   every preset, the long tests and the long budgets of the models'
	@echo 'make test-seeds  the simulated tests, with SEEDS=10000 schedules each'
	@echo 'make bench       build preset bench and measure weft; PEERS=1: beside its peers'
	@echo 'make bench-net   the same for sockets alone, always beside the peers'
	@echo 'make bench-record   put the results of the last run into README.md; bench-net-record'
	@echo 'make build-X     build preset X:  $(PRESETS)'
	@echo 'make test-X      the same, then run its tests'
	@echo 'make format      format the C++ sources'
	@echo 'make tables      print the tables of core/spec.hpp into docs/protocol.md'
	@echo 'make clean       remove build/'

.PHONY: bootstrap
bootstrap:
	@scripts/bootstrap.sh

# Ninja notices changed CMake files; changed presets are ours to notice. CONFIGURE: more arguments
# for cmake, such as .ci/run has.
CONFIGURE ?=
.PRECIOUS: build/%/build.ninja
build/%/build.ninja: CMakePresets.json cmake/toolchain-aarch64.cmake | bootstrap
	cmake --preset $* $(CONFIGURE)
	@touch $@

.PHONY: $(PRESETS:%=build-%)
$(PRESETS:%=build-%): build-%: bootstrap build/%/build.ninja
	cmake --build --preset $*

.PHONY: $(PRESETS:%=test-%)
$(PRESETS:%=test-%): test-%: build-%
	ctest --preset $*

.PHONY: test
test: test-dev

# The models run once, in preset model, with the long budget.
LONG := dev release asan tsan ubsan clang aarch64
# The simulated tests with ten thousand schedules each, fifty times as many as `make test`.
SEEDS ?= 10000
.PHONY: test-seeds
test-seeds: build-dev
	@scripts/test_seeds.sh build/dev $(SEEDS)

.PHONY: test-long
test-long: $(LONG:%=build-%) test-model test-seeds
	@set -e; for preset in $(LONG); do \
	  echo "== $$preset"; \
	  ctest --test-dir build/$$preset --output-on-failure --no-tests=error \
	    --label-exclude "^(model|no-$$preset)$$"; \
	done

.PHONY: run
run: bootstrap build/release/build.ninja
	cmake --build --preset release --target weft_cli
	@build/release/bin/weft tour

# Weft alone. `make bench PEERS=1` installs the peers and takes turns with them; PASSES, WORKLOADS,
# WORKERS and ONLY go the same way and are explained in bench/README.md.
.PHONY: bench
bench: build-bench
	@bench/run.sh build/bench/bin

.PHONY: bench-record
bench-record:
	@bench/run.sh --readme build/bench/results/results.json

# Sockets alone, always beside the peers: W13, W15 and W20. Servers have one worker.
.PHONY: bench-net
bench-net: export PEERS ?= 1
bench-net: export WORKERS ?= 1 2
bench-net: export WORKLOADS ?= echo http idle_connections kidnap
bench-net: export RESULTS := results-net
bench-net: build-bench
	@bench/run.sh build/bench/bin

.PHONY: bench-net-record
bench-net-record:
	@bench/run.sh --readme build/bench/results-net/results.json bench-net

.PHONY: tables
tables: bootstrap build/dev/build.ninja
	cmake --build --preset dev --target spec-tables
	@tests/tidy/tidy.py --spec-tables build/dev/bin/spec-tables --fix tables

.PHONY: format
format:
	@scripts/bootstrap.sh clang-format
	@find include src tests examples bench tools \( -name '*.hpp' -o -name '*.cpp' \) -print0 | \
	  xargs -0 clang-format -i

.PHONY: clean
clean:
	rm -rf build
