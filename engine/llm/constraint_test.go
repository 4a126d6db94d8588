package llm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/inference"
	"weir/internal/work"
	"weir/scheduler"
)

// automaton is a constraint of a few states, drawn from a seed: what may follow depends
// on the state, and the state on all that came.
type automaton struct {
	states []rule
	path   []int // states, the current one last

	fails   map[string]func() error // by method, from the fifth token on
	refused *int                    // counts tokens that Allows refused
	meter   *work.Meter
}

func (a *automaton) Under(m *work.Meter) { a.meter = m }

// rule is what may follow in a state.
type rule struct {
	legal []int32
	end   bool
}

const automatonStates = 16

func newAutomaton(seed uint64) *automaton {
	a := &automaton{path: []int{0}}
	for s := range automatonStates {
		n := []int{1, 1, 3, 40}[mixed(seed, s)%4] // half of the states force a token
		r := rule{end: mixed(seed, s, 1)%8 == 0}
		for i := range n {
			id := 10 + int32(mixed(seed, s, i, 2)%(tinyVocab-10)) // ids below 10 are for ends
			if !slices.Contains(r.legal, id) {
				r.legal = append(r.legal, id)
			}
		}
		a.states = append(a.states, r)
	}
	a.states[automatonStates-1] = rule{end: true} // complete
	return a
}

func mixed(values ...any) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range fmt.Sprint(values...) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h ^ h>>29
}

func (a *automaton) state() int { return a.path[len(a.path)-1] }

func (a *automaton) fail(method string) error {
	if f := a.fails[method]; f != nil && len(a.path) > 5 {
		return f()
	}
	return nil
}

func (a *automaton) Mask(dst []uint64) (bool, error) {
	clear(dst)
	if err := a.meter.Spend(1); err != nil {
		return false, err
	}
	r := &a.states[a.state()]
	for _, id := range r.legal {
		dst[id/64] |= 1 << (id % 64)
	}
	return r.end, a.fail("Mask")
}

func (a *automaton) Allows(id int32) bool {
	_ = a.fail("Allows")
	legal := slices.Contains(a.states[a.state()].legal, id)
	if a.refused != nil && !legal {
		*a.refused++
	}
	return legal
}

func (a *automaton) Accept(id int32) error {
	if err := a.meter.Spend(1); err != nil {
		return err
	}
	if !slices.Contains(a.states[a.state()].legal, id) {
		return fmt.Errorf("token %d is not legal", id)
	}
	next := (a.state()*31 + int(id)*7 + len(a.path)) % (automatonStates - 1)
	if len(a.path) > 45 {
		next = automatonStates - 1
	}
	a.path = append(a.path, next)
	return a.fail("Accept")
}

func (a *automaton) Rollback(n int) { a.path = a.path[:len(a.path)-n] }

func (a *automaton) Fork() inference.Constraint {
	f := *a
	f.meter = nil
	f.path = append(make([]int, 0, 256), a.path...) // room, so that steps allocate nothing
	return &f
}

func (a *automaton) Forced(dst []int32) []int32 {
	_ = a.fail("Forced")
	from := len(a.path)
	for len(a.states[a.state()].legal) == 1 && !a.states[a.state()].end && len(a.path)-from < 6 {
		dst = append(dst, a.states[a.state()].legal[0])
		f := a.fails
		a.fails = nil
		_ = a.Accept(dst[len(dst)-1])
		a.fails = f
	}
	a.Rollback(len(a.path) - from)
	return dst
}

// obeys reports whether an output is one of the automaton, from its beginning.
func (a *automaton) obeys(output []int32, finish inference.FinishReason, isEnd func(int32) bool) error {
	c := a.Fork().(*automaton)
	for i, id := range output {
		if isEnd(id) {
			if i != len(output)-1 || !c.states[c.state()].end || finish != inference.FinishStop {
				return fmt.Errorf("token %d of %d is the end, with %v; may end: %v", i, len(output), finish, c.states[c.state()].end)
			}
			return nil
		}
		if err := c.Accept(id); err != nil {
			return fmt.Errorf("token %d: %w", i, err)
		}
	}
	if finish != inference.FinishLength {
		return fmt.Errorf("%d tokens without an end: %v", len(output), finish)
	}
	return nil
}

func isEnd(id int32) bool { return id < 10 }

