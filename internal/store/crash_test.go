package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/internal/reference"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

// crashURL is the variable that makes the test binary a process to be killed.
const crashURL = "WEIR_TEST_CRASH_URL"

// auditedWrite is part of the names of writes to the audit log, the first kind of writeUntilKilled.
const auditedWrite = "-0-"

func TestMain(m *testing.M) {
	if url := os.Getenv(crashURL); url != "" {
		if err := writeUntilKilled(url); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes from several goroutines and prints a line for each write
// once it is acknowledged.
func writeUntilKilled(url string) error {
	ctx := context.Background()
	s, err := open(ctx, url, opts{Lease: 500 * time.Millisecond, FlushEvery: time.Hour})
	if err != nil {
		return err
	}
	run := fmt.Sprint(os.Getpid(), "-", time.Now().UnixNano())
	failed := make(chan error)
	var out sync.Mutex
	for kind, write := range []func(name string) error{
		func(name string) error {
			_, err := s.Append(ctx, audit.Change{Actor: "a", Action: "audit", Object: name})
			return err
		},
		func(name string) error {
			k := tenant.Key{ID: name, Tenant: name, Scope: tenant.ScopeAdmin, Created: time.Now()}
			return s.Create(ctx, k)
		},
		func(name string) error {
			s.Record(usage.Record{Ended: time.Now(), Tenant: name, Model: "m"})
			return s.Flush(ctx)
		},
		func(name string) error {
			got, err := s.Begin(ctx, request(name, 1))
			if err != nil || got.State != replay.Begun {
				return fmt.Errorf("begin %s: %v, %w", name, got.State, err)
			}
			out.Lock()
			fmt.Println("begun", name)
			out.Unlock()
			return s.Finish(ctx, got.Claim, []byte(name))
		},
	} {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprint(run, "-", kind, "-", i)
				if err := write(name); err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Println("wrote", name)
				out.Unlock()
			}
		}()
	}
	return <-failed
}

// A process is killed in the middle of its writes, several times. What it was told is
// written is there, whole, and what it had begun can be executed again after its lease.
func TestKilledProcessLosesNothing(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		wrote, begun := make(map[string]bool), make(map[string]bool)
		for round := range 4 {
			for _, line := range killPair(t, url, 40+30*round) {
				verb, name, _ := strings.Cut(line, " ")
				switch verb {
				case "wrote":
					wrote[name] = true
				case "begun":
					begun[name] = true
				default:
					t.Error(line)
				}
			}
		}
		s := openStore(t, url, opts{Lease: 500 * time.Millisecond})
		checkWrites(t, s, wrote)
		passLeases(t, s)
		checkClaims(t, s, begun)
	})
}

// killPair has two processes write to the store at once.
func killPair(t *testing.T, url string, count int) (lines []string) {
	t.Helper()
	var other []string
	var wait sync.WaitGroup
	wait.Go(func() { other = killAfter(t, url, count+15) })
	lines = killAfter(t, url, count)
	wait.Wait()
	return append(lines, other...)
}

// killAfter starts a process and kills it once it has written some lines. It returns
// all lines that it printed.
func killAfter(t *testing.T, url string, count int) (lines []string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashURL+"="+url)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err := errors.Join(err, child.Start()); err != nil {
		t.Error(err)
		return nil
	}
	reader := bufio.NewReader(out)
	for {
		line, err := reader.ReadString('\n')
		if err != nil { // a line that was cut off was not acknowledged
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		if len(lines) == count {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := child.Wait(); err == nil || len(lines) < count {
		t.Errorf("the process ended by itself after %d lines: %v", len(lines), err)
	}
	return lines
}

// checkWrites looks for every write that was acknowledged. Each name stands for one
// write.
func checkWrites(t *testing.T, s *Store, wrote map[string]bool) {
	t.Helper()
	found := make(map[string]bool)
	for e, err := range s.Entries(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		found[e.Object] = true
	}
	if _, err := s.Log.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	keys, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		found[k.ID] = true
	}
	for _, row := range wholeReport(t, s).Rows {
		if row.Requests != 1 {
			t.Errorf("usage of %s counts %d times", row.Tenant, row.Requests)
		}
		found[row.Tenant] = true
	}
	for name := range wrote {
		if found[name] {
			continue
		}
		got, err := s.Begin(t.Context(), request(name, 1))
		if err != nil || got.State != replay.Answered || string(got.Answer) != name {
			t.Errorf("%s was acknowledged and is not there: %+v, %v", name, got, err)
		}
	}
	t.Logf("%d writes were acknowledged", len(wrote))
	if len(wrote) < 100 {
		t.Error("too few to mean anything")
	}
}

// checkClaims: each execution that began has an answer or can begin again.
func checkClaims(t *testing.T, s *Store, begun map[string]bool) {
	t.Helper()
	answered, again := 0, 0
	for name := range begun {
		switch got, err := s.Begin(t.Context(), request(name, 1)); {
		case err != nil:
			t.Fatal(err)
		case got.State == replay.Answered:
			answered++
		case got.State == replay.Begun:
			again++
		default:
			t.Errorf("%s is stuck: %v", name, got.State)
		}
	}
	t.Logf("of %d executions %d have an answer, %d begin again", len(begun), answered, again)
	if answered == 0 {
		t.Error("no execution has an answer")
	}
}

// Processes that start at once on a new file: each gets it, though the step that sets
// up a file does not wait for others by itself.
func TestProcessesStartAtOnce(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		var wait sync.WaitGroup
		for range 6 {
			wait.Go(func() { killAfter(t, url, 3) })
		}
		wait.Wait()
	})
}
