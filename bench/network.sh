# shellcheck shell=bash disable=SC2154
# Sourced by run.sh: workloads that need a server, which gets the first core, and a load generator,
# which gets the second. Not measured with more workers: there is no third core for the load.
#
#   CONNECTIONS="64 1000"   of echo; HTTP has 64
#   LOAD_SECONDS=2          how long each load lasts, after a warm-up
#   CLIENT=epoll            or sweep: see peers/client.cpp

connections_wanted="${CONNECTIONS:-64 1000}"
load_seconds="${LOAD_SECONDS:-2}"
echo_client="${CLIENT:-epoll}"
port="$((20000 + RANDOM % 5000))"

nginx_configuration() {
  mkdir -p "$peers/nginx/logs"
  cat >"$peers/nginx/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log /dev/null;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000;
  server {
    listen 127.0.0.1:$port;
    location / { default_type text/plain; return 200 "hello world\n"; }
  }
}
CONF
}

# What the workloads need beside their servers. Those that lack it are left out of $workloads.
prepare_network() {
  local workload left="" why
  for workload in $workloads; do
    why=""
    case "$workload" in
      echo | http)
        if ((core_count < 2)); then
          why="needs a core for the server and another one for the load"
        elif ! compile "$here/peers/client.cpp" "$peers/client" >"$peers/client.log" 2>&1; then
          why="needs peers/client.cpp, which does not build, see $peers/client.log"
        elif [[ "$workload" == http ]] && ! command -v wrk >/dev/null; then
          why="needs wrk (Debian: wrk)"
        fi ;;
    esac
    if [[ -n "$why" ]]; then say "skipped: $workload $why"; else left+=" $workload"; fi
  done
  workloads="${left# }"
  # As many descriptors as W20 needs and no more: some programs make tables of that length.
  ulimit -n 20000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
}

load_echo() { # <name> <pass> <server's process>
  local connections
  for connections in $connections_wanted; do
    timeout "$limit" taskset -c "$second_core" \
      "$peers/client" "$port" "$connections" "$load_seconds" "$3" "$echo_client" \
      >"$results/output" || return
    record "$1" 1 "$2" <"$results/output"
  done
}

# wrk counts what is not an answer, and goes on.
load_http() { # <name> <pass> <server's process>
  local before after report="$results/output" wrk=(wrk -t1 -c64 "-d${load_seconds}s")
  taskset -c "$second_core" wrk -t1 -c64 -d1s "http://127.0.0.1:$port/" >/dev/null || return
  before=$("$peers/client" cpu "$3") || return
  taskset -c "$second_core" "${wrk[@]}" --latency "http://127.0.0.1:$port/" >"$report" || return
  after=$("$peers/client" cpu "$3") || return
  if grep -E 'Socket errors|Non-2xx' "$report" >&2; then return 1; fi
  awk -v cpu="$(awk "BEGIN {print $after - $before}")" '
    function us(text) {
      if (text ~ /us$/) return text + 0
      return (text ~ /ms$/ ? 1e3 : 1e6) * (text + 0)
    }
    $1 == "50%" {print "http_64_p50", us($2), "us"}
    $1 == "99%" {print "http_64_p99", us($2), "us"}
    /requests in/ {requests = $1}
    /Requests\/sec/ {print "http_64", $2, "req/s"}
    END {
      if (!requests) exit 1
      print "http_64_srv_cpu", cpu * 1e6 / requests, "us/req"
    }
  ' "$report" >"$report.lines" || return
  record "$1" 1 "$2" <"$report.lines"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

# Until somebody listens, or the server has ended, or ten seconds are over.
wait_for_server() { # <process>
  local i
  for ((i = 0; i < 100; ++i)); do
    if answers; then return 0; fi
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# By a signal; by force if that takes more than five seconds. False: so it was, or it had ended.
end_server() { # <process>
  local i
  kill "$1" 2>/dev/null || return 1
  for ((i = 0; i < 50; ++i)); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  if kill -KILL "$1" 2>/dev/null; then return 1; fi
}

run_server() { # <name> <workload> <pass>
  local server command status=0
  port=$((port + 1))
  while answers; do port=$((port + 1)); done # somebody else's
  command="$(command_of "$1" "$2" 1)"
  if [[ "$1" == nginx ]]; then nginx_configuration; else command+=" $port"; fi
  # shellcheck disable=SC2086
  taskset -c "$first_core" $command >"$results/server" 2>"$results/errors" &
  server=$!
  if wait_for_server $server; then
    "load_$2" "$1" "$3" $server || note_failure "$1" 1 "$2" "$3" $?
    end_server $server || status=125
    wait $server 2>/dev/null || true
    [[ $status == 0 ]] || note_failure "$1" 1 "$2" "$3" $status # died, or did not end
  elif kill -0 $server 2>/dev/null; then
    end_server $server || true
    wait $server 2>/dev/null || true
    note_failure "$1" 1 "$2" "$3" 124
  else # status 2: it has no such workload
    wait $server || status=$?
    not_offered "$1" "$2" $status || note_failure "$1" 1 "$2" "$3" $status
  fi
}
