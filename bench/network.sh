# shellcheck shell=bash disable=SC2154
# Sourced by run.sh: workloads that need a server, which gets the first core, and a load generator,
# which gets the second. Not measured with more workers: there is no third core for the load.

port=20000

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

cpu_ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

load_echo() { # <name> <pass> <server's process>
  local connections
  compile "$here/peers/client.cpp" "$peers/client"
  for connections in 64 1000; do
    timeout "$limit" taskset -c "$second_core" "$peers/client" $port $connections 2 "$3" |
      record "$1" 1 "$2"
  done
}

load_http() { # <name> <pass> <server's process>
  local before after report
  command -v wrk >/dev/null || { say "skipped: http needs wrk (Debian: wrk)" && return 0; }
  before=$(cpu_ticks "$3")
  report=$(taskset -c "$second_core" wrk -t1 -c64 -d3s "http://127.0.0.1:$port/")
  after=$(cpu_ticks "$3")
  awk -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" '
    /requests in/ {requests = $1}
    /Requests\/sec/ {print "http_64", $2, "req/s"}
    END {print "http_64_srv_cpu", requests ? ticks * 1e6 / hertz / requests : 0, "us/req"}
  ' <<<"$report" | record "$1" 1 "$2"
}

run_server() { # <name> <workload> <pass>
  local server command status=0
  port=$((port + 1))
  command="$(command_of "$1" "$2" 1)"
  if [[ "$1" == nginx ]]; then nginx_configuration; else command+=" $port"; fi
  # shellcheck disable=SC2086
  taskset -c "$first_core" $command >/dev/null 2>&1 &
  server=$!
  sleep 1.5
  if kill -0 $server 2>/dev/null; then
    "load_$2" "$1" "$3" $server || note_failure "$1" 1 "$2" "$3" $?
    kill $server
    wait $server 2>/dev/null || true
  else # status 2: it has no such workload
    wait $server || status=$?
    [[ $status == 2 ]] || note_failure "$1" 1 "$2" "$3" $status
  fi
}
