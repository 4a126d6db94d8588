package rollout

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func plan(change func(*Plan)) Plan {
	p := Plan{ID: "r1", Model: "chat", Stable: "1", Candidate: "2"}
	for _, percent := range []float64{1, 5, 25, 50, 100} {
		p.Steps = append(p.Steps, Step{Percent: percent, MinRequests: 50, MinTime: Duration(10 * time.Second), MaxTime: Duration(10 * time.Minute)})
	}
	if change != nil {
		change(&p)
	}
	return p
}

func started(t testing.TB, p Plan) *Rollout {
	t.Helper()
	r, err := Start(p, 0.01, start)
	if err != nil {
		t.Fatal(err)
	}
	r.Take()
	return r
}

// The same key gets the same arm each time; a key that has the candidate keeps it while
// the share grows; and of many keys the candidate has the step's share.
func TestArmsAreStickyAndMonotone(t *testing.T) {
	reference.Slow(t)
	seeds := uint64(reference.Repeats(1, 2, 5)) //nolint:gosec // few
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		r := started(t, plan(func(p *Plan) { p.ID = fmt.Sprint("r", seed) }))
		const keys = 100_000
		had := make(map[int]bool)
		for step := range r.plan.Steps {
			r.enter(start, step)
			n := 0
			for k := range keys {
				key := fmt.Sprint("conversation ", k)
				d := r.Choose(key)
				if again := r.Choose(key); again != d {
					t.Fatalf("%s got %+v and then %+v", key, d, again)
				}
				if had[k] && d.Arm != Candidate {
					t.Fatalf("%s lost the candidate in step %d", key, step+1)
				}
				if d.Arm == Candidate {
					had[k] = true
					n++
				}
			}
			share := r.plan.Steps[step].Percent / 100
			if bound := keys*share + 4*math.Sqrt(keys*share*(1-share)); float64(n) > bound || float64(n) < keys*share-4*math.Sqrt(keys*share*(1-share)) {
				t.Errorf("step %d: %d of %d keys have the candidate, %g %% are to", step+1, n, keys, 100*share)
			}
		}
		end := []func(){
			func() { _ = r.Abort(start, "test", "x") }, func() { _ = r.Promote(start, "test") }, func() { r.Alarm(start, "burn rate", "x") },
		}[random.IntN(3)]
		end()
		want := map[State]Arm{Promoted: Candidate, Aborted: Stable, RolledBack: Stable}[r.state]
		for k := range 1000 {
			if d := r.Choose(fmt.Sprint(k)); d.Arm != want || d.Shadow {
				t.Fatalf("%s: %+v", r.state, d)
			}
		}
	}
}

// Two rollouts do not give the candidate to the same conversations.
func TestRolloutsDrawByThemselves(t *testing.T) {
	one, two := started(t, plan(nil)), started(t, plan(func(p *Plan) { p.ID = "r2" }))
	one.enter(start, 3)
	two.enter(start, 3)
	both := 0
	for k := range 10_000 {
		if key := fmt.Sprint(k); one.Choose(key).Arm == Candidate && two.Choose(key).Arm == Candidate {
			both++
		}
	}
	if both < 2200 || both > 2800 {
		t.Errorf("%d of 10000 keys have both candidates at 50 %% each", both)
	}
}

// traffic is a load of a version: how its answers are.
type traffic struct {
	ttft, itl       time.Duration
	failed, empty   float64 // shares
	denied, limited float64
	tail            float64 // share of answers whose first token takes ten times as long
	converts        float64 // share of answers that something comes of
	compute         time.Duration
	length, refused float64
	output          int
	cost            float64
	after           time.Duration // it is so from then on; before it is as the stable version
}

var fine = traffic{ttft: 200 * time.Millisecond, itl: 30 * time.Millisecond, failed: 0.002, empty: 0.001, length: 0.1, refused: 0.02, output: 120, cost: 1,
	denied: 0.01, limited: 0.005, converts: 0.1, compute: 5 * time.Millisecond}

