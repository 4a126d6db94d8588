package llm

import (
	"fmt"
	"math"
	"time"

	"weir/engine/sample"
	"weir/internal/inference"
	"weir/scheduler"
)

// logitTile is the most rows whose logits exist at one time: the output matrix
// is read once per tile, and a tile of a 128k vocabulary is 32 MiB.
const logitTile = 64

// outputs turns the hidden states of a step into logits, tokens, logprobs and
// pooled vectors. Rows of a tile are sampled in parallel, each with its own
// sampler, so the order in which workers take them does not matter.
type outputs struct {
	e      *Engine
	rows   []outputRow
	pooled []pooledRow
	logits []float32 // [logitTile][vocab]
	tile   int       // first row of the tile in work
	raw    [][]float32
	work   []sample.Scratch
	plan   *scheduler.Plan

	tokens []inference.TokenID // backs results
	stop   []bool
}

// outputRow is one row with logits: of which chunk, at which position, and
// what came of it.
type outputRow struct {
	chunk   int
	pos     int
	last    bool // of its chunk: sampled from, where the chunk samples
	prompt  inference.Event
	samples []inference.Event
	err     error
}

// pooledRow is one row whose hidden state is pooled.
type pooledRow struct {
	job *job
	pos int
}

func (o *outputs) init(e *Engine) {
	o.e = e
	o.raw = make([][]float32, e.cpu.Threads())
	o.work = make([]sample.Scratch, e.cpu.Threads())
}

func (o *outputs) reset() {
	o.rows, o.pooled = o.rows[:0], o.pooled[:0]
}

// add notes a row; its slot keeps the memory of earlier steps.
func (o *outputs) add(chunk, pos int, last bool) {
	n := len(o.rows)
	if n < cap(o.rows) {
		o.rows = o.rows[:n+1]
	} else {
		o.rows = append(o.rows, outputRow{})
	}
	r := &o.rows[n]
	*r = outputRow{chunk: chunk, pos: pos, last: last, samples: r.samples[:0]}
}

// run computes logits tile by tile, samples, and pools.
func (o *outputs) run(l *loop) {
	m, b := o.e.model, &l.batch
	o.plan = &l.plan
	grow(&o.logits, min(len(o.rows), logitTile)*m.vocab)
	for o.tile = 0; o.tile < len(o.rows); o.tile += logitTile {
		n := min(logitTile, len(o.rows)-o.tile)
		m.logits(o.e.cpu, o.logits, b.hidden[o.tile*m.width:], n)
		o.e.cpu.Run(o, n, 1)
	}
	for i, p := range o.pooled {
		p.job.pool(b.hidden[(len(o.rows)+i)*m.width:][:m.width], p.pos)
	}
}

// Do handles one row of the tile.
func (o *outputs) Do(worker, item int) {
	r := &o.rows[o.tile+item]
	c := &o.plan.Chunks[r.chunk]
	j := c.User.(*job)
	logits := o.logits[item*o.e.model.vocab:][:o.e.model.vocab]
	if !sample.Finite(logits) {
		r.err = fmt.Errorf("%w: the model gave no finite logit at position %d", inference.ErrInternal, r.pos)
		return
	}
	if next := r.pos + 1; j.req.PromptLogprobs >= 0 && next < len(j.req.Prompt) {
		id := j.req.Prompt[next]
		lp, top := sample.Logprob(logits, id, j.req.PromptLogprobs)
		r.prompt = inference.Event{Kind: inference.EventPrompt, Token: id, Logprob: lp, Top: top}
	}
	if r.last && c.Samples > 0 {
		o.sample(worker, r, c, logits)
	}
}

// sample draws one token, or at a fork one for each choice from a copy of the
// row, which sampling overwrites.
func (o *outputs) sample(worker int, r *outputRow, c *scheduler.Chunk, logits []float32) {
	j := c.User.(*job)
	row, keep := logits, j.req.Sampling.Logprobs >= 0 || c.Samples > 1
	if keep {
		grow(&o.raw[worker], len(logits))
		row = o.raw[worker]
	}
	for i := range c.Samples {
		if keep {
			copy(row, logits)
		}
		choice := c.Choice + i
		ev := inference.Event{Kind: inference.EventToken, Choice: choice}
		ev.Token = j.samplers[choice].Sample(row, &o.work[worker])
		if j.req.Sampling.Logprobs >= 0 {
			ev.Logprob, ev.Top = sample.Logprob(logits, ev.Token, j.req.Sampling.Logprobs)
		}
		r.samples = append(r.samples, ev)
	}
}

// emit pushes the step's events and fills the scheduler's results.
func (l *loop) emit(now time.Time) {
	o := &l.out
	l.results = l.results[:0]
	total := 0
	for i := range l.plan.Chunks {
		l.results = append(l.results, scheduler.Result{})
		total += l.plan.Chunks[i].Samples
	}
	o.tokens, o.stop = o.tokens[:0], o.stop[:0]
	if cap(o.tokens) < total {
		o.tokens, o.stop = make([]inference.TokenID, 0, 2*total), make([]bool, 0, 2*total)
	}
	for i := range o.rows {
		l.emitRow(&o.rows[i], now)
	}
}

func (l *loop) emitRow(r *outputRow, now time.Time) {
	o, c, res := &l.out, &l.plan.Chunks[r.chunk], &l.results[r.chunk]
	j := c.User.(*job)
	if r.err != nil {
		res.Err = r.err
		return
	}
	if r.pos == 0 && j.req.PromptLogprobs >= 0 {
		first := inference.Event{Kind: inference.EventPrompt, Token: j.req.Prompt[0], Logprob: float32(math.NaN())}
		j.push(first)
	}
	if r.prompt.Kind == inference.EventPrompt {
		j.push(r.prompt)
	}
	if len(r.samples) == 0 {
		return
	}
	if j.last = now; j.first.IsZero() {
		j.first = now
	}
	lo := len(o.tokens)
	for i := range r.samples {
		ev := &r.samples[i]
		o.tokens = append(o.tokens, ev.Token)
		o.stop = append(o.stop, j.stops(ev.Token))
		if !j.ended[ev.Choice] {
			j.push(*ev)
		}
	}
	res.Tokens, res.Stop = o.tokens[lo:], o.stop[lo:]
}
