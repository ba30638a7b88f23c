package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"time"
)

const busyFor = 20 * time.Microsecond

// wakes measures how late a goroutine runs that is woken from outside, while other goroutines
// compute for 20 us and yield, all on one worker.
//
// Go cannot wake a goroutine from a kernel thread that its runtime does not own, so the wake comes
// through a pipe from a child process: this program again, told by its environment. The latency
// contains one pipe read, about a microsecond of it. One wake at a time, at random distances.
func wakes(ops, busy int) error {
	if os.Getenv("GO_PEER_WAKER") != "" {
		return waker(ops)
	}
	stamps, answers, err := startWaker()
	if err != nil {
		return err
	}
	for i := 0; i < busy; i++ {
		go func() {
			for {
				spin(busyFor)
				runtime.Gosched()
			}
		}()
	}
	late := make([]float64, 0, ops)
	var stamp [8]byte
	for i := 0; i < ops; i++ {
		if _, err := answers.Write([]byte{1}); err != nil {
			return err
		}
		if _, err := io.ReadFull(stamps, stamp[:]); err != nil {
			return err
		}
		sent := int64(binary.LittleEndian.Uint64(stamp[:]))
		late = append(late, float64(clockNs(clockMonotonic)-sent)/1e3)
	}
	sort.Float64s(late)
	fmt.Printf("p50_us %.3f\np99_us %.3f\n", late[len(late)/2], late[len(late)*99/100])
	return nil
}

// The harness names the CPU of the waker, which is not the worker's.
func startWaker() (io.Reader, io.Writer, error) {
	cpu := os.Getenv("BENCH_WAKER_CPU")
	if cpu == "" {
		return nil, nil, errors.New("BENCH_WAKER_CPU is not set")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	child := exec.Command("taskset", append([]string{"-c", cpu, self}, os.Args[1:]...)...)
	child.Env = append(os.Environ(), "GO_PEER_WAKER=1")
	stamps, err := child.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	answers, err := child.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return stamps, answers, child.Start()
}

func spin(d time.Duration) {
	for begin := clockNs(clockMonotonic); clockNs(clockMonotonic)-begin < int64(d); {
	}
}

func waker(ops int) error {
	random := rand.New(rand.NewSource(1))
	var stamp [8]byte
	for i := 0; i < ops; i++ {
		if _, err := io.ReadFull(os.Stdin, stamp[:1]); err != nil {
			return err
		}
		time.Sleep(time.Millisecond + time.Duration(random.Intn(4000))*time.Microsecond)
		binary.LittleEndian.PutUint64(stamp[:], uint64(clockNs(clockMonotonic)))
		if _, err := os.Stdout.Write(stamp[:]); err != nil {
			return err
		}
	}
	return nil
}
