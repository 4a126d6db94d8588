package meter

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/scheduler/quota"
)

// full is the refusal of a request for a stream, nil where it was admitted.
func full(t *testing.T, m Meter, who quota.Holder, ask quota.Ask) (quota.Grant, *quota.Refusal) {
	t.Helper()
	g, err := m.Reserve(who, ask)
	var r *quota.Refusal
	if err != nil && (!errors.As(err, &r) || r.Kind != quota.Streams) {
		t.Fatal(err)
	}
	return g, r
}

// answers runs requests that take base + perToken·tokens each, one after the other.
func answers(t *testing.T, m Meter, who quota.Holder, n int, base, perToken time.Duration) {
	t.Helper()
	for i := range n {
		tokens := int64(10 + 30*(i%5))
		g, r := full(t, m, who, quota.Ask{Input: 5, Output: tokens})
		if r != nil {
			t.Fatal(r)
		}
		time.Sleep(base + time.Duration(tokens)*perToken)
		m.Settle(&g, quota.Use{Ran: true, Input: 5, Output: tokens})
	}
}

// A refused client is told when the first of the running answers ends, the next one when
// the second does, and so on.
func TestRefusedStreamsLearnWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewEndForecast(NewLocal(nil))
		who := quota.Holder{Tenant: "a", Model: "m", Limits: &quota.Limits{MaxStreams: 2}}
		answers(t, m, who, 60, 500*time.Millisecond, 20*time.Millisecond)
		first, _ := full(t, m, who, quota.Ask{Input: 5, Output: 100})
		time.Sleep(time.Second)
		second, _ := full(t, m, who, quota.Ask{Input: 5, Output: 200})
		time.Sleep(200 * time.Millisecond)
		usual := m.speeds[speedKey{"a", "m"}].mean
		for i, want := range []time.Duration{1300 * time.Millisecond, 4300 * time.Millisecond, 1300*time.Millisecond + usual} {
			_, r := full(t, m, who, quota.Ask{Input: 5, Output: 50})
			if r == nil || math.Abs(float64(r.RetryAfter-want)) > 0.1*float64(want) || r.Error() == "" {
				t.Errorf("refusal %d: %+v, want after %v", i, r, want)
			}
		}
		time.Sleep(1250 * time.Millisecond) // a place is free as the first client was told
		m.Settle(&first, quota.Use{Ran: true, Input: 5, Output: 100})
		third, r := full(t, m, who, quota.Ask{Input: 5, Output: 50})
		if r != nil {
			t.Errorf("no room: %v", r)
		}
		for _, g := range []quota.Grant{second, third} {
			m.Settle(&g, quota.Use{Ran: true, Input: 5, Output: 50})
			m.Settle(&g, quota.Use{Ran: true, Input: 5, Output: 50}) // once is enough
		}
		if len(m.runs) != 0 || len(m.tenants) != 0 {
			t.Errorf("%d runs, %d tenants are left", len(m.runs), len(m.tenants))
		}
	})
}

// An answer that outlives what was expected of it goes on for a quarter of its time, and
// one that is topped up tells how far it is.
func TestRunsThatOutliveExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewEndForecast(NewLocal(nil))
		who := quota.Holder{Tenant: "a", Model: "m", Limits: &quota.Limits{MaxStreams: 1, TokensPerMinute: 1e6}}
		answers(t, m, who, 60, 0, 20*time.Millisecond)
		g, _ := full(t, m, who, quota.Ask{Input: 5, Output: 100})
		told := func(want time.Duration) {
			t.Helper()
			m.tenants["a"].promised = nil
			if _, r := full(t, m, who, quota.Ask{Input: 5, Output: 1}); r == nil || math.Abs(float64(r.RetryAfter-want)) > 0.1*float64(want) {
				t.Errorf("%+v, want after %v", r, want)
			}
		}
		told(2 * time.Second)
		time.Sleep(8 * time.Second)
		told(2 * time.Second)
		if err := m.TopUp(&g, 400, 1000); err != nil { // it is as fast as others, but longer
			t.Fatal(err)
		}
		told(2 * time.Second)
		time.Sleep(time.Hour)
		told(longestWait)
		m.Settle(&g, quota.Use{Ran: true, Input: 5, Output: 1000})
	})
}

// Where nothing is known a client is told the default, and of what runs elsewhere a share
// of the usual time. What does not wait for a stream is told as before.
func TestWaitsOfWhatIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := NewLocal(nil)
		m := NewEndForecast(local)
		who := quota.Holder{Tenant: "a", Model: "m", ModelLimits: &quota.Limits{MaxStreams: 2}}
		other, _ := full(t, local, who, quota.Ask{Input: 1}) // as if by another process
		g, _ := full(t, m, who, quota.Ask{Input: 1})
		if _, r := full(t, m, who, quota.Ask{Input: 1}); r == nil || r.RetryAfter != unknownWait {
			t.Errorf("%+v", r)
		}
		time.Sleep(4 * time.Second)
		m.Settle(&g, quota.Use{Ran: true, Input: 1}) // an embedding: no output
		another, _ := full(t, local, who, quota.Ask{Input: 1})
		if _, r := full(t, m, who, quota.Ask{Input: 1}); r == nil || r.RetryAfter != 2*time.Second {
			t.Errorf("%+v", r)
		}
		local.Settle(&other, quota.Use{})
		local.Settle(&another, quota.Use{})
		limited := quota.Holder{Tenant: "b", Limits: &quota.Limits{RequestsPerMinute: 1}}
		if _, err := m.Reserve(limited, quota.Ask{Input: 1}); err != nil || len(m.runs) != 0 {
			t.Errorf("%v, %d runs", err, len(m.runs))
		}
		_, err := m.Reserve(limited, quota.Ask{Input: 1})
		if r, ok := errors.AsType[*quota.Refusal](err); !ok || r.RetryAfter != time.Minute {
			t.Errorf("%v", err)
		}
	})
}

