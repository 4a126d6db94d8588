package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
)

// The invariants S1 to S12 of the design, each with an oracle of its own.
// Beside it, explore checks CheckInvariants after every operation and the
// arena of world checks that no chunk reads another sequence's rows.

func TestS1SubmittedRequestsAreConserved(t *testing.T) {
	explore(t, func(w *world) func() {
		return func() {
			var ended Counters
			for _, id := range w.order {
				if !w.jobs[id].done {
					t.Errorf("%s never ended", w.jobs[id].name)
				}
			}
			c := w.sched.Stats()
			ended = c.Counters
			if n := uint64(len(w.order)); c.Submitted != n || ended.Ended() != n || c.Live != 0 || c.Waiting != 0 || c.WaitingTokens != 0 {
				t.Errorf("%d requests were submitted; %+v", n, c)
			}
		}
	})
}

func TestS2EveryChoiceEndsOnce(t *testing.T) {
	explore(t, func(w *world) func() { // world.end refuses a second end
		done := map[ID]int{}
		w.onEnd = func(e End) {
			if e.Done {
				done[e.Request]++
			}
			if (e.Err != nil) != (e.Finish == inference.FinishError || e.Finish == inference.FinishCancelled) {
				t.Errorf("end %+v", e)
			}
		}
		return func() {
			for id, n := range done {
				if n != 1 {
					t.Errorf("request %v was done %d times", id, n)
				}
			}
			for _, id := range w.order {
				j := w.jobs[id]
				for k, out := range j.outputs {
					if len(out) > j.req.MaxTokens || j.finish[k] == inference.FinishLength && j.req.MaxTokens > len(out) && !w.cfg.CapOutput {
						t.Errorf("%s/%d: %d of %d tokens, %v", j.name, k, len(out), j.req.MaxTokens, j.finish[k])
					}
				}
			}
		}
	})
}

func TestS3PlansStayInsideTheBudget(t *testing.T) {
	explore(t, func(w *world) func() { // world.checkPlan counts the rows
		w.onPlan = func([]runner) {
			long, tenants := 0, map[*tenantShare]bool{}
			for _, c := range w.plan.Chunks {
				if !c.Decode && c.Count > w.cfg.PrefillChunk {
					t.Errorf("chunk of %d rows, limit %d", c.Count, w.cfg.PrefillChunk)
				}
			}
			for _, q := range w.sched.sequences.running {
				if w.sched.sequences.isLong(q.pending()) {
					long++
					tenants[q.req.share] = true
				}
			}
			// Resuming outputs are prompts of their own length, admitted one by one. One of each tenant that another crowds runs beside the others.
			if long > w.cfg.MaxPrefills+max(len(tenants)-1, 0) || w.sched.shares.taken > w.cfg.MaxSeqs {
				t.Errorf("%d long prompts of %d, %d slots of %d", long, w.cfg.MaxPrefills, w.sched.shares.taken, w.cfg.MaxSeqs)
			}
		}
		return nil
	})
}

func TestS4PlannedBlocksExist(t *testing.T) {
	explore(t, func(w *world) func() { // world.run reads every row through the table
		w.onPlan = func([]runner) {
			st := w.pool.Stats()
			if st.Free < 0 || st.Referenced > st.Blocks {
				t.Errorf("%+v", st)
			}
			for _, c := range w.plan.Chunks {
				for g := range w.pool.Groups() {
					blocks, b := c.Blocks(g), w.pool.ShapeOf(w.jobs[c.Request].req.Domain).BlockTokens()
					if first := w.firstSeen(g, c.Start) / b; len(blocks)*b < c.Start+c.Count || slices.Contains(blocks[min(first, len(blocks)):], 0) {
						t.Errorf("chunk %+v is not covered in group %d", c, g)
					}
				}
			}
		}
		return nil
	})
}