func (w traffic) outcome(random *rand.Rand, arm Arm) *Outcome {
	wide := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * math.Exp(0.4*random.NormFloat64()))
	}
	o := &Outcome{Arm: arm, TTFT: wide(w.ttft), ITL: wide(w.itl), Output: 1 + int(random.ExpFloat64()*float64(w.output)), Compute: wide(w.compute)}
	o.Cost = w.cost * float64(50+o.Output)
	if random.Float64() < w.tail {
		o.TTFT *= 10
	}
	switch x := random.Float64(); {
	case x < w.denied:
		return &Outcome{Arm: arm, Denied: true}
	case x < w.denied+w.limited:
		return &Outcome{Arm: arm, Throttled: true}
	}
	o.Failed = random.Float64() < w.failed
	o.Empty = random.Float64() < w.empty
	o.Length = random.Float64() < w.length
	o.Refused = random.Float64() < w.refused
	o.Missed = o.Failed || o.TTFT > 2500*time.Millisecond
	return o
}

// result is what happened to a simulated rollout.
type result struct {
	state       State
	took        time.Duration // from the candidate's first bad answer, or from the start
	harmed      int
	candidate   int // requests that it answered
	transitions []Transition
}

// simulate sends so many requests per second until the rollout is over or time is up.
func simulate(t testing.TB, p Plan, candidate traffic, perSecond float64, seed uint64) result {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 99))
	p.ID = fmt.Sprint("seed ", seed)
	r := started(t, p)
	now, res, bad := start, result{}, time.Time{}
	for k := 0; now.Sub(start) < 2*time.Hour && r.state == Running; k++ {
		now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond))
		d := r.Choose(fmt.Sprint("conversation ", random.IntN(1_000_000)))
		w := fine
		if d.Arm == Candidate && now.Sub(start) >= candidate.after {
			w = candidate
			if bad.IsZero() {
				bad = now
			}
		}
		if d.Arm == Candidate {
			res.candidate++
		}
		o := w.outcome(random, d.Arm)
		o.Key = d.Key
		r.Observe(now, o)
		if !o.harms() && random.Float64() < w.converts {
			r.tell(now, d.Arm, r.step, Conversion, boundedStats{0, 1})
		}
		r.Tick(now)
		res.transitions = append(res.transitions, r.Take()...)
	}
	res.state, res.harmed = r.state, r.arms[Candidate].harmed
	if res.took = now.Sub(start); !bad.IsZero() {
		res.took = now.Sub(bad)
	}
	return res
}

func with(change func(*traffic)) traffic {
	w := fine
	change(&w)
	return w
}

// A worse candidate is taken back by itself within a minute of its first bad answer, and
// harms few; a good one is promoted through all steps, whatever the luck.
func TestScenarios(t *testing.T) {
	reference.Slow(t)
	const perSecond = 100
	seeds := uint64(reference.Repeats(1, 2, 20)) //nolint:gosec // few
	for _, c := range []struct {
		name string
		w    traffic
	}{
		{"slower", with(func(w *traffic) { w.ttft, w.itl = 3*w.ttft, 3*w.itl })},
		{"slower to begin", with(func(w *traffic) { w.ttft = 4 * w.ttft })},
		{"failing", with(func(w *traffic) { w.failed = 0.5 })},
		{"failing always", with(func(w *traffic) { w.failed = 1 })},
		{"empty answers", with(func(w *traffic) { w.empty = 0.6 })},
		{"garbage without an end", with(func(w *traffic) { w.length, w.output = 0.95, 1000 })},
		{"refusing", with(func(w *traffic) { w.refused = 0.7 })},
		{"answering 400", with(func(w *traffic) { w.denied = 1 })},
		{"answering 429", with(func(w *traffic) { w.limited = 0.9 })},
		{"failing late", with(func(w *traffic) { w.failed, w.after = 0.6, 25*time.Second })},
	} {
		t.Run(c.name, func(t *testing.T) {
			longest, harmed := time.Duration(0), 0
			for seed := range seeds {
				res := simulate(t, plan(nil), c.w, perSecond, seed)
				if res.state != RolledBack || res.took > time.Minute {
					t.Fatalf("seed %d: %s after %v: %+v", seed, res.state, res.took, res.transitions)
				}
				longest, harmed = max(longest, res.took), max(harmed, res.harmed)
			}
			t.Logf("rolled back within %v at the most, %d requests harmed at the most", longest.Round(time.Second), harmed)
		})
	}
	t.Run("good", func(t *testing.T) {
		for seed := range 2 * seeds {
			if res := simulate(t, plan(nil), fine, perSecond, seed); res.state != Promoted || len(res.transitions) != 5 {
				t.Errorf("seed %d: %s after %v: %+v", seed, res.state, res.took, res.transitions[len(res.transitions)-1])
			}
		}
	})
	t.Run("better", func(t *testing.T) {
		w := with(func(w *traffic) { w.ttft, w.itl, w.failed = w.ttft/2, w.itl/2, 0 })
		for seed := range seeds {
			if res := simulate(t, plan(nil), w, perSecond, seed); res.state != Promoted {
				t.Errorf("seed %d: %s: %+v", seed, res.state, res.transitions)
			}
		}
	})
}

