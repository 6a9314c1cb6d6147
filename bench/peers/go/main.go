// Go peer. usage: go-peer <workload> <GOMAXPROCS>   prints "metric value unit" lines
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func emit(m string, v float64, u string) { fmt.Printf("%s %.6g %s\n", m, v, u) }
func perOp(m string, t time.Time, n int) {
	emit(m, float64(time.Since(t).Nanoseconds())/float64(n), "ns")
}
func msec(m string, t time.Time) { emit(m, time.Since(t).Seconds()*1e3, "ms") }

func rss() float64 {
	b, _ := os.ReadFile("/proc/self/statm")
	v, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return float64(v * os.Getpagesize())
}
func pageTables() float64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(b), "VmPTE:")
	kib, _ := strconv.Atoi(strings.Fields(after)[0])
	return float64(kib * 1024)
}
func peakMiB() float64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Maxrss) / 1024
}
func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func yield(n, total int) {
	var wg sync.WaitGroup
	wg.Add(n)
	t := time.Now()
	for i := 0; i < n; i++ {
		go func() {
			for j := 0; j < total/n; j++ {
				runtime.Gosched()
			}
			wg.Done()
		}()
	}
	wg.Wait()
	perOp(fmt.Sprintf("yield_%d", n), t, total)
}

func spawn() {
	const seq, batch = 300000, 100000
	var wg sync.WaitGroup
	t := time.Now()
	for i := 0; i < seq; i++ {
		wg.Add(1)
		go func() { wg.Done() }()
		wg.Wait()
	}
	perOp("spawn_seq", t, seq)
	for _, m := range []string{"spawn_batch_cold", "spawn_batch"} {
		t = time.Now()
		wg.Add(batch)
		for i := 0; i < batch; i++ {
			go func() { wg.Done() }()
		}
		wg.Wait()
		perOp(m, t, batch)
	}
}

func pingpong() {
	const n = 500000
	a, b := make(chan uint64), make(chan uint64)
	go func() {
		for v := range a {
			b <- v
		}
	}()
	t := time.Now()
	for i := uint64(0); i < n; i++ {
		a <- i
		<-b
	}
	perOp("pingpong", t, n)
}

func buffered(k, total int) {
	c := make(chan uint64, 128)
	var p, q sync.WaitGroup
	p.Add(k)
	q.Add(k)
	t := time.Now()
	for i := 0; i < k; i++ {
		go func() {
			for j := 0; j < total/k; j++ {
				c <- uint64(j)
			}
			p.Done()
		}()
		go func() {
			for range c {
			}
			q.Done()
		}()
	}
	p.Wait()
	close(c)
	q.Wait()
	perOp(fmt.Sprintf("buf_%dx%d", k, k), t, total)
}

func sel(name string, capacity, total int) {
	var c [4]chan uint64
	for i := range c {
		c[i] = make(chan uint64, capacity)
	}
	t := time.Now()
	for i := range c {
		go func(c chan uint64) {
			for j := 0; j < total/4; j++ {
				c <- uint64(j)
			}
		}(c[i])
	}
	var sum uint64
	for i := 0; i < total; i++ {
		select {
		case v := <-c[0]:
			sum += v
		case v := <-c[1]:
			sum += v
		case v := <-c[2]:
			sum += v
		case v := <-c[3]:
			sum += v
		}
	}
	perOp(name, t, total)
}

// Ten goroutines in a row, by hand.
func pipeline(items int) {
	const stages = 10
	t := time.Now()
	in := make(chan uint64, 128)
	go func(first chan<- uint64) {
		for i := 0; i < items; i++ {
			first <- uint64(i)
		}
		close(first)
	}(in)
	for s := 0; s < stages; s++ {
		from, to := in, make(chan uint64, 128)
		go func() {
			for v := range from {
				to <- v + 1
			}
			close(to)
		}()
		in = to
	}
	var sum uint64
	for v := range in {
		sum += v
	}
	if n := uint64(items); sum != n*(n-1)/2+n*stages {
		panic("pipeline: wrong sum")
	}
	perOp("pipe_stages", t, items*stages)
}