func TestS5PlansAreWorkConserving(t *testing.T) {
	explore(t, func(w *world) func() {
		w.onPlan = func([]runner) {
			if n := len(w.live()); n > 0 && !w.out {
				t.Errorf("empty plan with %d live requests: %+v", n, w.sched.Stats())
			}
		}
		return nil
	})
}

func TestS6BackloggedTenantsAreServedByWeight(t *testing.T) {
	reference.Slow(t)
	const seqs, longest, output = 4, 32, 8
	weights := map[string]int{"light": 1, "double": 2, "heavy": 4}
	tenants := []string{"light", "double", "heavy"}
	for _, pressure := range []struct {
		name     string
		blocks   int
		overtake int
	}{{"slots", 100, 64}, {"blocks", 24, 2}} {
		t.Run(pressure.name, func(t *testing.T) {
			w := newWorld(t, Config{
				MaxSeqs: seqs, MaxBatchTokens: 32, MaxModelLen: 64, OvertakeLimit: pressure.overtake, OutputEstimate: output,
			}, kvcache.Config{Blocks: pressure.blocks, BlockTokens: 4})
			rng := rand.New(rand.NewPCG(7, 7))
			service, waiting := map[string]float64{}, map[string]int{}
			// The default prior's prices, in rows: the world has no clock.
			const step, row, out, position = 8, 1, 0.2, 0.0005
			book := func(j *job, rows float64) {
				service[j.req.Tenant] += rows / float64(weights[j.req.Tenant])
			}
			for range 3000 {
				for _, name := range tenants {
					for ; waiting[name] < 12; waiting[name]++ {
						r := Request{MaxTokens: 1 + rng.IntN(output), Class: inference.Default, Tenant: name, Weight: weights[name], Domain: w.pool.Domain(name)}
						for range 1 + rng.IntN(longest) {
							r.Prompt = append(r.Prompt, int32(rng.IntN(50000)))
						}
						if _, err := w.submit(name+strconv.Itoa(len(w.order)), r); err != nil {
							t.Fatal(err)
						}
					}
				}
				outputs := w.sched.Stats().OutputTokens
				if !w.step() {
					t.Fatal("idle with a backlog")
				}
				for _, id := range w.plan.Admitted {
					j := w.jobs[id]
					waiting[j.req.Tenant]--
				}
				for _, c := range w.plan.Chunks {
					attended := c.Count*c.Start + c.Count*(c.Count+1)/2
					book(w.jobs[c.Request], float64(c.Count)*row+float64(c.LogitRows)*out+float64(attended)*position+step/float64(len(w.plan.Chunks)))
					if c.Samples > 0 {
						outputs++
					}
				}
				if outputs != w.sched.Stats().OutputTokens {
					t.Fatal("output tokens do not add up")
				}
				// The theorem's bound, and what passes a blocked head.
				const token, prompt = row + out + position*(longest+output) + step, longest*(row+position*longest) + out + 2*step
				bound := 2*max(prompt, token*output*seqs) + float64(pressure.overtake%64)*(prompt+token*output)
				for _, a := range tenants {
					for _, b := range tenants {
						if gap := service[a] - service[b]; gap > bound {
							t.Fatalf("step %d: %s is %f rows ahead of %s, bound %f", w.steps, a, gap, b, bound)
						}
					}
				}
			}
			t.Logf("service in rows, by weight: %v", service)
			if service["light"] < 3000 {
				t.Errorf("too little service to show anything: %v", service)
			}
		})
	}
}

func TestS7LowerClassesWaitForHigherOnes(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, Config{
			MaxSeqs: 3, MaxBatchTokens: 16, MaxModelLen: 64, SharePercent: [inference.NumClasses]int{100, 0, 0},
		}, kvcache.Config{Blocks: 60, BlockTokens: 4})
		waiting := func(c inference.Class) int { return w.sched.waiting.Waiting(c) }
		w.onPlan = func([]runner) {
			for _, id := range w.plan.Admitted {
				for c := range w.jobs[id].req.Class {
					if waiting(c) > 0 {
						t.Fatalf("class %d was admitted while %d of class %d wait", w.jobs[id].req.Class, waiting(c), c)
					}
				}
			}
		}
		for range 200 {
			if rng.IntN(2) == 0 {
				r := Request{MaxTokens: 1 + rng.IntN(5), NoCache: true, Class: inference.Class(rng.IntN(3)), Domain: w.pool.Domain("a")}
				r.Prompt = make([]int32, 1+rng.IntN(16))
				if _, err := w.submit("r"+strconv.Itoa(len(w.order)), r); err != nil {
					t.Fatal(err)
				}
			}
			w.step()
		}
		w.drain(5000)
	}
}

