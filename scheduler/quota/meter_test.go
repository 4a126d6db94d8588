package quota

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func holder(l Limits) Holder { return Holder{Tenant: "a", Model: "m", Limits: &l} }

func mustReserve(t *testing.T, m *Meter, now time.Time, who Holder, ask Ask) Grant {
	t.Helper()
	g, err := m.Reserve(now, who, ask)
	if err != nil {
		t.Fatalf("reserve %+v: %v", ask, err)
	}
	return g
}

func refusalOf(t *testing.T, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r
}

func TestAFirstCallIsNotRefusedForItsEstimate(t *testing.T) {
	for _, l := range []Limits{{TokensPerMinute: 100}, {OutputTokensPerMinute: 90}, {DailyTokens: 100}, {MonthlyTokens: 100}, {DailyCost: 100}} {
		m := NewMeter(Config{})
		g := mustReserve(t, m, noon, holder(l), Ask{Input: 10, Output: 1 << 40, Price: Price{Input: 1e6, Output: 1e6}})
		if g.Covered() != 90 {
			t.Errorf("with %+v the answer has %d tokens reserved, want 90", l, g.Covered())
		}
		_, err := m.Reserve(noon, holder(l), Ask{Input: 10, Output: 1, Price: Price{Input: 1e6, Output: 1e6}})
		r := refusalOf(t, err)
		if r.RetryAfter <= 0 || r.Left != 0 {
			t.Errorf("beside it: %v", r)
		}
	}
}

func TestRefusalsSayWhichLimit(t *testing.T) {
	price := Price{Input: 1e6, CachedInput: 1e5, Output: 2e6}
	for _, c := range []struct {
		limits Limits
		kind   Kind
		after  time.Duration
	}{
		{Limits{RequestsPerMinute: 1}, Requests, time.Minute},
		{Limits{TokensPerMinute: 30}, Tokens, 20 * time.Second}, // 10 used and 10 held; 20 more need 10
		{Limits{InputTokensPerMinute: 10}, InputTokens, time.Minute},
		{Limits{OutputTokensPerMinute: 15}, OutputTokens, 20 * time.Second},
		{Limits{MaxStreams: 1}, Streams, time.Second},
		{Limits{DailyTokens: 20}, DailyTokens, 12 * time.Hour},
		{Limits{MonthlyTokens: 20}, MonthlyTokens, (9*24 - 12) * time.Hour},
		{Limits{DailyCost: 30}, DailyCost, 12 * time.Hour},
		{Limits{MonthlyCost: 30}, MonthlyCost, (9*24 - 12) * time.Hour},
		{Limits{RequestsPerMinute: 1, MaxStreams: 1}, Requests, time.Minute},
		{Limits{RequestsPerMinute: 1, DailyTokens: 20}, DailyTokens, 12 * time.Hour},
	} {
		for _, perModel := range []bool{false, true} {
			who, name := Holder{Tenant: "a", Model: "m", Limits: &c.limits}, ""
			if perModel {
				who, name = Holder{Tenant: "a", Model: "m", ModelLimits: &c.limits}, "m"
			}
			m := NewMeter(Config{})
			g := mustReserve(t, m, noon, who, Ask{Input: 10, Output: 10, Price: price})
			if c.kind.Budget() {
				m.Settle(noon, &g, Use{Ran: true, Input: 10, Output: 10})
			}
			_, err := m.Reserve(noon, who, Ask{Input: 10, Output: 10, Price: price})
			r := refusalOf(t, err)
			if r.Kind != c.kind || r.RetryAfter != c.after || r.Model != name {
				t.Errorf("%+v: refused for %v of model %q after %v; want %v after %v", c.limits, r.Kind, r.Model, r.RetryAfter, c.kind, c.after)
			}
			if r.Kind.Budget() != (c.after > 10*time.Hour) {
				t.Errorf("%v: Budget is %v", r.Kind, r.Kind.Budget())
			}
		}
	}
	_, err := NewMeter(Config{}).Reserve(noon, holder(Limits{TokensPerMinute: 5}), Ask{Input: 6})
	if r := refusalOf(t, err); r.RetryAfter != 0 || r.Need != 6 || r.Limit != 5 {
		t.Errorf("a prompt above the limit: %v", r)
	}
}

