package scheduler

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// machine runs plans on a clock of its own: took says how long each takes.
type machine struct {
	s      *Scheduler
	pool   *kvcache.Pool
	plan   Plan
	now    time.Duration
	took   func(*Plan) time.Duration
	accept func() bool // a draft comes true
	prompt int         // prompt rows of the last step
	period int         // after so many tokens an output repeats itself; 0 is 4

	floor time.Duration // what the last step might take for its prompts' sake, when it was planned

	results []Result
	tokens  []inference.TokenID
	last    map[ID]time.Duration // of the last token
	gap     time.Duration        // longest wait for a token after the first
	first   map[ID]time.Duration
}

func newMachine(t testing.TB, cfg Config) *machine {
	t.Helper()
	return newMachineOver(t, cfg, kvcache.Config{})
}

// newStatefulMachine is newMachine with a model of recurrent layers.
func newStatefulMachine(t testing.TB, cfg Config) *machine {
	t.Helper()
	return newMachineOver(t, cfg, kvcache.Config{States: 8 * cfg.MaxSeqs})
}

func newMachineOver(t testing.TB, cfg Config, kv kvcache.Config) *machine {
	t.Helper()
	kv.Blocks, kv.BlockTokens, kv.ModelDigest, kv.KVType = 1+cfg.MaxSeqs*(cfg.MaxModelLen/16+2), 16, "m", "f16"
	pool, err := kvcache.New(kv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, pool)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{s: s, pool: pool, last: map[ID]time.Duration{}, first: map[ID]time.Duration{}}
}

