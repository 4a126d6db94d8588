package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
)

// filled has one tenant keep 64 answers of 4,000 tokens at a time, of which one alone takes nearly the whole cache, and,
// unless it is alone, another send prompts of so many tokens, one after the other. It returns how many steps each of the
// latter's first tokens took, and how many tokens of outputs the former got per second.
func filled(t *testing.T, prompt int, alone bool) (first []int, pace float64) {
	t.Helper()
	pool, err := kvcache.New(kvcache.Config{Blocks: 1 + 338, BlockTokens: 16, ModelDigest: "m", KVType: "f16", FloorPercent: 50})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{MaxSeqs: 64, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget}, pool)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{s: s, pool: pool, last: map[ID]time.Duration{}, first: map[ID]time.Duration{}, took: speeds}
	rng := rand.New(rand.NewPCG(3, 9))
	var many []ID
	tokens := 0
	step := func() {
		many = slices.DeleteFunc(many, func(id ID) bool { return s.requests.find(id) == nil })
		for len(many) < 64 {
			many = append(many, m.submit(t, Request{Prompt: text(rng, 1300), MaxTokens: 4000, Tenant: "many", Class: inference.Default}))
		}
		m.step()
		for i := range m.plan.Chunks {
			if c := &m.plan.Chunks[i]; c.Decode && slices.Contains(many, c.Request) {
				tokens++
			}
		}
		if err := s.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
	prefix := text(rng, prompt)
	for steps := func() uint64 { return s.Stats().Steps }; steps() < 12_000; {
		for range 4 + rng.IntN(12) {
			step()
		}
		if alone {
			continue
		}
		before := steps()
		few := m.submit(t, Request{Tenant: "few", Class: inference.Default, Prompt: append(prefix[:prompt:prompt], text(rng, 12)...), MaxTokens: 8})
		for m.first[few] == 0 {
			step()
		}
		first = append(first, int(steps()-before)) //nolint:gosec // small
		for s.requests.find(few) != nil {
			step()
		}
	}
	slices.Sort(first)
	return first, float64(tokens) / m.now.Seconds()
}

// A tenant within its share of the blocks waits neither for the end of an answer that has nearly all of them, nor behind
// the other's preempted sequences.
func TestATenantThatFillsTheCacheKeepsNoOneWaiting(t *testing.T) {
	reference.Slow(t)
	_, alone := filled(t, 0, true)
	for _, c := range []struct {
		prompt, p90, worst int
		pace               float64 // of the other's outputs, of what they have alone
	}{{80, 2, 10, 0.5}, {330, 2, 40, 0.5}, {1235, 20, 250, 0.4}} {
		first, pace := filled(t, c.prompt, false)
		n := len(first)
		t.Logf("prompt of %d tokens: %d first tokens, after %d steps at p50, %d at p99, %d at worst; the other's outputs have %.1f tokens/s (alone %.1f)",
			c.prompt, n, first[n/2], first[n*99/100], first[n-1], pace, alone)
		if first[n-1] > c.worst || first[n*9/10] > c.p90 {
			t.Errorf("prompt of %d tokens: a first token took %d steps, p90 %d", c.prompt, first[n-1], first[n*9/10])
		}
		if pace < c.pace*alone {
			t.Errorf("prompt of %d tokens: the other tenant has %.1f tokens/s, alone %.1f", c.prompt, pace, alone)
		}
	}
}

// What a tenant has cached is there for its next request, although the answers of another one take all other blocks: the floor of its
// prefix cache is not evicted for them. A request needs a step then, and never one of its own for what was computed before.
func TestACachedPrefixStaysBesideAnswersThatFillTheCache(t *testing.T) {
	const prompt = 1235 // 78 of 338 blocks; the floor of two tenants is 84
	pool, err := kvcache.New(kvcache.Config{Blocks: 1 + 338, BlockTokens: 16, ModelDigest: "m", KVType: "f16", FloorPercent: 50})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{MaxSeqs: 64, MaxBatchTokens: 512, MaxModelLen: 8192, ITLTarget: itlTarget}, pool)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{s: s, pool: pool, last: map[ID]time.Duration{}, first: map[ID]time.Duration{}, took: speeds}
	rng := rand.New(rand.NewPCG(3, 9))
	var many []ID
	step := func() {
		many = slices.DeleteFunc(many, func(id ID) bool { return s.requests.find(id) == nil })
		for len(many) < 64 {
			many = append(many, m.submit(t, Request{Prompt: text(rng, 100+rng.IntN(400)), MaxTokens: 1500, Tenant: "many", Class: inference.Default}))
		}
		m.step()
		if err := s.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
	prefix := text(rng, prompt-12)
	for i := range 150 {
		for range 4 + rng.IntN(12) {
			step()
		}
		before := s.Stats().Steps
		few := m.submit(t, Request{Tenant: "few", Class: inference.Default, Prompt: append(prefix[:prompt-12:prompt-12], text(rng, 12)...), MaxTokens: 8})
		r, cached := s.requests.find(few), 0
		for m.first[few] == 0 {
			step()
			cached = r.cached
		}
		if took := s.Stats().Steps - before; i > 0 && (cached < prompt/16*16-16 || took > 3) {
			t.Fatalf("request %d: %d of %d tokens were cached; the first token took %d steps", i, cached, prompt, took)
		}
		for s.requests.find(few) != nil {
			step()
		}
	}
}
