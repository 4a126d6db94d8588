package rollout

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

// Looked at after each answer, the test finds a difference that is not there in at most the
// share of runs that the evidence promises.
func TestEvidenceHoldsWheneverItIsLookedAt(t *testing.T) {
	reference.Slow(t)
	const need = 3.0 // one in twenty
	runs := reference.Repeats(100, 150, 400)
	for _, share := range []float64{0.02, 0.5, 0.95} {
		wrong := 0
		for seed := range runs {
			random := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // small
			var s, c boundedStats
			var st, ct histogram
			for k := range 600 {
				draw := func() float64 {
					if random.Float64() < share {
						return 1
					}
					return 0
				}
				took := func() time.Duration { return time.Duration(1e7 * math.Exp(0.5*random.NormFloat64())) }
				if k%5 == 0 {
					c.add(draw())
					ct.add(took())
				} else {
					s.add(draw())
					st.add(took())
				}
				if evidence(s, c, 0) >= need || k%10 == 0 && evidenceOfTimes(&st, &ct, share, 1) >= need {
					wrong++
					break
				}
			}
		}
		if most := runs / 10; wrong > most { // two tests, each one in twenty
			t.Errorf("share %g: %d of %d runs found a difference, at most %d may", share, wrong, runs, most)
		}
	}
}

// Few answers are enough where nothing else explains them.
func TestEvidenceOfFewAnswers(t *testing.T) {
	for _, c := range []struct {
		stable, candidate boundedStats
		gate              float64
		bad               bool
	}{
		{boundedStats{100, 0}, boundedStats{2, 2}, 0.02, false},
		{boundedStats{100, 0}, boundedStats{3, 3}, 0.02, true},
		{boundedStats{20, 0}, boundedStats{5, 5}, 0.02, true},
		{boundedStats{100, 60}, boundedStats{10, 10}, 0.02, false}, // the callers of both ask wrongly
		{boundedStats{100, 100}, boundedStats{100, 100}, 0.02, false},
		{boundedStats{0, 0}, boundedStats{50, 50}, 0.02, false}, // nothing to compare with
		{boundedStats{10, 0}, boundedStats{200, 90}, 0.5, false},
	} {
		if got := evidence(c.stable, c.candidate, c.gate); (got >= sure) != c.bad {
			t.Errorf("%+v: evidence %.2f", c, got)
		}
	}
}

// One caller who asks wrongly all the time, and always gets the same arm, takes no version
// back; callers of both arms who do neither; and a few callers whom only the candidate
// refuses do.
func TestFaultsOfCallersDoNotCount(t *testing.T) {
	feed := func(candidate func(k int) *Outcome, stable func(k int) *Outcome) *Rollout {
		r := started(t, plan(func(p *Plan) {
			p.Steps = []Step{{Percent: 20, MinRequests: 1000, MinTime: Duration(time.Minute)}}
		}))
		for k := range 400 {
			now := start.Add(time.Duration(k) * 100 * time.Millisecond)
			if k%5 == 0 {
				r.Observe(now, candidate(k))
			} else {
				r.Observe(now, stable(k))
			}
		}
		return r
	}
	fine := func(arm Arm) func(int) *Outcome {
		return func(k int) *Outcome { return &Outcome{Arm: arm, Key: uint64(k), TTFT: time.Second, Output: 5} } //nolint:gosec // small
	}
	one := feed(func(k int) *Outcome {
		if k%2 == 0 {
			return &Outcome{Arm: Candidate, Denied: true, Key: 7}
		}
		return fine(Candidate)(k)
	}, fine(Stable))
	if one.state != Running || one.arms[Candidate].total.Denied != 40 {
		t.Errorf("one caller: %s %s, %d denied", one.state, one.why, one.arms[Candidate].total.Denied)
	}
	wrong := func(arm Arm) func(int) *Outcome {
		return func(k int) *Outcome { return &Outcome{Arm: arm, Denied: k%2 == 0, Throttled: k%2 == 1, Key: uint64(k)} } //nolint:gosec // small
	}
	if both := feed(wrong(Candidate), wrong(Stable)); both.state != Running {
		t.Errorf("callers of both arms: %s %s", both.state, both.why)
	}
	for want, o := range map[string]Outcome{"answered 4xx": {Denied: true}, "answered 429 or 503": {Throttled: true}} {
		r := feed(func(k int) *Outcome { c := o; c.Arm, c.Key = Candidate, uint64(k); return &c }, fine(Stable)) //nolint:gosec // small
		if r.state != RolledBack || !strings.Contains(r.why, want) || r.arms[Candidate].harmed > 10 {
			t.Errorf("%s: %s %q, %d harmed", want, r.state, r.why, r.arms[Candidate].harmed)
		}
	}
}

