#!/usr/bin/env bash
# Every test that runs in simulation, with many schedules each.
#   scripts/test_seeds.sh BUILD_DIR SEEDS
#
# Not by ctest, whose limits are for 200 schedules. A test that fails says which seed it was; keep
# that seed as a test of its own.
set -u -o pipefail
if [[ $# != 2 || ! -d "$1/bin" || ! "$2" =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: scripts/test_seeds.sh BUILD_DIR SEEDS, where BUILD_DIR/bin holds the tests" >&2
  exit 2
fi
cd "$(dirname "$0")/.." || exit 2
export WEFT_TEST_SEEDS=$2 WEFT_TEST_TIME_SCALE=1000 GTEST_BRIEF=1
failed=0
ran=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for source in $(grep -rl --include='*_test.cpp' 'support/engines.hpp' tests | sort); do
  program=$1/bin/$(basename "$source" .cpp)
  [[ -x $program ]] || continue
  begin=$SECONDS
  if "$program" >"$log" 2>&1; then
    word=passed
  else
    word=FAILED
    failed=$((failed + 1))
    tail -60 "$log"
  fi
  ran=$((ran + 1))
  printf '%-32s %s, %d s\n' "$(basename "$program")" "$word" $((SECONDS - begin))
done
echo "$((ran - failed)) passed, $failed failed"
[[ $ran -gt 0 && $failed -eq 0 ]]