// constrained requests: greedy and drawn, with all that changes what the sampler yields.
func constrained() []func() *inference.Request {
	edits := []func(r *inference.Request){
		func(*inference.Request) {},
		func(r *inference.Request) { r.Sampling.Logprobs = 3 },
		func(r *inference.Request) { r.Sampling.RepetitionPenalty, r.Sampling.PresencePenalty = 1.3, 0.5 },
		func(r *inference.Request) { r.Sampling.LogitBias = []inference.TokenBias{{ID: 13, Bias: 5}} },
		func(r *inference.Request) { r.MinTokens = 100 },
		func(r *inference.Request) { r.IgnoreEOS = true },
		func(r *inference.Request) {
			r.Sampling.AllowedTokens, r.Sampling.BadWords = []int32{20, 25, 27, 28, 29, 30, 31, 32}, [][]int32{{20}, {25, 27}}
		},
		func(r *inference.Request) { r.StopTokens = []int32{1, 2, 3, 4, 5, 6} },
		func(r *inference.Request) { r.Sampling.Temperature, r.Sampling.Seed = 0.7, 11 },
		func(r *inference.Request) {
			r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.TopK, r.Sampling.Seed, r.N = 1.2, 0.9, 20, 12, 3
		},
		func(r *inference.Request) { r.N, r.Sampling.Temperature, r.Sampling.Seed = 2, 1, 3 },
		func(r *inference.Request) { r.PromptLogprobs = 1 },
		func(r *inference.Request) { r.MaxTokens = 5 },
		func(r *inference.Request) { r.Speculation = inference.ToggleOff },
	}
	var all []func() *inference.Request
	for i, edit := range edits {
		all = append(all, func() *inference.Request {
			r := greedy(repetitive(uint64(i), 20+9*i), 60)
			r.Constraint = newAutomaton(uint64(i))
			edit(r)
			return r
		})
	}
	return all
}

// Scenarios 10 and 11 of structured output. A constrained answer is the same to the last bit alone and
// beside others, in one chunk and in many, with drafts, which a constraint forces or
// does not allow, and without, also when it is preempted and resumed.
func TestJ11ConstrainedAnswersDoNotDependOnTheirCompany(t *testing.T) {
	f := families[0]
	var want []string
	plain := start(t, f, Options{EndTokens: []int32{9}})
	stopped := 0
	for i, r := range constrained() {
		q := r()
		a := ask(t, plain, q)
		want = append(want, story(a))
		for c, output := range a.tokens {
			if err := q.Constraint.(*automaton).obeys(output, a.finish[c], isEnd); err != nil {
				t.Errorf("request %d, choice %d: %v: %v", i, c, output, err)
			}
			if a.finish[c] == inference.FinishStop {
				stopped++
			}
		}
	}
	if stopped < 10 {
		t.Errorf("%d answers ended by their grammar: too few to show anything", stopped)
	}
	forced, preempted := uint64(0), uint64(0)
	for _, o := range []Options{
		{Scheduler: scheduler.Config{MaxDrafts: 5}}, // forced drafts only
		{Scheduler: scheduler.Config{MaxDrafts: 5, LookupMin: 1}, Speculate: true},
		{Scheduler: scheduler.Config{MaxDrafts: 3, LookupMin: 1, LookupMax: 1, PrefillChunk: 7}, BlockTokens: 32, logitRows: 3, Speculate: true},
		{Scheduler: scheduler.Config{MaxDrafts: 8, LookupMin: 1, MaxSeqs: 8, MaxBatchTokens: 24, OutputEstimate: 1}, KVBlocks: 15, BlockTokens: 16, MaxModelLen: 220, logitRows: 2, Threads: 3, Speculate: true},
	} {
		t.Run(fmt.Sprintf("drafts=%d,chunk=%d,blocks=%d,lookup=%v", o.Scheduler.MaxDrafts, o.Scheduler.PrefillChunk, o.KVBlocks, o.Speculate), func(t *testing.T) {
			o.EndTokens = []int32{9}
			e := start(t, f, o)
			for i, r := range constrained() { // alone: no other sequence makes draft tokens expensive
				if got := story(ask(t, e, r())); got != want[i] {
					t.Errorf("request %d alone:\n%s\nwant\n%s", i, got, want[i])
				}
			}
			if !o.Speculate {
				forced += e.Stats().Scheduler.AcceptedTokens
			}
			var all []*inference.Request
			for _, r := range constrained() {
				all = append(all, r())
			}
			streams, err := e.SubmitAll(all)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range streams {
				if got := story(read(t, s)); got != want[i] {
					t.Errorf("request %d among others:\n%s\nwant\n%s", i, got, want[i])
				}
			}
			preempted += e.Stats().Scheduler.Preemptions
		})
	}
	if forced == 0 || preempted == 0 {
		t.Errorf("%d forced drafts accepted, %d preemptions: nothing was shown", forced, preempted)
	}
}

