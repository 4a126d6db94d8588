package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/inference"
)

// fakeContent is a version that was read.
type fakeContent struct {
	label  string
	closed atomic.Bool
	memory *atomic.Int64
	bytes  int64
}

func (c *fakeContent) Close(context.Context) error {
	if c.closed.Swap(true) {
		return errors.New("closed twice")
	}
	c.memory.Add(-c.bytes)
	return nil
}

// bench makes specs and counts what they hold and read.
type bench struct {
	t       *testing.T
	manager *Manager
	memory  atomic.Int64
	most    atomic.Int64
	reads   atomic.Int64
	takes   time.Duration // to read a version
	fails   atomic.Bool
	mu      sync.Mutex
	said    []string
}

func newBench(t *testing.T, o Options) *bench {
	b := &bench{t: t, takes: time.Second}
	o.MaxWaiting, o.LoadWait, o.CloseWait, o.FailureHold = cmp.Or(o.MaxWaiting, 100), time.Minute, time.Second, 10*time.Second
	o.KeepLast, o.Remedy = true, "raise --model-memory-bytes"
	o.OnChange = func(c Change) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said = append(b.said, c.What+" "+c.Name+"@"+c.Label)
		if c.What == "unload" && c.Why != nil {
			t.Errorf("%+v", c)
		}
	}
	b.manager = New(o)
	return b
}

func (b *bench) spec(name, label string, bytes int64, when When) Spec {
	return Spec{Name: name, Label: label, Key: name + "/" + label, Bytes: bytes, When: when, Open: func(context.Context) (Content, error) {
		b.reads.Add(1)
		now := b.memory.Add(bytes)
		for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
		}
		time.Sleep(b.takes)
		if b.fails.Load() {
			b.memory.Add(-bytes)
			return nil, errors.New("it is broken")
		}
		return &fakeContent{label: label, memory: &b.memory, bytes: bytes}, nil
	}}
}

func (b *bench) inMemory(model string) bool {
	_, c, _ := b.manager.Answer(model)
	return c != nil
}

func (b *bench) put(specs ...Spec) error {
	commit, _, err := b.manager.Prepare(b.t.Context(), specs)
	if err == nil {
		commit()
	}
	return err
}

// ask holds a version as a request does, for a time, and returns which it was.
func (b *bench) ask(model string, hold time.Duration) (string, error) {
	label, _, found := strings.Cut(model, "@")
	name, want := label, ""
	if found {
		name, want, _ = strings.Cut(model, "@")
	}
	l, err := b.manager.Acquire(name, want)
	if err != nil {
		return "", err
	}
	defer l.Release()
	if l.Content == nil {
		if err := l.Load(b.t.Context()); err != nil {
			return "", err
		}
	}
	c := l.Content.(*fakeContent)
	for end := time.Now().Add(hold); ; time.Sleep(10 * time.Millisecond) {
		if c.closed.Load() {
			b.t.Errorf("%s was closed under a request", model)
		}
		if !time.Now().Before(end) {
			return c.label, nil
		}
	}
}

func (b *bench) asked(model, want string) {
	b.t.Helper()
	if got, err := b.ask(model, 0); got != want || err != nil {
		b.t.Errorf("%s is answered by %q, want %q: %v", model, got, want, err)
	}
}

// Requests for a lazy version share one load, wait within bounds, and get an answer.
func TestLazyLoadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MaxWaiting: 3})
		defer b.manager.Close()
		if err := b.put(b.spec("a", "1", 10, Lazy)); err != nil || b.reads.Load() != 0 {
			t.Fatalf("%v, %d reads", err, b.reads.Load())
		}
		var full, fine atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				switch _, err := b.ask("a", 0); {
				case err == nil:
					fine.Add(1)
				case errors.Is(err, inference.ErrQueueFull):
					full.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if fine.Load() != 3 || full.Load() != 2 || b.reads.Load() != 1 {
			t.Errorf("%d answered, %d refused, %d reads", fine.Load(), full.Load(), b.reads.Load())
		}
		if err := b.manager.Unload("a", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ask("a", 0); !errors.Is(err, inference.ErrUnavailable) {
			t.Errorf("an unloaded version answers: %v", err)
		}
		synctest.Wait()
		if b.memory.Load() != 0 {
			t.Errorf("%d bytes after unloading", b.memory.Load())
		}
	})
}

