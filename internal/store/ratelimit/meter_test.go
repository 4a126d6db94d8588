package ratelimit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"weir/internal/reference"
	"weir/internal/store/storetest"
	"weir/scheduler/quota"
)

// testMeter is a meter of keys that only this test uses; others of the same prefix
// share them.
func testMeter(t testing.TB, url, prefix string, o Options) *Meter {
	t.Helper()
	o.Prefix = prefix
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second // the machine may be busy
	}
	m, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func testPrefix() string { return "weir-test:" + rand.Text() + ":" }

func asRefusal(err error) *quota.Refusal {
	var r *quota.Refusal
	errors.As(err, &r)
	return r
}

// twins runs the same operations on Redis and on the meter of package quota, at the
// times of the server.
type twins struct {
	t      *testing.T
	rng    *mathrand.Rand
	shared *Meter
	pure   *quota.Meter
	open   []twin
	counts map[string]int
}

type twin struct {
	shared, pure quota.Grant
	output       int64
}

func (w *twins) check(what string, a, b any) {
	w.t.Helper()
	if as, bs := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); as != bs {
		w.t.Fatalf("%s: Redis has %s, package quota %s", what, as, bs)
	}
}

func (w *twins) decide(who quota.Holder, args []any) (reply, []quota.State, time.Time) {
	w.t.Helper()
	r, err := w.shared.run(who.Tenant, args)
	if err != nil {
		w.t.Fatal(err)
	}
	if r[0] < 0 {
		return r, nil, time.Time{}
	}
	states, err := r.states(len(who.Parts()))
	if err != nil {
		w.t.Fatal(err)
	}
	return r, states, time.UnixMilli(states[0].At)
}

func (w *twins) reserve(who quota.Holder) {
	ask := quota.Ask{Input: w.rng.Int64N(200), Output: w.rng.Int64N(300), Most: w.rng.Int64N(2) * w.rng.Int64N(600), Price: quota.Price{
		Input: quota.Money(w.rng.Int64N(3e6)), Output: quota.Money(w.rng.Int64N(3e6))}}
	id := newGrantID()
	parts := who.Parts()
	r, states, now := w.decide(who, reserveArgs(w.shared.command("reserve", &who), id, ask, parts))
	p, err := w.pure.Reserve(now, who, ask)
	if (r[0] == 1) != (err == nil) {
		w.t.Fatalf("reserve: Redis %v, package quota %v", r, err)
	}
	if err != nil {
		w.check("refusal", *quota.Explain(parts, states, ask), *asRefusal(err))
		w.counts[asRefusal(err).Kind.String()]++
		return
	}
	w.counts["granted"]++
	w.check("reservation", []int64{r[1], r[2]}, []int64{p.Ask.Output, int64(p.Money)})
	w.check("what is left", quota.RemainingOf(parts, states), p.Remaining)
	shared := quota.Grant{ID: id, Holder: who, Ask: quota.Ask{Input: ask.Input, Output: r[1], Most: max(ask.Most, ask.Output), Price: ask.Price}, Money: quota.Money(r[2])}
	w.open = append(w.open, twin{shared: shared, pure: p})
}

func (w *twins) topUp(o *twin) {
	generated := o.output + w.rng.Int64N(60)
	if w.rng.IntN(8) == 0 { // far beyond what was reserved: budgets cut such answers
		generated += 20_000
	}
	cover := generated + w.rng.Int64N(60)
	r, states, now := w.decide(o.shared.Holder, topUpArgs(w.shared.command("topup", &o.shared.Holder), &o.shared, generated, cover))
	before := o.pure.ID
	err := w.pure.TopUp(now, &o.pure, generated, cover)
	if o.pure.ID != before {
		w.counts["opened again"]++
	}
	if (r[0] == 1) != (err == nil) {
		w.t.Fatalf("top-up: Redis %v, package quota %v", r, err)
	}
	o.shared.Ask.Output, o.shared.Money = r[1], quota.Money(r[2])
	if err != nil {
		w.counts["cut"]++
		w.check("cut", *quota.ExplainCut(o.shared.Holder.Parts(), states, &o.shared, generated), *asRefusal(err))
		return
	}
	o.output = generated
	w.check("top-up", []any{o.shared.Ask.Output, o.shared.Money}, []any{o.pure.Ask.Output, o.pure.Money})
}

