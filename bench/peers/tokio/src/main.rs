// Tokio peer. usage: tokio-peer <workload> <workers>   (workers 0 = current_thread runtime)
// Tokio has no unbuffered channel: mpsc(1) stands in; *_rdv uses flume::bounded(0), a true
// rendezvous.
// tokio mpsc is single-consumer, so the MPMC workload (buf_4x4) uses flume::bounded(128).
use futures::poll;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, Mutex, Notify};
use tokio::task::{spawn, yield_now, JoinSet};

fn emit(m: &str, v: f64, u: &str) {
    println!("{m} {v:.4} {u}");
}
fn per_op(m: &str, t: Instant, n: usize) {
    emit(m, t.elapsed().as_nanos() as f64 / n as f64, "ns");
}
fn msec(m: &str, t: Instant) {
    emit(m, t.elapsed().as_secs_f64() * 1e3, "ms");
}
fn rss() -> f64 {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap();
    s.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}
fn page_tables() -> f64 {
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = s.lines().find(|l| l.starts_with("VmPTE:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}
fn usage() -> libc::rusage {
    unsafe {
        let mut r = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut r);
        r
    }
}
fn cpu() -> f64 {
    let r = usage();
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(r.ru_utime) + s(r.ru_stime)
}
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

async fn yields(n: usize, total: usize) {
    let t = Instant::now();
    let mut hs = vec![];
    for _ in 0..n {
        hs.push(spawn(async move {
            for _ in 0..total / n {
                yield_now().await
            }
        }));
    }
    for h in hs {
        h.await.unwrap()
    }
    per_op(&format!("yield_{n}"), t, total);
}

async fn spawns() {
    const SEQ: usize = 300_000;
    const BATCH: usize = 100_000;
    let t = Instant::now();
    for _ in 0..SEQ {
        spawn(async {}).await.unwrap();
    }
    per_op("spawn_seq", t, SEQ);
    for m in ["spawn_batch_cold", "spawn_batch"] {
        let t = Instant::now();
        let hs: Vec<_> = (0..BATCH).map(|_| spawn(async {})).collect();
        for h in hs {
            h.await.unwrap()
        }
        per_op(m, t, BATCH);
    }
    let t = Instant::now();
    let mut set = JoinSet::new();
    for _ in 0..BATCH {
        set.spawn(async {});
    }
    while set.join_next().await.is_some() {}
    per_op("spawn_batch_joinset", t, BATCH);
}

async fn pingpong() {
    const N: usize = 500_000;
    let (atx, mut arx) = mpsc::channel::<u64>(1);
    let (btx, mut brx) = mpsc::channel::<u64>(1);
    spawn(async move {
        while let Some(v) = arx.recv().await {
            let _ = btx.send(v).await;
        }
    });
    let t = Instant::now();
    for i in 0..N {
        atx.send(i as u64).await.unwrap();
        brx.recv().await.unwrap();
    }
    per_op("pingpong", t, N);

    let (atx, arx) = flume::bounded::<u64>(0);
    let (btx, brx) = flume::bounded::<u64>(0);
    spawn(async move {
        while let Ok(v) = arx.recv_async().await {
            let _ = btx.send_async(v).await;
        }
    });
    let t = Instant::now();
    for i in 0..N {
        atx.send_async(i as u64).await.unwrap();
        brx.recv_async().await.unwrap();
    }
    per_op("pingpong_rdv", t, N);
}

async fn buffered() {
    const N: usize = 3_000_000;
    let (tx, mut rx) = mpsc::channel::<u64>(128);
    let t = Instant::now();
    spawn(async move {
        for i in 0..N {
            tx.send(i as u64).await.unwrap();
        }
    });
    while rx.recv().await.is_some() {}
    per_op("buf_1x1", t, N);

    let (tx, rx) = flume::bounded::<u64>(128);
    let t = Instant::now();
    let mut hs = vec![];
    for _ in 0..4 {
        let (tx, rx) = (tx.clone(), rx.clone());
        hs.push(spawn(async move {
            for i in 0..N / 4 {
                tx.send_async(i as u64).await.unwrap();
            }
        }));
        hs.push(spawn(async move { while rx.recv_async().await.is_ok() {} }));
    }
    drop(tx);
    for h in hs {
        h.await.unwrap()
    }
    per_op("buf_4x4", t, N);
}

async fn sel(name: &str, cap: usize, total: usize) {
    let t = Instant::now();
    let make = || {
        let (tx, rx) = mpsc::channel::<u64>(cap);
        spawn(async move {
            for j in 0..total / 4 {
                tx.send(j as u64).await.unwrap();
            }
        });
        rx
    };
    let (mut a, mut b, mut c, mut d) = (make(), make(), make(), make());
    let mut sum = 0u64;
    loop {
        tokio::select! {
            Some(v) = a.recv() => sum += v,
            Some(v) = b.recv() => sum += v,
            Some(v) = c.recv() => sum += v,
            Some(v) = d.recv() => sum += v,
            else => break,
        }
    }
    std::hint::black_box(sum);
    per_op(name, t, total);
}

async fn ring() {
    const N: usize = 503;
    const HOPS: usize = 1_000_000;
    let done = Arc::new(Notify::new());
    let (first, mut rx) = mpsc::channel::<usize>(1);
    for i in 0..N {
        let (tx, next) = mpsc::channel::<usize>(1);
        let tx = if i == N - 1 { first.clone() } else { tx };
        let done = done.clone();
        let mut input = std::mem::replace(&mut rx, next);
        spawn(async move {
            while let Some(v) = input.recv().await {
                if v == 0 {
                    done.notify_one();
                    return;
                }
                tx.send(v - 1).await.unwrap();
            }
        });
    }
    let t = Instant::now();
    first.send(HOPS).await.unwrap();
    done.notified().await;
    per_op("ring", t, HOPS);
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn skynode(c: mpsc::Sender<usize>, num: usize, size: usize) -> Task<()> {
    Box::pin(async move {
        if size == 1 {
            c.send(num).await.unwrap();
            return;
        }
        let (tx, mut rx) = mpsc::channel(1);
        for i in 0..10 {
            spawn(skynode(tx.clone(), num + i * (size / 10), size / 10));
        }
        drop(tx);
        let mut sum = 0;
        while let Some(v) = rx.recv().await {
            sum += v;
        }
        c.send(sum).await.unwrap();
    })
}
async fn skynet() {
    let t = Instant::now();
    let (tx, mut rx) = mpsc::channel(1);
    spawn(skynode(tx, 0, 1_000_000));
    assert_eq!(rx.recv().await, Some(499_999_500_000));
    msec("skynet", t);
    emit("skynet_peak", usage().ru_maxrss as f64 / 1024.0, "MiB");
}

async fn mem(label: &str, n: usize) {
    let up = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(Notify::new());
    let mut hs = Vec::with_capacity(n);
    let (r0, p0) = (rss(), page_tables());
    let t = Instant::now();
    for _ in 0..n {
        let (up, stop) = (up.clone(), stop.clone());
        hs.push(spawn(async move {
            let w = stop.notified();
            up.fetch_add(1, Relaxed);
            w.await;
        }));
    }
    while up.load(Relaxed) < n {
        yield_now().await
    }
    per_op(&format!("mem_{label}_create"), t, n);
    emit(&format!("mem_{label}"), (rss() - r0) / n as f64, "B");
    emit(&format!("mem_{label}_tables"), (page_tables() - p0) / n as f64, "B");
    let t = Instant::now();
    stop.notify_waiters();
    for h in hs {
        h.await.unwrap()
    }
    per_op(&format!("mem_{label}_teardown"), t, n);
}

async fn sleepers() {
    const N: usize = 100_000;
    let mut r = Rng(88172645463325252);
    let c0 = cpu();
    let mut hs = Vec::with_capacity(N);
    for _ in 0..N {
        let d = Duration::from_millis(1 + r.below(1000));
        hs.push(spawn(async move {
            let t = Instant::now();
            tokio::time::sleep(d).await;
            (t.elapsed().as_secs_f64() - d.as_secs_f64()) * 1e3
        }));
    }
    let (mut sum, mut max) = (0.0, 0.0);
    for h in hs {
        let l = h.await.unwrap();
        sum += l;
        max = f64::max(max, l);
    }
    emit("sleep_cpu", (cpu() - c0) * 1e3, "ms");
    emit("sleep_late_mean", sum / N as f64, "ms");
    emit("sleep_late_max", max, "ms");
}

async fn timers() {
    const N: usize = 1_000_000;
    let hour = Duration::from_secs(3600);
    let t = Instant::now();
    for _ in 0..N {
        let s = tokio::time::sleep(hour); // registers with the wheel on first poll
        tokio::pin!(s);
        assert!(poll!(s.as_mut()).is_pending());
    }
    per_op("timer_seq", t, N);
    let mut r = Rng(88172645463325252);
    let t = Instant::now();
    let mut v = Vec::with_capacity(N);
    for _ in 0..N {
        let mut s = Box::pin(tokio::time::sleep(hour + Duration::from_millis(r.below(1000))));
        let _ = poll!(s.as_mut());
        v.push(s);
    }
    drop(v);
    per_op("timer_bulk", t, N);
}

async fn mutex(name: &str, total: usize, y: bool) {
    const K: usize = 64;
    let m = Arc::new(Mutex::new(0usize));
    let t = Instant::now();
    let mut hs = vec![];
    for _ in 0..K {
        let m = m.clone();
        hs.push(spawn(async move {
            for _ in 0..total / K {
                let mut g = m.lock().await;
                *g += 1;
                if y {
                    yield_now().await
                }
            }
        }));
    }
    for h in hs {
        h.await.unwrap()
    }
    per_op(name, t, total);
}

fn fib(n: u64) -> Task<u64> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let a = spawn(fib(n - 1));
        let b = fib(n - 2).await;
        a.await.unwrap() + b
    })
}
async fn forkjoin(n: u64, spawns: usize) {
    let t = Instant::now();
    fib(n).await;
    per_op(&format!("fib_{n}"), t, spawns);
}

