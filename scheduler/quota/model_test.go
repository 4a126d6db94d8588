package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// event is one use of a limit, at the time at which it counts.
type event struct {
	at     time.Time
	amount int64
}

// checker runs random operations against a meter and keeps, apart from it, what
// was used when.
type checker struct {
	t       *testing.T
	rng     *rand.Rand
	meter   *Meter
	now     time.Time
	holders []Holder
	running []*run
	used    map[string]*usage // by tenant and model
}

// run is a running request and what it has reported so far.
type run struct {
	grant  Grant
	at     time.Time
	outs   []event
	output int64
}

type usage struct {
	limits  *Limits
	events  [numBuckets][]event
	streams int64
	days    map[int64]int64
	costs   map[int64]Money
}

func (c *checker) of(h *Holder) []*usage {
	var list []*usage
	for _, p := range h.parts() {
		if p.limits.Unlimited() {
			continue
		}
		key := h.Tenant + "/" + p.model + "/" + p.account
		if c.used[key] == nil {
			c.used[key] = &usage{limits: p.limits, days: map[int64]int64{}, costs: map[int64]Money{}}
		}
		list = append(list, c.used[key])
	}
	return list
}

func randomLimits(rng *rand.Rand) *Limits {
	pick := func(most int64) int64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return 1 + rng.Int64N(most)
	}
	return &Limits{
		RequestsPerMinute: pick(30), TokensPerMinute: pick(500), InputTokensPerMinute: pick(300), OutputTokensPerMinute: pick(300),
		MaxStreams: pick(4), DailyTokens: pick(3000), MonthlyTokens: pick(5000), DailyCost: Money(pick(4000)), MonthlyCost: Money(pick(9000)),
		Enforcement: Strict,
	}
}

func newChecker(t *testing.T, seed uint64) *checker {
	rng := rand.New(rand.NewPCG(seed, 9))
	c := &checker{t: t, rng: rng, meter: NewMeter(Config{}), now: noon, used: map[string]*usage{}}
	for tenant := range 2 {
		limits, key := randomLimits(rng), randomLimits(rng)
		for model := range 2 {
			h := Holder{Tenant: fmt.Sprint("t", tenant), Model: fmt.Sprint("m", model), Limits: limits, ModelLimits: randomLimits(rng)}
			c.holders = append(c.holders, h)
			h.Key, h.KeyAccount, h.KeyLimits = "k", "k", key
			c.holders = append(c.holders, h)
		}
	}
	return c
}

func (c *checker) step() {
	switch c.rng.IntN(8) {
	case 0:
		c.now = c.now.Add(time.Duration(c.rng.Int64N(int64(time.Second))))
	case 1:
		c.now = c.now.Add(time.Duration(c.rng.Int64N(int64(20 * time.Second))))
	case 2:
		if c.rng.IntN(30) == 0 {
			c.now = c.now.Add(time.Duration(c.rng.Int64N(int64(30 * time.Hour))))
		}
	case 3, 4, 5:
		c.reserve()
	case 6:
		if len(c.running) > 0 {
			c.topUp(c.running[c.rng.IntN(len(c.running))])
		}
	case 7:
		if len(c.running) > 0 {
			c.settle(c.rng.IntN(len(c.running)))
		}
	}
}

