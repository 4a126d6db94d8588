package limiter

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"weir/api"
	"weir/api/edge"
)

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aborted, busy := make(chan struct{}), false
		s := New("texts wait", aborted, func() bool { return busy })
		take := func(gone <-chan struct{}) *Permit {
			t.Helper()
			first, fault := s.Acquire(gone, "a")
			if fault != nil {
				t.Fatal(fault.Message)
			}
			return first
		}
		refused := func(gone <-chan struct{}, tenant string, after time.Duration, status int) {
			t.Helper()
			began := time.Now()
			_, fault := s.Acquire(gone, tenant)
			if fault == nil || fault.Status != status || time.Since(began) != after {
				t.Errorf("refused after %v with %v, want after %v with status %d", time.Since(began), fault, after, status)
			}
		}
		var held []*Permit
		for range max(1, runtime.NumCPU()/4) {
			held = append(held, take(nil))
		}
		gone := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(gone) })
		refused(gone, "a", time.Second, edge.StatusHungUp)
		refused(nil, "a", permitTimeout, 503)

		// A permit that is released lets the next one in.
		time.AfterFunc(time.Second, held[0].Release)
		began := time.Now()
		held[0] = take(nil)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v for a permit that was released after a second", waited)
		}

		// Rests: none while nothing runs, some times the work otherwise.
		time.Sleep(3 * time.Millisecond) // stands for work
		began = time.Now()
		if !held[0].pause() || time.Since(began) != 0 {
			t.Errorf("rested %v while nothing was running", time.Since(began))
		}
		busy = true
		time.Sleep(3 * time.Millisecond)
		began = time.Now()
		if !held[0].pause() || time.Since(began) != restShare*3*time.Millisecond || held[0].Away() != time.Since(began) {
			t.Errorf("rested %v and %v after 3 ms of work", time.Since(began), held[0].Away())
		}

		// No more than so many of a tenant wait, another one's still may, and a shutdown ends them all.
		for range maxPermits - len(held) {
			go func() { _, _ = s.Acquire(nil, "a") }()
		}
		synctest.Wait()
		refused(nil, "a", 0, 503)
		other := make(chan *api.Error, 1)
		go func() {
			_, fault := s.Acquire(nil, "b")
			other <- fault
		}()
		synctest.Wait()
		select {
		case fault := <-other:
			t.Errorf("another tenant's request does not wait: %v", fault)
		default:
		}
		close(aborted)
		synctest.Wait()
		if fault := <-other; fault == nil || fault.Status != 503 {
			t.Errorf("after the shutdown: %v", fault)
		}
		refused(nil, "b", 0, 503)
	})
}

// TestBodiesThatNeedAPermit: short ones do beside steps alone, and tiny ones never.
func TestBodiesThatNeedAPermit(t *testing.T) {
	busy := false
	s := New("texts wait", nil, func() bool { return busy })
	for _, busy = range []bool{false, true} {
		for bytes, want := range map[int]bool{100: false, tinyBytes: false, tinyBytes + 1: busy, FreeBytes: busy, FreeBytes + 1: true} {
			if s.Needed(bytes) != want {
				t.Errorf("busy %v, %d bytes: %v", busy, bytes, !want)
			}
		}
	}
}
