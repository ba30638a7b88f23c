package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func serveEcho(port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go echo(conn)
	}
}

func echo(conn net.Conn) {
	defer conn.Close()
	var buffer [4096]byte
	for {
		n, err := conn.Read(buffer[:])
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// serveHTTP answers /index.html from the file, which ServeContent stats and copies per request.
// (http.FileServer would redirect that name to the folder.)
func serveHTTP(port int, folder string) error {
	path := folder + "/index.html"
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/index.html" {
			http.NotFound(w, r)
			return
		}
		file, err := os.Open(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer file.Close()
		status, err := file.Stat()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.ServeContent(w, r, "index.html", status.ModTime(), file)
	}
	return http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", port), http.HandlerFunc(handler))
}
