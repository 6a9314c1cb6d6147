#!/usr/bin/env bash
# Measures weft, alone or beside its peers: the same workloads, in turn, in one run; prints tables.
#
#   bench/run.sh BIN_DIR                 BIN_DIR holds weft-bench, as build/bench/bin does
#   bench/run.sh --readme RESULTS.json [BLOCK]
#                                        records the results of a run in the repository's README
#
#   PASSES=3                             passes over all programs
#   WORKLOADS="yield spawn fib30"        which; bench/README.md lists them all
#   WORKERS="1 2"                        each with as many cores of its own as it has workers
#   PEERS=1                              with the peers: installs their Debian packages first;
#                                        PEERS=installed: with those that are there
#   ONLY=regex                           only the peers whose name matches
#   RESULTS=results                      folder of the results
#
# A peer whose packages are not installed is skipped. Everything written goes beside BIN_DIR: built
# peers to peers/, the raw values, JSON, tables and plot to results/.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
if [[ "${1:-}" == --readme ]]; then exec python3 -B "$here/report.py" "$@"; fi
if [[ $# != 1 || ! -x "$1/weft-bench" ]]; then
  echo "usage: bench/run.sh BIN_DIR, where BIN_DIR/weft-bench exists (make bench builds it)" >&2
  exit 2
fi
bin="$(cd "$1" && pwd)"
peers="$(dirname "$bin")/peers"
results="$(dirname "$bin")/${RESULTS:-results}"
csv="$results/results.csv"
passes="${PASSES:-3}"
default_workloads="yield spawn pingpong buffered select ring skynet mem1m sleepers timers mutex"
default_workloads="$default_workloads fib30 sieve cancel pipeline parmap kidnap herd hogs"
default_workloads="$default_workloads isolation idle wake_storm sim echo http idle_connections"
workloads="${WORKLOADS:-$default_workloads}"
workers_wanted="${WORKERS:-1 2}"
only="${ONLY:-.}"
if [[ ! "$passes" =~ ^[1-9][0-9]*$ ]]; then
  echo "bench/run.sh: PASSES is \"$passes\", not a number from 1" >&2
  exit 2
fi
if [[ ! "$workers_wanted" =~ ^[1-9][0-9]*( [1-9][0-9]*)*$ ]]; then
  echo "bench/run.sh: WORKERS is \"$workers_wanted\", not numbers from 1" >&2
  exit 2
fi
limit=120 # seconds for one workload of one program
mkdir -p "$peers" "$results"

say() { printf '%s\n' "$*" >&2; }

# ---- the programs --------------------------------------------------------------------------------
# name | what it is built from | what must be there | Debian package | libraries
# weft's own columns beside `weft`: sockets with the reactor that is named, whatever is the default.

programs() {
  cat <<'TABLE'
weft-epoll||reactor:epoll||
weft-uring||reactor:uring||
go|go|command:go|golang-go|
tokio|tokio|file:/usr/share/cargo/registry/tokio-1*|cargo, librust-tokio-dev and others|
boost-fiber|boost.cpp|header:boost/fiber/all.hpp|libboost-fiber1.81-dev|boost_fiber boost_context
tbb|tbb.cpp|header:tbb/task_group.h|libtbb-dev|tbb
st|st.cpp|header:st.h|libst-dev|st
pth|pth.cpp|header:pth.h|libpth-dev|pth
erlang|erlang|command:erl|erlang-base|
threads|threads.cpp|header:thread|g++|
asio-spawn|asio.cpp|header:boost/asio.hpp|libboost-coroutine1.81-dev|boost_coroutine boost_context
asio-co|asio.cpp|header:boost/asio.hpp|libboost-coroutine1.81-dev|boost_coroutine boost_context
epoll|epoll.cpp|header:sys/epoll.h|g++|
uring|uring.cpp|header:liburing.h|liburing-dev|uring
nginx||command:nginx|nginx-light|
TABLE
}

# Debian's own places, for a shell that has a toolchain of its own on its PATH.
PATH="$PATH:/usr/bin:/usr/sbin"

there() { # command:NAME, file:GLOB, header:NAME or reactor:NAME
  case "$1" in
    command:*) command -v "${1#command:}" >/dev/null ;;
    reactor:*) [[ "$(WEFT_IO="${1#*:}" "$bin/weft-bench" --reactor 2>/dev/null)" =~ ${1#*:}$ ]] ;;
    file:*) compgen -G "${1#file:}" >/dev/null ;;
    header:*) echo "#include <${1#header:}>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
  esac
}

compile() { # <source> <program> <libraries...>
  local source="$1" program="$2"
  shift 2
  [[ "$program" -nt "$source" && "$program" -nt "$here/peers/bench.hpp" &&
    "$program" -nt "$here/peers/serve.hpp" ]] ||
    g++ -std=c++20 -O2 -DNDEBUG -pthread "$source" -o "$program" "${@/#/-l}"
}

# shellcheck disable=SC2086
build() { # <what> <libraries>
  case "$1" in
    "") ;;
    go) (cd "$here/peers/go" && go build -o "$peers/go-peer" .) ;;
    tokio) # cargo writes a lock file beside the manifest, so it works on a copy
      rm -rf "$peers/tokio-source" && cp -r "$here/peers/tokio" "$peers/tokio-source" &&
        (cd "$peers/tokio-source" &&
          cargo build --quiet --release --offline --target-dir "$peers/tokio-target") ;;
    erlang) erlc -o "$peers" "$here/peers/erlang/bench.erl" ;;
    *) compile "$here/peers/$1" "$peers/${1%.cpp}" $2 ;;
  esac
}

