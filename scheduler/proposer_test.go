package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler/cost"
)

// slowProposer is a Proposer on a machine's clock, whose drafts are accepted as the machine says.
type slowProposer struct {
	m         *machine
	step, row time.Duration // of a round: without rows, and each text's
	read      map[SequenceID]int
	share     float64 // of a prompt's row, that it takes longer if it is read along
	hidden    int     // rows that were
	forgotten int
	spent     time.Duration
	rounds    int
}

func (g *slowProposer) Price(texts []DraftText, n int) (reading, proposing time.Duration) {
	behind := 0
	for i := range texts {
		behind += max(0, len(texts[i].IDs)-1-g.read[texts[i].ID])
	}
	if behind > 0 && g.share == 0 {
		reading = g.step + time.Duration(behind)*g.row
	}
	return reading, time.Duration(n) * (g.step + time.Duration(len(texts))*g.row)
}

func (g *slowProposer) Propose(texts []DraftText, n int, _ time.Duration) time.Duration {
	reading, rounds := g.Price(texts, n)
	for i := range texts {
		g.read[texts[i].ID] = len(texts[i].IDs) - 1 + n
		for range n {
			texts[i].Drafts = append(texts[i].Drafts, inference.TokenID(6))
		}
	}
	g.rounds++
	g.spent += reading + rounds
	g.m.now += reading + rounds
	return reading + rounds
}

func (g *slowProposer) HiddenCost(cost.Load) float64 { return g.share }

// hiddenTime is how much longer a step takes whose prompts are read along.
func (g *slowProposer) hiddenTime(p *Plan, row time.Duration) time.Duration {
	n := 0
	for i := range p.Chunks {
		n += p.Chunks[i].Hidden
	}
	g.hidden += n
	return time.Duration(float64(n) * g.share * float64(row))
}

func (g *slowProposer) Forget(id SequenceID) {
	if _, ok := g.read[id]; ok {
		g.forgotten++
	}
	delete(g.read, id)
}

// proposedAlone runs sequences on a machine that proposes.
func proposedAlone(t *testing.T, on bool, sequences, tokens int, chance float64, weights, row time.Duration, cheaper float64, states bool) (took time.Duration, st Stats, g *slowProposer) {
	t.Helper()
	return proposedWith(t, &slowProposer{}, on, sequences, tokens, 300, chance, weights, row, cheaper, states)
}

// proposedWith is proposedAlone with a Proposer that is set up already, and prompts of so many tokens.
func proposedWith(t *testing.T, with *slowProposer, on bool, sequences, tokens, prompt int, chance float64, weights, row time.Duration, cheaper float64,
	states bool,
) (took time.Duration, st Stats, g *slowProposer) {
	t.Helper()
	cfg := Config{MaxSeqs: sequences, MaxBatchTokens: 512, MaxModelLen: 4096, MaxDrafts: 6, LookupMin: 4}
	g = &slowProposer{share: with.share, step: time.Duration(float64(weights) / cheaper), row: time.Duration(float64(row) / cheaper), read: map[SequenceID]int{}}
	if on {
		cfg.Proposer = g
	}
	m := newMachine(t, cfg)
	if states {
		m = newStatefulMachine(t, cfg)
	}
	g.m, m.period = m, 1<<20
	m.took = func(p *Plan) time.Duration { return weights + time.Duration(p.Rows)*row + g.hiddenTime(p, row) }
	rng := rand.New(rand.NewPCG(1, 1))
	m.accept = func() bool { return rng.Float64() < chance }
	for range 6 * sequences {
		m.submit(t, Request{Prompt: text(rng, prompt), MaxTokens: tokens, Speculate: on})
	}
	for m.step() {
	}
	return m.now, m.s.Stats(), g
}

// A model that is six times faster saves time where the weights bind, the more the better it proposes, and none where rows do.
func TestProposalsPay(t *testing.T) {
	for _, c := range []struct {
		sequences int
		chance    float64
		most      float64 // of the time without drafts
	}{{1, 0, 1.01}, {1, 0.6, 0.9}, {1, 0.9, 0.6}, {4, 0.3, 1.01}, {4, 0.9, 0.85}, {16, 0.6, 1.01}, {32, 0.9, 1.01}} {
		plain, _, _ := proposedAlone(t, false, c.sequences, 400, 0, 40*time.Millisecond, 2*time.Millisecond, 6, false)
		with, st, g := proposedAlone(t, true, c.sequences, 400, c.chance, 40*time.Millisecond, 2*time.Millisecond, 6, false)
		share := float64(with) / float64(plain)
		t.Logf("%d sequences, %.1f: %.3f of the time; %d of %d accepted, %d times", c.sequences, c.chance, share, st.AcceptedTokens, st.DraftTokens, g.rounds)
		if share > c.most || g.rounds == 0 {
			t.Errorf("%d sequences of whose drafts %.1f are accepted take %.3f of the time, want %.2f; proposed %d times", c.sequences, c.chance, share, c.most, g.rounds)
		}
	}
}

// coin is a Proposer of a vocabulary of two, which sometimes has not read a text yet.
type coin struct {
	rng  *rand.Rand
	live map[SequenceID]bool
}

func newCoin(seed uint64) *coin {
	return &coin{rand.New(rand.NewPCG(seed, 33)), map[SequenceID]bool{}}
}

