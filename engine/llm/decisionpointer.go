package llm

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/inference"
)

// Language models whose files have a decision type are asked with a prompt of their own, and answer in one of two ways, as llama.cpp's
// server has them. Most answer with a token, a label of each option, which needs nothing of the engine. Those of type kev have a head: the
// output of a row is a query and a key, and an option, which ends at a mark, is as probable as the key of the mark's row fits the query
// of the prompt's last row: query · key / √n. These scores stand where log-probabilities of given tokens would.

// DecisionPointer is the decision.type of language models with a head.
const DecisionPointer = "kev"

// DecisionLabels are the decision types of language models that answer with labels.
var DecisionLabels = []string{"openjev", "lev", "nimble", "pplx-decider", "lfm2-d1"}

// points reports whether a job's rows go through the decision head, and not to logits.
func (j *job) points() bool { return j.req.Marks != nil }

// kinds says which of rows [lo,hi) need logits, and which the decision head: any of them.
func (o *outputs) kinds(lo, hi int) (words, points bool) {
	for i := lo; i < hi; i++ {
		if o.plan.Chunks[o.rows[i].chunk].User.(*job).points() {
			points = true
		} else {
			words = true
		}
	}
	return words, points
}

// point passes the tile's rows through the decision head, and keeps the keys of those at marks: a prompt may take several steps.
func (o *outputs) point(hidden []float32, n int) {
	w := &o.e.model.pointer
	grow(&o.points, n*w.w.Rows)
	o.e.cpu.MatMul(o.points, w.w, hidden, n, w.bias)
	size := w.w.Rows / 2
	for i := range n {
		r := &o.rows[o.tile+i]
		j := o.plan.Chunks[r.chunk].User.(*job)
		if k, marked := slices.BinarySearch(j.req.Marks, r.pos); marked {
			if j.keys == nil {
				j.keys = make([][]float32, len(j.req.Marks))
			}
			j.keys[k] = slices.Clone(o.points[i*w.w.Rows+size : (i+1)*w.w.Rows])
		}
	}
}

// fit gives the scores of the options, of the last row of a prompt with marks: at a fork of all choices.
func (o *outputs) fit(i int) {
	r := &o.rows[i]
	c := &o.plan.Chunks[r.chunk]
	j := c.User.(*job)
	rows := o.e.model.pointer.w.Rows
	query := o.points[(i-o.tile)*rows:][:rows/2]
	for s := range c.Samples {
		choice := s
		if c.Samples == 1 {
			choice = c.Choice
		}
		if choice >= len(j.keys) || j.keys[choice] == nil {
			r.err = fmt.Errorf("%w: the row of mark %d was not computed", inference.ErrInternal, choice)
			return
		}
		sum := 0.0
		for k, q := range query {
			sum += float64(q) * float64(j.keys[choice][k])
		}
		score := float32(sum / math.Sqrt(float64(rows/2)))
		if math.IsNaN(float64(score)) || math.IsInf(float64(score), 0) {
			r.err = fmt.Errorf("%w: the decision head gave no finite score at position %d", inference.ErrInternal, r.pos)
			return
		}
		r.samples = append(r.samples, inference.Event{Kind: inference.EventToken, Choice: choice, Token: j.req.Given[choice][0], Logprob: score})
	}
}

// wantPointer wants the matrix of queries and keys of a decision head.
func (w *weights) wantPointer(l *loader, h *hparams, p *plan) {
	if h.decision.pointer == 0 {
		return
	}
	if p.logits != 0 && p.logits != 1 {
		l.fail("%s.logit_scale is not 1 beside a decision head, whose scores it would change", h.arch.name)
	}
	l.linear(&w.pointer, "cls.output", required, 2*h.decision.pointer, h.width)
}