// A request gives up at its own deadline and at the manager's; the load goes on.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.takes = 90 * time.Second
		defer b.manager.Close()
		if err := b.put(b.spec("a", "1", 10, Lazy)); err != nil {
			t.Fatal(err)
		}
		l, err := b.manager.Acquire("a", "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, inference.ErrDeadline)
		defer cancel()
		if err := l.Load(ctx); !errors.Is(err, inference.ErrDeadline) {
			t.Errorf("at its deadline a request got %v", err)
		}
		l.Release()
		if _, err := b.ask("a", 0); !errors.Is(err, inference.ErrUnavailable) || !strings.Contains(err.Error(), "takes longer than 1m0s") {
			t.Errorf("a load that takes long: %v", err)
		}
		time.Sleep(time.Minute)
		b.asked("a", "1")
		if b.reads.Load() != 1 {
			t.Errorf("%d reads", b.reads.Load())
		}
	})
}

// Loading makes room for itself by what was used least recently, never by what is
// pinned, is held or answers from the start on; the error names the sums.
func TestMemoryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MaxBytes: 100 << 20})
		defer b.manager.Close()
		pinned := b.spec("pinned", "1", 20<<20, Lazy)
		pinned.Pinned = true
		err := b.put(b.spec("always", "1", 30<<20, Startup), pinned, b.spec("x", "1", 25<<20, Lazy), b.spec("y", "1", 25<<20, Lazy),
			b.spec("z", "1", 25<<20, Lazy), b.spec("huge", "1", 60<<20, Lazy))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.put(b.spec("always", "1", 30<<20, Startup), b.spec("too", "1", 80<<20, Startup)); err == nil || !strings.Contains(err.Error(), "20.0 MiB") && !strings.Contains(err.Error(), "always version 1 30.0 MiB") {
			t.Errorf("a configuration that takes too much: %v", err)
		}
		b.asked("pinned", "1")
		for range 3 {
			for _, m := range []string{"x", "y", "z"} {
				b.asked(m, "1")
				time.Sleep(time.Second)
			}
		}
		if got := b.most.Load(); got > 100<<20 {
			t.Errorf("%d MiB at the most", got>>20)
		}
		b.asked("z", "1") // one of the two that are loaded
		reads := b.reads.Load()
		if b.asked("y", "1"); b.reads.Load() != reads {
			t.Error("what was used most recently had left")
		}
		_, err = b.ask("huge", 0)
		for _, want := range []string{`"huge" version 1 needs 60.0 MiB`, "always version 1 30.0 MiB", "pinned version 1 20.0 MiB", "--model-memory-bytes"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error lacks %q: %v", want, err)
			}
		}
		var held sync.WaitGroup
		held.Go(func() { b.ask("y", 5*time.Second) })
		held.Go(func() { b.ask("z", 5*time.Second) })
		time.Sleep(2 * time.Second)
		begun := time.Now()
		b.asked("x", "1")
		if waited := time.Since(begun); waited < 3*time.Second {
			t.Errorf("a version that requests hold made room within %v", waited)
		}
		held.Wait()
	})
}

// A name moves in one step: requests that run keep their version, and the way back reads
// no file.
func TestMoveAndRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		if err := b.put(b.spec("a", "1", 10, Startup), b.spec("a", "2", 10, Never), b.spec("a", "3", 10, Never)); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				if got, err := b.ask("a", 20*time.Second); got != "1" || err != nil {
					t.Errorf("a request that ran has version %q: %v", got, err)
				}
			})
		}
		time.Sleep(time.Second)
		if _, _, err := b.manager.Rollback(t.Context(), "a"); !errors.Is(err, ErrNoLast) {
			t.Errorf("without a version before: %v", err)
		}
		for _, label := range []string{"2", "3"} {
			if _, err := b.manager.Move(t.Context(), "a", label); err != nil {
				t.Fatal(err)
			}
			b.asked("a", label)
		}
		b.asked("a@1", "1")
		reads, begun := b.reads.Load(), time.Now()
		if now, before, err := b.manager.Rollback(t.Context(), "a"); err != nil || now != "2" || before != "3" {
			t.Fatalf("rollback: %q %q %v", now, before, err)
		}
		b.asked("a", "2")
		if b.reads.Load() != reads || time.Since(begun) != 0 {
			t.Errorf("a rollback read %d files and took %v", b.reads.Load()-reads, time.Since(begun))
		}
		running.Wait()
		if _, err := b.manager.Move(t.Context(), "a", "9"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "1, 2, 3") {
			t.Errorf("%v", err)
		}
	})
}