func TestAllLimitsOrNone(t *testing.T) {
	m := NewMeter(Config{})
	who := Holder{Tenant: "a", Model: "m", Limits: &Limits{TokensPerMinute: 100}, ModelLimits: &Limits{MaxStreams: 1}}
	mustReserve(t, m, noon, who, Ask{Input: 10, Output: 5})
	before := m.Remaining(noon, who)
	if _, err := m.Reserve(noon, who, Ask{Input: 10, Output: 5}); err == nil {
		t.Fatal("a second stream was admitted")
	}
	if after := m.Remaining(noon, who); after != before || before.Tokens.Left != 85 {
		t.Errorf("the refused request changed %+v to %+v", before, after)
	}
	other := Holder{Tenant: "a", Model: "other", Limits: who.Limits}
	if g := mustReserve(t, m, noon, other, Ask{Input: 85}); g.Remaining.Tokens.Left != 0 {
		t.Errorf("the tenant's limit is not shared by its models: %+v", g.Remaining)
	}
}

func TestSettlingCountsTheActualUseOnce(t *testing.T) {
	m, who := NewMeter(Config{}), holder(Limits{TokensPerMinute: 6000, MaxStreams: 5, DailyTokens: 1000, RequestsPerMinute: 60})
	g := mustReserve(t, m, noon, who, Ask{Input: 100, Output: 300})
	if !m.Settle(noon, &g, Use{Ran: true, Input: 100, Output: 50}) || m.Settle(noon, &g, Use{Ran: true, Input: 100, Output: 50}) {
		t.Error("a grant is not settled exactly once")
	}
	if r := m.Remaining(noon, who); r.Tokens.Left != 5850 || r.Tokens.Reset != 1500*time.Millisecond || r.Requests.Left != 59 {
		t.Errorf("after 150 of 6000 tokens: %+v", r)
	}
	refused := mustReserve(t, m, noon, who, Ask{Input: 100, Output: 300})
	m.Settle(noon, &refused, Use{})
	if r := m.Remaining(noon, who); r.Tokens.Left != 5850 || r.Requests.Left != 59 {
		t.Errorf("a request that never ran used something: %+v", r)
	}
	_, err := m.Reserve(noon, who, Ask{Input: 851, Output: 0})
	if r := refusalOf(t, err); r.Kind != DailyTokens || r.Left != 850 {
		t.Errorf("of the day's 1000 tokens: %v", r)
	}
	mustReserve(t, m, noon.Add(12*time.Hour), who, Ask{Input: 1000})
}

// A refund of what has leaked away already would be credit for a time in which
// nothing was used.
func TestLateRefundsGiveNoCredit(t *testing.T) {
	m, who := NewMeter(Config{}), holder(Limits{TokensPerMinute: 100, RequestsPerMinute: 10})
	first := mustReserve(t, m, noon, who, Ask{Input: 100})
	later := noon.Add(time.Minute)
	mustReserve(t, m, later, who, Ask{Input: 100})
	m.Settle(later, &first, Use{})
	if _, err := m.Reserve(later, who, Ask{Input: 1}); err == nil {
		t.Error("201 tokens were admitted where 200 may be")
	}
}

func TestAnswersThatOutliveTheirLimit(t *testing.T) {
	for _, cut := range []bool{false, true} {
		for _, l := range []Limits{{OutputTokensPerMinute: 100}, {DailyTokens: 110}, {DailyCost: 110}} {
			l.Enforcement = Estimate
			if cut {
				l.Enforcement = Strict
			}
			m, who := NewMeter(Config{}), holder(l)
			g := mustReserve(t, m, noon, who, Ask{Input: 10, Output: 40, Price: Price{Input: 1e6, Output: 1e6}})
			if err := m.TopUp(noon, &g, 41, 90); err != nil || g.Covered() != 90 {
				t.Fatalf("%+v: topped up to %d, %v; want 90", l, g.Covered(), err)
			}
			if err := m.TopUp(noon, &g, 91, 200); err != nil || cut != (g.Covered() == 100) {
				t.Fatalf("%+v: topped up to %d, %v", l, g.Covered(), err)
			}
			err := m.TopUp(noon, &g, 101, 300)
			if cut {
				if r := refusalOf(t, err); r.Limit < 100 || r.Left != 0 || r.RetryAfter <= 0 {
					t.Errorf("cut by %v", r)
				}
				m.Settle(noon, &g, Use{Ran: true, Input: 10, Output: 100})
			} else {
				if err != nil || g.Covered() != 300 {
					t.Errorf("%+v: a debt was refused: %v", l, err)
				}
				m.Settle(noon, &g, Use{Ran: true, Input: 10, Output: 300})
			}
			if s := m.states.byKey[stateKey{tenant: "a"}].state; s.HeldOutput != 0 || s.HeldTokens != 0 || s.HeldMoney != 0 || s.Streams != 0 {
				t.Errorf("after the end %+v is held", s)
			}
			if _, err := m.Reserve(noon, who, Ask{Input: 1, Output: 1, Price: Price{Input: 1e6, Output: 1e6}}); err == nil {
				t.Errorf("%+v: admitted beyond the limit", l)
			}
			if r := m.states.byKey[stateKey{tenant: "a"}].state; !cut && l.OutputTokensPerMinute > 0 && r.room(OutputTokens, 100) != -200 {
				t.Errorf("the debt is %d, want 200", -r.room(OutputTokens, 100))
			}
		}
	}
}