// With little traffic a step waits for its requests, and pauses when they do not come.
func TestLittleTrafficPauses(t *testing.T) {
	res := simulate(t, plan(nil), fine, 0.05, 1)
	if last := res.transitions[len(res.transitions)-1]; res.state != Paused || !strings.Contains(last.Reason, "of 50 requests came") || last.Percent != 0 {
		t.Errorf("%s: %+v", res.state, res.transitions)
	}
}

// Where both versions get worse at once, nothing is known of the candidate.
func TestTroubleOfTheServerIsNotTheCandidates(t *testing.T) {
	p, err := plan(nil).WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	sick := window{N: 1000, Failed: 300, Missed: 300}
	j := p.Gates.judge(comparison{stable: &sick, candidate: &window{N: 100, Failed: 30, Missed: 30}, need: sure}, 0.01)
	if j.verdict == bad {
		t.Errorf("%+v", j)
	}
	j = p.Gates.judge(comparison{stable: &window{N: 1000}, candidate: &window{N: 100, Missed: 40}, need: sure}, 0.01)
	if j.verdict != bad || !strings.Contains(j.why, "error budget burns at 40") {
		t.Errorf("a candidate that burns the budget: %+v", j)
	}
}

// Answers in one piece are compared with such answers, and not with first tokens.
func TestAnswersInOnePieceAreTimed(t *testing.T) {
	p, err := plan(nil).WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	arm := func(whole time.Duration) *window {
		var half, all window
		for range 50 {
			half.add(&Outcome{Whole: whole, Output: 20})
			half.add(&Outcome{TTFT: time.Millisecond, Output: 20})
		}
		all.merge(&half)
		return &all
	}
	judge := func(whole time.Duration) verdictReason {
		return p.Gates.judge(comparison{stable: arm(time.Second), candidate: arm(whole), need: sure}, 1)
	}
	if j := judge(3 * time.Second); j.verdict != bad || !strings.Contains(j.why, "time to a whole answer, median is 3") {
		t.Errorf("thrice as slow: %+v", j)
	}
	if j := judge(time.Second); j.verdict != good {
		t.Errorf("alike: %+v", j)
	}
	p.Gates.TTFTRatio, p.Gates.P99Ratio = -1, -1
	if j := judge(3 * time.Second); j.verdict != good {
		t.Errorf("without the gate: %+v", j)
	}
}

func TestShadow(t *testing.T) {
	p := plan(func(p *Plan) {
		p.Steps = append([]Step{{Shadow: 20, MinRequests: 50, MinTime: Duration(10 * time.Second)}}, p.Steps...)
		p.Gates.Distance = 0.4
	})
	run := func(distance float64, failed bool) *Rollout {
		r := started(t, p)
		copies := 0
		for k := range 2000 {
			now := start.Add(time.Duration(k) * 10 * time.Millisecond)
			d := r.Choose(fmt.Sprint(k))
			if r.state == Running && r.step == 0 && d.Arm != Stable {
				t.Fatal("a client got the candidate while it is only shown copies")
			}
			if d.Shadow {
				copies++
				r.Compare(now, &Copied{Distance: distance, Again: Distances{Measured: true, Distance: 0.05}, Failed: failed, Output: 100, Before: 100, ITL: time.Millisecond, Stable: time.Millisecond})
			}
			r.Tick(now)
		}
		if copies == 0 {
			t.Fatal("nothing was copied")
		}
		return r
	}
	if r := run(0.1, false); r.state != Running || r.step != 1 {
		t.Errorf("similar answers: %s in step %d: %s", r.state, r.step+1, r.why)
	}
	if r := run(0.95, false); r.state != RolledBack || !strings.Contains(r.why, "copies' answers") || r.arms[Candidate].total.N != 0 {
		t.Errorf("other answers: %s: %s", r.state, r.why)
	}
	if r := run(0, true); r.state != RolledBack || !strings.Contains(r.why, "failed") {
		t.Errorf("failing copies: %s: %s", r.state, r.why)
	}
}

