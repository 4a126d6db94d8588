package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/reference"
)

// conversation is one of several turns that begins with a system prompt.
type conversation struct {
	ids   []int32
	turns int
}

// turn computes a conversation's next prompt and answer, in chunks as an engine does, and returns how many tokens of the prompt
// were cached and how many could have been.
func (c *conversation) turn(t *testing.T, p *Pool, rng *rand.Rand, known map[string]bool) (hit, could int) {
	t.Helper()
	n := p.BlockTokens()
	words := func(n int) {
		for range n {
			c.ids = append(c.ids, rng.Int32N(1<<20))
		}
	}
	words(20 + rng.IntN(150))
	prompt := len(c.ids)
	for could+n < prompt && known[prefixOf(c.ids[:could+n])] {
		could += n
	}
	d := p.Domain("t")
	h := p.Match(d, c.ids, prompt-1)
	var s Table
	var copies []Copy
	p.Begin(&s, d)
	s.Expect(prompt)
	for rows := 0; rows < prompt; {
		if !p.Grow(&s, prompt, h, &copies) {
			t.Fatalf("no room for %d rows: %+v", prompt, p.Stats())
		}
		rows = min(prompt, s.Grown())
		p.Commit(&s, c.ids, rows)
	}
	words(40 + rng.IntN(200))
	for rows := prompt + 1; rows < len(c.ids); rows++ {
		if !p.Grow(&s, rows, Hit{}, &copies) {
			t.Fatalf("no room for row %d: %+v", rows, p.Stats())
		}
		p.Commit(&s, c.ids, rows)
	}
	for end := n; end < len(c.ids); end += n {
		known[prefixOf(c.ids[:end])] = true
	}
	p.Release(&s)
	return h.Tokens, could
}

// prefixOf is short for a prefix: ids are drawn from a million.
func prefixOf(ids []int32) string { return fmt.Sprint(len(ids), ids[len(ids)-3:]) }

// Conversations of several turns over shared system prompts find what was computed before in a pool of windows that has room
// for a quarter more than they use, and not for all that their windows have passed.
func TestWindowsKeepWhatConversationsUse(t *testing.T) {
	reference.Slow(t)
	for _, windows := range [][]int{{0, 512, 512, 512, 512, 512, 512}, {0, 128}, {0, 512, 512, 0, 1024, 1024}} {
		rng := rand.New(rand.NewPCG(1, 2))
		systems := make([][]int32, 12)
		for i := range systems {
			for range 600 + rng.IntN(1500) {
				systems[i] = append(systems[i], rng.Int32N(1<<20))
			}
		}
		config := Config{BlockTokens: 16, Windows: windows, StepRows: 256}
		use := Config{BlockTokens: 16, Windows: windows, StepRows: 1}
		config.Blocks = (12*use.Need(1500) + 16*use.Need(1200) + config.Need(6000)) * 5 / 4 // system prompts, what conversations add, one that runs
		p := newPool(t, config)
		live, known := make([]conversation, 16), map[string]bool{}
		hits, could, passed := 0, 0, 0
		for range 1200 {
			c := &live[rng.IntN(len(live))]
			if c.turns == 0 {
				c.ids, c.turns = append([]int32(nil), systems[rng.IntN(len(systems))]...), 2+rng.IntN(6)
			}
			c.turns--
			h, most := c.turn(t, p, rng, known)
			hits, could = hits+min(h, most), could+most
			passed += len(c.ids) - h
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		if share := float64(hits) / float64(could); share < 0.95 {
			t.Errorf("windows %v: %.1f %% of the tokens that were computed before were cached, want 95", windows, 100*share)
		} else {
			t.Logf("windows %v: %.1f %% of %d tokens, %d were computed in %d blocks", windows, 100*share, could, passed, p.Usable())
		}
	}
}
