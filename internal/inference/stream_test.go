package inference

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// A ring that grows and wraps in any rhythm loses, repeats and reorders
// nothing.
func TestStreamKeepsOrderInAnyRhythm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		limit := 1 + r.IntN(100)
		s := NewStream(limit, func(int) {})
		pushed, read := 0, 0
		buf := make([]Event, 1+r.IntN(20))
		for range 400 {
			if r.IntN(2) == 0 {
				if ok := s.Push(Event{Choice: pushed}); ok != (pushed-read < limit) {
					t.Fatalf("push with %d of %d unread: %v", pushed-read, limit, ok)
				} else if ok {
					pushed++
				}
				continue
			}
			n, _, _ := s.Poll(buf)
			for _, e := range buf[:n] {
				if e.Choice != read {
					t.Fatalf("event %d came as number %d", e.Choice, read)
				}
				read++
			}
			if n < len(buf) && read != pushed {
				t.Fatalf("%d of %d events read", read, pushed)
			}
		}
	}
}

func TestStreamEndsOnceAfterItsEvents(t *testing.T) {
	boom := errors.New("boom")
	s := NewStream(4, func(int) {})
	s.Push(Event{Choice: 1})
	s.Close(boom)
	s.Close(nil)
	if s.Push(Event{}) {
		t.Error("pushed after the end")
	}
	buf := make([]Event, 4)
	n, done, err := s.Poll(buf)
	if n != 1 || !done || !errors.Is(err, boom) {
		t.Errorf("%d events, done %v, %v; want 1, true, boom", n, done, err)
	}
}

// No wake-up is lost: a reader that sleeps on Wake whenever it finds nothing
// sees everything.
func TestStreamWakesItsReader(t *testing.T) {
	s := NewStream(1000, func(int) {})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 5000 {
			for !s.Push(Event{Choice: i}) {
			}
		}
		s.Close(nil)
	})
	buf, next := make([]Event, 3), 0
	for {
		n, done, _ := s.Poll(buf)
		for _, e := range buf[:n] {
			if e.Choice != next {
				t.Fatalf("event %d came as number %d", e.Choice, next)
			}
			next++
		}
		if done {
			break
		}
		if n == 0 {
			<-s.Wake()
		}
	}
	wg.Wait()
	if next != 5000 {
		t.Errorf("%d events of 5000", next)
	}
}

func TestStreamPushAllocatesNothingForAReaderThatKeepsUp(t *testing.T) {
	s, buf := NewStream(1000, func(int) {}), make([]Event, 4)
	if n := testing.AllocsPerRun(100, func() { s.Push(Event{}); s.Poll(buf) }); n > 0 {
		t.Errorf("%v allocations per event", n)
	}
}

// A finish has a slot of its own: neither unread tokens nor other finishes take
// the place of one, and a finish takes no token's.
func TestStreamAlwaysTakesAFinish(t *testing.T) {
	const limit, choices = 5, 3
	s := NewStream(limit, func(int) {})
	s.Push(Event{Kind: EventFinish, Choice: 0})
	for i := range limit {
		if !s.Push(Event{Choice: 1}) {
			t.Fatalf("token %d of %d was refused", i, limit)
		}
	}
	if s.Push(Event{Choice: 1}) {
		t.Error("one token too many was taken")
	}
	for c := 1; c < choices; c++ {
		if !s.Push(Event{Kind: EventFinish, Choice: c}) {
			t.Errorf("the finish of choice %d was refused", c)
		}
	}
	s.Close(nil)
	buf := make([]Event, 2*limit)
	n, done, err := s.Poll(buf)
	if n != limit+choices || !done || err != nil {
		t.Fatalf("%d events, done %v, %v; want %d", n, done, err, limit+choices)
	}
	for i, c := range []int{0, 1, 1, 1, 1, 1, 1, 2} {
		if buf[i].Choice != c {
			t.Errorf("event %d is of choice %d, want %d", i, buf[i].Choice, c)
		}
	}
}