func (w *twins) settle(i int) {
	o := w.open[i]
	w.open = append(w.open[:i], w.open[i+1:]...)
	use := quota.Use{Ran: o.output > 0 || w.rng.IntN(5) > 0, Input: w.rng.Int64N(o.shared.Ask.Input + 1), Output: o.output + w.rng.Int64N(40)}.Clamped()
	for range 2 { // the second time nothing happens
		r, _, now := w.decide(o.shared.Holder, settleArgs(w.shared.command("settle", &o.shared.Holder), &ended{grant: o.shared, use: use, at: math.MaxInt64}))
		if r[0] >= 0 && !w.pure.Settle(now, &o.pure, use) {
			w.t.Fatal("settled in Redis only")
		}
	}
}

// Random operations have the same result in Redis as in package quota: what is
// admitted, reserved, left, and the wait that a refusal tells.
func TestMeterInRedisDoesWhatPackageQuotaDoes(t *testing.T) {
	reference.Slow(t)
	url := reference.Redis.Get(t)
	seen := map[string]int{}
	for seed := range uint64(8) {
		rng := mathrand.New(mathrand.NewPCG(seed, 26))
		lease := 100 * time.Millisecond
		w := &twins{t: t, rng: rng, counts: seen, shared: testMeter(t, url, testPrefix(), Options{Terms: Terms{Lease: lease}}),
			pure: quota.NewMeter(quota.Config{Lease: lease})}
		limits := func() *quota.Limits {
			pick := func(most int64) int64 { return rng.Int64N(2) * (1 + rng.Int64N(most)) }
			return &quota.Limits{RequestsPerMinute: pick(400), TokensPerMinute: pick(100_000), InputTokensPerMinute: pick(50_000),
				OutputTokensPerMinute: pick(50_000), MaxStreams: pick(20), DailyTokens: pick(200_000), MonthlyTokens: pick(300_000),
				DailyCost: quota.Money(pick(600_000)), MonthlyCost: quota.Money(pick(900_000)), Enforcement: quota.Enforcement(rng.IntN(3))}
		}
		var holders []quota.Holder
		for tenant := range 2 {
			l, k := limits(), limits()
			for model := range 2 {
				h := quota.Holder{Tenant: fmt.Sprint("t", tenant), Model: fmt.Sprint("m", model), Limits: l, ModelLimits: limits()}
				for _, key := range []*quota.Limits{nil, k} {
					if h.Key, h.KeyAccount, h.KeyLimits = "k2", "k1", key; !h.Unlimited() {
						holders = append(holders, h)
					}
				}
			}
		}
		for range 500 {
			switch k := rng.IntN(8); {
			case k < 4:
				w.reserve(holders[rng.IntN(len(holders))])
			case k < 6 && len(w.open) > 0:
				w.topUp(&w.open[rng.IntN(len(w.open))])
			case k < 7 && len(w.open) > 0:
				w.settle(rng.IntN(len(w.open)))
			case rng.IntN(40) == 0:
				time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
			}
		}
	}
	for _, what := range []string{"granted", "cut", "opened again", "requests_per_minute", "tokens_per_minute", "max_streams", "daily_tokens", "daily_cost"} {
		if seen[what] == 0 {
			t.Errorf("nothing was %s: %v", what, seen)
		}
	}
}

// The script knows the calendar of UTC: all days from 1970 to 2100.
func TestMonthsInRedis(t *testing.T) {
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), Options{})
	begin, end := strings.Index(quotaScript, "local function floordiv"), strings.Index(quotaScript, "-- A state:")
	months, err := redigo.Int64s(m.client.Load().Do(t.Context(), "EVAL", quotaScript[begin:end]+`
		local list = {}
		for day = 0, 47481 do list[day + 1] = month(day) end
		return list`, 0))
	if err != nil {
		t.Fatal(err)
	}
	for day, got := range months {
		date := time.Unix(int64(day)*24*60*60, 0).UTC()
		if want := int64(date.Year())*12 + int64(date.Month()) - 1; got != want {
			t.Fatalf("%v is month %d, want %d", date, got, want)
		}
	}
}