// What is not renewed runs no more. All that it held of a budget counts as spent, so that nothing is given out twice,
// until it tells after all what it used.
func TestLeasesEndWhatNoOneRenews(t *testing.T) {
	m := NewMeter(Config{Lease: 10 * time.Second})
	who := holder(Limits{MaxStreams: 2, DailyTokens: 150, Enforcement: Strict})
	dead := mustReserve(t, m, noon, who, Ask{Input: 10, Output: 40})
	alive := mustReserve(t, m, noon, who, Ask{Input: 10, Output: 40})
	m.Renew(noon.Add(9*time.Second), alive.ID)
	if _, err := m.Reserve(noon.Add(10*time.Second-time.Millisecond), who, Ask{}); err == nil {
		t.Fatal("ended too early")
	}
	late := noon.Add(11 * time.Second)
	m.Renew(late, dead.ID) // too late
	third := mustReserve(t, m, late, who, Ask{Input: 40, Output: 10})
	used := func(want int64) {
		t.Helper()
		if st := m.Standings(late, who); st[1].Used != want {
			t.Errorf("%d are spent, want %d", st[1].Used, want)
		}
	}
	used(50)
	if !m.Settle(late, &dead, Use{Ran: true, Input: 10, Output: 20}) || m.Settle(late, &dead, Use{Ran: true, Input: 10, Output: 20}) {
		t.Error("a grant is settled once, after its lease, too")
	}
	used(30)
	if !m.Settle(late, &alive, Use{Ran: true, Input: 10, Output: 40}) {
		t.Error("a renewed grant was ended")
	}
	used(80)
	if err := m.TopUp(late.Add(11*time.Second), &third, 15, 20); err != nil || third.Covered() != 20 { // it is opened again
		t.Errorf("%v, %d", err, third.Covered())
	}
	used(80)
	m.Settle(late.Add(11*time.Second), &third, Use{Ran: true, Input: 40, Output: 15})
	used(135)
	mustReserve(t, m, late.Add(12*time.Second), who, Ask{Input: 5})
	for _, later := range []time.Duration{48 * time.Hour, 96 * time.Hour} { // a lapsed grant is forgotten after a day
		if mustReserve(t, m, late.Add(later), who, Ask{}); m.Stats().Grants != 2 {
			t.Errorf("%+v", m.Stats())
		}
	}
}

func TestMemoryIsBoundedWithoutGivingCreditAway(t *testing.T) {
	m := NewMeter(Config{MaxStates: 10})
	l := Limits{RequestsPerMinute: 60, MonthlyTokens: 1000}
	for i := range 10 {
		g := mustReserve(t, m, noon, Holder{Tenant: string(rune('a' + i)), Limits: &l}, Ask{Input: 1})
		m.Settle(noon, &g, Use{Ran: true, Input: int64(i % 2)}) // half of them spend nothing of the month
	}
	if _, err := m.Reserve(noon, Holder{Tenant: "new", Limits: &l}, Ask{}); !errors.Is(err, ErrFull) {
		t.Fatalf("with all states in use: %v", err)
	}
	later := noon.Add(time.Hour)
	mustReserve(t, m, later, Holder{Tenant: "new", Limits: &l}, Ask{})
	for i := range 10 {
		_, err := m.Reserve(later, Holder{Tenant: string(rune('a' + i)), Limits: &l}, Ask{Input: 1000})
		if kept := i%2 == 1; kept != (err != nil && !errors.Is(err, ErrFull)) {
			t.Errorf("tenant %d with its month's tokens: %v", i, err)
		}
	}
	if m.Stats().States > 10 {
		t.Errorf("%d states of 10", m.Stats().States)
	}
}

