package meter

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"weir/scheduler/quota"
)

// 64 callers at once take what there is and not a token more, in a minute and in
// the next.
func TestLocalMeterIsNotOverAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewLocal(nil)
		who := quota.Holder{Tenant: "a", Limits: &quota.Limits{TokensPerMinute: 1000, MaxStreams: 9}}
		var mu sync.Mutex
		used, running := int64(0), 0
		round := func() {
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for {
						g, err := m.Reserve(who, quota.Ask{Input: int64(1 + i%10)})
						var r *quota.Refusal
						if errors.As(err, &r) && r.Kind == quota.Streams {
							time.Sleep(time.Microsecond)
							continue
						}
						if err != nil {
							return
						}
						mu.Lock()
						used += g.Ask.Input
						if running++; running > 9 {
							t.Errorf("%d streams at once", running)
						}
						mu.Unlock()
						time.Sleep(time.Microsecond)
						mu.Lock()
						running--
						mu.Unlock()
						m.Settle(&g, quota.Use{Ran: true, Input: g.Ask.Input})
					}
				})
			}
			wg.Wait()
		}
		round()
		if used > 1000 || used < 990 {
			t.Errorf("%d tokens of 1000 were admitted", used)
		}
		time.Sleep(30 * time.Second)
		if round(); used > 1500 || used < 1490 {
			t.Errorf("%d tokens of 1500 were admitted after half a minute", used)
		}
	})
}

func TestFaultsAndHeaders(t *testing.T) {
	for _, c := range []struct {
		refusal quota.Refusal
		want    string
	}{
		{quota.Refusal{Kind: quota.Tokens, RetryAfter: 2 * time.Second}, "429 rate_limit_error rate_limit_exceeded 2000 true"},
		{quota.Refusal{Kind: quota.Requests, RetryAfter: 9 * time.Second}, "429 rate_limit_error rate_limit_exceeded 9000 true"},
		{quota.Refusal{Kind: quota.Requests, RetryAfter: 90 * time.Second}, "429 rate_limit_error rate_limit_exceeded 90000 false"},
		{quota.Refusal{Kind: quota.Tokens}, "429 rate_limit_error rate_limit_exceeded  false"},
		{quota.Refusal{Kind: quota.DailyCost, RetryAfter: time.Second}, "429 insufficient_quota insufficient_quota 1000 false"},
		{quota.Refusal{Kind: quota.ContextTokens}, "400 invalid_request_error context_length_exceeded  false"},
	} {
		e := Fault(fmt.Errorf("wrapped: %w", &c.refusal))
		h := make(map[string]string)
		e.Headers(func(name, value string) { h[name] = value })
		if got := fmt.Sprint(e.Status, " ", e.Type, " ", e.Code, " ", h["Retry-After-Ms"], " ", h["X-Should-Retry"]); got != c.want {
			t.Errorf("%v is told as %s, want %s", c.refusal.Kind, got, c.want)
		}
	}
	if e := Fault(quota.ErrFull); e.Status != 503 {
		t.Errorf("a full meter is told as %+v", e)
	}
	var h fasthttp.ResponseHeader
	WriteRemaining(h.Set, quota.Remaining{Tokens: quota.Window{Limit: 100, Left: 7, Reset: 6*time.Minute + 300*time.Microsecond}})
	if got := fmt.Sprintf("%s %s %s %q", h.Peek("x-ratelimit-limit-tokens"), h.Peek("x-ratelimit-remaining-tokens"),
		h.Peek("x-ratelimit-reset-tokens"), h.Peek("x-ratelimit-limit-requests")); got != `100 7 6m0s ""` {
		t.Errorf("headers are %s", got)
	}
}

func TestEstimatesLearnPerTenantAndModel(t *testing.T) {
	e := NewEstimates()
	if got := e.Expect("m", "a", 50); got != 50 {
		t.Errorf("%d tokens are expected of 50", got)
	}
	for range 20 {
		e.Learn("m", "a", 4000, 20)
		e.Learn("m", "b", 4000, 900)
	}
	if a, b, other := e.Expect("m", "a", 4000), e.Expect("m", "b", 4000), e.Expect("n", "a", 4000); a >= b || a == other {
		t.Errorf("%d and %d tokens are expected of two tenants, %d of another model", a, b, other)
	}
	if got := e.Expect("m", "a", 0); got != 0 {
		t.Errorf("an answer without tokens is expected to have %d", got)
	}
}
