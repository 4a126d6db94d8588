package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/server/servertest"
)

// process is weir in a process of its own, with a limit on its open files.
type process struct {
	started
	cmd *exec.Cmd
}

// peppered is a flag of servers that share the keys of a store. A test that sets the environment instead cannot run in parallel.
const peppered = "--key-pepper=a pepper that the servers of a test share"

func startProcess(t *testing.T, openFiles int, flags ...string) *process {
	t.Helper()
	return startProcessWith(t, nil, openFiles, flags...)
}

// startProcessWith starts weir with variables of the environment beside the test's own.
func startProcessWith(t *testing.T, environment []string, openFiles int, flags ...string) *process {
	t.Helper()
	weir := filepath.Join(t.TempDir(), "weir") // under this name the test binary runs main
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, weir); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"-c", `ulimit -n ` + strconv.Itoa(openFiles) + `; exec "$0" "$@"`, weir, "serve",
		"--port", "0", "--admin-address", "127.0.0.1:0",
		"--log-format", "json", "--kv-cache-memory-bytes", "16MiB",
	}, flags...)
	p := &process{started: started{t: t, done: make(chan error, 1)}}
	p.cmd = exec.CommandContext(t.Context(), "sh", args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.out, &p.errs, append(os.Environ(), environment...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	p.stop = func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) } // it may have ended by itself
	t.Cleanup(func() { _ = p.end() })
	p.api = p.find(`weir serves .* on (http://\S+)`, &p.out)
	p.metrics = p.find(`metrics +(http://\S+)/metrics`, &p.out)
	return p
}

// flood opens connections that send half a header, until the test ends them.
func (p *process) flood(connections int) (end func()) {
	p.t.Helper()
	var all []net.Conn
	for range connections {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(p.api, "http://"), time.Second)
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
func (p *process) beginStream() (whole func()) {
	p.t.Helper()
	body := bufio.NewReader(p.post("/v1/chat/completions", longAnswer+"900}").Body)
	if _, err := body.ReadString('\n'); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		p.t.Helper()
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			p.t.Errorf("the running stream was cut: %v\n%s\n%s", err, rest[max(0, len(rest)-300):], p.errs.String())
		}
	}
}

func (p *process) alive() {
	p.t.Helper()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: servertest.Patience}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := fresh.Get(p.api + "/health")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("the server does not answer again: %v\n%s", err, p.errs.String())
		}
	}
}

func TestMoreConnectionsThanDescriptors(t *testing.T) {
	p := startProcess(t, 96)
	whole := p.beginStream()
	end := p.flood(400)
	p.await("weir_connections_open 64") // of the admin listener, during the flood
	whole()
	end()
	p.alive()
	p.await(`weir_accept_errors_total 0`)
	if log := p.errs.String(); strings.Count(log, "a connection was refused") != 1 ||
		!strings.Contains(log, "bounded by the limit on open files") {
		t.Errorf("the log:\n%s", log)
	}
	if err := p.end(); err != nil {
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
	p := startProcess(t, 512)
	whole := p.beginStream()
	limit := func(files int) {
		out, err := exec.CommandContext(t.Context(), prlimit, "--pid", strconv.Itoa(p.cmd.Process.Pid),
			fmt.Sprintf("--nofile=%d:512", files)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	limit(32)
	end := p.flood(200)
	p.find(`("no connection can be accepted)`, &p.errs)
	end()
	limit(512)
	whole()
	p.alive()
	_, text := p.get(p.metrics + "/metrics")
	if !strings.Contains(text, "weir_accept_errors_total ") || strings.Contains(text, "weir_accept_errors_total 0\n") {
		t.Error("no failed accept was counted")
	}
	if n := strings.Count(p.errs.String(), "no connection can be accepted"); n != 1 {
		t.Errorf("%d lines about accepting; want one in a while:\n%s", n, p.errs.String())
	}
}