func (m *machine) submit(t testing.TB, r Request) ID {
	t.Helper()
	r.Domain = m.pool.Domain(r.Tenant)
	id, err := m.s.Submit(int64(m.now), r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// step runs one plan; false means that there is nothing to run.
func (m *machine) step() bool {
	if !m.s.Plan(int64(m.now), &m.plan) {
		return false
	}
	m.floor = m.s.pacer.promptFloor()
	m.now += m.took(&m.plan)
	m.results, m.tokens, m.prompt = m.results[:0], m.tokens[:0], 0
	for i := range m.plan.Chunks {
		c := &m.plan.Chunks[i]
		if !c.Decode {
			m.prompt += c.Count
		}
		m.results = append(m.results, m.sample(c))
	}
	m.s.Commit(int64(m.now), m.results)
	return true
}

// sample accepts drafts as accept says. What follows is the end of a run of
// four (period), so that there is something to look up.
func (m *machine) sample(c *Chunk) Result {
	if c.Samples == 0 {
		return Result{}
	}
	lo := len(m.tokens)
	for i := range c.Drafts {
		if !m.accept() {
			break
		}
		m.tokens = append(m.tokens, c.Tokens[c.Count-c.Drafts+i])
	}
	m.tokens = append(m.tokens, inference.TokenID(1+(c.Start+len(m.tokens)-lo)%cmp.Or(m.period, 4)))
	if n := len(m.tokens) - lo; n <= c.Drafts && m.tokens[len(m.tokens)-1] == c.Tokens[c.Count-c.Drafts+n-1] {
		m.tokens[len(m.tokens)-1] = 5 // rejected means different
	}
	if since, ok := m.last[c.Request]; ok {
		m.gap = max(m.gap, m.now-since)
	} else {
		m.first[c.Request] = m.now
	}
	m.last[c.Request] = m.now
	return Result{Tokens: m.tokens[lo:len(m.tokens):len(m.tokens)]}
}

// speeds are a small machine's: 30 ms to read the weights, during which eight
// rows come for free, and a price for every position attended to.
func speeds(p *Plan) time.Duration {
	rows, attended := 0, 0
	for i := range p.Chunks {
		c := &p.Chunks[i]
		rows += c.Count
		attended += cost.Attended(c.Start, c.Count)
	}
	ns := max(30e6, 30e6/8*float64(rows)) + 250*float64(attended)
	return time.Duration(ns)
}

func text(rng *rand.Rand, n int) []inference.TokenID {
	p := make([]inference.TokenID, n)
	for i := range p {
		p[i] = inference.TokenID(rng.IntN(50_000))
	}
	return p
}

const itlTarget = 200 * time.Millisecond

// A long prompt arrives while eight outputs run: a decoding sequence never waits
// longer than the target, and the prompt still takes little more time than the
// machine needs for it beside them.
func TestALongPromptDoesNotHoldUpRunningOutputs(t *testing.T) {
	run := func(target time.Duration) (gap, first time.Duration) {
		m := newMachine(t, Config{MaxSeqs: 16, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: target, StepLimit: -1})
		m.took = speeds
		rng := rand.New(rand.NewPCG(1, 9))
		for range 8 {
			m.submit(t, Request{Prompt: text(rng, 100+rng.IntN(400)), MaxTokens: 3000, Class: inference.Default})
		}
		for m.s.Stats().OutputTokens < 8*60 {
			m.step()
		}
		m.gap = 0
		arrived := m.now
		long := m.submit(t, Request{Prompt: text(rng, 4096), MaxTokens: 8, Class: inference.Default})
		for m.first[long] == 0 {
			m.step()
		}
		return m.gap, m.first[long] - arrived
	}
	gap, first := run(itlTarget)
	worse, quickest := run(0)
	t.Logf("longest wait %v, first token after %v; without a target %v and %v", gap, first, worse, quickest)
	if gap > itlTarget {
		t.Errorf("an output waited %v for a token, target %v", gap, itlTarget)
	}
	if worse < 2*itlTarget {
		t.Errorf("without a target outputs waited %v: the machine is too fast to show anything", worse)
	}
	if first > 2*quickest {
		t.Errorf("the prompt took %v, and %v without a target", first, quickest)
	}
}

// Random load on a machine: by their estimate steps keep their share of the
// target unless outputs leave prompts less than theirs, prompts always get
// some rows, and steps that are cut end on a panel.
func TestStepsKeepTheTarget(t *testing.T) {
	paced, floored, cut := 0, 0, 0
	seeds := uint64(reference.Repeats(4, 6, 12)) //nolint:gosec // few
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 10))
		target := time.Duration(60+rng.IntN(300)) * time.Millisecond
		m := newMachine(t, Config{MaxSeqs: 12, MaxBatchTokens: 256, MaxModelLen: 4096, ITLTarget: target, MaxDrafts: rng.IntN(2) * 4})
		m.took = func(p *Plan) time.Duration {
			d := speeds(p)
			if rng.IntN(30) == 0 {
				d *= time.Duration(2 + rng.IntN(8)) // the machine was busy elsewhere
			}
			return d + time.Duration(rng.IntN(int(d)/10))
		}
		m.accept = func() bool { return rng.IntN(2) == 0 }
		for range 600 {
			if rng.IntN(12) == 0 && m.s.Stats().Waiting < 4 {
				m.submit(t, Request{Prompt: text(rng, 1+rng.IntN(2000)), MaxTokens: 1 + rng.IntN(100), Class: inference.Default, Speculate: true})
			}
			ready, share := m.s.cost.Ready(), m.s.cost.Share()
			if !m.step() {
				continue
			}
			p := &m.plan
			if err := m.s.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
			prompts := m.promptsLeft()
			if p.Decodes == 0 || !ready {
				continue
			}
			paced++
			limit := time.Duration(share * float64(target))
			if p.Estimate > limit {
				floored++
				limit = max(limit, m.floor)
			}
			if p.Estimate > limit && m.prompt > m.s.cfg.RowPanel {
				t.Fatalf("world %d: a step of %d prompt rows is to take %v, limit %v", seed, m.prompt, p.Estimate, limit)
			}
			if p.Estimate > limit && p.Drafts > 0 {
				t.Fatalf("world %d: %d drafts in a step that is to take %v, limit %v", seed, p.Drafts, p.Estimate, limit)
			}
			if prompts > 0 && m.prompt < m.s.cfg.RowPanel {
				t.Fatalf("world %d: %d prompt rows in a step while %d prompts wait for theirs", seed, m.prompt, prompts)
			}
			if prompts > 0 && p.Rows < m.s.cfg.MaxBatchTokens {
				cut++
			}
		}
	}
	t.Logf("%d steps with outputs, %d above the target by their floor, %d cut", paced, floored, cut)
	if n := int(seeds); paced < 160*n || 3*floored < 5*n || cut < 8*n { //nolint:gosec // a few
		t.Error("too few steps to show anything")
	}
}

// promptsLeft is how many prompts the last step began and did not finish.
func (m *machine) promptsLeft() int {
	n := 0
	for _, q := range m.s.sequences.running {
		if q.produced == 0 && q.computed > 0 {
			n++
		}
	}
	return n
}

// Steps that are cut to fit the time end on a whole panel of rows, those of
// outputs included: the kernels take all rows of a step together.
func TestCutStepsEndOnAPanel(t *testing.T) {
	for _, panel := range []int{4, 6} {
		m := newMachine(t, Config{MaxSeqs: 8, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget, RowPanel: panel})
		m.took = speeds
		rng := rand.New(rand.NewPCG(1, 12))
		for range 3 {
			m.submit(t, Request{Prompt: text(rng, 77), MaxTokens: 2000, Class: inference.Default})
		}
		for range 50 {
			m.step()
		}
		m.submit(t, Request{Prompt: text(rng, 3001), MaxTokens: 1, Class: inference.Default})
		cut := 0
		for m.step() && m.s.Stats().Length == 0 {
			if m.prompt == 0 || m.plan.Chunks[len(m.plan.Chunks)-1].Final {
				continue
			}
			cut++
			if m.plan.Rows%panel != 0 {
				t.Errorf("a step of %d rows, panels have %d", m.plan.Rows, panel)
			}
		}
		if cut < 20 {
			t.Errorf("only %d steps were cut", cut)
		}
	}
}

