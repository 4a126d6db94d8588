package server

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"weir/configs"
)

func TestClosersCloseTheLastFirst(t *testing.T) {
	var c closers
	var closed []string
	for _, name := range []string{"store", "ports", "API"} {
		c.push(name, func(context.Context) error { closed = append(closed, name); return errors.New(name) })
	}
	err := c.close(t.Context())
	if !slices.Equal(closed, []string{"API", "ports", "store"}) || err == nil {
		t.Errorf("closed %q: %v", closed, err)
	}
	if err := c.close(t.Context()); err != nil || len(closed) != 3 {
		t.Errorf("closed again: %q, %v", closed, err)
	}
}

// quickSettings are those of a server with the built-in model on free ports, with a store.
func quickSettings(t *testing.T) configs.Config {
	t.Helper()
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress, c.Server.GRPCAddress = 0, "127.0.0.1:0", "127.0.0.1:0"
	c.Engine.KVMemoryBytes = 16 << 20
	c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
	return c
}

// A server that never runs, and one whose start fails half-way, leave nothing behind: no goroutine, no port, no open store.
func TestAStartThatEndsEarlyLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := quickSettings(t)
	s, err := New(Config{Settings: c})
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]string, len(s.closing.list))
	for i, p := range s.closing.list {
		parts[i] = p.name
	}
	t.Logf("closed from the last to the first: %q", parts)
	address := s.ports.api.Addr().String()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	defer ln.Close()
	// The last of the ports is taken: the store and the other ports are given back.
	c.Server.GRPCAddress = address
	if _, err := New(Config{Settings: c}); err == nil {
		t.Error("a server started on a port that is taken")
	}
	// What is wrong is found when nearly all is there.
	c.Server.GRPCAddress, c.Files.Dir = "off", "/dev/null/files"
	if _, err := New(Config{Settings: c}); err == nil {
		t.Error("a server started without the folder of its files")
	}
}
