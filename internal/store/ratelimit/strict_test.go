package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/reference"
	"weir/scheduler/quota"
)

// 64 answers of 900 tokens, expected to have 3, over two weirs on one Redis: a strict
// budget in tokens or money pays for no token beyond it, whether requests say how long
// their answers may get or not.
func TestStrictBudgetsOverTwoWeirs(t *testing.T) {
	for _, limits := range []quota.Limits{{DailyTokens: 2000, Enforcement: quota.Strict}, {MonthlyTokens: 2000, Enforcement: quota.Strict}, {DailyCost: 2000}} {
		for _, most := range []int64{0, 900} {
			url, prefix := reference.Redis.Get(t), testPrefix()
			weirs := []*Meter{testMeter(t, url, prefix, Options{}), testMeter(t, url, prefix, Options{})}
			who := quota.Holder{Tenant: "a", Limits: &limits}
			used := atomic.Int64{}
			var wg sync.WaitGroup
			for i := range 64 {
				m := weirs[i%2]
				wg.Go(func() {
					g, err := m.Reserve(who, quota.Ask{Input: 1, Output: 3, Most: most, Price: quota.Price{Input: 1e6, Output: 1e6}})
					if err != nil {
						return
					}
					n := int64(0)
					for n < 900 {
						if n == g.Covered() && m.TopUp(&g, n+1, min(n+1+64, 900)) != nil {
							break
						}
						n++
					}
					used.Add(1 + n)
					m.Settle(&g, quota.Use{Ran: true, Input: 1, Output: n})
				})
			}
			wg.Wait()
			if used.Load() > 2000 || used.Load() < 900 {
				t.Errorf("%+v, at most %d: %d of 2000 were used", limits, most, used.Load())
			}
		}
	}
}
