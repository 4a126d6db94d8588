package admission

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
)

const second = int64(time.Second)

// work is a request of one tenant that takes a second of compute.
func work(tenant string) Item {
	return Item{Tenant: tenant, Class: inference.Default, Choices: 1, Tokens: 10, Work: uint64(second)}
}

func TestDoorCountsCallsAllOrNone(t *testing.T) {
	d := NewPrecheck(Bounds{MaxRequests: 40})
	enter := func(n int, it Item) error {
		call := make([]Item, n)
		for i := range call {
			call[i] = it
		}
		return d.Enter(0, call)
	}
	if err := enter(20, work("a")); err != nil {
		t.Fatal(err)
	}
	if err := enter(1, work("a")); !errors.Is(err, inference.ErrTenantQueueFull) {
		t.Errorf("beyond half of the queue: %v", err)
	}
	mixed := []Item{work("b"), work("b"), work("a")}
	if err := d.Enter(0, mixed); !errors.Is(err, inference.ErrTenantQueueFull) || d.Waiting().Requests != 20 {
		t.Errorf("a call of which the last part is refused: %v, %d wait", err, d.Waiting().Requests)
	}
	batch := work("c")
	batch.Class = inference.Batch
	for range 2 {
		if err := enter(10, batch); err != nil {
			t.Fatal(err)
		}
		batch.Tenant = "d"
	}
	if err := enter(1, batch); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("one more than the queue holds: %v", err)
	}
	for i := range 20 { // batch requests give way
		if err := enter(1, work("new "+strconv.Itoa(i))); err != nil {
			t.Fatalf("newcomer %d of a higher class: %v", i, err)
		}
	}
	if err := enter(1, work("late")); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("when all of the lower class are spoken for: %v", err)
	}
	over := work("over")
	over.Class, over.OverQuota = inference.Interactive, true
	if err := enter(1, over); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("one beyond its quota makes others give way: %v", err)
	}
}