// Two weirs with 32 callers each share one bucket and one number of streams: neither
// is exceeded.
func TestTwoWeirsShareOneBucket(t *testing.T) {
	url, prefix := reference.Redis.Get(t), testPrefix()
	weirs := []*Meter{testMeter(t, url, prefix, Options{}), testMeter(t, url, prefix, Options{})}
	const limit, streams = 6000, 20
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{TokensPerMinute: limit, MaxStreams: streams, Enforcement: quota.Strict}}
	var used, running, refused, full atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			m := weirs[i%2]
			for j := range 40 {
				g, err := m.Reserve(who, quota.Ask{Input: int64(1 + (i+j)%9), Output: 10})
				if r := asRefusal(err); r != nil {
					if refused.Add(1); r.Kind == quota.Streams {
						full.Add(1)
					}
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := running.Add(1); n > streams {
					t.Errorf("%d streams at once", n)
				}
				output := int64(5 + (i*j)%20)
				if output > g.Covered() && m.TopUp(&g, output, output) != nil {
					output = g.Covered()
				}
				used.Add(g.Ask.Input + output)
				running.Add(-1)
				m.Settle(&g, quota.Use{Ran: true, Input: g.Ask.Input, Output: output})
			}
		})
	}
	wg.Wait()
	most := limit + time.Since(began).Milliseconds()*limit/60_000 + 1
	if used.Load() > most || refused.Load() == 0 {
		t.Errorf("%d tokens of %d were used, %d requests refused", used.Load(), most, refused.Load())
	}
	t.Logf("%d of %d tokens used in %v; %d of 2560 requests refused, %d for their streams",
		used.Load(), most, time.Since(began).Round(time.Millisecond), refused.Load(), full.Load())
	for _, m := range weirs {
		if s := m.Stats(); s.Failures != 0 || s.Lost != 0 || s.Open != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// What a dead weir ran is over after its lease, and what it held of a budget counts as spent; what a living one holds
// goes on, however long it runs.
func TestLeasesOfDeadWeirsEnd(t *testing.T) {
	url, prefix := reference.Redis.Get(t), testPrefix()
	o := Options{Terms: Terms{Lease: time.Hour}}
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{MaxStreams: 2, DailyTokens: 100}}
	living, dead := testMeter(t, url, prefix, o), testMeter(t, url, prefix, o)
	for _, m := range []*Meter{living, dead} {
		if _, err := m.Reserve(who, quota.Ask{Input: 10, Output: 40}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := living.Reserve(who, quota.Ask{}); asRefusal(err) == nil {
		t.Fatalf("a third stream: %v", err)
	}
	passMeterLeases(t, dead)
	who.Limits = &quota.Limits{MaxStreams: 2, DailyTokens: 150}
	g, err := living.Reserve(who, quota.Ask{Input: 50})
	if err != nil {
		t.Fatalf("after the lease: %v", err)
	}
	if _, err := living.Reserve(who, quota.Ask{}); asRefusal(err) == nil {
		t.Error("a lease that was renewed ended")
	}
	living.Settle(&g, quota.Use{Ran: true, Input: 50})
}

// An answer whose process dies counts with what its last renewal said that it may have had; with what it really had, once that
// is told after all.
func TestWhatADeadWeirHasUsed(t *testing.T) {
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), Options{Terms: Terms{Lease: time.Hour}})
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{DailyTokens: 10_000, DailyCost: 10_000, Enforcement: quota.Strict}}
	price := quota.Price{Output: 1_000_000}
	var grants []quota.Grant
	for range 3 {
		g, err := m.Reserve(who, quota.Ask{Input: 10, Most: 1000, Price: price})
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, g)
	}
	told, silent := &grants[0], &grants[1]
	told.Generated.Store(100)
	m.mu.Lock()
	for _, r := range m.open {
		r.pace.at = time.Now().Add(-10 * time.Hour) // 10 tokens an hour
	}
	m.mu.Unlock()
	m.renew()
	spent := func(want, cost int64) {
		t.Helper()
		st, err := m.Standings(who)
		if err != nil || st[0].Used != want || st[1].Used != cost {
			t.Errorf("spent %+v, %v; want %d and %d", st, err, want, cost)
		}
	}
	spent(0, 0)
	passMeterLeases(t, m)
	const may = 100 + 7 + 64 // twice the 3.3 tokens until the next renewal
	spent(10+may+2*1010, may+2*1000)
	m.settleLater(*silent, quota.Use{Ran: true, Input: 10, Output: 30}, time.Now().UnixMilli())
	storetest.WaitUntil(t, func() bool { st, err := m.Standings(who); return err == nil && st[0].Used == 10+may+1010+40 })
	spent(10+may+1010+40, may+1000+30)
	if err := m.TopUp(&grants[2], 5, 200); err != nil || grants[2].Covered() != 200 {
		t.Errorf("%v, %d tokens", err, grants[2].Covered())
	}
	spent(10+may+40, may+30)
}

