%% Erlang peer. usage: erl +S N:N +P 4000000 -noshell -s bench main <workload> <workers> [port]
%% Processes have mailboxes, not channels: "channel" = send and receive. The workloads select,
%% unbuffered and mutex are absent.
-module(bench).
-export([main/1]).

emit(M, V, U) -> io:format("~s ~.4f ~s~n", [M, float(V), U]).
now_ns() -> erlang:monotonic_time(nanosecond).
per_op(M, T, N) -> emit(M, (now_ns() - T) / N, "ns").
msec(M, T) -> emit(M, (now_ns() - T) / 1.0e6, "ms").
rss() ->
    {ok, B} = file:read_file("/proc/self/statm"),
    [_, R | _] = string:lexemes(binary_to_list(B), " "),
    list_to_integer(R) * 4096.
peak_mib() ->
    {ok, B} = file:read_file("/proc/self/status"),
    {match, [K]} = re:run(B, "VmHWM:\\s+(\\d+)", [{capture, [1], list}]),
    list_to_integer(K) / 1024.
cpu() -> {R, _} = statistics(runtime), R.  % ms, all threads

wait(0, _) -> ok;
wait(N, M) -> receive M -> wait(N - 1, M) end.
loop(0, _) -> ok;
loop(N, F) -> F(), loop(N - 1, F).

yields(N, Total) ->
    Me = self(),
    T = now_ns(),
    loop(N, fun() -> spawn(fun() -> loop(Total div N, fun erlang:yield/0), Me ! done end) end),
    wait(N, done),
    per_op(io_lib:format("yield_~b", [N]), T, Total).

spawns() ->
    Me = self(),
    T = now_ns(),
    loop(300000, fun() ->
        {_, R} = spawn_monitor(fun() -> ok end),
        receive {'DOWN', R, _, _, _} -> ok end
    end),
    per_op("spawn_seq", T, 300000),
    [begin
        T1 = now_ns(),
        loop(100000, fun() -> spawn(fun() -> Me ! done end) end),
        wait(100000, done),
        per_op(M, T1, 100000)
     end || M <- ["spawn_batch_cold", "spawn_batch"]].

pong() -> receive {P, V} -> P ! V, pong() end.
ping(_, 0) -> ok;
ping(P, N) -> P ! {self(), N}, receive N -> ping(P, N - 1) end.

ring_node(Next, Main) ->
    receive 0 -> Main ! done; V -> Next ! (V - 1), ring_node(Next, Main) end.
ring() ->
    Me = self(),
    First = spawn(fun() -> receive {next, Nx} -> ring_node(Nx, Me) end end),
    Link = fun(_, Nx) -> spawn(fun() -> ring_node(Nx, Me) end) end,
    Last = lists:foldl(Link, First, lists:seq(1, 502)),
    First ! {next, Last},
    T = now_ns(),
    First ! 1000000,
    wait(1, done),
    per_op("ring", T, 1000000).

sky(P, Num, 1) -> P ! Num;
sky(P, Num, Size) ->
    Me = self(), S = Size div 10,
    [spawn(fun() -> sky(Me, Num + I * S, S) end) || I <- lists:seq(0, 9)],
    P ! lists:sum([receive V -> V end || _ <- lists:seq(1, 10)]).
skynet() ->
    T = now_ns(), Me = self(),
    spawn(fun() -> sky(Me, 0, 1000000) end),
    receive 499999500000 -> ok end,
    msec("skynet", T),
    emit("skynet_peak", peak_mib(), "MiB").

parked(N) ->
    Me = self(),
    Ps = [spawn(fun() -> Me ! up, receive stop -> Me ! down end end) || _ <- lists:seq(1, N)],
    wait(N, up),
    Ps.
mem(L, N) ->
    R0 = rss(), T = now_ns(),
    Ps = parked(N),
    per_op(["mem_", L, "_create"], T, N),
    emit(["mem_", L], (rss() - R0) / N, "B"),
    T1 = now_ns(),
    [P ! stop || P <- Ps],
    wait(N, down),
    per_op(["mem_", L, "_teardown"], T1, N).

cancel() ->
    N = 100000, Me = self(),
    Ps = [spawn(fun() -> Me ! up, receive never -> ok end end) || _ <- lists:seq(1, N)],
    wait(N, up),
    [monitor(process, P) || P <- Ps],
    T = now_ns(),
    [exit(P, shutdown) || P <- Ps],
    loop(N, fun() -> receive {'DOWN', _, _, _, _} -> ok end end),
    msec("cancel_100k", T).

sleepers() ->
    N = 100000, Me = self(), C0 = cpu(),
    loop(N, fun() ->
        D = rand:uniform(1000),
        spawn(fun() -> T = now_ns(), timer:sleep(D), Me ! {late, (now_ns() - T) / 1.0e6 - D} end)
    end),
    L = [receive {late, X} -> X end || _ <- lists:seq(1, N)],
    emit("sleep_cpu", cpu() - C0, "ms"),
    emit("sleep_late_mean", lists:sum(L) / N, "ms"),
    emit("sleep_late_max", lists:max(L), "ms").

timers() ->
    N = 1000000, T = now_ns(),
    loop(N, fun() -> erlang:cancel_timer(erlang:start_timer(3600000, self(), x)) end),
    per_op("timer_seq", T, N),
    T1 = now_ns(),
    Ts = [erlang:start_timer(3600000 + rand:uniform(1000), self(), x) || _ <- lists:seq(1, N)],
    [erlang:cancel_timer(R) || R <- Ts],
    per_op("timer_bulk", T1, N).

fib(N) when N < 2 -> N;
fib(N) ->
    Me = self(),
    P = spawn(fun() -> Me ! {self(), fib(N - 1)} end),
    B = fib(N - 2),
    receive {P, A} -> A + B end.

echo(Port) ->
    Options = [binary, {active, false}, {reuseaddr, true}, {nodelay, true}, {backlog, 4096},
               {ip, {127,0,0,1}}],
    {ok, L} = gen_tcp:listen(Port, Options),
    accept(L).
accept(L) ->
    {ok, S} = gen_tcp:accept(L),
    gen_tcp:controlling_process(S, spawn(fun() -> serve(S) end)),
    accept(L).
serve(S) ->
    case gen_tcp:recv(S, 0) of
        {ok, B} -> gen_tcp:send(S, B), serve(S);
        _ -> ok
    end.

run(yield, _) -> yields(1, 3000000), yields(1000, 3000000);
run(spawn, _) -> spawns();
run(pingpong, _) ->
    P = spawn(fun pong/0), T = now_ns(), ping(P, 500000), per_op("pingpong", T, 500000);
run(ring, _) -> ring();
run(skynet, _) -> skynet();
run(mem100k, _) -> mem("100k", 100000);
run(mem1m, _) -> mem("1m", 1000000);
run(sleepers, _) -> sleepers();
run(timers, _) -> timers();
run(fib, _) -> T = now_ns(), fib(25), per_op("fib_25", T, 121392);
run(fib30, _) -> T = now_ns(), fib(30), per_op("fib_30", T, 1346268);
run(cancel, _) -> cancel();
run(echo, [Port]) -> echo(list_to_integer(atom_to_list(Port))).

main([W, _ | Rest]) ->
    try run(W, Rest), halt(0) catch error:function_clause -> halt(2) end.
