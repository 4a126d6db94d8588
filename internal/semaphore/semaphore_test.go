package semaphore

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/reference"
)

// work is a piece of work of some time, in small parts between which it yields. In a bubble of synctest, sleeping is working.
func work(t *Permit, d time.Duration) error {
	for ; d > 0; d -= 100 * time.Microsecond {
		time.Sleep(min(d, 100*time.Microsecond))
		if err := t.Yield(); err != nil {
			return err
		}
	}
	return nil
}

func do(t *testing.T, s *Semaphore, name string, d time.Duration) (took time.Duration) {
	t.Helper()
	start := time.Now()
	permit, err := s.Acquire(nil, name)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer permit.Release()
	if err := work(permit, d); err != nil {
		t.Error(err)
	}
	return time.Since(start)
}

// TestG11SmallPiecesOfOthersComeFirst: a hundred large pieces of one tenant hold up a small one of another for a few slices only, and
// a small one of its own for a few more.
func TestG11SmallPiecesOfOthersComeFirst(t *testing.T) {
	reference.Slow(t)
	for name, busy := range map[string]bool{"idle": false, "beside steps": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Permits: 1, Rest: 3, Busy: func() bool { return busy }})
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() { do(t, s, "large", time.Second) })
				}
				time.Sleep(3 * time.Second)
				other := do(t, s, "small", 5*time.Millisecond)
				if other > 60*time.Millisecond {
					t.Errorf("a small piece of another tenant took %v", other)
				}
				own := do(t, s, "large", 5*time.Millisecond)
				if own > 100*time.Millisecond {
					t.Errorf("a small piece of the same tenant took %v", own)
				}
				all.Wait()
			})
		})
	}
}

// TestLargePiecesEndOneAfterTheOther: of equal pieces of a tenant the first ends when its own time is over, and not with the last.
func TestLargePiecesEndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Permits: 1})
		var all sync.WaitGroup
		var took [10]time.Duration
		for i := range took {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				took[i] = do(t, s, "a", time.Second)
			})
		}
		all.Wait()
		for i, d := range took {
			if most := time.Duration(i+1)*time.Second + 150*time.Millisecond; d > most {
				t.Errorf("piece %d ended after %v, want %v at most", i, d, most)
			}
		}
	})
}

// TestTenantsShare: two tenants that want all get half each, however many pieces they have.
func TestTenantsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Permits: 2})
		done := make(chan struct{})
		var mu sync.Mutex
		had := map[string]time.Duration{}
		var all sync.WaitGroup
		for i := range 12 {
			name := "many"
			if i%4 == 0 {
				name = "few"
			}
			all.Go(func() {
				permit, err := s.Acquire(done, name)
				if err != nil {
					t.Error(err)
					return
				}
				if err := work(permit, time.Hour); !errors.Is(err, ErrCancelled) {
					t.Error(err)
				}
				mu.Lock()
				had[name] += permit.Used()
				mu.Unlock()
				permit.Release()
			})
		}
		time.Sleep(time.Second)
		close(done)
		all.Wait()
		if few, many := had["few"], had["many"]; few+many < 1990*time.Millisecond || few < many*9/10 || many < few*9/10 {
			t.Errorf("one had %v, the other %v", few, many)
		}
		if s.free != 2 || len(s.waiting) != 0 || len(s.tenants) != 0 {
			t.Errorf("%d free, %d wait, %d tenants are left", s.free, len(s.waiting), len(s.tenants))
		}
	})
}

// TestWhoGivesUpLeaves: a caller that gives up while it waits leaves nothing behind, and a permit that is given at that time is given on.
func TestWhoGivesUpLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Permits: 1, PerTenant: 3})
		first, err := s.Acquire(nil, "a")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := s.Acquire(done, "a")
				errs <- err
			}()
		}
		synctest.Wait()
		close(done)
		gone, full := 0, 0
		for range 3 {
			switch err := <-errs; {
			case errors.Is(err, ErrCancelled):
				gone++
			case errors.Is(err, ErrFull):
				full++
			}
		}
		if gone != 2 || full != 1 {
			t.Errorf("%d gave up, %d found the queue full; want 2 and 1", gone, full)
		}
		first.Release()
		if d := do(t, s, "b", time.Millisecond); d != time.Millisecond {
			t.Errorf("the next one waited: %v", d)
		}
	})
}

// TestAsideGivesThePermit: a piece of work that waits for another one does not keep the permit from it.
func TestAsideGivesThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Permits: 1})
		lock := make(chan struct{}, 1) // in a bubble time stands still while a mutex is waited for
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				permit, err := s.Acquire(nil, strconv.Itoa(i%2))
				if err != nil {
					t.Error(err)
					return
				}
				defer permit.Release()
				select {
				case lock <- struct{}{}:
				default:
					permit.Aside(func() { lock <- struct{}{} })
				}
				defer func() { <-lock }()
				if err := work(permit, 20*time.Millisecond); err != nil { // yields with the lock held
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// TestShortPiecesRestTogether: pieces shorter than a slice leave the engine the same part of the time as long ones, and another
// tenant's piece comes between two of them.
func TestShortPiecesRestTogether(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Permits: 1, Rest: 3, Busy: func() bool { return busy }})
			began := time.Now()
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() { do(t, s, "many", 200*time.Microsecond) })
			}
			time.Sleep(time.Millisecond)
			if few := do(t, s, "few", 200*time.Microsecond); few > 10*time.Millisecond {
				t.Errorf("busy %v: another tenant's piece took %v", busy, few)
			}
			all.Wait()
			want := 200 * time.Millisecond
			if busy {
				want *= 4
			}
			if took := time.Since(began); took < want*95/100 || took > want*105/100 {
				t.Errorf("busy %v: 1000 pieces of 0.2 ms took %v, want %v", busy, took, want)
			}
		})
	}
}

// TestPermitsInTime: who waits too long or asks after the end gets none, and who was gone before its permit came does not work.
func TestPermitsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, gone := make(chan struct{}), make(chan struct{})
		s := New(Config{Permits: 1, Timeout: time.Second, Closed: closed})
		first, err := s.Acquire(nil, "a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := s.Acquire(nil, "b"); !errors.Is(err, ErrTimeout) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		first.Release()
		close(gone)
		if _, err := s.Acquire(gone, "b"); !errors.Is(err, ErrCancelled) {
			t.Errorf("who was gone: %v", err)
		}
		if first, err = s.Acquire(nil, "a"); err != nil {
			t.Fatal(err)
		}
		close(closed)
		if _, err := s.Acquire(nil, "b"); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		time.Sleep(slice)
		if err := first.Yield(); !errors.Is(err, ErrClosed) {
			t.Errorf("work goes on after the end: %v", err)
		}
		first.Release()
		if s.free != 1 || len(s.waiting) != 0 || len(s.tenants) != 0 {
			t.Errorf("%d free, %d wait, %d tenants are left", s.free, len(s.waiting), len(s.tenants))
		}
	})
}