func (c *coin) Price(texts []DraftText, n int) (reading, proposing time.Duration) {
	return time.Duration(len(texts)), time.Duration(n)
}

func (c *coin) Propose(texts []DraftText, n int, _ time.Duration) time.Duration {
	for i := range texts {
		c.live[texts[i].ID] = true
		for range c.rng.IntN(n + 1) {
			texts[i].Drafts = append(texts[i].Drafts, inference.TokenID(c.rng.IntN(2)))
		}
	}
	return time.Duration(n)
}

func (c *coin) HiddenCost(cost.Load) float64 { return float64(c.rng.IntN(2)) / 8 }

func (c *coin) Forget(id SequenceID) { delete(c.live, id) }

func TestProposalsChangeNoOutput(t *testing.T) {
	accepted := 0
	for seed := range uint64(80) {
		want, _ := drafted(t, seed, 0, nil)
		proposer := newCoin(seed)
		got, w := draftedBy(t, seed, 5, proposer, nil)
		if got != want {
			t.Fatalf("world %d: with drafts\n%s\nwithout\n%s", seed, got, want)
		}
		if len(proposer.live) > 0 {
			t.Fatalf("world %d: %d sequences that ended are not forgotten", seed, len(proposer.live))
		}
		accepted += w.accepted
	}
	if accepted < 1000 {
		t.Errorf("%d drafts accepted: too few to show anything", accepted)
	}
}

// Whatever drafts cost and however many are accepted: no answers take 2 % longer with them. Trying takes some seconds in all, so they are not the
// first of a server.
func TestProposalsNeverCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 5))
	for range reference.Repeats(4, 30, 400) {
		weights, row := time.Duration(1+rng.IntN(40))*time.Millisecond, time.Duration(1+rng.IntN(10_000))*time.Microsecond
		chance, sequences, states := rng.Float64(), []int{1, 4, 16, 32}[rng.IntN(4)], rng.IntN(2) == 0
		cheaper, tokens := 1+20*rng.Float64(), 400+rng.IntN(800)
		plain, _, _ := proposedAlone(t, false, sequences, tokens, chance, weights, row, cheaper, states)
		with, st, g := proposedAlone(t, true, sequences, tokens, chance, weights, row, cheaper, states)
		if share := float64(with) / float64(plain); share > 1.02 {
			t.Errorf("%d sequences of %d tokens, %.2f are accepted, %v a step and %v a row, %.1f times cheaper, states %v: %.3f of the time, %d of %d accepted, %d times",
				sequences, tokens, chance, weights, row, cheaper, states, share, st.AcceptedTokens, st.DraftTokens, g.rounds)
		}
		if len(g.read) > 0 {
			t.Errorf("%d sequences that ended were not forgotten", len(g.read))
		}
	}
}

// What reads prompts along, as an MTP head does, reads them where drafts pay and costs nothing where they do not: with long prompts of short answers, too.
func TestReadingPromptsAlongNeverCosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 6))
	for range reference.Repeats(10, 30, 400) {
		weights, row := time.Duration(1+rng.IntN(40))*time.Millisecond, time.Duration(1+rng.IntN(10_000))*time.Microsecond
		chance, sequences, states := rng.Float64(), []int{1, 4, 16, 32}[rng.IntN(4)], rng.IntN(2) == 0
		cheaper, tokens, prompt, head := 1+20*rng.Float64(), 20+rng.IntN(600), 100+rng.IntN(1500), &slowProposer{share: 0.1 * rng.Float64()}
		plain, _, _ := proposedWith(t, head, false, sequences, tokens, prompt, chance, weights, row, cheaper, states)
		with, st, g := proposedWith(t, head, true, sequences, tokens, prompt, chance, weights, row, cheaper, states)
		if share := float64(with) / float64(plain); share > 1.02 {
			t.Errorf("%d sequences of %d tokens behind %d, %.2f are accepted, %v a step and %v a row, %.1f times cheaper, %.3f along, states %v: %.3f of the time, "+
				"%d of %d accepted, %d times, %d rows along",
				sequences, tokens, prompt, chance, weights, row, cheaper, head.share, states, share, st.AcceptedTokens, st.DraftTokens, g.rounds, g.hidden)
		}
	}
}

// Where drafts pay, prompts are read along: all of a short one, and of a long one before a short answer the end.
func TestPromptsAreReadAlongWhereThatPays(t *testing.T) {
	for _, c := range []struct {
		tokens, prompt int
		chance         float64
		least, most    float64 // of the prompts' rows
	}{{400, 200, 0.9, 0.8, 1}, {12, 3000, 0.9, 0.02, 0.8}, {400, 200, 0, 0, 0.9}} {
		with, st, g := proposedWith(t, &slowProposer{share: 0.05}, true, 1, c.tokens, c.prompt, c.chance, 40*time.Millisecond, 2*time.Millisecond, 6, false)
		share := float64(g.hidden) / float64(6*c.prompt)
		t.Logf("%d tokens behind %d, %.1f are accepted: %.2f of the rows read, %v, %d of %d accepted", c.tokens, c.prompt, c.chance, share, with, st.AcceptedTokens, st.DraftTokens)
		if share < c.least || share > c.most {
			t.Errorf("%d tokens behind %d, %.1f are accepted: %.2f of the rows are read, want %.2f to %.2f", c.tokens, c.prompt, c.chance, share, c.least, c.most)
		}
	}
}
