package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/server/servertest"
)

// flood opens connections that send half a header, until the test ends them.
func flood(p *servertest.Process, connections int) (end func()) {
	p.T.Helper()
	var all []net.Conn
	for range connections {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(p.API, "http://"), time.Second)
		if err != nil {
			break // the backlog is full, too
		}
		_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHo") // the server may have closed it already
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
}

// stream begins a long answer; whole waits for it and checks its end.
func beginStream(p *servertest.Process) (whole func()) {
	p.T.Helper()
	body := bufio.NewReader(p.Post("/v1/chat/completions", servertest.LongAnswer+"900}").Body)
	if _, err := body.ReadString('\n'); err != nil {
		p.T.Fatal(err)
	}
	return func() {
		p.T.Helper()
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			p.T.Errorf("the running stream was cut: %v\n%s\n%s", err, rest[max(0, len(rest)-300):], p.Errs.String())
		}
	}
}

func alive(p *servertest.Process) {
	p.T.Helper()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: servertest.Patience}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := fresh.Get(p.API + "/health")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			p.T.Fatalf("the server does not answer again: %v\n%s", err, p.Errs.String())
		}
	}
}

func TestMoreConnectionsThanDescriptors(t *testing.T) {
	reference.Slow(t)
	p := servertest.StartProcess(t, 96)
	whole := beginStream(p)
	end := flood(p, 400)
	p.AwaitMetric("weir_connections_open 64") // of the admin listener, during the flood
	whole()
	end()
	alive(p)
	p.AwaitMetric(`weir_accept_errors_total 0`)
	if log := p.Errs.String(); strings.Count(log, "a connection was refused") != 1 ||
		!strings.Contains(log, "bounded by the limit on open files") {
		t.Errorf("the log:\n%s", log)
	}
	if err := p.End(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// Descriptors can run out all the same: others may use up what the machine
// has, or an operator may lower the limit.
func TestOutOfDescriptors(t *testing.T) {
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		reference.Missing(t, "prlimit", "prlimit, which changes the limits of a running process, is not installed")
	}
	p := servertest.StartProcess(t, 512)
	whole := beginStream(p)
	limit := func(files int) {
		out, err := exec.CommandContext(t.Context(), prlimit, "--pid", strconv.Itoa(p.PID()),
			fmt.Sprintf("--nofile=%d:512", files)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	limit(32)
	end := flood(p, 200)
	p.Find(`("no connection can be accepted)`, &p.Errs)
	end()
	limit(512)
	whole()
	alive(p)
	_, text := p.Get(p.Admin + "/metrics")
	if !strings.Contains(text, "weir_accept_errors_total ") || strings.Contains(text, "weir_accept_errors_total 0\n") {
		t.Error("no failed accept was counted")
	}
	if n := strings.Count(p.Errs.String(), "no connection can be accepted"); n != 1 {
		t.Errorf("%d lines about accepting; want one in a while:\n%s", n, p.Errs.String())
	}
}
