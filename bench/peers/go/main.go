// Peer: Go. Same protocol as every peer:
//
//	go-peer METRIC OPS THREADS      prints lines "name value"
//	go-peer echo PORT WORKERS       serves until killed
//	go-peer http PORT WORKERS DIR   serves DIR by net/http until killed
//
// Exit 77 with one line on stderr: Go has no such metric, and why. The micro metrics run with
// GOMAXPROCS=1, which the harness sets, so the counters below need no stronger order than Go gives.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

var errNotOffered = errors.New("not offered")

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		fmt.Fprintf(os.Stderr, "not a positive number: %s\n", text)
		os.Exit(2)
	}
	return n
}

func run(args []string) error {
	first, second := number(args[1]), number(args[2])
	switch args[0] {
	case "echo":
		runtime.GOMAXPROCS(second)
		return serveEcho(first)
	case "http":
		if len(args) < 4 {
			return errors.New("http needs a folder")
		}
		runtime.GOMAXPROCS(second)
		return serveHTTP(first, args[3])
	case "parked":
		return parked(second, false)
	case "hibernated":
		return parked(second, true)
	case "wake_normal":
		return wakes(first, second)
	}
	ns, err := micro(args[0], first, second)
	if err == nil {
		fmt.Printf("ns %.3f\n", ns)
	}
	return err
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: go-peer METRIC OPS THREADS | echo|http PORT WORKERS [DIR]")
		os.Exit(2)
	}
	err := run(os.Args[1:])
	if errors.Is(err, errNotOffered) {
		fmt.Fprintf(os.Stderr, "Go has no %s\n", os.Args[1])
		os.Exit(77)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