// What the work of par_map takes: about 10 us, by its own clock.
func tenMicroseconds(v uint64) uint64 {
	for t := time.Now(); time.Since(t) < 10*time.Microsecond; {
	}
	return v + 1
}

// Four at a time, results in order: a queue of the results to come.
func parMap(items int) {
	const width = 4
	t := time.Now()
	type job struct {
		v   uint64
		out chan uint64
	}
	work := make(chan job)
	order := make(chan chan uint64, width)
	for i := 0; i < width; i++ {
		go func() {
			for j := range work {
				j.out <- tenMicroseconds(j.v)
			}
		}()
	}
	go func() {
		for i := 0; i < items; i++ {
			j := job{uint64(i), make(chan uint64, 1)}
			order <- j.out
			work <- j
		}
		close(work)
		close(order)
	}()
	next := uint64(0)
	for out := range order {
		next++
		if <-out != next {
			panic("parmap: out of order")
		}
	}
	perOp("par_map", t, items)
}

func ring() {
	const n, hops = 503, 1000000
	done := make(chan int)
	first := make(chan int)
	in := first
	for i := 0; i < n; i++ {
		out := make(chan int)
		if i == n-1 {
			out = first
		}
		go func(in, out chan int) {
			for v := range in {
				if v == 0 {
					close(done)
					return
				}
				out <- v - 1
			}
		}(in, out)
		in = out
	}
	t := time.Now()
	first <- hops
	<-done
	perOp("ring", t, hops)
}

func skynode(c chan int, num, size int) {
	if size == 1 {
		c <- num
		return
	}
	rc := make(chan int)
	for i := 0; i < 10; i++ {
		go skynode(rc, num+i*(size/10), size/10)
	}
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-rc
	}
	c <- sum
}
func skynet() {
	t := time.Now()
	c := make(chan int)
	go skynode(c, 0, 1000000)
	if v := <-c; v != 499999500000 {
		panic(v)
	}
	msec("skynet", t)
	emit("skynet_peak", peakMiB(), "MiB")
}

func mem(label string, n int) {
	stop := make(chan struct{})
	var up, down sync.WaitGroup
	up.Add(n)
	down.Add(n)
	r0, p0 := rss(), pageTables()
	t := time.Now()
	for i := 0; i < n; i++ {
		go func() {
			up.Done()
			<-stop
			down.Done()
		}()
	}
	up.Wait()
	perOp("mem_"+label+"_create", t, n)
	emit("mem_"+label, (rss()-r0)/float64(n), "B")
	emit("mem_"+label+"_tables", (pageTables()-p0)/float64(n), "B")
	t = time.Now()
	close(stop)
	down.Wait()
	perOp("mem_"+label+"_teardown", t, n)
}

func sleepers() {
	const n = 100000
	late := make([]float64, n)
	var wg sync.WaitGroup
	wg.Add(n)
	c0 := cpu()
	for i := 0; i < n; i++ {
		d := time.Duration(1+rand.Intn(1000)) * time.Millisecond
		go func(i int) {
			t := time.Now()
			time.Sleep(d)
			late[i] = float64(time.Since(t)-d) / 1e6
			wg.Done()
		}(i)
	}
	wg.Wait()
	emit("sleep_cpu", (cpu()-c0)*1e3, "ms")
	sum, max := 0.0, 0.0
	for _, l := range late {
		sum += l
		if l > max {
			max = l
		}
	}
	emit("sleep_late_mean", sum/n, "ms")
	emit("sleep_late_max", max, "ms")
}

func timers() {
	const n = 1000000
	t := time.Now()
	for i := 0; i < n; i++ {
		time.NewTimer(time.Hour).Stop()
	}
	perOp("timer_seq", t, n)
	ts := make([]*time.Timer, n)
	t = time.Now()
	for i := range ts {
		ts[i] = time.NewTimer(time.Hour + time.Duration(rand.Intn(1000))*time.Millisecond)
	}
	for i := range ts {
		ts[i].Stop()
	}
	perOp("timer_bulk", t, n)
}