// Where a pause decides nothing the candidate has no users, the sticky ones included, and
// an operator who resumes gives them back.
func TestUndecidedPauseGivesNothing(t *testing.T) {
	r := started(t, plan(func(p *Plan) {
		p.Steps = []Step{{Percent: 50, MinRequests: 1000, MinTime: Duration(time.Second), MaxTime: Duration(time.Minute)}}
	}))
	had := map[string]bool{}
	for k := range 100 {
		key := fmt.Sprint(k)
		had[key] = r.Choose(key).Arm == Candidate
	}
	r.Tick(start.Add(2 * time.Minute))
	if list := r.Take(); r.state != Paused || len(list) != 1 || list[0].Percent != 0 {
		t.Fatalf("%s %+v", r.state, list)
	}
	for key := range had {
		if d := r.Choose(key); d.Arm != Stable || d.Shadow {
			t.Fatalf("key %s gets %+v", key, d)
		}
	}
	data, err := r.Record(start)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Restore(data, start)
	if err != nil || back.percent() != 0 {
		t.Errorf("after a restart: %v %v", back, err)
	}
	if err := r.Resume(start, "key k"); err != nil {
		t.Fatal(err)
	}
	for key, candidate := range had {
		if (r.Choose(key).Arm == Candidate) != candidate {
			t.Errorf("after it goes on key %s has another arm", key)
		}
	}
	if err := r.Pause(start, "key k"); err != nil || r.percent() != 50 {
		t.Errorf("an operator's pause: %v, %g %%", err, r.percent())
	}
}

// In every step what was seen of both arms outlives the process, so that a step goes on
// and is decided as it would have been.
func TestBothArmsSurviveARestartInEveryStep(t *testing.T) {
	reference.Slow(t)
	p := plan(func(p *Plan) {
		p.Steps = append([]Step{{Shadow: 50, MinRequests: 50, MinTime: Duration(10 * time.Second), MaxTime: Duration(10 * time.Minute)}}, p.Steps...)
	})
	for step := range p.Steps {
		r := started(t, p)
		random := rand.New(rand.NewPCG(uint64(step), 3)) //nolint:gosec // small
		now := start
		killed := false
		for k := 0; r.state == Running && now.Sub(start) < time.Hour; k++ {
			now = now.Add(20 * time.Millisecond)
			if !killed && r.step == step && (r.arms[Candidate].step.N >= 20 || r.copies.N >= 20) {
				killed = true
				before := r.Status(now)
				data, err := r.Record(now)
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Hour / 4) // down
				start, entered := r.entered, now.Add(-15*time.Minute)
				if r, err = Restore(data, now); err != nil {
					t.Fatal(err)
				}
				after := r.Status(now)
				if fmt.Sprint(before.Arms) != fmt.Sprint(after.Arms) || before.Copies != after.Copies || r.step != step || now.Sub(r.entered) != entered.Sub(start) {
					t.Errorf("step %d: before %+v, after %+v", step+1, before, after)
				}
			}
			d := r.Choose(fmt.Sprint(random.Int()))
			if d.Shadow {
				r.Compare(now, &Copied{Output: 50, Before: 50, Again: Distances{Measured: true}})
			}
			o := fine.outcome(random, d.Arm)
			o.Key = d.Key
			r.Observe(now, o)
			r.Tick(now)
		}
		if r.state != Promoted || !killed {
			t.Errorf("killed in step %d (%t): %s after %v: %s", step+1, killed, r.state, now.Sub(start), r.why)
		}
	}
}