// A configuration that lists the same versions for other times moves the name, and loads what is to be there from the start.
func TestPrepareWithOtherTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		for i, c := range []struct {
			one, two When
			want     string
			loaded   int // versions that a request finds in memory
		}{{Startup, Never, "1", 1}, {Never, Startup, "2", 2}, {Startup, Never, "1", 2}, {Startup, Startup, "1", 2}} {
			if err := b.put(b.spec("a", "1", 10, c.one), b.spec("a", "2", 10, c.two)); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if b.asked("a", c.want); time.Since(begun) != 0 {
				t.Errorf("configuration %d: the version that answers was not loaded before", i)
			}
			if got := int(b.memory.Load() / 10); got != c.loaded {
				t.Errorf("configuration %d: %d versions in memory, want %d", i, got, c.loaded)
			}
		}
		first, second := b.spec("a", "1", 10, Startup), b.spec("a", "2", 10, Startup)
		first.Candidate = true
		if err := b.put(first, second); err != nil {
			t.Fatal(err)
		}
		b.asked("a", "2")
	})
}

// A new configuration is loaded beside the old one and takes over in one step; what does
// not load changes nothing.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		if err := b.put(b.spec("a", "1", 10, Startup), b.spec("b", "1", 10, Startup)); err != nil {
			t.Fatal(err)
		}
		b.fails.Store(true)
		if err := b.put(b.spec("a", "2", 10, Startup), b.spec("b", "1", 10, Startup)); err == nil || !strings.Contains(err.Error(), "it is broken") {
			t.Errorf("a broken version: %v", err)
		}
		b.fails.Store(false)
		b.asked("a", "1")
		var running sync.WaitGroup
		running.Go(func() { b.ask("b", 10*time.Second) })
		time.Sleep(time.Second)
		if err := b.put(b.spec("a", "2", 10, Lazy)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		b.asked("a", "2")
		if time.Since(begun) != 0 {
			t.Error("a version that took over was not loaded before")
		}
		if _, err := b.ask("b", 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("a name that is gone: %v", err)
		}
		running.Wait()
		synctest.Wait()
		synctest.Wait()            // what was read before is closed
		if b.memory.Load() != 20 { // the version that answers and the one before
			t.Errorf("%d bytes", b.memory.Load())
		}
		if _, _, err := b.manager.Rollback(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b.asked("a", "1")
		if err := b.put(b.spec("a", "2", 10, Lazy)); err != nil { // nothing new: the rollback stays
			t.Fatal(err)
		}
		b.asked("a", "1")
		reads := b.reads.Load()
		if err := b.put(b.spec("a", "1", 10, Startup)); err != nil {
			t.Fatal(err)
		}
		if b.asked("a", "1"); b.reads.Load() != reads {
			t.Error("a version that was in memory was read again")
		}
	})
}

func TestIdleUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		spec := b.spec("a", "1", 10, Startup)
		spec.IdleUnload = 10 * time.Second
		if err := b.put(spec); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { b.ask("a", 30*time.Second) })
		time.Sleep(20 * time.Second)
		b.manager.Sweep(time.Now())
		if !b.inMemory("a") {
			t.Error("a version left that a request held")
		}
		running.Wait()
		time.Sleep(9 * time.Second)
		b.manager.Sweep(time.Now())
		if !b.inMemory("a") {
			t.Error("a version left before its time")
		}
		time.Sleep(time.Second)
		b.manager.Sweep(time.Now())
		synctest.Wait()
		if b.memory.Load() != 0 {
			t.Error("an idle version stayed")
		}
		b.asked("a", "1")
	})
}

// SetIdle counts in place of the configuration's time, until the version leaves.
func TestSetIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		pinned := b.spec("b", "1", 10, Startup)
		pinned.Pinned = true
		if err := b.put(b.spec("a", "1", 10, Startup), pinned); err != nil {
			t.Fatal(err)
		}
		set := func(model string, after time.Duration) error {
			lease, err := b.manager.Acquire(model, "")
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			return lease.SetIdle(after)
		}
		if err := set("b", 0); err == nil || !strings.Contains(err.Error(), "pinned") {
			t.Error(err)
		}
		if err := set("a", time.Minute); err != nil {
			t.Error(err)
		}
		time.Sleep(59 * time.Second)
		b.manager.Sweep(time.Now())
		if st, _, _ := b.manager.Answer("a"); !b.inMemory("a") || time.Until(st.Leaves) != time.Second {
			t.Errorf("a version left before its time, or leaves in %v", time.Until(st.Leaves))
		}
		time.Sleep(time.Second)
		b.manager.Sweep(time.Now())
		synctest.Wait()
		if b.inMemory("a") {
			t.Error("an idle version stayed")
		}
		b.asked("a", "1")
		time.Sleep(time.Hour)
		b.manager.Sweep(time.Now())
		if st, _, _ := b.manager.Answer("a"); !b.inMemory("a") || !st.Leaves.IsZero() {
			t.Error("the time counts for a version that has left and come back")
		}
	})
}

