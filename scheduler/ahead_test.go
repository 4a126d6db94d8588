package scheduler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
)

// beside has one tenant keep n requests at a time, and another send short prompts, each just after a step has begun.
// Where hangUp is so many steps, the first tenant's clients leave after them, and others come.
// It returns the latter's times to the first token and the longest step, once the machine is known.
func beside(t *testing.T, n, hangUp int, attack func(rng *rand.Rand) Request) (first []time.Duration, longest time.Duration) {
	t.Helper()
	m := newMachine(t, Config{MaxSeqs: 64, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget})
	m.took = speeds
	rng := rand.New(rand.NewPCG(3, 9))
	live := func() int {
		if p := m.s.shares.byKey[shareKey{"many", inference.Default}]; p != nil {
			return p.live
		}
		return 0
	}
	var sent []ID
	steps := 0
	step := func() (took time.Duration) {
		if steps++; hangUp > 0 && steps%hangUp == 0 {
			for _, id := range sent {
				m.s.Cancel(int64(m.now), id, -1)
			}
			sent = sent[:0]
		}
		for live() < n {
			r := attack(rng)
			r.Tenant, r.Class = "many", inference.Default
			sent = append(sent, m.submit(t, r))
		}
		began := m.now
		m.step()
		if m.s.Stats().Steps > 100 {
			longest = max(longest, m.now-began)
		}
		return m.now - began
	}
	for len(first) < 60 {
		for range 4 + rng.IntN(12) {
			step()
		}
		arrived := m.now
		step()
		few := m.submit(t, Request{Tenant: "few", Class: inference.Default, Prompt: text(rng, 8), MaxTokens: 1})
		for m.first[few] == 0 {
			step()
		}
		if m.s.Stats().Steps > 100 {
			first = append(first, m.first[few]-arrived)
		}
	}
	slices.Sort(first)
	return first, longest
}

func TestNewcomersWaitOneAndAHalfSteps(t *testing.T) {
	reference.Slow(t)
	for _, c := range []struct {
		name   string
		n      int
		hangUp int
		attack func(rng *rand.Rand) Request
		step   time.Duration // that none may be longer than
	}{
		{"streams", 30, 0, func(rng *rand.Rand) Request { return Request{Prompt: text(rng, 8), MaxTokens: 300} }, 400 * time.Millisecond},
		{"choices", 2, 0, func(rng *rand.Rand) Request { return Request{Prompt: text(rng, 20), MaxTokens: 32, N: 128} }, 600 * time.Millisecond},
		{"prompts", 6, 0, func(rng *rand.Rand) Request { return Request{Prompt: text(rng, 2000), MaxTokens: 1} }, 300 * time.Millisecond},
		{"hang-ups", 32, 1, func(rng *rand.Rand) Request { return Request{Prompt: text(rng, 1600), MaxTokens: 200} }, 300 * time.Millisecond},
		{"hang-ups after two steps", 32, 2, func(rng *rand.Rand) Request { return Request{Prompt: text(rng, 1600), MaxTokens: 200} }, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, longest := beside(t, c.n, c.hangUp, c.attack)
			t.Logf("first token %v, worst %v, longest step %v", first[len(first)/2], first[len(first)-1], longest)
			if worst := first[len(first)-1]; worst > longest*3/2 {
				t.Errorf("a newcomer waited %v for its first token, the longest step took %v", worst, longest)
			}
			if longest > c.step {
				t.Errorf("a step took %v, want at most %v with several tenants", longest, c.step)
			}
		})
	}
}