func (c *checker) reserve() {
	who := c.holders[c.rng.IntN(len(c.holders))]
	ask := Ask{c.rng.Int64N(200), c.rng.Int64N(300), c.rng.Int64N(2) * c.rng.Int64N(600), Price{Input: Money(c.rng.Int64N(3e6)), Output: Money(c.rng.Int64N(3e6))}}
	g, err := c.meter.Reserve(c.now, who, ask)
	if r, ok := errors.AsType[*Refusal](err); ok {
		c.checkRefusal(who, ask, r)
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, u := range c.of(&who) {
		u.streams++
		if u.limits.MaxStreams > 0 && u.streams > u.limits.MaxStreams {
			c.t.Fatalf("%d streams of %d", u.streams, u.limits.MaxStreams)
		}
	}
	c.running = append(c.running, &run{grant: g, at: c.now})
}

// checkRefusal: with nothing else happening, the same request succeeds after the
// time that was told and not a millisecond before.
func (c *checker) checkRefusal(who Holder, ask Ask, r *Refusal) {
	if r.RetryAfter == 0 || r.Kind == Streams {
		return
	}
	for _, early := range []time.Duration{0, time.Millisecond} {
		var of accounts
		for _, p := range who.parts() {
			if e := c.meter.states.byKey[p.in(who.Tenant)]; e != nil && !p.limits.Unlimited() {
				s := e.state
				s.charge(p.limits, Tokens, s.HeldOutput) // what runs uses what it holds
				s.charge(p.limits, OutputTokens, s.HeldOutput)
				s.HeldOutput = 0
				of.add(account{p, &s})
			}
		}
		of.refresh(c.now.Truncate(time.Millisecond).Add(r.RetryAfter - early))
		n := of.need(ask)
		again := of.refusal(&n)
		held := slices.ContainsFunc(of.all(), func(a account) bool { return a.state.HeldTokens > 0 || a.state.Streams > 0 })
		if early == 0 && again != nil && !held {
			c.t.Fatalf("refused with %v; after that time: %v", r, again)
		}
		if early > 0 && again == nil {
			c.t.Fatalf("refused with %v, but a millisecond less suffices", r)
		}
	}
}

func (c *checker) topUp(r *run) {
	want := r.output + c.rng.Int64N(60)
	err := c.meter.TopUp(c.now, &r.grant, want, want+c.rng.Int64N(60))
	if err != nil {
		want = min(want, r.grant.Covered())
	}
	c.generated(r, want)
}

func (c *checker) generated(r *run, output int64) {
	if output > r.grant.Covered() {
		c.t.Fatalf("%d tokens are paid for, %d generated", r.grant.Covered(), output)
	}
	if output > r.output {
		r.outs = append(r.outs, event{c.now, output - r.output})
		r.output = output
	}
}

func (c *checker) settle(i int) {
	r := c.running[i]
	c.running = slices.Delete(c.running, i, i+1)
	use := Use{Ran: c.rng.IntN(10) > 0 || r.output > 0, Input: r.grant.Ask.Input}
	if c.rng.IntN(4) == 0 {
		use.Input = c.rng.Int64N(use.Input + 1)
	}
	use.Cached = c.rng.Int64N(use.Input + 1)
	if use.Ran {
		c.generated(r, max(r.output, c.rng.Int64N(r.grant.Covered()+1)))
		use.Output = r.output
	}
	use = use.clamped()
	if !c.meter.Settle(c.now, &r.grant, use) || c.meter.Settle(c.now, &r.grant, use) {
		c.t.Fatal("a grant was not settled exactly once")
	}
	day, _ := periods(c.now.UnixMilli())
	for _, u := range c.of(&r.grant.Holder) {
		u.streams--
		if use.Ran {
			u.events[Requests] = append(u.events[Requests], event{r.at, 1})
		}
		for _, k := range []Kind{Tokens, InputTokens} {
			u.events[k] = append(u.events[k], event{r.at, use.Input})
		}
		for _, k := range []Kind{Tokens, OutputTokens} {
			u.events[k] = append(u.events[k], r.outs...)
		}
		u.days[day] += use.Input + use.Output
		u.costs[day] += r.grant.Ask.Price.Cost(use.Input, use.Cached, use.Output)
	}
}

// finish settles all and checks what was used against every limit.
func (c *checker) finish() {
	for len(c.running) > 0 {
		c.settle(0)
	}
	for key, u := range c.used {
		for k := range u.events {
			if limit := u.limits.bucket(Kind(k)); limit > 0 {
				c.checkBucket(key, Kind(k), limit, u.events[k])
			}
		}
		for day, tokens := range u.days {
			if most := u.limits.DailyTokens; most > 0 && tokens > most {
				c.t.Errorf("%s used %d of %d tokens on day %d", key, tokens, most, day)
			}
			if most := u.limits.DailyCost; most > 0 && u.costs[day] > most {
				c.t.Errorf("%s spent %v of %v on day %d", key, u.costs[day], most, day)
			}
		}
	}
	for _, h := range c.holders {
		for _, p := range h.parts() {
			if e := c.meter.states.byKey[p.in(h.Tenant)]; e != nil {
				if s := e.state; s.Streams != 0 || s.HeldOutput != 0 || s.HeldTokens != 0 || s.HeldMoney != 0 {
					c.t.Errorf("%+v holds %+v after the end", p.in(h.Tenant), s)
				}
			}
		}
	}
}

// checkBucket replays what was really used, in the order of time, on a bucket of
// its own: it never runs over.
func (c *checker) checkBucket(key string, k Kind, limit int64, events []event) {
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	level, last := int64(0), int64(0)
	for _, e := range events {
		at := e.at.UnixMilli()
		level = max(level-(at-last)*limit, 0) + e.amount*levelUnit
		if last = at; level > limit*levelUnit {
			c.t.Fatalf("%s: %v of %d ran over at %v: %d/60000", key, k, limit, e.at, level)
		}
	}
}

// Whatever the order of calls, no limit is exceeded, nothing stays held, and the
// time that a refusal tells is exact.
func TestNoInterleavingExceedsALimit(t *testing.T) {
	seeds, steps := 400, 400
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		c := newChecker(t, uint64(seed))
		for range steps {
			c.step()
		}
		c.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzMeter(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(seed, uint16(100))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		c := newChecker(t, seed)
		for range min(steps, 2000) {
			c.step()
		}
		c.finish()
	})
}