// With nothing decoding a prompt takes the whole budget of rows, whatever the
// target, but no longer than the bound of every step. The first step of all
// measures.
func TestStepsWithoutOutputsHaveABoundOfTheirOwn(t *testing.T) {
	run := func(limit time.Duration) (rows []int, longest time.Duration) {
		m := newMachine(t, Config{MaxSeqs: 8, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: time.Millisecond, StepLimit: limit})
		m.took = speeds
		m.submit(t, Request{Prompt: text(rand.New(rand.NewPCG(1, 13)), 4096), MaxTokens: 1, Class: inference.Default})
		for m.step() {
			rows = append(rows, m.plan.Rows)
			longest = max(longest, m.plan.Estimate)
		}
		return rows, longest
	}
	rows, _ := run(-1)
	if slices.Min(rows) != 512 {
		t.Errorf("steps of %v rows without a bound, want the whole budget of 512", rows)
	}
	if rows, longest := run(500 * time.Millisecond); longest > 500*time.Millisecond || rows[0] != minRowsWithoutDecodes || slices.Max(rows) < 100 {
		t.Errorf("steps of %v rows, the longest %v, with a bound of 500 ms", rows, longest)
	}
	if rows, _ := run(time.Millisecond); slices.Min(rows[:len(rows)-1]) < minRowsWithoutDecodes {
		t.Errorf("steps of %v rows, want at least %d", rows, minRowsWithoutDecodes)
	}
}

// The oldest prompt advances in every step, however many shorter ones come, and
// shorter ones do not wait for it.
func TestTheOldestPromptKeepsItsPart(t *testing.T) {
	m := newMachine(t, Config{MaxSeqs: 16, MaxBatchTokens: 256, MaxModelLen: 8192, ITLTarget: itlTarget})
	m.took = speeds
	rng := rand.New(rand.NewPCG(1, 15))
	long := m.submit(t, Request{Prompt: text(rng, 6000), MaxTokens: 1, Class: inference.Default})
	for range 4 {
		m.step()
	}
	part, all := 0, 0
	for m.first[long] == 0 {
		for m.s.Stats().Waiting < 2 { // more than the machine can do
			m.submit(t, Request{Prompt: text(rng, 150), MaxTokens: 4, Class: inference.Default})
		}
		m.step()
		of := 0
		for i := range m.plan.Chunks {
			if c := &m.plan.Chunks[i]; c.Request == long {
				of = c.Count
			}
		}
		if of < m.s.cfg.RowPanel && m.first[long] == 0 {
			t.Fatalf("the oldest prompt got %d rows of a step of %d", of, m.plan.Rows)
		}
		part += of
		all += m.prompt
	}
	if share := float64(part) / float64(all); share < 0.15 || share > 0.5 {
		t.Errorf("the oldest prompt got %.2f of the prompt rows, want about a quarter", share)
	}
}

// The same times give the same plans.
func TestPacedPlansAreDeterministic(t *testing.T) {
	run := func() (rows []int) {
		rng := rand.New(rand.NewPCG(3, 14))
		m := newMachine(t, Config{MaxSeqs: 8, MaxBatchTokens: 256, MaxModelLen: 4096, ITLTarget: itlTarget, MaxDrafts: 3})
		m.took = func(p *Plan) time.Duration { return speeds(p) + time.Duration(rng.IntN(5_000_000)) }
		m.accept = func() bool { return rng.IntN(2) == 0 }
		for range 300 {
			if rng.IntN(9) == 0 {
				m.submit(t, Request{Prompt: text(rng, 1+rng.IntN(900)), MaxTokens: 1 + rng.IntN(60), Class: inference.Default, Speculate: true})
			}
			m.step()
			rows = append(rows, m.plan.Rows, m.plan.Drafts, int(m.plan.Estimate))
		}
		return rows
	}
	a, b := run(), run()
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("value %d is %d, then %d", i, a[i], b[i])
		}
	}
}