// seeds is how often a simulation runs, which tries n of them in long runs.
func seeds(n uint64) uint64 {
	return uint64(reference.Repeats(1, int(n+2)/3, int(n))) //nolint:gosec // few
}

// A candidate that is right at twice the cost, or takes twice the computing, is not
// promoted: users are not harmed, and who pays for it is told.
func TestRightAtTwiceTheCost(t *testing.T) {
	reference.Slow(t)
	for want, change := range map[string]func(*traffic){
		"mean cost":                        func(w *traffic) { w.cost *= 2 },
		"computing time of a token, media": func(w *traffic) { w.compute *= 2 },
	} {
		for seed := range seeds(5) {
			res := simulate(t, plan(nil), with(change), 100, seed)
			last := res.transitions[len(res.transitions)-1]
			if res.state != RolledBack || !strings.Contains(last.Reason, want) {
				t.Errorf("seed %d: %s: %s", seed, res.state, last.Reason)
			}
			if seed == 0 {
				t.Logf("%s: taken back after %v, %d answers: %s", want, res.took.Round(time.Second), res.candidate, last.Reason)
			}
		}
		allowed := plan(func(p *Plan) { p.Gates.CostRatio, p.Gates.ComputeRatio = 3, 3 })
		if res := simulate(t, allowed, with(change), 100, 1); res.state != Promoted {
			t.Errorf("%s, allowed: %s", want, res.state)
		}
	}
}

// A better KPI buys no worse p99: gates take back what reaches its goal.
func TestBetterKPIWorseP99(t *testing.T) {
	reference.Slow(t)
	better := func(p *Plan) { p.Goal = &Goal{Signal: Conversion, Gain: 0.2} }
	for seed := range seeds(5) {
		res := simulate(t, plan(better), with(func(w *traffic) { w.converts, w.tail = 0.25, 0.05 }), 100, seed)
		last := res.transitions[len(res.transitions)-1]
		if res.state != RolledBack || !strings.Contains(last.Reason, "p9") {
			t.Errorf("seed %d: %s: %s", seed, res.state, last.Reason)
		}
		if seed == 0 {
			t.Logf("taken back after %v, %d answers: %s", res.took.Round(time.Second), res.candidate, last.Reason)
		}
	}
	allowed := func(p *Plan) { better(p); p.Gates.P99Ratio, p.Gates.TTFTRatio = -1, -1 }
	if res := simulate(t, plan(allowed), with(func(w *traffic) { w.converts, w.tail = 0.25, 0.05 }), 100, 1); res.state != Promoted {
		t.Errorf("an operator wants it all the same: %s", res.state)
	}
	if res := simulate(t, plan(better), fine, 100, 1); res.state != Paused || !strings.Contains(res.transitions[len(res.transitions)-1].Reason, "goal") {
		t.Errorf("a candidate that is no better: %s: %s", res.state, res.transitions[len(res.transitions)-1].Reason)
	}
	for seed := range seeds(3) {
		res := simulate(t, plan(nil), with(func(w *traffic) { w.converts = 0.01 }), 100, seed)
		if last := res.transitions[len(res.transitions)-1]; res.state != RolledBack || !strings.Contains(last.Reason, "conversion") {
			t.Errorf("a worse KPI: %s: %s", res.state, last.Reason)
		}
	}
}