// drained is a door at which two tenants of equal weight keep the queue full for a
// minute, while one request of each leaves every two seconds.
func drained(t testing.TB) (d Precheck, now int64) {
	t.Helper()
	d = NewPrecheck(Bounds{MaxRequests: 60})
	for _, tenant := range []string{"a", "b"} {
		for range 20 {
			if err := d.Enter(now, []Item{work(tenant)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 60 {
		now += second
		it := work([]string{"a", "b"}[i%2])
		d.Leave(now, &it, true)
		if err := d.Enter(now, []Item{it}); err != nil {
			t.Fatal(err)
		}
	}
	return d, now
}

func TestDoorForeseesTheWait(t *testing.T) {
	d, now := drained(t)
	near := func(what string, got time.Duration, want float64) {
		t.Helper()
		if s := got.Seconds(); s < 0.85*want || s > 1.15*want {
			t.Errorf("%s: %.1f s, want %.0f", what, s, want)
		}
	}
	a := work("a")
	wait, known := d.Wait(now, &a)
	if !known {
		t.Fatal("after a minute nothing is known")
	}
	near("twenty of the tenant's own, one of which leaves every two seconds", wait, 40)
	newcomer := work("c")
	if wait, _ := d.Wait(now, &newcomer); wait != 0 {
		t.Errorf("a tenant of which nothing waits waits %v for its turn", wait)
	}
	err := d.Enter(now, []Item{a})
	var limit *inference.LimitError
	if !errors.As(err, &limit) || !errors.Is(err, inference.ErrTenantQueueFull) {
		t.Fatalf("one more: %v", err)
	}
	near("when to try again", limit.RetryAfter, 40)
}

func TestDoorRefusesWhatCannotBeInTime(t *testing.T) {
	d, now := drained(t)
	for range 2 { // the tenant has 18 before it: 36 seconds
		it := work("a")
		d.Leave(now, &it, false)
	}
	for _, tc := range []struct {
		name        string
		first, done time.Duration
		refused     string
	}{
		{"no deadline", 0, 0, ""},
		{"a first token in time", 40 * time.Second, 0, ""},
		{"one that is too late by less than the estimate is sure", 36 * time.Second, 0, ""},
		{"one that is too late", 20 * time.Second, 0, "first token"},
		{"an answer that is too late", 40 * time.Second, 25 * time.Second, "last token"},
	} {
		it := work("a")
		it.FirstToken, it.Done = time.Second, 5*time.Second
		if tc.first > 0 {
			it.FirstTokenBy = now + int64(tc.first)
		}
		if tc.done > 0 {
			it.DoneBy = now + int64(tc.done)
		}
		before := d.Waiting()
		err := d.Enter(now, []Item{it})
		var limit *inference.LimitError
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.refused == "":
			d.Leave(now, &it, false)
		case !errors.As(err, &limit) || !errors.Is(err, inference.ErrDeadlineUnreachable) || limit.Need <= limit.Limit || limit.RetryAfter <= 0:
			t.Errorf("%s: %v", tc.name, err)
		}
		if d.Waiting() != before {
			t.Errorf("%s: the counts changed", tc.name)
		}
	}
}

// A refusal never says that a request needs 0 ms of the 0 ms that it has.
func TestDoorRoundsWhatIsNeededUp(t *testing.T) {
	d := NewPrecheck(Bounds{MaxRequests: 10})
	it := work("a")
	it.FirstToken, it.FirstTokenBy = 300*time.Microsecond, 1000
	var limit *inference.LimitError
	if err := d.Enter(0, []Item{it}); !errors.As(err, &limit) || limit.Need != 1 || limit.Limit != 0 {
		t.Errorf("%v", err)
	}
}

// Idle tenants do not fill the memory.
func TestDoorForgetsIdleTenants(t *testing.T) {
	d := NewPrecheck(Bounds{MaxRequests: 10})
	for i := range 3 * maxTenantQueues {
		it := work(strconv.Itoa(i))
		if err := d.Enter(int64(i), []Item{it}); err != nil {
			t.Fatal(err)
		}
		d.Leave(int64(i), &it, true)
	}
	if n := len(d.tenants); n > maxTenantQueues {
		t.Errorf("%d tenants are remembered, limit %d", n, maxTenantQueues)
	}
	if d.weight != 0 || d.Waiting() != (Waiting{}) {
		t.Errorf("weight %d, %+v wait", d.weight, d.Waiting())
	}
}

func BenchmarkPrecheck(b *testing.B) {
	b.Run("enter and leave", func(b *testing.B) {
		d, now := drained(b)
		call := []Item{work("c")}
		b.ReportAllocs()
		for b.Loop() {
			_ = d.Enter(now, call)
			d.Leave(now, &call[0], true)
		}
	})
	b.Run("refuse", func(b *testing.B) {
		d, now := drained(b)
		call := []Item{work("a")}
		b.ReportAllocs()
		for b.Loop() {
			if d.Enter(now, call) == nil {
				b.Fatal("let in")
			}
		}
	})
}

// Requests of one call that have no room where nothing waits never have it: no request is told to try again.
func TestWhatNeverFitsIsNotToldToTryAgain(t *testing.T) {
	b := Bounds{MaxRequests: 40, MaxTokens: 1000}
	busy := Waiting{Requests: 30, Choices: 30, Tokens: 900}
	for name, tc := range map[string]struct {
		more, own Waiting
		want      error
	}{
		"more choices than may wait":        {more: Waiting{Requests: 2, Choices: 41}, want: inference.ErrNeverFits},
		"more tokens than may wait":         {more: Waiting{Requests: 2, Choices: 2, Tokens: 1001}, want: inference.ErrNeverFits},
		"more choices than a tenant's half": {more: Waiting{Requests: 2, Choices: 21}, want: inference.ErrNeverFits},
		"room without the others":           {more: Waiting{Requests: 2, Choices: 12}, want: inference.ErrQueueFull},
		"room without the tenant's others":  {more: Waiting{Requests: 2, Choices: 2}, own: Waiting{Requests: 20, Choices: 20}, want: inference.ErrTenantQueueFull},
		"one alone, however large":          {more: Waiting{Requests: 1, Choices: 99, Tokens: 9999}, want: inference.ErrQueueFull},
	} {
		err := b.Room(busy, tc.own, tc.more)
		limit, ok := errors.AsType[*inference.LimitError](err)
		if !errors.Is(err, tc.want) || !ok || strings.Contains(limit.Remedy, "again") == errors.Is(tc.want, inference.ErrNeverFits) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
