package quota

import (
	"testing"
	"time"
)

// What is used of each limit, what a new request meets beside one that runs, and when there is all of it again.
func TestStandings(t *testing.T) {
	m := NewMeter(Config{})
	who := Holder{
		Tenant: "a", Model: "m", Limits: &Limits{RequestsPerMinute: 60, MaxContextTokens: 5, DailyTokens: 1000, MonthlyCost: 500},
		ModelLimits: &Limits{MaxStreams: 2},
	}
	price := Price{Input: 1e6, Output: 1e6}
	first := mustReserve(t, m, noon, who, Ask{Input: 100, Output: 100, Price: price})
	m.Settle(noon, &first, Use{Ran: true, Input: 100, Output: 50})
	running := mustReserve(t, m, noon, who, Ask{Input: 10, Output: 20, Price: price})
	midnight, december := noon.Add(12*time.Hour), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	check := func(now time.Time, want []LimitUsage) {
		t.Helper()
		got := m.Standings(now, who)
		if len(got) != len(want) {
			t.Fatalf("%d limits: %+v", len(got), got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%+v, want %+v", got[i], want[i])
			}
		}
	}
	check(noon, []LimitUsage{
		{Requests, "", "", 60, 2, 58, noon.Add(2 * time.Second)}, {DailyTokens, "", "", 1000, 150, 820, midnight},
		{MonthlyCost, "", "", 500, 150, 320, december}, {Streams, "m", "", 2, 1, 1, time.Time{}},
	})
	m.Settle(noon, &running, Use{Ran: true, Input: 10, Output: 2000})
	check(noon.Add(time.Minute), []LimitUsage{
		{Requests, "", "", 60, 0, 60, time.Time{}}, {DailyTokens, "", "", 1000, 2160, 0, midnight},
		{MonthlyCost, "", "", 500, 2160, 0, december}, {Streams, "m", "", 2, 0, 2, time.Time{}},
	})
	check(midnight.Add(time.Second), []LimitUsage{
		{Requests, "", "", 60, 0, 60, time.Time{}}, {DailyTokens, "", "", 1000, 0, 1000, midnight.Add(24 * time.Hour)},
		{MonthlyCost, "", "", 500, 2160, 0, december}, {Streams, "m", "", 2, 0, 2, time.Time{}},
	})
	if list := m.Standings(noon, Holder{Tenant: "nobody"}); list != nil {
		t.Errorf("a tenant without limits has %+v", list)
	}
}