func TestS7LowerClassesGetTheirShare(t *testing.T) {
	w := newWorld(t, Config{
		MaxSeqs: 2, MaxBatchTokens: 16, MaxModelLen: 64, SharePercent: [inference.NumClasses]int{0, 25, 0},
	}, kvcache.Config{Blocks: 100, BlockTokens: 4})
	tokens := map[inference.Class]int{}
	for range 2000 {
		for c := range inference.Class(2) {
			for w.sched.waiting.Waiting(c) < 2 {
				r := Request{Prompt: make([]int32, 8), MaxTokens: 2, NoCache: true, Class: c, Domain: w.pool.Domain("a")}
				if _, err := w.submit("r"+strconv.Itoa(len(w.order)), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.step()
		for _, id := range w.plan.Admitted {
			tokens[w.jobs[id].req.Class] += 8
		}
	}
	high, low := tokens[inference.Interactive], tokens[inference.Default]
	if low*100 < high*24 || low*100 > high*26 {
		t.Errorf("the lower class got %d tokens beside %d, want 25 %%", low, high)
	}
}

// A flood of a higher class takes all slots; those that wait in lower classes get the slots
// that their class is guaranteed within a few steps, and keep them, and no more.
func TestS7LowerClassesGetTheirShareOfSlots(t *testing.T) {
	reference.Slow(t)
	for _, seqs := range []int{8, 20, 64} {
		w := newWorld(t, Config{MaxSeqs: seqs, MaxBatchTokens: 128, MaxModelLen: 600}, kvcache.Config{Blocks: 20_000, BlockTokens: 4})
		submit := func(tenant string, c inference.Class, tokens int) *job {
			t.Helper()
			r := Request{Prompt: make([]int32, 8), MaxTokens: tokens, NoCache: true, Class: c, Tenant: tenant, Domain: w.pool.Domain(tenant)}
			j, err := w.submit("r"+strconv.Itoa(len(w.order)), r)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		flood := func() {
			for w.sched.waiting.Waiting(inference.Interactive) < 20 {
				submit("abuser", inference.Interactive, 500)
			}
		}
		flood()
		for range 10 {
			w.step()
		}
		for c := inference.Default; c < inference.NumClasses; c++ {
			for range 2 * seqs {
				submit("caller", c, 30)
			}
		}
		var lacks [inference.NumClasses]int // steps in a row
		for step := range 100 {
			flood()
			w.step()
			for c := inference.Default; c < inference.NumClasses; c++ {
				want := w.sched.shares.guaranteedSlots(c)
				got := w.sched.shares.slots[c]
				if lacks[c]++; got == want || w.sched.waiting.Waiting(c) == 0 {
					lacks[c] = 0
				}
				if want < 1 || got > want || lacks[c] > 10 {
					t.Fatalf("%d slots, step %d: class %v has %d of the %d that it is guaranteed", seqs, step, c, got, want)
				}
			}
		}
		if first := w.jobs[w.order[0]]; len(first.outputs[0]) < 100 {
			t.Errorf("%d slots: the first request of the flood got %d tokens in 110 steps", seqs, len(first.outputs[0]))
		}
	}
}

// costModel is the time of a step: fixed, per prompt row, per output row, and
// per row of KV read.
func costModel(w *world) float64 {
	ms := 4.0
	for _, c := range w.plan.Chunks {
		if c.Decode {
			ms += 0.5
		} else {
			ms += 0.3 * float64(c.Count)
		}
		ms += 0.001 * float64(c.Start+c.Count)
	}
	return ms
}

func TestS8OutputsKeepTheirPaceUnderPrompts(t *testing.T) {
	const seqs, batch, model = 8, 40, 200
	// The slowest step that the limits allow is the promise: prompt rows fill
	// the budget beside a row of each output.
	slo := 4.0 + 0.5*seqs + 0.3*batch + 0.001*model*seqs
	for seed := range uint64(reference.Repeats(3, 8, 32)) { //nolint:gosec // few
		rng := rand.New(rand.NewPCG(seed, 8))
		w := newWorld(t, Config{MaxSeqs: seqs, MaxBatchTokens: batch, MaxModelLen: model}, kvcache.Config{Blocks: 120, BlockTokens: 16})
		clock, last := 0.0, map[ID]float64{}
		for range 400 {
			if rng.IntN(3) == 0 { // a steady stream of prompts, some long
				r := Request{MaxTokens: 1 + rng.IntN(40), Class: inference.Default, Domain: w.pool.Domain("a"), Prompt: make([]int32, 1+rng.IntN(150))}
				for i := range r.Prompt {
					r.Prompt[i] = int32(rng.IntN(50000))
				}
				if _, err := w.submit("r"+strconv.Itoa(len(w.order)), r); err != nil {
					t.Fatal(err)
				}
			}
			if !w.step() {
				continue
			}
			clock += costModel(w)
			for _, c := range w.plan.Chunks {
				if c.Samples == 0 {
					continue
				}
				if since, ok := last[c.Request]; ok && clock-since > slo {
					t.Fatalf("world %d: %s waited %.1f ms for a token, promised %.1f", seed, w.jobs[c.Request].name, clock-since, slo)
				}
				last[c.Request] = clock
			}
		}
	}
}

// record runs one world and returns all its plans.
func record(t *testing.T, seed uint64) []string {
	src := seeded(seed)
	w := randomWorld(t, src)
	w.randomStops(seed)
	var plans []string
	w.onPlan = func([]runner) {
		line := w.String()
		for _, c := range w.plan.Chunks {
			line += fmt.Sprint(c.Blocks(0))
		}
		plans = append(plans, line)
	}
	for range 150 {
		w.act(src)
	}
	w.unpin()
	w.drain(20000)
	return plans
}

func TestS9SameInputsSamePlans(t *testing.T) {
	for seed := range uint64(reference.Repeats(20, 60, 240)) { //nolint:gosec // few
		a, b := record(t, seed), record(t, seed)
		if !slices.Equal(a, b) {
			t.Fatalf("world %d differs from its replay", seed)
		}
	}
}

func TestS10PlansDoNotKnowTheFuture(t *testing.T) {
	compared := 0
	for seed := range uint64(60) {
		worlds := [2]*world{}
		srcs := [2]*source{}
		for i := range worlds {
			srcs[i] = seeded(seed)
			worlds[i] = randomWorld(t, srcs[i])
			worlds[i].randomStops(uint64(i)) // the same requests end elsewhere
		}
		for range 150 {
			for i, w := range worlds {
				w.act(srcs[i])
			}
			a, b := worlds[0], worlds[1]
			if a.finishes() != b.finishes() {
				break
			}
			if a.String() != b.String() {
				t.Fatalf("world %d: plans differ before any output did\n%s\n%s", seed, a, b)
			}
			compared++
		}
	}
	if compared < 500 {
		t.Errorf("only %d operations were comparable", compared)
	}
}

// finishes tells how every choice of every request has ended so far.
func (w *world) finishes() string {
	var all []inference.FinishReason
	for _, id := range w.order {
		all = append(all, w.jobs[id].finish...)
	}
	return fmt.Sprintf("%v", all)
}

func TestS11PreemptionSkipsNoOne(t *testing.T) {
	preemptions := 0
	explore(t, func(w *world) func() {
		w.onPlan = func(before []runner) {
			w.checkNoOneSkipped(before)
			preemptions += len(w.plan.Preempted)
		}
		return nil
	})
	wanted := 100
	if testing.Short() {
		wanted = 5 // of fewer worlds
	}
	if preemptions < wanted {
		t.Errorf("only %d preemptions were seen", preemptions)
	}
}

// checkNoOneSkipped wants a row for every running output, except of those
// that were preempted, failed, are left out of a short step, or wait for a block after their last preemption.
func (w *world) checkNoOneSkipped(before []runner) (stalls int) {
	w.t.Helper()
	planned, gone := map[*sequence]bool{}, map[ID]bool{}
	for _, q := range w.sched.step.seqs {
		planned[q] = true
	}
	for _, id := range w.plan.Preempted {
		gone[id] = true
	}
	for _, id := range w.plan.Paused {
		gone[id] = true
	}
	for _, e := range w.plan.Failed {
		gone[e.Request] = true
	}
	for i, r := range before {
		switch {
		case planned[r.seq] || gone[r.id] || !r.decoding || w.sched.shortSteps.leftOut(r.seq):
		case r.capped && i > 0 && !w.canGrow(r.seq):
			stalls++
		default:
			w.fatalf("%s/%d did not run: %s", w.jobs[r.id].name, r.choice, w)
		}
	}
	return stalls
}

// canGrow asks the pool whether a sequence could have run.
func (w *world) canGrow(q *sequence) bool {
	_, ok := w.pool.CanGrow(&q.table, len(q.ids), kvcache.Hit{})
	return ok
}

func TestPreemptionsAreCapped(t *testing.T) {
	reference.Slow(t)
	// Beyond its limit a sequence gives way only to the first of all.
	beyond, stalls := 0, 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 11))
		w := newWorld(t, Config{
			MaxSeqs: 6, MaxBatchTokens: 32, MaxModelLen: 64, OutputEstimate: 1, WatermarkBlocks: -1, PreemptLimit: 1 + rng.IntN(2), MinRunTokens: 1,
		}, kvcache.Config{Blocks: 14, BlockTokens: 4})
		w.vocabulary = 50000
		for i := range 16 {
			r := Request{MaxTokens: 8 + rng.IntN(24), Class: inference.Default, Domain: w.pool.Domain("a")}
			for range 1 + rng.IntN(12) {
				r.Prompt = append(r.Prompt, int32(rng.IntN(50000)))
			}
			if _, err := w.submit("r"+strconv.Itoa(i), r); err != nil {
				t.Fatal(err)
			}
		}
		w.onPlan = func(before []runner) {
			stalls += w.checkNoOneSkipped(before)
			for _, r := range before {
				if !r.capped || r.seq.preemptions == r.preemptions {
					continue
				}
				beyond++
				if len(before[0].seq.table.Blocks(0)) == before[0].blocks {
					t.Fatalf("world %d: %s gave way for the %dth time, and not to the first: %s", seed, w.jobs[r.id].name, r.seq.preemptions, w)
				}
			}
		}
		w.drain(5000)
	}
	if beyond < 20 || stalls < 20 {
		t.Errorf("only %d capped sequences gave way, %d waited", beyond, stalls)
	}
}

func TestS12CancelIsLegalInEveryState(t *testing.T) {
	states := []struct {
		name  string
		reach func(w *world, j *job)
	}{
		{"waiting", func(*world, *job) {}},
		{"planned", func(w *world, _ *job) { w.begin() }},
		{"mid prompt", func(w *world, _ *job) { w.step() }},
		{"planned mid prompt", func(w *world, _ *job) { w.step(); w.begin() }},
		{"last prompt chunk planned", func(w *world, _ *job) { w.step(); w.step(); w.begin() }},
		{"forked", func(w *world, _ *job) { w.step(); w.step(); w.step() }},
		{"tails copied", func(w *world, _ *job) { w.step(); w.step(); w.step(); w.step() }},
		{"decode planned", func(w *world, _ *job) { w.step(); w.step(); w.step(); w.begin() }},
		{"preempted", func(w *world, _ *job) {
			w.step()
			w.begin()
			w.abandon()
		}},
		{"ended", func(w *world, _ *job) { w.drain(100) }},
	}
	for _, st := range states {
		for _, n := range []int{1, 3} {
			for _, choices := range [][]int{{-1}, {0}, {n - 1}, {0, n - 1}, {n - 1, -1}, {5}} {
				t.Run(fmt.Sprintf("%s n=%d %v", st.name, n, choices), func(t *testing.T) {
					w := newWorld(t, Config{MaxSeqs: 4, MaxBatchTokens: 4, MaxModelLen: 64}, kvcache.Config{Blocks: 32, BlockTokens: 4})
					r := Request{Prompt: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, MaxTokens: 6, N: n, Domain: w.pool.Domain("a")}
					j, err := w.submit("a", r)
					if err != nil {
						t.Fatal(err)
					}
					st.reach(w, j)
					for _, k := range choices {
						w.cancel(j, k) // compares the answer with what has ended
						w.cancel(j, k)
					}
					out := w.out
					if !out && j.done && w.pool.Stats().Referenced != 0 {
						t.Errorf("blocks are held after the cancel: %+v", w.pool.Stats())
					}
					w.drain(100)
				})
			}
		}
	}
}

func TestProgressTheorem(t *testing.T) {
	// With one class, the first running sequence advances in every step, or gives its blocks to another tenant, whose
	// sequence advances, so the steps are bounded by the tokens of all requests, however small the pool.
	preemptions := uint64(0)
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 12))
		w := newWorld(t, Config{
			MaxSeqs: 2 + rng.IntN(6), MaxBatchTokens: 8 + rng.IntN(8), MaxModelLen: 40, OutputEstimate: 1 + rng.IntN(4),
			PreemptLimit: 1 + rng.IntN(3), MinRunTokens: 1 + rng.IntN(8), WatermarkBlocks: -1,
		}, kvcache.Config{Blocks: 11, BlockTokens: 4})
		bound := 0
		for i := range 20 {
			r := Request{MaxTokens: 1 + rng.IntN(20), N: 1 + rng.IntN(2), Class: inference.Default, Domain: w.pool.Domain("a"), Tenant: strconv.Itoa(rng.IntN(3))}
			for range 1 + rng.IntN(20) {
				r.Prompt = append(r.Prompt, int32(rng.IntN(2)))
			}
			if _, err := w.submit("r"+strconv.Itoa(i), r); err != nil {
				t.Fatal(err)
			}
			bound += r.N * (len(r.Prompt) + r.MaxTokens)
		}
		w.onPlan = func(before []runner) {
			gave := len(before) > 0 && w.sched.shares.contested(inference.Default) && slices.Contains(w.plan.Preempted, before[0].id) && len(w.plan.Chunks) > 0
			if len(before) > 0 && !gave && !slices.Contains(w.sched.step.seqs, before[0].seq) {
				t.Fatalf("world %d: the first sequence does not advance: %s", seed, w)
			}
			if len(w.plan.Failed) > 0 {
				t.Fatalf("world %d: %v", seed, w.plan.Failed)
			}
		}
		w.drain(bound + 1)
		preemptions += w.sched.Stats().Preemptions
	}
	if preemptions < 200 {
		t.Errorf("the pool was not tight: %d preemptions", preemptions)
	}
}