// What is told of an answer counts once for its arm, the last word counts, and no one tells
// anything of another's answer or of one that is forgotten.
func TestSignals(t *testing.T) {
	c := NewController()
	if err := c.Add(started(t, plan(func(p *Plan) { p.Steps = []Step{{Percent: 50, MinRequests: 1000, MinTime: Duration(time.Minute)}} }))); err != nil {
		t.Fatal(err)
	}
	for k := range 40 {
		d, _ := c.Choose("chat", "acme", fmt.Sprint(k), "", nil)
		c.Observe("chat", start, &Outcome{Rollout: d.Rollout, Arm: d.Arm, ID: fmt.Sprint("chatcmpl-", k), Tenant: "acme", Output: 3})
	}
	tell := func(id, tenant string, kind SignalKind, value float64) error {
		_, err := c.Tell(start, &Signal{ID: id, Tenant: tenant, Kind: kind, Value: value})
		return err
	}
	for k := range 40 {
		for range 3 {
			if err := tell(fmt.Sprint("chatcmpl-", k), "acme", Conversion, 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, value := range []float64{1, 0, 0.5} {
			if err := tell(fmt.Sprint("chatcmpl-", k), "acme", Thumbs, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	for _, a := range c.List(start)[0].Arms {
		conversion, thumbs := a.Signals["conversion"], a.Signals["thumbs"]
		if conversion.Mean != 1 || thumbs.Mean != 0.5 || conversion.Answers != thumbs.Answers || a.Requests != thumbs.Answers {
			t.Errorf("%+v", a)
		}
		n += thumbs.Answers
	}
	if n != 40 {
		t.Errorf("%d answers have thumbs", n)
	}
	for _, wrong := range []error{
		tell("chatcmpl-1", "other", Thumbs, 1), tell("nobody's", "acme", Thumbs, 1), tell("chatcmpl-1", "acme", Thumbs, 1.5), tell("chatcmpl-1", "acme", Thumbs, math.NaN()),
	} {
		if wrong == nil {
			t.Error("a signal was taken that is none")
		}
	}
	for k := range maxAnswers + 10 {
		c.remember("chat", 0, &Outcome{Rollout: "r1", ID: fmt.Sprint("new ", k), Tenant: "acme"})
	}
	if n := len(c.answers.byID); n != maxAnswers || c.answers.age.Len() != maxAnswers {
		t.Errorf("%d answers are remembered", n)
	}
	if tell("chatcmpl-1", "acme", Thumbs, 1) == nil {
		t.Error("an answer that is forgotten took a signal")
	}
}

// A candidate that answers garbage of the usual length has no user, at 8 tokens and at 40,
// and neither has one that answers nothing or takes twice the computing; one that is alike
// is asked few questions.
func TestCheck(t *testing.T) {
	p, err := plan(nil).WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	run := func(one Copied) (n int, err error) {
		c := p.NewCheck()
		for n = 1; n <= 24; n++ {
			o := one
			o.Before, o.Again = 8, Distances{Measured: n%4 == 1}
			if enough, err := c.Add(&o); enough || err != nil {
				return n, err
			}
		}
		return n, nil
	}
	slow := Copied{Output: 8, Compute: Computed{Candidate: 4 * time.Millisecond, Stable: 2 * time.Millisecond}}
	for want, wrong := range map[string]Copied{
		"from those of the stable version": {Output: 8, Distance: 0.92},
		"answers none of 3 requests: 400":  {Failed: true, Why: "400"},
		"computing time of a token":        slow,
		"copies with an empty answer":      {Output: 1, Empty: true},
	} {
		if _, err := run(wrong); !errors.Is(err, ErrCheck) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	varied := func(times float64) error { // questions whose answers take from 1 to 9 ms for a token, whatever answers them
		c := p.NewCheck()
		for n := 1; n <= 24; n++ {
			usual := time.Duration(1+n*5%9) * time.Millisecond
			if enough, err := c.Add(&Copied{Before: 8, Output: 8, Compute: Computed{Candidate: time.Duration(times * float64(usual)), Stable: usual}}); enough || err != nil {
				return err
			}
		}
		return nil
	}
	if err := varied(1.9); !errors.Is(err, ErrCheck) || !strings.Contains(err.Error(), "of the same question it is 1.9") {
		t.Errorf("nearly twice the computing for each question: %v", err)
	}
	if err := varied(1.4); err != nil {
		t.Errorf("less than the gate: %v", err)
	}
	for _, alike := range []Copied{{Output: 8, Distance: 0.3}, {Output: 8, Empty: true, WasEmpty: true}} {
		if n, err := run(alike); err != nil || n != enoughChecked {
			t.Errorf("a candidate that is alike, %+v: %v after %d questions", alike, err, n)
		}
	}
}

func TestGolden(t *testing.T) {
	schema := []byte(`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}`)
	for _, c := range []struct {
		g     Golden
		text  string
		wrong bool
	}{
		{Golden{Prompt: "p", Text: "four"}, " four\n", false},
		{Golden{Prompt: "p", Text: "four"}, "four!", true},
		{Golden{Prompt: "p", Regex: `(?i)\bparis\b`}, "It is Paris.", false},
		{Golden{Prompt: "p", Regex: `^Paris`}, "It is Paris.", true},
		{Golden{Prompt: "p", Schema: schema}, `{"n": 4}`, false},
		{Golden{Prompt: "p", Schema: schema}, `{"n": "4"}`, true},
		{Golden{Prompt: "p", Schema: schema}, `{"n": 4} and more`, true},
		{Golden{Prompt: "p", Schema: schema}, "no JSON", true},
	} {
		if err := c.g.check(); err != nil {
			t.Errorf("%+v: %v", c.g, err)
		}
		if err := c.g.Answered(c.text); (err != nil) != c.wrong {
			t.Errorf("%+v of %q: %v", c.g, c.text, err)
		}
	}
	rows := Golden{Inputs: []Tensor{{Name: "x", Data: []any{1.0}}}, Outputs: []Tensor{{Name: "y", Data: []any{[]any{0.25, 4.0}, "cat"}}}, Tolerance: 0.01}
	for answer, right := range map[string]bool{
		`{"outputs":[{"name":"z","data":[1]},{"name":"y","data":[0.251,4.03,"cat"]}]}`: true,
		`{"outputs":[{"name":"y","data":[0.3,4,"cat"]}]}`:                              false,
		`{"outputs":[{"name":"y","data":[0.25,4,"dog"]}]}`:                             false,
		`{"outputs":[{"name":"y","data":[0.25,4]}]}`:                                   false,
		`{"outputs":[]}`:             false,
		`{"error":"no"}`:             false,
		`{"outputs":[{"name":"y",":`: false,
	} {
		if err := rows.Scored([]byte(answer)); (err == nil) != right {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for want, g := range map[string]Golden{
		"either a prompt":              {},
		"says nothing of the answer":   {Prompt: "p"},
		"outputs are missing":          {Inputs: rows.Inputs},
		"regex":                        {Prompt: "p", Regex: "("},
		"schema":                       {Prompt: "p", Schema: []byte(`{"type": 4}`)},
		"only what is in it":           {Prompt: "p", Schema: []byte(`{"$ref": "file:///etc/hostname"}`)},
		"max_tokens is 100000":         {Prompt: "p", Text: "t", MaxTokens: 100000},
		fmt.Sprint(maxGoldenBytes, ""): {Prompt: "p", Text: strings.Repeat("x", maxGoldenBytes)},
	} {
		if _, err := Start(plan(func(p *Plan) { p.Golden = []Golden{g} }), 0, start); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzGolden(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"outputs":[{"name":"y","data":[[1],"a",null,{}]}]}`)
	f.Add(`{"$ref":"#/x","x":{"pattern":"^a+$"}}`, `[]`)
	f.Fuzz(func(_ *testing.T, schema, text string) {
		g := Golden{Prompt: "p", Schema: []byte(schema), Outputs: []Tensor{{Name: "y", Data: []any{1.0, "a", nil}}}}
		if g.check() == nil {
			_ = g.Answered(text)
		}
		_ = g.Scored([]byte(text))
	})
}