// Drafts that the grammar does not allow are cut before their rows are computed.
func TestIllegalDraftsAreNotComputed(t *testing.T) {
	legal := []int32{20, 40}
	computed, refused := 0, 0
	var e *Engine
	s := newStepper(t, families[0], Options{
		EndTokens: []int32{9}, Speculate: true, Scheduler: scheduler.Config{MaxDrafts: 4, LookupMin: 1, EveryDraft: true},
		atPhase: func(p phase) {
			if p != computing {
				return
			}
			for _, c := range e.loop.plan.Chunks {
				for _, id := range c.Tokens[c.Count-c.Drafts:] {
					if computed++; !slices.Contains(legal, id) {
						t.Errorf("token %d is computed as a draft", id)
					}
				}
			}
		},
	})
	e = s.Engine
	a := newAutomaton(1)
	for i := range a.states {
		a.states[i] = rule{legal: legal}
	}
	a.refused = &refused
	r := greedy(slices.Repeat([]int32{20, 21, 22}, 12), 40)
	r.Constraint = a
	s.submit(t, r)
	for s.turn() {
	}
	if refused == 0 {
		t.Errorf("%d legal drafts, no illegal one: nothing was shown", computed)
	}
}

// Scenarios 16 and 17 of structured output. Whatever a constraint does, returning errors or panicking in any
// method, ends its own request, with an error; those beside it are as ever.
func TestJ17AConstraintThatBreaksEndsItsRequestAlone(t *testing.T) {
	other := func(i uint64) *inference.Request {
		r := greedy(repetitive(i, 30), 50)
		if i%2 == 0 {
			r.Constraint = newAutomaton(i)
		}
		return r
	}
	o := Options{EndTokens: []int32{9}, Speculate: true, Scheduler: scheduler.Config{MaxDrafts: 4, LookupMin: 1}}
	var want []string
	e := start(t, families[0], o)
	for i := range uint64(6) {
		want = append(want, story(ask(t, e, other(i))))
	}
	broken := errors.New("broken")
	for method, how := range map[string]func() error{
		"Mask":          func() error { return broken },
		"Accept":        func() error { return broken },
		"Mask panics":   func() error { panic("broken") },
		"Accept panics": func() error { panic("broken") },
		"Forced panics": func() error { panic("broken") },
	} {
		t.Run(method, func(t *testing.T) {
			before := e.Stats().Panics
			var wg sync.WaitGroup
			got := make([]string, len(want))
			for i := range got {
				wg.Go(func() { got[i] = story(ask(t, e, other(uint64(i)))) })
			}
			r := greedy(slices.Repeat([]int32{20, 21, 22}, 12), 200)
			a := newAutomaton(1)
			for i := range a.states {
				a.states[i] = rule{legal: []int32{20, 21, 22}} // what was there before is drafted
			}
			name, panics := strings.CutSuffix(method, " panics")
			a.fails = map[string]func() error{name: how}
			r.Constraint, r.N = a, 2
			failed := ask(t, e, r)
			wg.Wait()
			if !errors.Is(failed.err, inference.ErrConstraint) || failed.finish[0] != inference.FinishError {
				t.Errorf("%v, %v; want an error of the constraint", failed.err, failed.finish)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("request %d beside it:\n%s\nwant\n%s", i, got[i], want[i])
				}
			}
			if s := e.Stats(); s.Rebuilds != 0 || s.Panics > before != panics {
				t.Errorf("%d rebuilds, %d panics counted", s.Rebuilds, s.Panics-before)
			}
		})
	}
}