available=(weft)
prepare_peers() {
  local name source needs libraries packages
  [[ -n "${PEERS:-}" ]] || return 0
  if [[ "$PEERS" != installed ]]; then install_peers >&2; fi
  while IFS='|' read -r name source needs packages libraries; do
    [[ "$name" =~ $only ]] || continue
    offers_any "$name" || continue
    if ! there "$needs"; then
      if [[ "$needs" == reactor:* ]]; then say "skipped: $name, this weft has no such reactor"
      else say "skipped: $name is not installed (Debian: $packages)"; fi
    elif ! build "$source" "$libraries" >"$peers/$name.log" 2>&1; then
      say "skipped: $name does not build, see $peers/$name.log"
    else
      available+=("$name")
    fi
  done < <(programs)
}

# All at once, or what can be had of it: other releases of Debian have other versions.
install_peers() {
  local list="$here/../scripts/packages-bench.txt" line
  export RUNLEVEL=1 # a server that is installed to be measured is not to be started by Debian
  # shellcheck disable=SC2046
  "$here/../scripts/bootstrap.sh" $(sed -e 's/#.*//' "$list") && return
  while read -r line; do
    # shellcheck disable=SC2086
    [[ -z "$line" ]] || "$here/../scripts/bootstrap.sh" $line || say "not to be had: $line"
  done < <(sed -e 's/#.*//' "$list")
}

# Whether it makes sense to ask a program for a workload; it may still answer that it has none.
offers() { # <name> <workload>
  case "$1 $2" in
    "weft "* | "weft-"*" echo" | "weft-"*" http" | "weft-"*" idle_connections") true ;;
    "weft-"*) false ;;
    "nginx http" | "asio-"*" echo" | "epoll echo" | "epoll http" | "uring echo" | "uring http")
      true ;;
    "nginx "* | "asio-"* | "epoll "* | "uring "*) false ;;
  esac
}
offers_any() {
  local workload
  for workload in $workloads; do if offers "$1" "$workload"; then return 0; fi; done
  return 1
}

command_of() { # <name> <workload> <workers>
  case "$1" in
    weft) echo "$bin/weft-bench $2 $3" ;;
    weft-*) echo "env WEFT_IO=${1#weft-} $bin/weft-bench $2 $3" ;;
    go) echo "$peers/go-peer $2 $3" ;;
    tokio) echo "$peers/tokio-target/release/tokio-peer $2 $3" ;;
    boost-fiber) # a million stacks of the default size do not fit a small machine
      local policy=rr stack=""
      [[ "$3" == 1 ]] || policy=ws
      [[ "$2" != skynet && "$2" != mem1m ]] || stack=16384
      echo "$peers/boost $2 $3 $policy $stack" ;;
    erlang) echo "erl +S $3:$3 +P 4000000 -noshell -pa $peers -s bench main $2 $3" ;;
    asio-*) echo "$peers/asio echo ${1#asio-}" ;;
    nginx) echo "nginx -p $peers/nginx -c nginx.conf" ;;
    *) echo "$peers/$1 $2 $3" ;;
  esac
}

# ---- measuring -----------------------------------------------------------------------------------

# The cores we may use, "0 1": a container may not own core 0.
cores="$(taskset -pc $$ | sed -e 's/.*: //' -e 's/,/ /g' | xargs -n1 |
  awk -F- '{for (i = $1; i <= (NF > 1 ? $2 : $1); ++i) printf "%d ", i}')"
core_count="$(wc -w <<<"$cores")"
first_core="${cores%% *}"
second_core="$(awk '{print (NF > 1 ? $2 : $1)}' <<<"$cores")"

