package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ClusterOptions say what a demonstration with real processes runs: replicas of a model, a
// router before them, conversations, and one replica that is killed and comes back.
type ClusterOptions struct {
	Weir         string // the executable
	Model        string // GGUF file; empty is the built-in model
	Replicas     int
	ReplicaFlags []string
	Policies     []string // of the router; one run for each
	Chats        Chats
	Duration     time.Duration // of one run
	KillAt       time.Duration // since its start; 0: nothing is killed
	RestartAt    time.Duration
	Log          io.Writer // what the processes log; nil: nowhere

	Progress func(policy string, elapsed, total time.Duration)
}

// ClusterRun is what one policy made of the load.
type ClusterRun struct {
	Policy   string
	Turns    []Turn
	Duration time.Duration

	Beside time.Duration // processor time of the router and of the clients; 0: it was not to be read

	Killed             string // the replica's name; empty: none
	KilledAt, Returned time.Duration
}

// cluster are processes on loopback.
type cluster struct {
	o        *ClusterOptions
	folder   string
	ports    []int
	replicas []*process
}

// RunCluster runs the load once for each policy, with processes that restart.
func RunCluster(ctx context.Context, o ClusterOptions) ([]*ClusterRun, error) {
	var runs []*ClusterRun
	for _, policy := range o.Policies {
		run, err := o.run(ctx, policy)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (o *ClusterOptions) run(ctx context.Context, policy string) (_ *ClusterRun, err error) {
	c := &cluster{o: o}
	if c.folder, err = os.MkdirTemp("", "weir-cluster-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop(), os.RemoveAll(c.folder)) }()
	if err := c.startReplicas(ctx); err != nil {
		return nil, err
	}
	router, err := c.startRouter(ctx, policy)
	if err != nil {
		return nil, err
	}
	run := &ClusterRun{Policy: policy, Duration: o.Duration}
	greedy := 0.0 // the same conversations in each run
	target := &Target{BaseURL: router.url, Endpoint: EndpointChat, Served: clusterModel, Timeout: time.Minute, Temperature: &greedy}
	if err := target.Check(); err != nil {
		return nil, err
	}
	defer target.Close()
	limited, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	faults := make(chan error, 1)
	go func() { faults <- c.fault(limited, run) }()
	if o.Progress != nil {
		go c.tell(limited, policy)
	}
	before := besideReplicas(router)
	run.Turns = o.Chats.Run(limited, target)
	run.Beside = besideReplicas(router) - before
	cancel()
	return run, errors.Join(<-faults, ctx.Err())
}

// besideReplicas is what the router and this process, whose clients ask, have taken of the processors so far.
func besideReplicas(router *process) time.Duration {
	theirs, err1 := processorTime(router.cmd.Process.Pid)
	own, err2 := processorTime(os.Getpid())
	if errors.Join(err1, err2) != nil { // only Linux tells
		return 0
	}
	return theirs + own
}

func (c *cluster) tell(ctx context.Context, policy string) {
	began := time.Now()
	for ticker := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
		c.o.Progress(policy, min(time.Since(began), c.o.Duration), c.o.Duration)
	}
}

// fault kills the first replica and starts it again, with a cold cache.
func (c *cluster) fault(ctx context.Context, run *ClusterRun) error {
	began := time.Now()
	if c.o.KillAt <= 0 || !sleep(ctx, c.o.KillAt) {
		return nil
	}
	run.Killed, run.KilledAt = "127.0.0.1:"+strconv.Itoa(c.ports[0]), time.Since(began)
	if err := c.replicas[0].kill(); err != nil {
		return err
	}
	if c.o.RestartAt <= 0 || !sleep(ctx, c.o.RestartAt-time.Since(began)) {
		return nil
	}
	p, err := c.startReplica(context.WithoutCancel(ctx), 0)
	if err != nil {
		return fmt.Errorf("start the killed replica again: %w", err)
	}
	c.replicas[0], run.Returned = p, time.Since(began)
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// clusterModel is the name that requests use.
const clusterModel = "chat"

func (c *cluster) startReplicas(ctx context.Context) error {
	for range c.o.Replicas {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.ports = append(c.ports, port)
	}
	started := make([]*process, c.o.Replicas)
	errs := make([]error, c.o.Replicas)
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() { started[i], errs[i] = c.startReplica(ctx, i) })
	}
	all.Wait()
	for _, p := range started {
		if p != nil {
			c.replicas = append(c.replicas, p)
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) startReplica(ctx context.Context, i int) (*process, error) {
	args := []string{"serve"}
	if c.o.Model != "" {
		args = append(args, c.o.Model)
	}
	args = append(args, "--port", strconv.Itoa(c.ports[i]), "--admin-address", "off", "--store", "off", "--served-model-name", clusterModel)
	return c.start(ctx, append(args, c.o.ReplicaFlags...))
}

func (c *cluster) startRouter(ctx context.Context, policy string) (*process, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "models:\n  - name: %s\n    policy: %s\n    replicas:\n", clusterModel, policy)
	for _, port := range c.ports {
		fmt.Fprintf(&b, "      - {url: \"http://127.0.0.1:%d/v1\", kind: weir, model: %s}\n", port, clusterModel)
	}
	file := filepath.Join(c.folder, "route.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	p, err := c.start(ctx, []string{"route", "--config", file, "--port", "0", "--admin-address", "off"})
	if p != nil {
		c.replicas = append(c.replicas, p)
	}
	return p, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // a TCP listener has no other
}

// process is a weir that serves.
type process struct {
	cmd  *exec.Cmd
	url  string
	over chan error // the process has ended
}

// servedAt finds the address in what weir prints when it serves.
var servedAt = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// startTimeout is what a process gets until it serves.
const startTimeout = 2 * time.Minute

// start runs weir as a part of the cluster.
func (c *cluster) start(ctx context.Context, args []string) (*process, error) {
	return startWeir(ctx, c.o.Weir, c.o.Log, nil, args)
}

// startWeir runs weir, with more of an environment, and returns when it says where it serves. The caller ends it.
func startWeir(ctx context.Context, weir string, log io.Writer, environment, args []string) (*process, error) {
	cmd := exec.Command(weir, args...) //nolint:gosec,noctx // it is this executable, and the caller ends it
	last := &lastLine{to: log}
	cmd.Stderr = last
	cmd.Env = append(append(os.Environ(), "WEIR_CONFIG="), environment...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, over: make(chan error, 1)}
	said := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at := servedAt.FindString(lines.Text()); at != "" {
				select {
				case said <- at:
				default:
				}
			}
		}
		p.over <- cmd.Wait()
	}()
	select {
	case p.url = <-said:
		return p, nil
	case err := <-p.over:
		p.over <- err
		return nil, fmt.Errorf("weir %s ended before it served (%w): %s", strings.Join(args, " "), err, last.text())
	case <-time.After(startTimeout):
		return nil, errors.Join(fmt.Errorf("weir %s does not serve after %v", strings.Join(args, " "), startTimeout), p.kill())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.kill())
	}
}

