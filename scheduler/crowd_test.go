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

// mostWait is how many times as long as everybody's requests take one after the other a request may wait for its first token: it is passed
// OvertakeLimit times at most, by others that the cache is dear to, and a preempted answer is computed again in between.
const mostWait = 40

// Tenants whose requests do not fit into the cache together all get on, whatever their sizes.
func TestTenantsThatDoNotFitTogetherAllGetOn(t *testing.T) {
	reference.Slow(t)
	seeds := uint64(reference.Repeats(6, 8, 24)) //nolint:gosec // few
	worst := 0.0
	for seed := range seeds {
		worst = max(worst, crowd(t, seed))
	}
	t.Logf("the longest wait took %.1f times as many steps as everybody's requests one after the other", worst)
}

// client sends a request of a tenant after the other.
type client struct {
	tenant         string
	prompt, output int
	prefix         []inference.TokenID
	live           ID
	sent           uint64 // step
	ended          int
	pause          int // steps until the next one
}

// crowd has clients of several tenants send requests of up to nine tenths of a cache, until each has had six answered. It returns the longest
// wait for a first token, by the steps of everybody's requests one after the other.
func crowd(t *testing.T, seed uint64) (worst float64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	blocks := 40 + rng.IntN(80)
	pool, err := kvcache.New(kvcache.Config{Blocks: 1 + blocks, BlockTokens: 16, ModelDigest: "m", KVType: "f16", FloorPercent: rng.IntN(101)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{MaxSeqs: 8, MaxBatchTokens: 64, MaxModelLen: 16 * blocks, ITLTarget: itlTarget}, pool)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{s: s, pool: pool, last: map[ID]time.Duration{}, first: map[ID]time.Duration{}, took: speeds}
	var clients []*client
	serial := 0
	for tenant := range 2 + rng.IntN(3) {
		size, steady := 0.1+0.8*rng.Float64(), rng.IntN(3) == 0
		for range 1 + rng.IntN(4) {
			rows := int(size * float64(16*blocks))
			c := &client{tenant: string(rune('a' + tenant)), output: 1 + rng.IntN(min(rows-1, 200)), pause: -1}
			if c.prompt = rows - c.output; !steady {
				c.pause = rng.IntN(40)
			}
			c.prefix = text(rng, rng.IntN(c.prompt))
			serial += c.prompt/4 + c.output
			clients = append(clients, c)
		}
	}
	for {
		busy := false
		for _, c := range clients {
			switch {
			case c.live != 0 && s.requests.find(c.live) != nil:
				if wait := float64(s.Stats().Steps-c.sent) / float64(serial); m.first[c.live] == 0 {
					if worst = max(worst, wait); wait > mostWait {
						t.Errorf("seed %d: a request of tenant %s with %d and %d tokens of %d waits for %d steps: %+v", seed, c.tenant, c.prompt, c.output, 16*blocks, s.Stats().Steps-c.sent, s.Stats())
						return worst
					}
				}
			case c.live != 0:
				c.live = 0
				c.ended++
			case c.pause < 0 || rng.IntN(c.pause+1) == 0:
				c.live = m.submit(t, Request{Tenant: c.tenant, Class: inference.Default, Prompt: append(slices.Clip(c.prefix), text(rng, c.prompt-len(c.prefix))...), MaxTokens: c.output})
				c.sent = s.Stats().Steps
			}
			busy = busy || c.ended < 6
		}
		if !busy {
			return worst
		}
		if steps := s.Stats().Steps; steps > uint64(400*serial) { //nolint:gosec // small
			t.Fatalf("seed %d: after %d steps not everybody has had six answers: %+v", seed, steps, s.Stats())
		}
		m.step()
		if err := s.CheckInvariants(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