async fn sieve() {
    let t = Instant::now();
    let (tx, mut rx) = mpsc::channel::<u64>(1);
    spawn(async move {
        let mut i = 2;
        while tx.send(i).await.is_ok() {
            i += 1
        }
    });
    for _ in 0..2000 {
        let p = rx.recv().await.unwrap();
        let (tx, next) = mpsc::channel::<u64>(1);
        let mut input = std::mem::replace(&mut rx, next);
        spawn(async move {
            while let Some(v) = input.recv().await {
                if v % p != 0 && tx.send(v).await.is_err() {
                    return;
                }
            }
        });
    }
    msec("sieve", t);
    std::process::exit(0);
}

async fn cancel() {
    const N: usize = 100_000;
    let up = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..N {
        let up = up.clone();
        set.spawn(async move {
            up.fetch_add(1, Relaxed);
            futures::future::pending::<()>().await
        });
    }
    while up.load(Relaxed) < N {
        yield_now().await
    }
    let t = Instant::now();
    set.abort_all();
    while set.join_next().await.is_some() {}
    msec("cancel_100k", t);
}

async fn echo(port: u16) {
    let l = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    loop {
        let (mut s, _) = l.accept().await.unwrap();
        s.set_nodelay(true).unwrap();
        spawn(async move {
            let mut buf = [0u8; 4096];
            while let Ok(n) = s.read(&mut buf).await {
                if n == 0 || s.write_all(&buf[..n]).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn web(port: u16) {
    use hyper::service::{make_service_fn, service_fn};
    use hyper::{Body, Request, Response, Server};
    let svc = make_service_fn(|_| async {
        Ok::<_, std::convert::Infallible>(service_fn(|_: Request<Body>| async {
            let mut r = Response::new(Body::from("hello world\n"));
            let text = hyper::header::HeaderValue::from_static("text/plain");
            r.headers_mut().insert("content-type", text);
            Ok::<_, std::convert::Infallible>(r)
        }))
    });
    Server::bind(&([127, 0, 0, 1], port).into()).tcp_nodelay(true).serve(svc).await.unwrap();
}

async fn run(w: String, port: u16) {
    match w.as_str() {
        "yield" => {
            yields(1, 3_000_000).await;
            yields(1000, 3_000_000).await
        }
        "spawn" => spawns().await,
        "pingpong" => pingpong().await,
        "buffered" => buffered().await,
        "select" => {
            sel("select4", 1, 800_000).await;
            sel("select4_buf", 128, 2_000_000).await
        }
        "ring" => ring().await,
        "skynet" => skynet().await,
        "mem100k" => mem("100k", 100_000).await,
        "mem1m" => mem("1m", 1_000_000).await,
        "sleepers" => sleepers().await,
        "timers" => timers().await,
        "mutex" => {
            mutex("mutex", 1_000_000, false).await;
            mutex("mutex_yield", 400_000, true).await
        }
        "fib" => forkjoin(25, 121_392).await,
        "fib30" => forkjoin(30, 1_346_268).await,
        "sieve" => sieve().await,
        "cancel" => cancel().await,
        "echo" => echo(port).await,
        "http" => web(port).await,
        _ => std::process::exit(2),
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: usize = a[2].parse().unwrap();
    let port = a.get(3).map_or(0, |p| p.parse().unwrap());
    let rt = match n {
        0 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(n).enable_all().build(),
    }
    .unwrap();
    // spawned, so that the measured tasks run on the workers and not on the block_on thread
    rt.block_on(async { spawn(run(a[1].clone(), port)).await.unwrap() });
    std::process::exit(0);
}