record() { # <name> <workers> <pass>, reads "metric value unit"
  local metric value unit
  while read -r metric value unit; do echo "$1,$2,$metric,$unit,$3,$value" >>"$csv"; done
}
note_failure() { # <name> <workers> <workload> <pass> <exit status>
  say "failed: $1 $3 with $2 worker(s), exit status $5"
  echo "$1,$2,$3,FAILED,$4,$5" >>"$csv"
}

# Status 2: it has no such workload, or not on this machine, and says why.
not_offered() { # <name> <workload> <exit status>
  [[ "$3" == 2 ]] || return 1
  [[ ! -s "$results/errors" ]] || say "skipped: $1 $2: $(head -1 "$results/errors")"
}

run_once() { # <name> <workers> <workload> <pass>
  local pin=() status=0 output="$results/output"
  if (($2 <= core_count)); then pin=(taskset -c "$(cut -d' ' -f1-"$2" <<<"$cores" | tr ' ' ,)"); fi
  # shellcheck disable=SC2046
  timeout $limit "${pin[@]}" $(command_of "$1" "$3" "$2") >"$output" 2>"$results/errors" ||
    status=$?
  record "$1" "$2" "$4" <"$output"
  [[ $status == 0 ]] || not_offered "$1" "$3" $status || note_failure "$1" "$2" "$3" "$4" $status
}

# shellcheck source=bench/network.sh
source "$here/network.sh" # prepare_network, run_server: the workloads echo and http

measure() {
  local pass workload workers name
  echo "program,workers,metric,unit,pass,value" >"$csv"
  for ((pass = 1; pass <= passes; ++pass)); do
    for workload in $workloads; do
      for workers in $workers_wanted; do
        for name in "${available[@]}"; do
          offers "$name" "$workload" || continue
          say "pass $pass of $passes: $workload, $workers worker(s), $name"
          case "$workload" in
            echo | http) [[ "$workers" != 1 ]] || run_server "$name" "$workload" "$pass" ;;
            *) run_once "$name" "$workers" "$workload" "$pass" ;;
          esac
        done
      done
    done
  done
}

# ---- the report ----------------------------------------------------------------------------------

version_of() {
  case "$1" in
    weft) echo "weft $("$bin/weft" --version 2>/dev/null | cut -d' ' -f2)" \
      "$(git -C "$here" describe --always --dirty --abbrev=12 2>/dev/null)" \
      "$("$bin/weft-bench" --build 2>/dev/null)" \
      "$("$bin/weft-bench" --reactor 2>/dev/null)" ;;
    go) go version | cut -d' ' -f3 ;;
    tokio) compgen -G '/usr/share/cargo/registry/tokio-1*' | sed 's#.*/##' ;;
    boost-fiber) dpkg-query -W -f 'Boost ${Version}' libboost-fiber1.81-dev 2>/dev/null ;;
    tbb) dpkg-query -W -f 'TBB ${Version}' libtbb-dev 2>/dev/null ;;
    st) dpkg-query -W -f 'State Threads ${Version}' libst-dev 2>/dev/null ;;
    pth) dpkg-query -W -f 'Pth ${Version}' libpth-dev 2>/dev/null ;;
    erlang) dpkg-query -W -f 'Erlang ${Version}' erlang-base 2>/dev/null ;;
    nginx) nginx -v 2>&1 | cut -d: -f2 ;;
    uring) dpkg-query -W -f 'liburing ${Version}' liburing-dev 2>/dev/null ;;
  esac || true
}

# As CSV for report.py: a comma or a quote in a value stays in its field.
fact() { # <key> <value>
  [[ -z "$2" ]] || printf '%s,"%s"\n' "$1" "${2//\"/\"\"}"
}

about() { # <BIN_DIR as given>
  local name
  echo "key,value"
  fact date "$(date -u +%F)"
  fact passes "$passes"
  for name in "${available[@]}"; do fact version "$(version_of "$name" | xargs)"; done
  [[ " $workloads " != *" http "* ]] || fact version "$(wrk -v 2>&1 | head -1 | cut -d' ' -f1,2)"
  fact version "$(g++ --version | head -1)"
  fact scale "${WEFT_BENCH_SCALE:-}"
  fact command "${CLIENT:+CLIENT=$CLIENT }${LOAD_SECONDS:+LOAD_SECONDS=$LOAD_SECONDS }\
${CONNECTIONS:+CONNECTIONS=\"$CONNECTIONS\" }${PEERS:+PEERS=$PEERS }PASSES=$passes\
 WORKLOADS=\"$workloads\" WORKERS=\"$workers_wanted\" bench/run.sh $1"
}

prepare_peers
prepare_network
about "$1" >"$results/about.csv" # before: what is compiled meanwhile is not what ran
measure
python3 -B "$here/report.py" "$results" "${available[@]}"
say "results: $results"
! grep -Eq '^weft(-[a-z]+)?,.*,FAILED,' "$csv"