func TestCheckIsSafeForConcurrentUse(t *testing.T) {
	w := newWorld(t, Config{MaxModelLen: 64}, kvcache.Config{Blocks: 32, BlockTokens: 4})
	done := make(chan error)
	go func() { done <- w.sched.Check(&Request{Prompt: make([]int32, 10), MaxTokens: 10}) }()
	for range 10 {
		if _, err := w.submit("a"+strconv.Itoa(len(w.order)), Request{Prompt: []int32{1}, MaxTokens: 3, Domain: w.pool.Domain("a")}); err != nil {
			t.Fatal(err)
		}
		w.step()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestEnoughEstimateMeansNoPreemption(t *testing.T) {
	reference.Slow(t)
	// Where the estimate is never exceeded, prompts take one step and nothing is
	// shared, the peak formula is exact: what was admitted never lacks a block.
	parallel := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 21))
		w := newWorld(t, Config{
			MaxSeqs: 8, MaxBatchTokens: 400, MaxModelLen: 64, OutputEstimate: 64, WatermarkBlocks: -1, StepLimit: -1,
		}, kvcache.Config{Blocks: 20 + rng.IntN(20), BlockTokens: []int{1, 2, 4, 5}[rng.IntN(4)]})
		w.vocabulary = 50000
		for i := range 30 {
			r := Request{MaxTokens: 1 + rng.IntN(16), N: max(1, rng.IntN(5)-1), Class: inference.Default, Domain: w.pool.Domain("a")}
			for range 1 + rng.IntN(20) {
				r.Prompt = append(r.Prompt, int32(rng.IntN(50000)))
			}
			if err := w.sched.checkSize(w.pool.ShapeOf(kvcache.Domain{}), len(r.Prompt), r.MaxTokens); err != nil {
				continue
			}
			if worst := r.N * blocksFor(finalRows(len(r.Prompt), r.MaxTokens)+1, w.pool.BlockTokens()); worst > w.sched.usable {
				continue // all choices at once are let in when nothing else runs
			}
			if _, err := w.submit("r"+strconv.Itoa(i), r); err != nil {
				t.Fatal(err)
			}
		}
		w.onPlan = func(before []runner) {
			if len(w.plan.Preempted) > 0 {
				t.Fatalf("world %d: %s", seed, w)
			}
			if len(before) > 2 {
				parallel++
			}
		}
		w.drain(5000)
	}
	if parallel < 1000 {
		t.Errorf("only %d steps ran more than two sequences", parallel)
	}
}