func TestBudgetsAreSeeded(t *testing.T) {
	m, who := NewMeter(Config{}), holder(Limits{DailyTokens: 100, MonthlyCost: 50})
	if err := m.Seed(noon, who, []Spending{{Day: Spent{Tokens: 90}, Month: Spent{Money: 40}}, {Model: "m", Day: Spent{Tokens: 99}}, {Account: "k", Day: Spent{Tokens: 7}}}); err != nil {
		t.Fatal(err)
	}
	_, err := m.Reserve(noon, who, Ask{Input: 11})
	if r := refusalOf(t, err); r.Left != 10 {
		t.Errorf("%v", r)
	}
	_, err = m.Reserve(noon, who, Ask{Input: 10, Price: Price{Input: 2e6}})
	if r := refusalOf(t, err); r.Kind != MonthlyCost || r.Left != 10 {
		t.Errorf("%v", r)
	}
}

// A new limit does not forget what was used under the old one, and requests that
// run under old limits do not bring those back.
func TestLimitsChangeWhileRequestsRun(t *testing.T) {
	m := NewMeter(Config{})
	old := mustReserve(t, m, noon, holder(Limits{TokensPerMinute: 100}), Ask{Input: 60, Output: 10})
	if r := m.Remaining(noon, holder(Limits{TokensPerMinute: 50})); r.Tokens.Left != 0 || r.Tokens.Reset != 84*time.Second {
		t.Errorf("70 of 50 tokens: %+v", r.Tokens)
	}
	_, err := m.Reserve(noon, holder(Limits{TokensPerMinute: 50, RequestsPerMinute: 1}), Ask{Input: 1})
	refusalOf(t, err)
	m.Settle(noon, &old, Use{Ran: true, Input: 60, Output: 10})
	if r := m.Remaining(noon, holder(Limits{TokensPerMinute: 200})); r.Tokens.Left != 130 {
		t.Errorf("70 of 200 tokens: %+v", r.Tokens)
	}
}

func TestExtremesDoNotOverflow(t *testing.T) {
	l := Limits{MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute, 0, 0, MaxBudget, MaxBudget, MaxBudget, MaxBudget, Estimate}
	m, who := NewMeter(Config{}), holder(l)
	dear := Price{Input: MaxPrice, CachedInput: MaxPrice, Output: MaxPrice}
	times := []time.Time{{}, time.Unix(0, 0), noon, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	for _, at := range times {
		for _, n := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
			g, err := m.Reserve(at, who, Ask{n, n, 0, dear})
			if err != nil {
				if r := refusalOf(t, err); r.RetryAfter < 0 || r.Left < 0 || r.Left > r.Limit {
					t.Fatalf("at %v for %d: %+v", at, n, r)
				}
				continue
			}
			if err := m.TopUp(at, &g, math.MaxInt64, math.MaxInt64); err != nil {
				t.Fatal(err)
			}
			m.Settle(at, &g, Use{true, n, n, n})
			for _, w := range []Window{m.Remaining(at, who).Requests, m.Remaining(at, who).Tokens} {
				if w.Left < 0 || w.Left > w.Limit || w.Reset < 0 {
					t.Fatalf("at %v for %d: %+v", at, n, w)
				}
			}
		}
	}
	if s := m.states.byKey[stateKey{tenant: "a"}].state; s.HeldTokens != 0 || s.HeldOutput != 0 || s.HeldMoney != 0 || s.Streams != 0 {
		t.Errorf("held after the end: %+v", s)
	}
}