// A version that was stopped ends its requests, and the next one brings it back.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		pinned := b.spec("b", "1", 10, Startup)
		pinned.Pinned = true
		if err := b.put(b.spec("a", "1", 10, Startup), pinned); err != nil {
			t.Fatal(err)
		}
		if err := b.manager.Stop("b", ""); err == nil || !strings.Contains(err.Error(), "pinned") || !b.inMemory("b") {
			t.Error(err)
		}
		if err := b.manager.Stop("c", ""); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		lease, err := b.manager.Acquire("a", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.manager.Stop("a", ""); err != nil || b.memory.Load() != 20 {
			t.Errorf("a stop took a version away from its request: %v", err)
		}
		lease.Release()
		synctest.Wait()
		if b.memory.Load() != 10 {
			t.Error("a version that was stopped stayed")
		}
		b.asked("a", "1")
		if st, _, _ := b.manager.Answer("a"); st.Off || st.State != Loaded {
			t.Errorf("the next request found it %s", st.State)
		}
	})
}

// Whatever requests, operators and reloads do at once: no version is closed while a
// request holds it, the budget holds, and at the end all memory is free.
func TestAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MaxBytes: 60, MaxWaiting: 1000})
		random := rand.New(rand.NewPCG(7, 11))
		var mu sync.Mutex
		roll := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}
		specs := func() []Spec {
			var list []Spec
			for i := range 4 {
				s := b.spec(fmt.Sprint("m", i), fmt.Sprint(roll(3)), 10, []When{Lazy, Startup}[b2i(i == 0)])
				s.IdleUnload = 5 * time.Second
				list = append(list, s)
			}
			return list
		}
		if err := b.put(specs()...); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				for range 30 {
					time.Sleep(time.Duration(roll(1000)) * time.Millisecond)
					model := fmt.Sprint("m", roll(4))
					switch roll(20) {
					case 0:
						_ = b.put(specs()...)
					case 1:
						_ = b.manager.Unload(model, "")
						_ = b.manager.Load(t.Context(), model, "")
					case 2:
						_, _, _ = b.manager.Rollback(t.Context(), model)
					case 3:
						b.manager.Sweep(time.Now())
					default:
						_, _ = b.ask(model, time.Duration(roll(3000))*time.Millisecond)
					}
				}
			})
		}
		all.Wait()
		if most := b.most.Load(); most > 60 {
			t.Errorf("%d bytes at the most, of 60", most)
		}
		b.asked("m0", b.label("m0"))
		b.manager.Close()
		if b.memory.Load() != 0 || b.reads.Load() < 10 {
			t.Errorf("%d bytes at the end, %d reads", b.memory.Load(), b.reads.Load())
		}
	})
}

func (b *bench) label(model string) string {
	st, _, _ := b.manager.Answer(model)
	return st.Label
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestReloadBesideConfiguration reads a version's files again while a new configuration, which lists it too, loads another one.
func TestReloadBesideConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		one, two := b.spec("m", "1", 10, Eager), b.spec("m", "2", 10, Eager)
		if err := b.put(one); err != nil {
			t.Fatal(err)
		}
		commit, _, err := b.manager.Prepare(t.Context(), []Spec{one, two})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.manager.Reload(t.Context(), "m", "1"); err != nil {
			t.Fatal(err)
		}
		commit()
		b.asked("m@1", "1")
		b.asked("m@2", "2")
		synctest.Wait() // what was read before is closed
		if b.memory.Load() != 20 {
			t.Errorf("%d bytes are in memory, not 20", b.memory.Load())
		}
	})
}

// TestConfigurationBesideReload puts a new configuration into force while a version's files are read again, which succeeds.
func TestConfigurationBesideReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		one := b.spec("m", "1", 10, Eager)
		if err := b.put(one); err != nil {
			t.Fatal(err)
		}
		var reload sync.WaitGroup
		reload.Go(func() {
			if err := b.manager.Reload(t.Context(), "m", "1"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(b.takes / 2)
		if err := b.put(one); err != nil {
			t.Fatal(err)
		}
		reload.Wait()
		b.asked("m", "1")
		if b.reads.Load() != 2 {
			t.Errorf("the files were read %d times, not twice", b.reads.Load())
		}
	})
}