// In random worlds with short steps, a sequence that is left out has a row in the next step, the first sequence has one in each,
// and all requests end.
func TestShortStepsOfRandomWorlds(t *testing.T) {
	reference.Slow(t)
	short, left := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 21))
		w := newWorld(t, Config{MaxSeqs: 24, MaxBatchTokens: 64, MaxModelLen: 64, WatermarkBlocks: -1}, kvcache.Config{Blocks: 60 + rng.IntN(120), BlockTokens: 4})
		w.took = func(p *Plan) int64 { return 1000 + 100*int64(p.Rows) }
		submit := func(tenant string, weight, tokens int) {
			r := Request{Tenant: tenant, Weight: weight, MaxTokens: tokens + rng.IntN(20), N: 1 + rng.IntN(2), Class: inference.Default + inference.Class(rng.IntN(8)/7), Domain: w.pool.Domain("a")}
			for range 1 + rng.IntN(12) {
				r.Prompt = append(r.Prompt, int32(rng.IntN(50)))
			}
			if _, err := w.submit(tenant+strconv.Itoa(len(w.order)), r); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			submit("many", 1, 20)
		}
		before := map[*sequence]bool{} // left out of the last step
		w.onPlan = func(rs []runner) {
			w.checkNoOneSkipped(rs)
			now := map[*sequence]bool{}
			for _, r := range rs {
				if r.decoding && w.sched.shortSteps.leftOut(r.seq) && slices.Contains(w.sched.sequences.running, r.seq) {
					now[r.seq] = true
					if before[r.seq] {
						t.Fatalf("world %d: %s is left out of two steps in a row", seed, w.jobs[r.id].name)
					}
				}
			}
			if len(now) > 0 {
				short++
				left += len(now)
			}
			before = now
			if len(rs) > 0 && rs[0].decoding && !slices.Contains(w.sched.step.seqs, rs[0].seq) && len(w.plan.Preempted) == 0 && w.sched.sequences.running[0] == rs[0].seq {
				t.Fatalf("world %d: the first sequence does not advance: %s", seed, w)
			}
		}
		for range 200 {
			w.step()
			switch rng.IntN(8) {
			case 0:
				submit("few", 1+rng.IntN(2), 1)
			case 1, 2:
				submit("many", 1, 20)
			}
		}
		w.drain(20000)
	}
	if short < 60 || left < 300 {
		t.Errorf("%d short steps left out %d outputs: too few to show anything", short, left)
	}
}

// closedLoop has clients of some tenants that each send a request when their last one has ended, on a machine whose shortest step
// takes 4 ms, and returns the tokens of prompts and outputs that it computes in a second.
func closedLoop(t *testing.T, clients, tenants int) float64 {
	t.Helper()
	m := newMachine(t, Config{MaxSeqs: 64, MaxBatchTokens: 512, MaxModelLen: 2048, ITLTarget: itlTarget})
	m.took = func(p *Plan) time.Duration { return speeds(p) / 8 }
	rng := rand.New(rand.NewPCG(7, 1))
	live := make([]ID, clients)
	tokens, from := 0, time.Duration(0)
	for steps := range 4000 {
		for i, id := range live {
			if id != 0 && m.s.requests.find(id) != nil {
				continue
			}
			if steps > 1000 {
				tokens += 150 + 32
			} else {
				from = m.now
			}
			live[i] = m.submit(t, Request{Prompt: text(rng, 100+rng.IntN(100)), MaxTokens: 32, Tenant: strconv.Itoa(i % tenants), Class: inference.Default})
		}
		m.step()
	}
	return float64(tokens) / (m.now - from).Seconds()
}

// Tenants with as many requests as each other get as many tokens together as one with all of them.
func TestSeveralTenantsGetAsMuchAsOne(t *testing.T) {
	reference.Slow(t)
	for _, clients := range []int{16, 32} {
		one := closedLoop(t, clients, 1)
		for _, tenants := range []int{2, 4} {
			several := closedLoop(t, clients, tenants)
			t.Logf("%d clients: of one tenant %.0f tokens a second, of %d %.3f times as many", clients, one, tenants, several/one)
			if several < 0.98*one {
				t.Errorf("%d clients of %d tenants get %.0f tokens a second, of one %.0f", clients, tenants, several, one)
			}
		}
	}
}

// A tenant that sends in waves is not crowded by those of its size while it is between two of them; one that has sent one request at a
// time is.
func TestWhoSendsInWavesIsNotCrowded(t *testing.T) {
	m := newMachine(t, Config{MaxSeqs: 64, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget})
	m.took = func(*Plan) time.Duration { return 10 * time.Millisecond }
	rng := rand.New(rand.NewPCG(5, 1))
	send := func(tenant string, n, tokens int) {
		for range n {
			m.submit(t, Request{Tenant: tenant, Class: inference.Default, Prompt: text(rng, 8), MaxTokens: tokens})
		}
	}
	wave := func() *tenantShare { return m.s.shares.byKey[shareKey{"wave", inference.Default}] }
	end := func() {
		for wave() != nil {
			m.step()
		}
	}
	send("other", 4, 4000)
	send("wave", 4, 5)
	end()
	m.step()
	send("wave", 1, 5)
	if m.s.shares.isCrowded(wave()) {
		t.Error("a tenant whose four requests have just ended is crowded by one with four")
	}
	end()
	for from := m.now; m.now-from <= recentPeakTime; {
		m.step()
	}
	send("wave", 1, 5)
	if !m.s.shares.isCrowded(wave()) {
		t.Error("a tenant with one request for longer than recentTime is not crowded by one with four")
	}
}