// Whatever the number of slots, every choice gets the tokens that it gets with
// a slot for each: choices that wait for one start later from the same prompt.
func TestAnswersDoNotDependOnSlots(t *testing.T) {
	late, preemptions := 0, uint64(0)
	for seed := range uint64(60) {
		var want [][]inference.TokenID
		for i, seqs := range []int{32, 8, 3, 1} {
			rng := rand.New(rand.NewPCG(seed, 23))
			w := newWorld(t, Config{
				MaxSeqs: seqs, MaxBatchTokens: 40, MaxModelLen: 64, OutputEstimate: 1, WatermarkBlocks: -1,
			}, kvcache.Config{Blocks: []int{200, 24, 14, 10}[i], BlockTokens: 4})
			w.vocabulary = 50_000
			for k := range 4 {
				r := Request{MaxTokens: 1 + rng.IntN(12), N: 1 + rng.IntN(8), Class: inference.Class(rng.IntN(2)), Domain: w.pool.Domain("a"), NoCache: rng.IntN(4) == 0}
				if rng.IntN(4) == 0 {
					r.Logits = LogitsAll
				}
				for range 1 + rng.IntN(20) {
					r.Prompt = append(r.Prompt, int32(rng.IntN(50000)))
				}
				if _, err := w.submit("r"+strconv.Itoa(k), r); err != nil {
					t.Fatal(err)
				}
			}
			w.onPlan = func([]runner) { late += len(w.sched.requests.partial) }
			w.drain(4000)
			preemptions += w.sched.Stats().Preemptions
			var got [][]inference.TokenID
			for _, id := range w.order {
				got = append(got, w.jobs[id].outputs...)
			}
			if i == 0 {
				want = got
			} else if !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("world %d: with %d slots the answers are %v, want %v", seed, seqs, got, want)
			}
		}
	}
	if late < 1000 || preemptions < 50 {
		t.Errorf("only %d times a request had choices without a slot, %d preemptions", late, preemptions)
	}
}
