package main

import (
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	warmYields = 2
	batch      = 1000
	capacity   = 128
)

func micro(metric string, ops, threads int) (float64, error) {
	switch metric {
	case "yield":
		return yields(ops, threads, false), nil
	case "yield_touch":
		return yields(ops, threads, true), nil
	case "spawn_join":
		return spawnJoin(ops), nil
	case "sem_round_trip":
		return semRoundTrip(ops), nil
	case "mutex":
		return mutex(ops), nil
	case "channel_item":
		return channelItem(ops), nil
	}
	return 0, errNotOffered
}

// yields measures from the first thread past its warm-up to the last one done. With touch the
// threads start in random order, which a first-in-first-out run queue then keeps, and each touches
// two lines of its own stack between yields.
func yields(ops, threads int, touch bool) float64 {
	rounds := ops / threads
	if rounds < 1 {
		rounds = 1
	}
	var started, finished int64
	var begin, end int64
	done := make(chan struct{})
	gates := make([]chan struct{}, threads)
	body := func(gate chan struct{}) {
		var lines [16]uint64
		<-gate
		for i := 0; i < warmYields; i++ {
			runtime.Gosched()
		}
		if atomic.AddInt64(&started, 1) == 1 {
			begin = cpuNs()
		}
		for i := 0; i < rounds; i++ {
			if touch {
				bump(&lines)
			}
			runtime.Gosched()
		}
		if atomic.AddInt64(&finished, 1) == int64(threads) {
			end = cpuNs()
			close(done)
		}
	}
	for i := range gates {
		gates[i] = make(chan struct{}, 1)
		go body(gates[i])
	}
	order := rand.New(rand.NewSource(1)).Perm(threads)
	for i := range gates {
		if touch {
			gates[order[i]] <- struct{}{}
		} else {
			gates[i] <- struct{}{}
		}
	}
	<-done
	return float64(end-begin) / float64(rounds*threads)
}

//go:noinline
func bump(lines *[16]uint64) {
	lines[0]++
	lines[8]++
}

func spawnJoin(ops int) float64 {
	batches := ops / batch
	if batches < 1 {
		batches = 1
	}
	var group sync.WaitGroup
	var begin int64
	for b := -1; b < batches; b++ { // the first batch touches memory, uncounted
		if b == 0 {
			begin = cpuNs()
		}
		group.Add(batch)
		for i := 0; i < batch; i++ {
			go group.Done()
		}
		group.Wait()
	}
	return float64(cpuNs()-begin) / float64(batches*batch)
}

// Go's semaphore is a channel of capacity one.
func semRoundTrip(ops int) float64 {
	ping, pong := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for i := 0; i < ops; i++ {
			<-ping
			pong <- struct{}{}
		}
	}()
	begin := cpuNs()
	for i := 0; i < ops; i++ {
		ping <- struct{}{}
		<-pong
	}
	return float64(cpuNs()-begin) / float64(ops)
}

func mutex(ops int) float64 {
	var lock sync.Mutex
	begin := cpuNs()
	for i := 0; i < ops; i++ {
		lock.Lock()
		lock.Unlock() //nolint:staticcheck // the empty section is what is measured
	}
	return float64(cpuNs()-begin) / float64(ops)
}

func channelItem(ops int) float64 {
	items := make(chan int, capacity)
	begin := cpuNs()
	go func() {
		for i := 0; i < ops; i++ {
			items <- i
		}
		close(items)
	}()
	sum := 0
	for i := range items {
		sum += i
	}
	if sum != ops*(ops-1)/2 {
		panic("items lost")
	}
	return float64(cpuNs()-begin) / float64(ops)
}

// parked leaves threads goroutines waiting and reports what they cost.
func parked(threads int, deep bool) error {
	var waiting int64
	never := make(chan struct{})
	body := func() {
		atomic.AddInt64(&waiting, 1)
		<-never
	}
	if deep {
		body = func() {
			var used [600]byte
			fill(&used)
			atomic.AddInt64(&waiting, 1)
			<-never
			fill(&used)
		}
	}
	memory, begin, checkpoint := memoryBytes(), cpuNs(), 1
	for i := 1; i <= threads; i++ {
		go body()
		if i%batch == 0 || i == checkpoint || i == threads {
			for atomic.LoadInt64(&waiting) < int64(i) {
				runtime.Gosched()
			}
		}
		if i == checkpoint {
			fmt.Printf("at_%d %d\n", i, cpuNs()-begin)
			checkpoint = nextCheckpoint(checkpoint)
		}
	}
	cpu := cpuNs() - begin
	fmt.Printf("reached %d\ncreate_ns %.1f\nbytes %.1f\nvmas %d\n", threads,
		float64(cpu)/float64(threads), (memoryBytes()-memory)/float64(threads), vmaCount())
	return nil
}

//go:noinline
func fill(used *[600]byte) {
	for i := range used {
		used[i]++
	}
}
