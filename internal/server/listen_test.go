package server

import (
	"strings"
	"testing"

	"weir/configs"
)

func TestTakenPortSaysTheWayOut(t *testing.T) {
	ln, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = listen(ln.Addr().String(), "choose another with --port")
	if want := "listen on " + ln.Addr().String() + ": the port is taken; choose another with --port"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What weir serve refuses, a program with a server in it cannot start either.
func TestOpenServersAreRefused(t *testing.T) {
	for name, reach := range map[string]func(*configs.Server){
		"server.host":          func(c *configs.Server) { c.Host = "0.0.0.0" },
		"server.grpc_address":  func(c *configs.Server) { c.GRPCAddress = "[::]:0" },
		"server.admin_address": func(c *configs.Server) { c.AdminAddress = ":0" },
	} {
		c := quickSettings(t)
		reach(&c.Server)
		s, err := New(Config{Settings: c})
		if err == nil {
			t.Errorf("%s: a server that asks for no key", name)
			_ = s.Close()
		} else if !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reload that takes the last key and moves the listener, which only a restart does, would leave it open where it is.
func TestAReloadLeavesNoListenerOpen(t *testing.T) {
	c := quickSettings(t)
	c.API.APIKeys = []string{"sk-0123456789"}
	next := c
	s, err := New(Config{Settings: c, Read: func() (configs.Config, []string, error) { return next, nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.reloader.running.Server.Host = "192.0.2.1" // a test binds no address that others reach
	next.API.APIKeys = nil
	if err := s.Reload(t.Context(), "a test"); err == nil || !strings.Contains(err.Error(), `"192.0.2.1" is reachable`) || s.callers.authenticator.Open() {
		t.Errorf("the last key went: %v", err)
	}
	next.API.APIKeys = []string{"sk-9876543210"}
	if err := s.Reload(t.Context(), "a test"); err != nil {
		t.Errorf("another key: %v", err)
	}
}