// 64 callers of one bucket at once, each settling what it reserved: not one token
// more than the limit is admitted.
func TestParallelCallersAreNotOverAdmitted(t *testing.T) {
	m, who := NewMeter(Config{}), holder(Limits{TokensPerMinute: 10_000, MaxStreams: 20, Enforcement: Strict})
	var mu sync.Mutex
	var wg sync.WaitGroup
	used, running, refused := int64(0), 0, 0
	for i := range 64 {
		wg.Go(func() {
			for j := range 100 {
				mu.Lock()
				g, err := m.Reserve(noon, who, Ask{Input: int64(1 + (i+j)%7), Output: 50})
				if err != nil {
					refused++
					mu.Unlock()
					continue
				}
				if running++; running > 20 {
					t.Errorf("%d streams at once", running)
				}
				mu.Unlock()
				output := int64(1 + (i*j)%60)
				mu.Lock()
				if output > g.Covered() && m.TopUp(noon, &g, output, output) != nil {
					output = g.Covered()
				}
				m.Settle(noon, &g, Use{Ran: true, Input: g.Ask.Input, Output: output})
				running--
				used += g.Ask.Input + output
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if used > 10_000 || used < 9_900 || refused == 0 {
		t.Errorf("%d tokens of 10000 were used, %d requests refused", used, refused)
	}
}

func BenchmarkReserveSettle(b *testing.B) {
	m := NewMeter(Config{Lease: time.Minute})
	l := Limits{RequestsPerMinute: MaxPerMinute, TokensPerMinute: MaxPerMinute, MaxStreams: 100, MonthlyCost: MaxBudget}
	who := Holder{Tenant: "tenant", Model: "model", Limits: &l, ModelLimits: &l}
	b.ReportAllocs()
	now := noon
	for b.Loop() {
		now = now.Add(50 * time.Microsecond)
		g, err := m.Reserve(now, who, Ask{Input: 100, Output: 50, Price: Price{Input: 1, Output: 1}})
		if err != nil {
			b.Fatal(err)
		}
		m.Settle(now, &g, Use{Ran: true, Input: 100, Output: 40})
	}
}

func BenchmarkTopUp(b *testing.B) {
	m := NewMeter(Config{})
	g, err := m.Reserve(noon, holder(Limits{TokensPerMinute: MaxPerMinute, DailyTokens: MaxBudget}), Ask{Input: 100, Output: 50})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := int64(51); b.Loop(); n++ {
		if err := m.TopUp(noon, &g, n, n+1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefusal(b *testing.B) {
	m, who := NewMeter(Config{}), holder(Limits{RequestsPerMinute: 1})
	if _, err := m.Reserve(noon, who, Ask{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Reserve(noon, who, Ask{}); err == nil {
			b.Fatal("admitted")
		}
	}
}

// A budget counts from what was told of it: the meter says where it has counted none yet, also where one was taken away
// for a while. What it knows itself stays if it is more.
func TestBudgetsThatAreNewAreNotCountedYet(t *testing.T) {
	m := NewMeter(Config{})
	bare, daily := holder(Limits{RequestsPerMinute: 100}), holder(Limits{DailyTokens: 100})
	daily.Key, daily.KeyAccount, daily.KeyLimits = "k2", "k1", &Limits{MonthlyTokens: 30}
	if !m.Counted(noon, bare) || m.Counted(noon, daily) {
		t.Error("only budgets are to be told of")
	}
	if err := m.Seed(noon, daily, []Spending{{Day: Spent{Tokens: 50}}, {Account: "k1", Month: Spent{Tokens: 20}}}); err != nil || !m.Counted(noon, daily) {
		t.Fatalf("%v", err)
	}
	_, err := m.Reserve(noon, daily, Ask{Input: 11})
	if r := refusalOf(t, err); r.Kind != MonthlyTokens || r.Key != "k2" || r.Left != 10 {
		t.Errorf("%+v", r)
	}
	mustReserve(t, m, noon, bare, Ask{Input: 1})
	if m.Counted(noon, daily) {
		t.Error("a budget that was away for a while is counted")
	}
	if err := m.Seed(noon, daily, nil); err != nil {
		t.Fatal(err)
	}
	if st := m.Standings(noon, daily); len(st) != 2 || st[0].Used != 50 || st[1].Key != "k2" || st[1].Used != 20 {
		t.Errorf("%+v", st)
	}
}

// Keys that took each other's place have one account; another key of the tenant has its own.
func TestKeysHaveAccountsOfTheirOwn(t *testing.T) {
	m, limits := NewMeter(Config{}), &Limits{DailyTokens: 20, MaxStreams: 1}
	who := func(key, account string) Holder {
		h := holder(Limits{DailyTokens: 100})
		h.Key, h.KeyAccount, h.KeyLimits = key, account, limits
		return h
	}
	g := mustReserve(t, m, noon, who("a1", "a1"), Ask{Input: 15})
	mustReserve(t, m, noon, who("b1", "b1"), Ask{Input: 15})
	_, err := m.Reserve(noon, who("a2", "a1"), Ask{Input: 1})
	if r := refusalOf(t, err); r.Kind != Streams || r.Key != "a2" {
		t.Errorf("%+v", r)
	}
	m.Settle(noon, &g, Use{Ran: true, Input: 15})
	_, err = m.Reserve(noon, who("a2", "a1"), Ask{Input: 6})
	if r := refusalOf(t, err); r.Kind != DailyTokens || r.Key != "a2" || r.Left != 5 || !strings.Contains(r.Error(), "daily_tokens of the key a2 is 20") {
		t.Errorf("%+v", r)
	}
}
