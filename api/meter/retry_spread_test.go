package meter

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"weir/scheduler/quota"
)

func askOf(t *testing.T, m Meter, who quota.Holder, ask quota.Ask) (wait time.Duration, admitted bool) {
	t.Helper()
	g, err := m.Reserve(who, ask)
	if r, ok := errors.AsType[*quota.Refusal](err); ok {
		return r.RetryAfter, false
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Settle(&g, quota.Use{Ran: true, Input: ask.Input, Output: ask.Output})
	return 0, true
}

// Thirty callers of an empty bucket are told 1 s, 2 s, 3 s and so on; each that comes back
// when it was told to is let in, once.
func TestRefusedCallersAreToldConsecutiveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewRetrySpread(NewLocal(nil))
		who := quota.Holder{Tenant: "a", Limits: &quota.Limits{RequestsPerMinute: 60}}
		for range 60 {
			if _, ok := askOf(t, m, who, quota.Ask{}); !ok {
				t.Fatal("a full bucket refuses")
			}
		}
		began := time.Now()
		for i := range 30 {
			if wait, ok := askOf(t, m, who, quota.Ask{}); ok || wait != time.Duration(i+1)*time.Second {
				t.Errorf("caller %d is told %v", i, wait)
			}
		}
		for i := range 30 {
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second)))
			if wait, ok := askOf(t, m, who, quota.Ask{}); !ok {
				t.Errorf("caller %d comes back as told, and is told %v", i, wait)
			}
		}
		time.Sleep(500 * time.Millisecond)
		if wait, _ := askOf(t, m, who, quota.Ask{}); wait != 500*time.Millisecond {
			t.Errorf("turns that have passed count: %v", wait)
		}
	})
}

// Turns are as long as what is asked for takes to refill, apart for each limit, and bounded.
func TestTurnsOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewRetrySpread(NewLocal(nil))
		limits := &quota.Limits{TokensPerMinute: 600}
		who := quota.Holder{Tenant: "a", Limits: limits}
		if _, ok := askOf(t, m, who, quota.Ask{Input: 600}); !ok {
			t.Fatal("a full bucket refuses")
		}
		var got []time.Duration
		for range 5 {
			wait, _ := askOf(t, m, who, quota.Ask{Input: 200}) // 20 s each
			got = append(got, wait)
		}
		if want := "[20s 40s 1m0s 1m0s 1m0s]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		other := quota.Holder{Tenant: "b", Limits: limits}
		askOf(t, m, other, quota.Ask{Input: 600})
		if wait, _ := askOf(t, m, other, quota.Ask{Input: 200}); wait != 20*time.Second {
			t.Errorf("another tenant waits behind the first: %v", wait)
		}
		long := quota.Holder{Tenant: "c", Limits: &quota.Limits{DailyTokens: 5}}
		if wait, _ := askOf(t, m, long, quota.Ask{Input: 6}); wait != 0 {
			t.Errorf("what never fits is told to come back in %v", wait)
		}
	})
}