// passMeterLeases has a meter forget what it holds, as if its process had died, and lets the
// leases of that run out.
func passMeterLeases(t *testing.T, m *Meter) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.open {
		if _, err := m.client.Load().Do(t.Context(), "ZADD", m.keys(r.tenant)[1], "XX", 1, id); err != nil {
			t.Fatal(err)
		}
	}
	clear(m.open)
}

// leaseOfGrant is how long a grant of a meter lasts unless it is renewed, by the clock of Redis.
func leaseOfGrant(t *testing.T, m *Meter, g *quota.Grant) time.Duration {
	t.Helper()
	end, err := redigo.Float64(m.client.Load().Do(t.Context(), "ZSCORE", m.keys(g.Holder.Tenant)[1], g.ID))
	if err != nil {
		t.Fatal(err)
	}
	now, err := redigo.Int64s(m.client.Load().Do(t.Context(), "TIME"))
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(int64(end)).Sub(time.Unix(now[0], 1000*now[1]))
}

// A meter renews the leases of what runs by itself.
func TestGrantsAreRenewed(t *testing.T) {
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), Options{Terms: Terms{Lease: time.Hour}})
	g, err := m.Reserve(quota.Holder{Tenant: "a", Limits: &quota.Limits{MaxStreams: 2}}, quota.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Minute).UnixMilli()
	if _, err := m.client.Load().Do(t.Context(), "ZADD", m.keys("a")[1], "XX", soon, g.ID); err != nil {
		t.Fatal(err)
	}
	m.renew()
	if left := leaseOfGrant(t, m, &g); left < 30*time.Minute {
		t.Errorf("a renewed grant lasts for %v", left)
	}
	m.Settle(&g, quota.Use{})
}

// redisServer is a server of the test's own, to be killed. It listens on a socket of the file
// system, so that no other process can have its port.
type redisServer struct {
	t      *testing.T
	path   string
	folder string
	cmd    *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		reference.Missing(t, "redis", "no redis-server on the PATH, to be killed")
	}
	folder, err := os.MkdirTemp("", "redis") //nolint:usetesting // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &redisServer{t: t, path: path, folder: folder}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) socket() string { return filepath.Join(s.folder, "socket") }

func (s *redisServer) url() string { return "unix://" + s.socket() }