func mutex(name string, total int, yield bool) {
	const k = 64
	var m sync.Mutex
	var wg sync.WaitGroup
	x := 0
	wg.Add(k)
	t := time.Now()
	for i := 0; i < k; i++ {
		go func() {
			for j := 0; j < total/k; j++ {
				m.Lock()
				x++
				if yield {
					runtime.Gosched()
				}
				m.Unlock()
			}
			wg.Done()
		}()
	}
	wg.Wait()
	perOp(name, t, total)
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	var wg sync.WaitGroup
	var a int
	wg.Add(1)
	go func() { a = fib(n - 1); wg.Done() }()
	b := fib(n - 2)
	wg.Wait()
	return a + b
}
func forkjoin(n, spawns int) {
	t := time.Now()
	fib(n)
	perOp(fmt.Sprintf("fib_%d", n), t, spawns)
}

func sieve() {
	t := time.Now()
	ch := make(chan int)
	go func() {
		for i := 2; ; i++ {
			ch <- i
		}
	}()
	in := ch
	for i := 0; i < 2000; i++ {
		p := <-in
		out := make(chan int)
		go func(in, out chan int, p int) {
			for {
				if v := <-in; v%p != 0 {
					out <- v
				}
			}
		}(in, out, p)
		in = out
	}
	msec("sieve", t)
}

func cancel() {
	const n = 100000
	ctx, stop := context.WithCancel(context.Background())
	never := make(chan int)
	var up, down sync.WaitGroup
	up.Add(n)
	down.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			defer down.Done()
			up.Done()
			select {
			case <-ctx.Done():
			case <-never:
			}
		}()
	}
	up.Wait()
	t := time.Now()
	stop()
	down.Wait()
	msec("cancel_100k", t)
}

// ---- W15 and W17: a heart, and those beside it

func percentile(values []float64, hundredths float64) float64 {
	sort.Float64s(values)
	at := int(hundredths / 100 * float64(len(values)))
	if at >= len(values) {
		at = len(values) - 1
	}
	return values[at]
}

// A beat per millisecond, whenever next returns; what was missed is lost.
func heartBeside(count int, disturb func(end time.Time), beating func() (func(), func())) (
	beats int, gaps []float64) {
	var wg sync.WaitGroup
	wg.Add(count + 1)
	begin := time.Now()
	end := begin.Add(2 * time.Second)
	go func() {
		defer wg.Done()
		next, stop := beating()
		defer stop()
		for last := begin; last.Before(end); {
			next()
			now := time.Now()
			if now.Before(end) {
				beats++
			}
			gaps = append(gaps, now.Sub(last).Seconds()*1e3)
			last = now
		}
	}()
	for i := 0; i < count; i++ {
		go func() {
			defer wg.Done()
			disturb(end)
		}()
	}
	wg.Wait()
	return
}

func byTicker() (next, stop func()) {
	ticker := time.NewTicker(time.Millisecond)
	return func() { <-ticker.C }, ticker.Stop
}

// From another process: a goroutine that sends would be disturbed itself.
func bySocket() (next, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	sender := exec.Command(os.Args[0], "pulse", "1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	if err := sender.Start(); err != nil {
		panic(err)
	}
	c, err := l.Accept()
	if err != nil {
		panic(err)
	}
	buf := make([]byte, 64)
	next = func() {
		if _, err := c.Read(buf); err != nil {
			panic(err)
		}
	}
	return next, func() {
		c.Close()
		l.Close()
		sender.Process.Kill()
		sender.Wait()
	}
}

// Until nobody listens any more.
func pulse(port string) {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	for range time.Tick(time.Millisecond) {
		if _, err := c.Write([]byte{0}); err != nil {
			return
		}
	}
}

// One call after another, 50 ms each; the others get a turn in between.
func sitInCalls(end time.Time) {
	for left := time.Until(end); left > 0; left = time.Until(end) {
		if left > 50*time.Millisecond {
			left = 50 * time.Millisecond
		}
		request := syscall.NsecToTimespec(left.Nanoseconds())
		syscall.Nanosleep(&request, nil)
		runtime.Gosched()
	}
}