func TestOperators(t *testing.T) {
	c := NewController()
	r, err := Start(plan(nil), 0.01, start)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(r); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(started(t, plan(func(p *Plan) { p.ID = "r2" }))); !errors.Is(err, ErrTaken) {
		t.Errorf("a second rollout of a model: %v", err)
	}
	if _, ok := c.Choose("other", "", "", "", nil); ok {
		t.Error("a model without a rollout has one")
	}
	for _, what := range []string{"pause", "resume", "pause", "promote"} {
		list, err := c.Decide("chat", what, "key k", start)
		if err != nil || len(list) == 0 || list[len(list)-1].By != "key k" {
			t.Errorf("%s: %+v %v", what, list, err)
		}
	}
	if _, err := c.Decide("chat", "abort", "key k", start); !errors.Is(err, ErrNone) {
		t.Errorf("after its end: %v", err)
	}
	if err := c.Add(started(t, plan(func(p *Plan) { p.ID = "r3" }))); err != nil {
		t.Fatal(err)
	}
	if list := c.Kill("key k", start); len(list) != 1 || list[0].To != Aborted {
		t.Errorf("the kill switch: %+v", list)
	}
	if err := c.Add(started(t, plan(func(p *Plan) { p.ID = "r4" }))); !errors.Is(err, ErrKilled) {
		t.Errorf("after the kill switch: %v", err)
	}
	var states []State
	for _, s := range c.List(start) {
		states = append(states, s.State)
	}
	if !slices.Equal(states, []State{Aborted, Promoted}) {
		t.Errorf("%v", states)
	}
}

// Copies that were made for a rollout which is over do not count in the next one of the model.
func TestCopiesCountForTheirRollout(t *testing.T) {
	c := NewController()
	if err := c.Add(started(t, plan(func(p *Plan) { p.ID = "second" }))); err != nil {
		t.Fatal(err)
	}
	c.Compare("chat", start, &Copied{Rollout: "first", Distance: 1, Output: 1, Before: 1})
	c.Compare("chat", start, &Copied{Rollout: "second", Output: 1, Before: 1})
	if got := c.List(start)[0].Copies; got != 1 {
		t.Errorf("%d copies count, want the one of its own", got)
	}
}

// A request that was under way when its rollout ended does not count in the next one, whatever its arm was.
func TestRequestsCountForTheirRollout(t *testing.T) {
	c := NewController()
	whole := func(id string) *Rollout {
		return started(t, plan(func(p *Plan) { p.ID, p.Steps = id, []Step{{Percent: 100, MinRequests: 50}} }))
	}
	if err := c.Add(whole("first")); err != nil {
		t.Fatal(err)
	}
	before, _ := c.Choose("chat", "tenant", "conversation", "request", nil)
	if _, err := c.Decide("chat", "abort", "operator", start); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(whole("second")); err != nil {
		t.Fatal(err)
	}
	after, _ := c.Choose("chat", "tenant", "conversation", "request", nil)
	for range 40 {
		if list := c.Observe("chat", start, &Outcome{Rollout: before.Rollout, Arm: before.Arm, Failed: true}); len(list) != 0 {
			t.Fatalf("%+v", list)
		}
	}
	c.Observe("chat", start, &Outcome{Rollout: after.Rollout, Arm: after.Arm, Output: 1})
	got := c.List(start)[0]
	if arm := got.Arms[Candidate]; got.State != Running || before.Arm != Candidate || after.Arm != Candidate || arm.Requests != 1 || arm.Failed != 0 {
		t.Errorf("%s, arms %s and %s, %+v: want one request, that of its own", got.State, before.Arm, after.Arm, got.Arms)
	}
}