// lastLine passes what a process says on, and keeps its last line. Text is for after the process's end.
type lastLine struct {
	to   io.Writer // nil: nowhere
	line []byte
}

// mostLastLine bounds the line that is kept, in bytes.
const mostLastLine = 1 << 12

func (l *lastLine) Write(b []byte) (int, error) {
	l.line = append(l.line, b...)
	if at := bytes.LastIndexByte(bytes.TrimRight(l.line, "\n"), '\n'); at >= 0 {
		l.line = l.line[at+1:]
	}
	l.line = l.line[max(0, len(l.line)-mostLastLine):]
	if l.to == nil {
		return len(b), nil
	}
	return l.to.Write(b)
}

func (l *lastLine) text() string { return cmp.Or(string(bytes.TrimSpace(l.line)), "it said nothing") }

// kill ends the process at once, as a machine that fails does.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait()
}

// wait returns when the process has ended; how it ended is of no interest by then.
func (p *process) wait() error {
	err := <-p.over
	p.over <- err // for who asks again
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil
	}
	return err
}

// stop ends what was started.
func (c *cluster) stop() error {
	var errs []error
	for _, p := range c.replicas {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	for _, p := range c.replicas {
		late := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() }) // wait says how it ended
		errs = append(errs, p.wait())
		late.Stop()
	}
	return errors.Join(errs...)
}
