package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/server"
)

// Process is a server in a process of its own, with a limit on its open files.
type Process struct {
	*Server
	cmd *exec.Cmd
}

// Peppered is a flag of servers that share the keys of a store. A test that sets the environment instead cannot run in parallel.
const Peppered = "--key-pepper=a pepper that the servers of a test share"

// leaseVariable shortens the lease of a process's store. Most tests keep the store's own: on a busy machine a process may
// lose a brief one while it lives.
const leaseVariable = "WEIR_TEST_STORE_LEASE"

// BriefLease is for the processes of tests that wait for the end of a dead one's lease.
var BriefLease = []string{leaseVariable + "=5s"}

// program is the name under which a test's binary is a server.
const program = "weir"

// StartProcess starts a server with flags of weir serve, and a limit on its open files.
func StartProcess(t *testing.T, openFiles int, flags ...string) *Process {
	t.Helper()
	return StartProcessWith(t, nil, openFiles, flags...)
}

// StartProcessWith starts a server with variables of the environment beside the test's own.
func StartProcessWith(t *testing.T, environment []string, openFiles int, flags ...string) *Process {
	t.Helper()
	named := filepath.Join(t.TempDir(), program)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, named); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"-c", `ulimit -n ` + strconv.Itoa(openFiles) + `; exec "$0" "$@"`, named, "serve",
		"--port", "0", "--admin-address", "127.0.0.1:0",
		"--log-format", "json", "--kv-cache-memory-bytes", "16MiB",
	}, flags...)
	p := &Process{Server: &Server{T: t, done: make(chan error, 1)}}
	p.cmd = exec.CommandContext(t.Context(), "sh", args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.Out, &p.Errs, append(os.Environ(), environment...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	p.stop = func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) } // it may have ended by itself
	t.Cleanup(func() { _ = p.End() })
	p.API = p.Find(`weir serves .* on (http://\S+)`, &p.Out)
	p.Admin = p.Find(`metrics +(http://\S+)/metrics`, &p.Out)
	return p
}

// Kill ends a process as kill -9 does.
func (p *Process) Kill() {
	p.T.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.T.Fatal(err)
	}
	<-p.done      //nolint:errcheck // that it was killed
	close(p.done) // End finds it ended
}

// Signal sends the process a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.T.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.T.Fatal(err)
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Main runs the tests of a package that starts processes: under the name weir their binary is a server.
func Main(m interface{ Run() int }) {
	if filepath.Base(os.Args[0]) != program {
		os.Exit(m.Run())
	}
	if err := serve(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server with flags until a signal.
func serve(flags []string) error {
	read := func() (configs.Config, []string, error) {
		c, err := settingsOf(flags)
		return c, nil, err
	}
	settings, _, err := read()
	if err != nil {
		return err
	}
	lease, _ := time.ParseDuration(os.Getenv(leaseVariable)) // without it the store's own
	s, err := server.New(server.Config{
		Settings: settings, Read: read, Build: build, LeastFetch: leastFetch, StoreLease: lease, Out: os.Stdout, Errs: os.Stderr,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.Run(ctx)
}

// settingsOf reads flags over the environment over the file of --config, as weir serve does.
func settingsOf(flags []string) (configs.Config, error) {
	sources := configs.New()
	toggles := make(map[string]bool) // flags that need no value
	for setting := range sources.All() {
		toggles[setting.Flag] = setting.IsBool()
	}
	type given struct{ name, value string }
	var list []given
	file := ""
	for i := 0; i < len(flags); i++ {
		name, value, whole := strings.Cut(strings.TrimPrefix(flags[i], "--"), "=")
		switch {
		case whole:
		case toggles[name]:
			value = "true"
		case i+1 < len(flags):
			i++
			value = flags[i]
		}
		if name == "config" {
			file = value
		} else {
			list = append(list, given{name, value})
		}
	}
	if file != "" {
		if err := sources.ReadFile(file); err != nil {
			return configs.Config{}, err
		}
	}
	if _, err := sources.ReadEnv(os.Environ()); err != nil {
		return configs.Config{}, err
	}
	for _, f := range list {
		if err := sources.SetFlag(f.name, f.value); err != nil {
			return configs.Config{}, err
		}
	}
	return sources.Config()
}