// Every state survives a restart: one that cannot be read would let an older promotion come back.
func TestRestoreInEveryState(t *testing.T) {
	for _, state := range []State{Running, Paused, Promoted, RolledBack, Aborted, Replaced} {
		r := started(t, plan(nil))
		r.state = state
		data, err := r.Record(start)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Restore(data, start); err != nil || back.State() != state || back.Plan().CopyShare != 0.01 {
			t.Errorf("%s: %+v, %v", state, back, err)
		}
	}
}

// Drift of the candidate takes it back, and that of the stable version does not.
func TestAlarms(t *testing.T) {
	c := NewController()
	if err := c.Add(started(t, plan(nil))); err != nil {
		t.Fatal(err)
	}
	if list := c.Alarm("chat", "1", DriftRule, "x", start); len(list) != 0 {
		t.Errorf("drift of the stable version: %+v", list)
	}
	list := c.Alarm("chat", "2", DriftRule, "feature age: PSI 0.4", start)
	if len(list) != 1 || list[0].To != RolledBack || list[0].By != DriftRule || list[0].Percent != 0 {
		t.Errorf("%+v", list)
	}
}

// A rollout goes on after a restart where it was.
func TestRestore(t *testing.T) {
	r := started(t, plan(func(p *Plan) { p.Sticky = ByTenant }))
	r.enter(start, 2)
	r.note(start, Running, "plan", "step 2 passed")
	data, err := r.Record(start)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Restore(data, start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for k := range 1000 {
		if key := fmt.Sprint(k); back.Choose(key) != r.Choose(key) {
			t.Fatalf("after a restart %s gets another arm", key)
		}
	}
	if back.step != 2 || back.state != Running || len(back.changes) != len(r.changes) || back.plan.Sticky != ByTenant {
		t.Errorf("%+v", back)
	}
	for _, wrong := range []string{"", "{", `{"plan":{}}`, strings.Replace(string(data), `"step":2`, `"step":9`, 1), strings.Replace(string(data), `"running"`, `"flying"`, 1)} {
		if _, err := Restore([]byte(wrong), start); err == nil {
			t.Errorf("%.40q was taken", wrong)
		}
	}
}

func FuzzRestore(f *testing.F) {
	r, err := Start(plan(nil), 0.01, start)
	if err != nil {
		f.Fatal(err)
	}
	data, _ := r.Record(start)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Restore(data, start)
		if err != nil {
			return
		}
		r.Choose("key")
		r.Observe(start, &Outcome{Arm: Candidate, TTFT: time.Second})
		r.Tick(start.Add(time.Hour))
		if _, err := r.Record(start); err != nil {
			t.Error(err)
		}
		r.Status(start)
	})
}

func TestWrongPlans(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"needs an id":           func(p *Plan) { p.Model = "" },
		"is the stable version": func(p *Plan) { p.Candidate = "1" },
		"shares only grow":      func(p *Plan) { p.Steps[2].Percent = 3 },
		"from 0 to 100":         func(p *Plan) { p.Steps[0].Percent = 101 },
		"not both 0":            func(p *Plan) { p.Steps[0].Percent = 0 },
		"min_requests is 0":     func(p *Plan) { p.Steps[0].MinRequests = 0 },
		"max_time":              func(p *Plan) { p.Steps[0].MaxTime = 1 },
		"ttft_ratio is 0.5":     func(p *Plan) { p.Gates.TTFTRatio = 0.5 },
		"conversation, tenant":  func(p *Plan) { p.Sticky = "phase of the moon" },
	} {
		if _, err := Start(plan(change), 0, start); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if p, err := (Plan{ID: "a", Model: "b", Stable: "c", Candidate: "d"}).WithDefaults(); err != nil || len(p.Steps) != 6 || p.Gates.TTFTRatio != 1.5 {
		t.Errorf("%+v %v", p, err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{{"", "", 0}, {"a b c", "a b c", 0}, {"a b", "c d", 1}, {"a b c d", "a c", 1 - 4.0/6}, {"a", "", 1}} {
		if got := Distance(c.a, c.b); math.Abs(got-c.want) > 1e-9 || Distance(c.b, c.a) != got {
			t.Errorf("%q and %q: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	c := NewController()
	r := started(b, plan(nil))
	if err := c.Add(r); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c.Choose("chat", "tenant", "a conversation", "", nil)
	}
}