// Sixteen clients of a tenant with four streams, whose answers differ by an order of
// magnitude, come back when they are told to. The streams stay busy, and few come in vain.
func TestClientsThatWaitAsTheyAreTold(t *testing.T) {
	busy, refusals := waitAsTold(t, func(local *Local) Meter { return NewEndForecast(local) })
	plainBusy, plainRefusals := waitAsTold(t, func(local *Local) Meter { return local })
	t.Logf("streams busy %.2f with %.2f refusals per answer; with a second for all %.2f and %.2f", busy, refusals, plainBusy, plainRefusals)
	if busy < 0.85 || refusals > 3 || refusals > plainRefusals/2 {
		t.Errorf("streams were busy %.2f of the time, %.2f refusals per answer; with a second for all %.2f, %.2f",
			busy, refusals, plainBusy, plainRefusals)
	}
}

func waitAsTold(t *testing.T, of func(*Local) Meter) (busy, refusalsPerAnswer float64) {
	synctest.Test(t, func(t *testing.T) {
		const streams, clients, perToken = 4, 16, 40 * time.Millisecond
		m := of(NewLocal(nil))
		estimates := NewEstimates()
		who := quota.Holder{Tenant: "a", Model: "m", Limits: &quota.Limits{MaxStreams: streams}}
		r := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		var computed time.Duration
		answered, refused := 0, 0
		begin := time.Now()
		var wait sync.WaitGroup
		for range clients {
			wait.Go(func() {
				for time.Since(begin) < 20*time.Minute {
					mu.Lock()
					tokens := int64(min(math.Exp(4.5+0.7*r.NormFloat64()), 500)) + 1
					mu.Unlock()
					g, no := full(t, m, who, quota.Ask{Input: 10, Output: estimates.Expect("m", "a", 500)})
					if no != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						time.Sleep(no.RetryAfter)
						continue
					}
					took := 300*time.Millisecond + time.Duration(tokens)*perToken
					time.Sleep(took)
					m.Settle(&g, quota.Use{Ran: true, Input: 10, Output: tokens})
					estimates.Learn("m", "a", 500, int(tokens))
					mu.Lock()
					answered++
					computed += took
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		busy = float64(computed) / float64(streams*time.Since(begin))
		refusalsPerAnswer = float64(refused) / float64(answered)
	})
	return busy, refusalsPerAnswer
}

// The first of several refused clients is told within 30 % of the true wait in the median,
// where answers differ as they do.
func TestWaitsAreNearTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewEndForecast(NewLocal(nil))
		estimates := NewEstimates()
		who := quota.Holder{Tenant: "a", Model: "m", Limits: &quota.Limits{MaxStreams: 4}}
		r := rand.New(rand.NewPCG(3, 4))
		var mu sync.Mutex
		var ratios []float64
		var pending []time.Time // when a refused one was told to come
		var told []time.Duration
		begin := time.Now()
		ended := func() { // a place is free: the truth for those that were told
			now := time.Now()
			for i := range pending {
				ratios = append(ratios, float64(told[i])/float64(now.Sub(pending[i])))
			}
			pending, told = pending[:0], told[:0]
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for time.Since(begin) < 20*time.Minute {
					mu.Lock()
					tokens := int64(min(math.Exp(4.5+0.5*r.NormFloat64()), 500)) + 1
					g, no := full(t, m, who, quota.Ask{Input: 10, Output: estimates.Expect("m", "a", 500)})
					mu.Unlock()
					if no != nil {
						t.Error(no)
						return
					}
					time.Sleep(300*time.Millisecond + time.Duration(tokens)*40*time.Millisecond)
					mu.Lock()
					m.Settle(&g, quota.Use{Ran: true, Input: 10, Output: tokens})
					estimates.Learn("m", "a", 500, int(tokens))
					ended()
					mu.Unlock()
				}
			})
		}
		for time.Since(begin) < 20*time.Minute {
			time.Sleep(1700 * time.Millisecond)
			mu.Lock()
			if len(pending) == 0 {
				g, no := full(t, m, who, quota.Ask{Input: 10, Output: 1})
				if no == nil { // between an answer's end and the start of the same client's next request
					m.Settle(&g, quota.Use{})
				} else {
					pending, told = append(pending, time.Now()), append(told, no.RetryAfter)
					m.tenants["a"].promised = nil // the refused request does not come again
				}
			}
			mu.Unlock()
		}
		wait.Wait()
		slices.Sort(ratios)
		if p50 := ratios[len(ratios)/2]; p50 < 0.7 || p50 > 1.3 {
			t.Errorf("the median of told over true waits is %.2f", p50)
		}
		t.Logf("%d waits, told over true: p10 %.2f, p50 %.2f, p90 %.2f", len(ratios), ratios[len(ratios)/10], ratios[len(ratios)/2], ratios[len(ratios)*9/10])
	})
}
