package scheduler

import (
	"time"

	"weir/scheduler/cost"
)

// A Proposer may propose by the model's hidden states, as an MTP head does: it reads a prompt when the step computes it, or never. So what that takes is
// decided when the prompt's rows are planned. Rows that it did not read it does without; the last ones of a prompt tell it most.

// hiddenTrial is how many rows of a prompt are read along while little is known of drafts.
const hiddenTrial = 256

// planHidden has the Proposer read planned rows of prompts along, as many of the last ones of each as its drafts are expected to pay.
func (d *drafter) planHidden() {
	if d.cfg.Proposer == nil || d.cfg.MaxDrafts == 0 {
		return
	}
	for _, q := range d.step.seqs {
		if q.produced == 0 && q.req.Speculate && q.req.Given == nil && q.req.limit > 1 {
			d.planHiddenOf(q)
		}
	}
}

// planHiddenOf decides it of one prompt.
func (d *drafter) planHiddenOf(q *sequence) {
	load := q.load(q.rows, d.pacer.cfg.Attention)
	share := d.cfg.Proposer.HiddenCost(load)
	if share <= 0 {
		return
	}
	chunk := d.cost.Estimate(d.pacer.load) - d.cost.Estimate(d.pacer.load.Sub(load))
	row := share * float64(chunk) / float64(q.rows)
	first := max(q.computed, len(q.ids)-d.hiddenRows(q, row))
	n := max(0, q.computed+q.rows-first)
	d.step.plan.Chunks[q.chunk].Hidden = n
	took := row * float64(n)
	d.proposals.took += time.Duration(took)
	d.balance.settle(took, 0)
}

// hiddenRows is how many of the last rows of a prompt are worth what each takes longer.
func (d *drafter) hiddenRows(q *sequence, row float64) int {
	g, all := &d.proposals, q.pending()
	switch {
	case d.cfg.EveryDraft || row == 0 && d.cost.Ready():
		return all
	case !d.cost.Ready():
		return 0
	case g.judged < minJudged:
		n, token := min(all, hiddenTrial), d.cost.Estimate(cost.Load{Rows: 1, Outputs: 1})
		if !d.balance.allows(row*float64(n), token) {
			return 0
		}
		return n
	}
	return int(min(float64(all), g.saves/2*float64(d.forecast.left(q.req, 0)/2)/row))
}