// Outputs of a class wait for their next token as long as its target says, and
// where several classes decode as long as the strictest of them says.
func TestClassesHaveTheirOwnTargets(t *testing.T) {
	run := func(beside ...inference.Class) (gap time.Duration) {
		m := newMachine(t, Config{
			MaxSeqs: 16, MaxBatchTokens: 512, MaxModelLen: 8192, StepLimit: -1, ITLTarget: 2 * itlTarget,
			ClassITLTarget: [inference.NumClasses]time.Duration{inference.Interactive: itlTarget},
		})
		m.took = speeds
		rng := rand.New(rand.NewPCG(1, 12))
		for i := range 6 {
			m.submit(t, Request{Prompt: text(rng, 100), MaxTokens: 3000, Class: beside[i%len(beside)]})
		}
		for m.s.Stats().OutputTokens < 6*60 {
			m.step()
		}
		m.gap = 0
		long := m.submit(t, Request{Prompt: text(rng, 4096), MaxTokens: 8, Class: inference.Batch})
		for m.first[long] == 0 {
			m.step()
		}
		return m.gap
	}
	for _, tc := range []struct {
		beside     []inference.Class
		from, most time.Duration
	}{
		{[]inference.Class{inference.Interactive}, itlTarget / 2, itlTarget},
		{[]inference.Class{inference.Default}, itlTarget, 2 * itlTarget},
		{[]inference.Class{inference.Batch}, 4 * itlTarget, time.Hour},
		{[]inference.Class{inference.Batch, inference.Default}, itlTarget, 2 * itlTarget},
		{[]inference.Class{inference.Batch, inference.Default, inference.Interactive}, itlTarget / 2, itlTarget},
	} {
		if gap := run(tc.beside...); gap < tc.from || gap > tc.most {
			t.Errorf("outputs of classes %v waited %v for a token, want %v to %v", tc.beside, gap, tc.from, tc.most)
		}
	}
}

// A prompt that would miss its deadline if others went first goes first, and makes
// it; without one it takes its turn beside shorter ones, and misses that time. One
// that cannot make its deadline keeps no other waiting for it.
func TestADeadlineAtRiskGoesFirst(t *testing.T) {
	const rows, short = 1024, 64
	run := func(by time.Duration) (first, others time.Duration) {
		m := newMachine(t, Config{MaxSeqs: 64, MaxBatchTokens: 64, MaxModelLen: 8192})
		m.took = speeds
		rng := rand.New(rand.NewPCG(1, 13))
		warm := m.submit(t, Request{Prompt: text(rng, 300), MaxTokens: 1, Class: inference.Default})
		for m.first[warm] == 0 {
			m.step()
		}
		begin := m.now
		r := Request{Prompt: text(rng, rows), MaxTokens: 1, Class: inference.Default}
		if by > 0 {
			r.FirstTokenBy = int64(begin + by)
		}
		dated := m.submit(t, r)
		m.step()
		var beside []ID
		for range 60 {
			beside = append(beside, m.submit(t, Request{Prompt: text(rng, short), MaxTokens: 1, Class: inference.Default}))
		}
		for m.step() {
		}
		for _, id := range beside {
			others += (m.first[id] - begin) / time.Duration(len(beside))
		}
		return max(0, m.first[dated]-begin), others
	}
	alone := speeds(&Plan{Chunks: []Chunk{{Count: rows}}})
	free, mean := run(0)
	atRisk, _ := run(2 * alone)
	hopeless, rest := run(alone / 2)
	t.Logf("alone %v; without a deadline %v, with one %v; others in the mean %v, and %v beside a deadline that cannot be met",
		alone, free, atRisk, mean, rest)
	if free < 2*alone {
		t.Errorf("without a deadline the prompt took %v, and %v alone: nothing is at risk", free, alone)
	}
	if atRisk == 0 || atRisk > 2*alone {
		t.Errorf("the first token came after %v, due after %v", atRisk, 2*alone)
	}
	if hopeless != 0 || rest > mean {
		t.Errorf("a deadline that cannot be met: first token after %v, others waited %v, want at most %v", hopeless, rest, mean)
	}
}

// What a few small steps took says little about large ones: here the first steps are slow for another reason, as where memory is
// used for the first time, and it looks as if further rows took no time at all.
func TestStepsGrowByWhatIsKnown(t *testing.T) {
	m := newMachine(t, Config{MaxSeqs: 8, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget})
	steps := 0
	m.took = func(p *Plan) time.Duration {
		if steps++; steps <= 4 {
			return 40 * time.Millisecond
		}
		return speeds(p)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 4 {
		m.submit(t, Request{Prompt: text(rng, 3000), MaxTokens: 1, Class: inference.Default})
	}
	largest := 0
	for range 12 {
		if !m.step() {
			break
		}
		if most := max(minRowsWithoutDecodes, maxRowsGrowth*largest); m.plan.Rows > most {
			t.Errorf("step %d has %d rows, want %d at most after one of %d", steps, m.plan.Rows, most, largest)
		}
		largest = max(largest, m.plan.Rows)
	}
}
