package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listen binds a TCP address. Where that fails, the error says what the user
// can do; remedy names the flag that moves this listener.
func listen(address, remedy string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken; %s", address, remedy)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: this user may not use the port; %s", address, remedy)
	}
	return nil, fmt.Errorf("listen on %s: %w; %s", address, err, remedy)
}

// isLoopback reports whether only this machine reaches a listener.
func isLoopback(ln net.Listener) bool {
	a, ok := ln.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// baseURL is where a client on this machine reaches a listener.
func baseURL(ln net.Listener, secure bool) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return scheme + ln.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}