func kidnap(procs int, beating func() (func(), func()), suffix string) {
	undisturbed, _ := heartBeside(0, sitInCalls, beating)
	half, _ := heartBeside((procs+1)/2, sitInCalls, beating)
	all, _ := heartBeside(procs, sitInCalls, beating)
	if again, _ := heartBeside(0, sitInCalls, beating); again > undisturbed {
		undisturbed = again
	}
	emit("kidnap_half"+suffix, 100*float64(half)/float64(undisturbed), "% kept")
	emit("kidnap_all"+suffix, 100*float64(all)/float64(undisturbed), "% kept")
}

func hogs(procs int) {
	_, gaps := heartBeside(procs, func(end time.Time) {
		for time.Now().Before(end) {
		}
	}, byTicker)
	emit("hogs_gap_p99", percentile(gaps, 99), "ms")
	emit("hogs_gap_max", percentile(gaps, 100), "ms")
}

// ---- W16: an unbuffered channel hands one permit to whoever has waited longest

func herd() {
	const herd, releases = 10000, 20000
	gate, ran := make(chan bool), make(chan time.Time)
	for i := 0; i < herd; i++ {
		go func() {
			for range gate {
				ran <- time.Now()
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	waited := make([]float64, 0, releases)
	for i := 0; i < releases; i++ {
		released := time.Now()
		gate <- true
		waited = append(waited, float64((<-ran).Sub(released).Nanoseconds()))
	}
	close(gate)
	emit("herd_wake", percentile(waited, 50), "ns")
	emit("herd_wake_p99", percentile(waited, 99), "ns")
}

func herdOnACondition() {
	const herd, releases = 10000, 20000
	var mutex sync.Mutex
	condition := sync.NewCond(&mutex)
	waiting, permits, wakes := 0, 0, 0
	ran := make(chan bool, 1)
	for i := 0; i < herd; i++ {
		go func() {
			mutex.Lock()
			waiting++
			for {
				for permits == 0 {
					condition.Wait()
					wakes++
				}
				permits--
				ran <- true
			}
		}()
	}
	for mutex.Lock(); waiting < herd; mutex.Lock() {
		mutex.Unlock()
		time.Sleep(time.Millisecond)
	}
	mutex.Unlock()
	for i := 0; i < releases; i++ {
		mutex.Lock()
		permits++
		mutex.Unlock()
		condition.Signal()
		<-ran
	}
	mutex.Lock()
	emit("herd_wakes", float64(wakes)/releases, "wakes")
}

// ---- W18: a source, four stages that add one, and a sink

func onePipeline(items int) float64 {
	const stages = 4
	t := time.Now()
	in := make(chan uint64, 128)
	go func(first chan<- uint64) {
		for i := 0; i < items; i++ {
			first <- uint64(i)
		}
		close(first)
	}(in)
	for s := 0; s < stages; s++ {
		from, to := in, make(chan uint64, 128)
		go func() {
			for v := range from {
				to <- v + 1
			}
			close(to)
		}()
		in = to
	}
	var sum uint64
	for v := range in {
		sum += v
	}
	if n := uint64(items); sum != n*(n-1)/2+n*stages {
		panic("isolation: wrong sum")
	}
	return time.Since(t).Seconds()
}

// Of a pipeline, the mean of several side by side: how long they take, and how much CPU.
func pipelines(count, items int, took, used *[]float64) {
	each := make(chan float64)
	before := cpu()
	for i := 0; i < count; i++ {
		go func() { each <- onePipeline(items) }()
	}
	sum := 0.0
	for i := 0; i < count; i++ {
		sum += <-each
	}
	*took = append(*took, sum/float64(count))
	*used = append(*used, (cpu()-before)/float64(count))
}

func isolation(procs int) {
	const items = 500000
	var alone, together, aloneUsed, togetherUsed, warm []float64
	pipelines(procs, items, &warm, &warm)
	for i := 0; i < 5; i++ {
		pipelines(1, items, &alone, &aloneUsed)
		pipelines(procs, items, &together, &togetherUsed)
	}
	more := func(with, without []float64) float64 {
		return 100 * (percentile(with, 50)/percentile(without, 50) - 1)
	}
	emit("isolation_item", percentile(alone, 50)*1e9/items, "ns")
	emit("isolation", more(together, alone), "%")
	emit("isolation_cpu", more(togetherUsed, aloneUsed), "%")
}

// ---- nothing to do: of all threads but this one, which sleeps in the kernel and looks

func voluntarySwitches() int64 {
	const thread = 1 // RUSAGE_THREAD
	var all, own syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &all)
	syscall.Getrusage(thread, &own)
	return all.Nvcsw - own.Nvcsw
}

func idle() {
	runtime.LockOSThread()
	go func() { select {} }()
	time.Sleep(300 * time.Millisecond)
	before := voluntarySwitches()
	request := syscall.NsecToTimespec((3 * time.Second).Nanoseconds())
	syscall.Nanosleep(&request, nil)
	emit("idle_switches", float64(voluntarySwitches()-before)/3, "1/s")
}

func serveEcho(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4096)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err = c.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func echo(port string) {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	serveEcho(l)
}

// ---- W20: the other side is a process of its own, which has as many descriptors again

const idleConnections = 10000

func idle10k() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serveEcho(l)
	crowd := exec.Command(os.Args[0], "crowd", "1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	stop, _ := crowd.StdinPipe()
	connected, _ := crowd.StdoutPipe()
	crowd.Stderr = os.Stderr
	r0, p0 := rss(), pageTables()
	if err := crowd.Start(); err != nil {
		panic(err)
	}
	if _, err := connected.Read(make([]byte, 1)); err != nil {
		panic("not every connection had an answer")
	}
	emit("conn_10k", (rss()-r0)/idleConnections, "B")
	emit("conn_10k_tables", (pageTables()-p0)/idleConnections, "B")
	c0 := cpu()
	time.Sleep(5 * time.Second)
	emit("conn_10k_cpu", (cpu()-c0)*1e3, "ms")
	stop.Close()
	crowd.Wait()
}

// Each connection is used once, and stays until the parent has seen enough.
func crowd(port string) {
	said, heard := make([]byte, 64), make([]byte, 64)
	var all []net.Conn
	for i := 0; i < idleConnections; i++ {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			panic(err)
		}
		if _, err := c.Write(said); err != nil {
			panic(err)
		}
		if _, err := io.ReadFull(c, heard); err != nil {
			panic(err)
		}
		all = append(all, c)
	}
	fmt.Print(".")
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(all)
}

func web(port string) {
	body := []byte("hello world\n")
	hello := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write(body)
	}
	http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(hello))
}