func (s *redisServer) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.path, "--port", "0", "--unixsocket", s.socket(), "--save", "", "--appendonly", "no", "--dir", s.folder)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	storetest.WaitUntil(s.t, func() bool {
		c, err := net.Dial("unix", s.socket())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// kill is SIGKILL.
func (s *redisServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

// localMeter is a meter of this process for falling back on.
type localMeter struct {
	mu    sync.Mutex
	meter *quota.Meter
}

func (l *localMeter) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Reserve(time.Now(), who, ask)
}

func (l *localMeter) TopUp(g *quota.Grant, generated, cover int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.TopUp(time.Now(), g, generated, cover)
}

func (l *localMeter) Settle(g *quota.Grant, use quota.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter.Settle(time.Now(), g, use)
}

func (l *localMeter) Standings(who quota.Holder) ([]quota.LimitUsage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Standings(time.Now(), who), nil
}

func (l *localMeter) Remaining(who quota.Holder) (quota.Remaining, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Remaining(time.Now(), who), nil
}

// What happens without Redis, and how long a call may take, changes while the meter is
// open. Grants of before are settled where they were given.
func TestTermsOfAnOpenMeter(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	local := &localMeter{meter: quota.NewMeter(quota.Config{})}
	m := testMeter(t, "redis://"+dead.Addr().String(), testPrefix(), Options{
		Terms: Terms{Timeout: time.Hour}, Retry: time.Nanosecond, Local: local, // it is always tried again
	})
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{MaxStreams: 9}}
	// A call that still waited by the former terms would wait for an hour.
	reserve := func(terms Terms) quota.Grant {
		t.Helper()
		m.SetTerms(terms)
		g, err := m.Reserve(who, quota.Ask{Input: 1})
		if terms.Closed != errors.Is(err, ErrUnreachable) || terms.Closed == (err == nil) || terms.Closed == g.Degraded {
			t.Errorf("%+v: %v, degraded %v", terms, err, g.Degraded)
		}
		return g
	}
	g := reserve(Terms{Timeout: 50 * time.Millisecond})
	reserve(Terms{Timeout: 20 * time.Millisecond, Closed: true})
	if _, err := m.Remaining(who); !errors.Is(err, ErrUnreachable) {
		t.Errorf("what is left: %v", err)
	}
	if m.Settle(&g, quota.Use{Ran: true, Input: 1}); local.meter.Stats().Grants != 0 {
		t.Error("a grant of this process is still open")
	}
	g = reserve(Terms{Timeout: 20 * time.Millisecond})
	m.Settle(&g, quota.Use{})
}

// A lease that becomes shorter is that of what runs from then on, and what another process
// left behind is given back after the new one.
func TestLeaseOfAnOpenMeter(t *testing.T) {
	url, prefix := reference.Redis.Get(t), testPrefix()
	long, short := Terms{Lease: time.Hour, Timeout: 5 * time.Second}, Terms{Lease: 5 * time.Minute, Timeout: 5 * time.Second}
	m, dying := testMeter(t, url, prefix, Options{Terms: long}), testMeter(t, url, prefix, Options{Terms: long})
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{MaxStreams: 2}}
	for _, w := range []*Meter{m, dying} {
		g, err := w.Reserve(who, quota.Ask{Input: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.SetTerms(short)
		storetest.WaitUntil(t, func() bool { return leaseOfGrant(t, w, &g) <= short.Lease })
	}
	passMeterLeases(t, dying)
	if _, err := m.Reserve(who, quota.Ask{Input: 1}); err != nil {
		t.Errorf("the grant of the dead process is not given back: %v", err)
	}
	if _, err := m.Reserve(who, quota.Ask{Input: 1}); asRefusal(err) == nil {
		t.Errorf("the grant that is renewed was given back: %v", err)
	}
}

// Redis is killed under load and comes back empty: requests go on or are refused, as
// configured, each within its timeout, and afterwards nothing is stuck.
func TestRedisIsKilledAndComesBack(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("open=%v", open), func(t *testing.T) {
			server := startRedis(t)
			var heard atomic.Int64
			o := Options{
				Terms: Terms{Lease: time.Second, Timeout: 20 * time.Second}, // a server that is gone refuses at once
				Retry: 100 * time.Millisecond, Changed: func(error) { heard.Add(1) },
			}
			local := &localMeter{meter: quota.NewMeter(quota.Config{})}
			o.Local, o.Closed = local, !open
			m := testMeter(t, server.url(), testPrefix(), o)
			who := quota.Holder{Tenant: "a", Limits: &quota.Limits{MaxStreams: 1}}
			first, err := m.Reserve(who, quota.Ask{Input: 1})
			if err != nil || first.Degraded {
				t.Fatalf("with Redis: %v, degraded %v", err, first.Degraded)
			}
			server.kill()
			for i := range 50 {
				g, err := m.Reserve(who, quota.Ask{Input: 1})
				if open && (err != nil || !g.Degraded) || !open && !errors.Is(err, ErrUnreachable) {
					t.Fatalf("without Redis, call %d: %v, degraded %v", i, err, g.Degraded)
				}
				if err := m.TopUp(&g, 5, 9); err != nil {
					t.Fatal(err)
				}
				m.Settle(&g, quota.Use{Ran: true, Input: 1})
			}
			_ = m.TopUp(&first, 10, 20) // may fail, and must not block
			m.Settle(&first, quota.Use{Ran: true, Input: 1})
			if m.Stats().Up || heard.Load() != 1 {
				t.Errorf("%+v; %d changes heard", m.Stats(), heard.Load())
			}
			server.start()
			storetest.WaitUntil(t, func() bool {
				g, err := m.Reserve(who, quota.Ask{Input: 1})
				m.Settle(&g, quota.Use{Ran: true, Input: 1})
				return err == nil && !g.Degraded
			})
			if !m.Stats().Up || m.Stats().Open != 0 || heard.Load() != 2 || local.meter.Stats().Grants != 0 {
				t.Errorf("afterwards: %+v; %d changes heard; %+v", m.Stats(), heard.Load(), local.meter.Stats())
			}
		})
	}
}

func BenchmarkMeterInRedis(b *testing.B) {
	m := testMeter(b, reference.Redis.Get(b), testPrefix(), Options{})
	who := quota.Holder{Tenant: "a", Model: "m", Limits: &quota.Limits{TokensPerMinute: quota.MaxPerMinute},
		ModelLimits: &quota.Limits{RequestsPerMinute: quota.MaxPerMinute}}
	b.ReportAllocs()
	for b.Loop() {
		g, err := m.Reserve(who, quota.Ask{Input: 10, Output: 10})
		if err != nil {
			b.Fatal(err)
		}
		m.Settle(&g, quota.Use{Ran: true, Input: 10, Output: 10})
	}
}
