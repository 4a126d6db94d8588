package scheduler

import (
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// Proposer proposes the next tokens of outputs with something of its own, such as a small model. Plan calls it, at most once, and the time that
// it takes is a part of the step.
type Proposer interface {
	// Price estimates what Propose takes: to read what it has not read of the texts, and then to propose n tokens of each.
	Price(texts []DraftText, n int) (reading, proposing time.Duration)
	// Propose sets Drafts of texts, up to n tokens each; nil where it has not read all of a text yet. It reads for about so long at most, and tells
	// how long it took in all.
	Propose(texts []DraftText, n int, reading time.Duration) time.Duration
	// HiddenCost is by what share of its time a chunk of a prompt takes longer of which the Proposer gets the hidden states, see Chunk.Hidden; 0: it
	// wants none.
	HiddenCost(chunk cost.Load) float64
	// Forget is told that a sequence has ended.
	Forget(SequenceID)
}

// SequenceID names a sequence among those that live.
type SequenceID struct {
	Request ID
	Choice  int
}

// DraftText is a text whose next tokens are proposed.
type DraftText struct {
	ID     SequenceID
	Domain kvcache.Domain
	IDs    []inference.TokenID // valid until Propose returns
	Drafts []inference.TokenID // valid until the next Propose
}

// proposals is the drafter's part that asks the Proposer.
type proposals struct {
	texts   []DraftText
	asked   []*sequence   // of the texts
	reached []float64     // of each text, how likely all drafts so far are accepted
	took    time.Duration // of the plan in the making, or out

	accepted, judged float64     // of all sequences, with fading weight
	trial            draftRecord // of drafts where they do not pay
	saves            float64     // nanoseconds that the drafts of a text's step are expected to save, of late; 0 where they do not pay
}

const (
	acceptanceFade = 0.99
	priorWeight    = 4 // drafts that the prior rate counts for
	savesFade      = 1.0 / 16
	minJudged      = 16 // drafts that were judged; before, one text is tried
)

// learn takes in how drafts of a sequence fared.
func (g *proposals) learn(planned, accepted int) {
	g.accepted = g.accepted*acceptanceFade + float64(accepted)
	g.judged = g.judged*acceptanceFade + float64(min(accepted+1, planned))
	g.trial.learn(planned, accepted)
}

// priorRate is what share of a new sequence's drafts is expected to be accepted.
func (g *proposals) priorRate() float64 {
	return (g.accepted + priorWeight*priorRates[Proposed]) / (g.judged + priorWeight)
}

// askProposer drafts what the Proposer proposes, of outputs that have no drafts, as many tokens of each as save most.
func (d *drafter) askProposer(token time.Duration) {
	g := &d.proposals
	if d.cfg.Proposer == nil || d.cfg.MaxDrafts == 0 || !d.cost.Ready() {
		return
	}
	g.texts, g.asked = g.texts[:0], g.asked[:0]
	for _, q := range d.sequences.running {
		if q.rows == 1 && q.replay == 0 && q.decoding() && q.req.Speculate && q.req.Given == nil && q.req.limit-q.produced > 1 {
			g.asked = append(g.asked, q)
			g.texts = append(g.texts, DraftText{ID: SequenceID{q.req.id, q.choice}, Domain: q.req.Domain, IDs: q.ids})
		}
	}
	n := d.worthwhile(token)
	if n == 0 {
		return
	}
	reading, rounds := d.cfg.Proposer.Price(g.texts, n)
	spare := d.pacer.limit - d.cost.Estimate(d.pacer.load) - d.took(n)
	g.took = d.cfg.Proposer.Propose(g.texts, n, min(reading, max(spare, 0)))
	each := (reading + rounds) / time.Duration(len(g.texts))
	for i, q := range g.asked {
		drafts := g.texts[i].Drafts
		most := min(len(drafts), d.pacer.budget, q.req.limit-q.produced-1)
		if most <= 0 {
			continue
		}
		q.ids = append(q.ids, drafts[:most]...)[:len(q.ids)]
		d.take(q, most, draftForecast{kind: Proposed, token: token, took: each})
	}
}

// worthwhile is how many tokens to propose of each text, and leaves out texts that are not worth reading; 0: nothing is.
func (d *drafter) worthwhile(token time.Duration) int {
	g := &d.proposals
	if len(g.texts) == 0 {
		return 0
	}
	if d.cfg.EveryDraft {
		return d.cfg.MaxDrafts
	}
	n, net := d.best(token)
	g.saves += (net/float64(len(g.texts)) - g.saves) * savesFade
	switch {
	case n == 0:
		d.keepNearest()
		reading, _ := d.cfg.Proposer.Price(g.texts, 1)
		if !d.balance.allows(float64(reading+d.took(1)), token) || g.trial.retry() == 0 {
			return 0
		}
		return 1
	case g.judged < minJudged:
		d.keepNearest()
		n, _ = d.best(token)
	case d.keepReadable(net / float64(len(g.texts))):
		n, _ = d.best(token)
	}
	return n
}

// keepNearest leaves out all texts but the one of which the least is to be read.
func (d *drafter) keepNearest() {
	g := &d.proposals
	best, least := 0, time.Duration(0)
	for i := range g.texts {
		if reading, _ := d.cfg.Proposer.Price(g.texts[i:i+1], 0); i == 0 || reading < least {
			best, least = i, reading
		}
	}
	g.asked[0], g.texts[0] = g.asked[best], g.texts[best]
	g.asked, g.texts = g.asked[:1], g.texts[:1]
}

// best is the number of drafts of each text that is expected to save most, and how much, in nanoseconds; reading is not counted.
func (d *drafter) best(token time.Duration) (n int, net float64) {
	g := &d.proposals
	if len(g.texts) == 0 {
		return 0, 0
	}
	g.reached = slices.Grow(g.reached[:0], len(g.texts))
	for range g.texts {
		g.reached = append(g.reached, 1)
	}
	saved, again := 0.0, 0.0 // time, and rows that are computed again
	start, row := d.cost.Estimate(d.pacer.load), float64(d.marginal())
	for k := 1; k <= d.cfg.MaxDrafts; k++ {
		for i, q := range g.asked {
			rate := q.records[Proposed].acceptanceRate(g.priorRate())
			again += g.reached[i] * (1 - rate) * float64(k)
			g.reached[i] *= rate
			saved += g.reached[i] * float64(token)
		}
		took := d.took(k)
		if start+took > d.pacer.limit || d.pacer.budget < k*len(g.texts) {
			break
		}
		sum := saved - float64(took)
		if d.pool.Stateful() {
			sum -= replayCost * again * row
		}
		if sum <= net {
			break
		}
		n, net = k, sum
	}
	return n, net
}

// marginal is what one more row takes.
func (d *drafter) marginal() time.Duration {
	return d.cost.Estimate(d.pacer.load.Add(cost.Load{Rows: 1})) - d.cost.Estimate(d.pacer.load)
}

// took is what k drafts of each text take, to propose and to verify.
func (d *drafter) took(k int) time.Duration {
	g, load := &d.proposals, d.pacer.load
	for _, q := range g.asked {
		load = load.Sub(q.load(1, d.pacer.cfg.Attention)).Add(q.load(1+k, d.pacer.cfg.Attention))
	}
	_, rounds := d.cfg.Proposer.Price(g.texts, k)
	return rounds + d.cost.Estimate(load) - d.cost.Estimate(d.pacer.load)
}

// keepReadable leaves out texts whose reading takes longer than half of what their drafts are expected to save until they end, each so much
// in a step. It reports whether it left out any.
func (d *drafter) keepReadable(each float64) (left bool) {
	g, kept := &d.proposals, 0
	for i, q := range g.asked {
		reading, _ := d.cfg.Proposer.Price(g.texts[i:i+1], 0)
		if float64(reading) > each/2*float64(max(1, d.forecast.left(q.req, q.produced)/2)) {
			left = true
			continue
		}
		g.asked[kept], g.texts[kept] = q, g.texts[i]
		kept++
	}
	g.asked, g.texts = g.asked[:kept], g.texts[:kept]
	return left
}