func main() {
	procs, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(procs)
	debug.SetMaxThreads(20000)
	switch os.Args[1] {
	case "yield":
		yield(1, 3000000)
		yield(1000, 3000000)
	case "spawn":
		spawn()
	case "pingpong":
		pingpong()
	case "pipeline":
		pipeline(1000000)
	case "parmap":
		parMap(20000)
	case "buffered":
		buffered(1, 3000000)
		buffered(4, 3000000)
	case "select":
		sel("select4", 0, 800000)
		sel("select4_buf", 128, 2000000)
	case "ring":
		ring()
	case "skynet":
		skynet()
	case "mem100k":
		mem("100k", 100000)
	case "mem1m":
		mem("1m", 1000000)
	case "sleepers":
		sleepers()
	case "timers":
		timers()
	case "mutex":
		mutex("mutex", 1000000, false)
		mutex("mutex_yield", 400000, true)
	case "fib":
		forkjoin(25, 121392)
	case "fib30":
		forkjoin(30, 1346268)
	case "sieve":
		sieve()
	case "cancel":
		cancel()
	case "kidnap":
		kidnap(procs, byTicker, "")
		kidnap(procs, bySocket, "_socket")
	case "pulse":
		pulse(os.Args[3])
	case "hogs":
		hogs(procs)
	case "herd":
		herd()
		herdOnACondition()
	case "isolation":
		if procs == 1 {
			os.Exit(2)
		}
		isolation(procs)
	case "idle":
		idle()
	case "idle_connections":
		idle10k()
	case "crowd":
		crowd(os.Args[3])
	case "echo":
		echo(os.Args[3])
	case "http":
		web(os.Args[3])
	default:
		os.Exit(2)
	}
}