// A panic while drafts are vetted is no panic of the step, and not forgotten.
func TestAPanicOverDraftsEndsTheRequestAlone(t *testing.T) {
	s := newStepper(t, families[0], Options{EndTokens: []int32{9}})
	a := newAutomaton(1)
	a.path = make([]int, 6, 300)
	a.fails = map[string]func() error{"Allows": func() error { panic("broken") }}
	r := greedy(prompt(1, 9), 100)
	r.Constraint = a
	s.submit(t, r)
	s.submit(t, greedy(prompt(2, 9), 100))
	j := s.inbox.list[0].job
	s.turn()
	if n := j.legal(j.samplers[0], []int32{20}, nil); n != 0 || j.broke == nil {
		t.Fatalf("%d drafts are legal, fault %v", n, j.broke)
	}
	s.loop.iterate()
	var last inference.Event
	for {
		n, done, err := s.streams[0].Poll(s.events[:])
		if n > 0 {
			last = s.events[n-1]
		}
		if done {
			if !errors.Is(err, inference.ErrConstraint) || last.Finish != inference.FinishError {
				t.Errorf("%v, %+v", err, last)
			}
			break
		}
	}
	if n := s.sched.Stats().Running; n != 1 || s.loop.faults.panics != 1 {
		t.Errorf("%d outputs run on, %d panics counted; want 1 and 1", n, s.loop.faults.panics)
	}
}

// Scenario 9: once a grammar is complete nothing but the end follows, and a request that ends
// nowhere is refused.
func TestJ9ACompleteGrammarEnds(t *testing.T) {
	three := func() *automaton {
		a := newAutomaton(1)
		for i := range a.states[:automatonStates-1] {
			a.states[i] = rule{legal: []int32{30}}
		}
		a.path = make([]int, 44, 100) // three tokens are left
		return a
	}
	for name, edit := range map[string]func(r *inference.Request){
		"plain":      func(*inference.Request) {},
		"min_tokens": func(r *inference.Request) { r.MinTokens = 20 },
		"ignore_eos": func(r *inference.Request) { r.IgnoreEOS = true },
		"both":       func(r *inference.Request) { r.IgnoreEOS, r.MinTokens = true, 20 },
	} {
		for _, drafts := range []int{0, 4} { // scenario 10: drafts reach beyond the end
			e := start(t, families[0], Options{EndTokens: []int32{9}, Speculate: true, Scheduler: scheduler.Config{MaxDrafts: drafts, LookupMin: 1}})
			r := greedy(slices.Repeat([]int32{30}, 20), 40)
			r.Constraint = three()
			edit(r)
			a := ask(t, e, r)
			if a.err != nil || !slices.Equal(a.tokens[0], []int32{30, 30, 30, 9}) || a.finish[0] != inference.FinishStop {
				t.Errorf("%s, %d drafts: %v, %v, %v", name, drafts, a.tokens[0], a.finish[0], a.err)
			}
		}
	}
	e := start(t, families[0], Options{})
	r := greedy(prompt(1, 5), 9)
	r.Constraint = three()
	if _, err := e.Submit(r); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("a model without an end: %v", err)
	}
}

// Tokens of a constrained output cost no memory.
func TestConstrainedStepsDoNotAllocate(t *testing.T) {
	s := newStepper(t, families[0], Options{EndTokens: []int32{9}, Scheduler: scheduler.Config{MaxDrafts: 4}})
	for i := range 4 {
		r := greedy(prompt(uint64(i), 10+i), 230)
		a := newAutomaton(uint64(i))
		for k := range a.states {
			a.states[k].end, a.states[k].legal = false, append(a.states[k].legal, 33)
		}
		r.Constraint = &endless{a}
		s.submit(t, r)
	}
	for range 12 {
		s.turn()
	}
	least := 1e9
	for range 3 { // the runtime allocates too, now and then
		least = min(least, testing.AllocsPerRun(1, func() {
			for range 6 {
				s.turn()
			}
		}))
	}
	if least > 0 {
		t.Errorf("%v allocations in 6 steps", least)
	}
	if n := s.sched.Stats().Running; n != 4 {
		t.Errorf("%d outputs still ran at the end", n)
	}
}

// endless is an automaton that is never complete.
type endless struct{ *automaton }

func (e *endless) Accept(id int32) error {
	e.path = append(e.path, (e.state()*31+int(id)*7)%(automatonStates-1))
	return nil
}

func (e *endless) Fork() inference.Constraint { return &endless{e.automaton.Fork().(*automaton)} }
