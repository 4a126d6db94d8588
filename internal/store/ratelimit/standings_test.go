package ratelimit

import (
	"testing"
	"time"

	"weir/internal/reference"
	"weir/scheduler/quota"
)

// Weirs that count together tell the same of a tenant's limits; without Redis the process's own meter answers.
func TestStandingsOverRedis(t *testing.T) {
	url, prefix := reference.Redis.Get(t), testPrefix()
	one, other := testMeter(t, url, prefix, Options{}), testMeter(t, url, prefix, Options{})
	who := quota.Holder{Tenant: "acme", Model: "m", Limits: &quota.Limits{DailyTokens: 1000, MonthlyCost: 5000}, ModelLimits: &quota.Limits{MaxStreams: 2}}
	g, err := one.Reserve(who, quota.Ask{Input: 100, Output: 50, Price: quota.Price{Input: 1e6, Output: 1e6}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := other.Standings(who)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []quota.LimitUsage{
		{Kind: quota.DailyTokens, Limit: 1000, Left: 850}, {Kind: quota.MonthlyCost, Limit: 5000, Left: 4850}, {Kind: quota.Streams, Model: "m", Limit: 2, Used: 1, Left: 1},
	} {
		got := list[i]
		if ends := got.Resets; want.Kind.Budget() != !ends.IsZero() || !ends.IsZero() && !ends.After(time.Now()) {
			t.Errorf("%v ends at %v", got.Kind, ends)
		}
		if got.Resets = (time.Time{}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	one.Settle(&g, quota.Use{})
	away := testMeter(t, "redis://127.0.0.1:1/0", prefix, Options{Local: &localMeter{meter: quota.NewMeter(quota.Config{})}})
	if list, err := away.Standings(who); err != nil || len(list) != 3 || list[0].Left != 1000 {
		t.Errorf("without Redis: %+v, %v", list, err)
	}
}
