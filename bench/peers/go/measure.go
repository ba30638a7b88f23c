package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

const (
	clockMonotonic  = 1
	clockProcessCPU = 2
)

func clockNs(clock uintptr) int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func cpuNs() int64 { return clockNs(clockProcessCPU) }

// memoryBytes is resident memory plus page tables.
func memoryBytes() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	kib := 0
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "VmPTE:") {
			n, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				panic(err)
			}
			kib += n
		}
	}
	return float64(kib) * 1024
}

func vmaCount() int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	return bytes.Count(maps, []byte{'\n'})
}

// nextCheckpoint walks 1, 2, 5, 10, 20, 50 and so on.
func nextCheckpoint(at int) int {
	decade := 1
	for decade*10 <= at {
		decade *= 10
	}
	switch {
	case at < 2*decade:
		return 2 * decade
	case at < 5*decade:
		return 5 * decade
	}
	return 10 * decade
}