// TestReloadTwice reads a version's files twice at a time: both loads are fine, the one after the other.
func TestReloadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		if err := b.put(b.spec("m", "1", 10, Eager)); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := b.manager.Reload(t.Context(), "m", "1"); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		b.asked("m", "1")
		synctest.Wait()
		if b.memory.Load() != 10 || b.reads.Load() != 3 {
			t.Errorf("%d bytes in memory after %d reads, not 10 after 3", b.memory.Load(), b.reads.Load())
		}
	})
}

// TestLoadsTakeTurns asks for two versions at a time, where only one fits beside nothing else and the one before still computes: both come.
func TestLoadsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MaxBytes: 15, EvictBusy: true})
		defer b.manager.Close()
		if err := b.put(b.spec("a", "1", 10, Lazy), b.spec("b", "1", 10, Lazy), b.spec("c", "1", 10, Lazy)); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := b.ask("a", 5*time.Second); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Second)
		for _, model := range []string{"b", "c"} {
			all.Go(func() { b.asked(model, "1") })
		}
		all.Wait()
		if b.most.Load() > 15 {
			t.Errorf("%d bytes were in memory, more than 15", b.most.Load())
		}
	})
}

// The end of a manager ends the loads that run, and is reported as no failure of theirs. What waits for one is told why.
func TestTheEndOfAManagerEndsItsLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		spec := b.spec("a", "1", 10, Lazy)
		spec.Open = func(ctx context.Context) (Content, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("load a: %w", context.Cause(ctx))
		}
		if err := b.put(spec); err != nil {
			t.Fatal(err)
		}
		asked := make(chan error)
		go func() {
			_, err := b.ask("a", 0)
			asked <- err
		}()
		synctest.Wait()
		b.manager.Close()
		if err := <-asked; !errors.Is(err, inference.ErrUnavailable) || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("a request that waited: %v", err)
		}
		if len(b.said) > 0 {
			t.Errorf("said %v", b.said)
		}
	})
}

// A configuration whose reader ends is loaded no further.
func TestPrepareEndsBetweenVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		first := b.spec("a", "1", 10, Eager)
		open := first.Open
		first.Open = func(ctx context.Context) (Content, error) {
			cancel(io.ErrClosedPipe)
			return open(ctx)
		}
		if _, _, err := b.manager.Prepare(ctx, []Spec{first, b.spec("b", "1", 10, Eager)}); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		synctest.Wait()
		if n := b.reads.Load(); n > 1 {
			t.Errorf("%d versions were read", n)
		}
	})
}

// TestRequestsEndWithWhatTheyFound takes a version away between a request's finding it and its loading it: the request ends with that
// version, whether it was in memory then or not, and its memory is free at the end.
func TestRequestsEndWithWhatTheyFound(t *testing.T) {
	for _, when := range []When{Startup, Lazy} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{})
			b.manager.opts.KeepLast = false
			defer b.manager.Close()
			if err := b.put(b.spec("m", "1", 10, when)); err != nil {
				t.Fatal(err)
			}
			early, err := b.manager.Acquire("m", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := b.put(b.spec("m", "2", 10, when)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.manager.Acquire("m", "1"); !errors.Is(err, ErrUnknown) {
				t.Errorf("a version that was taken away is found: %v", err)
			}
			if early.Content == nil {
				if err := early.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if c := early.Content.(*fakeContent); c.label != "1" || c.closed.Load() {
				t.Errorf("the request has version %s, closed: %v", c.label, c.closed.Load())
			}
			early.Release()
			b.asked("m", "2")
			synctest.Wait()
			if b.memory.Load() != 10 {
				t.Errorf("%d bytes are in memory, not those of one version", b.memory.Load())
			}
		})
	}
}

// TestMoveToVersionThatLeaves moves a name to a version that a new configuration takes away while it is read: the move is refused, and
// the version's memory is free.
func TestMoveToVersionThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		one, two := b.spec("m", "1", 10, Startup), b.spec("m", "2", 10, Lazy)
		if err := b.put(one, two); err != nil {
			t.Fatal(err)
		}
		moved := make(chan error)
		go func() {
			_, err := b.manager.Move(t.Context(), "m", "2")
			moved <- err
		}()
		time.Sleep(b.takes / 2)
		if err := b.put(one); err != nil {
			t.Fatal(err)
		}
		if err := <-moved; !errors.Is(err, ErrUnknown) {
			t.Errorf("the name moved to a version that is not listed any more: %v", err)
		}
		synctest.Wait()
		if b.memory.Load() != 10 {
			t.Errorf("%d bytes are in memory, not those of one version", b.memory.Load())
		}
	})
}
