package llm

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"weir/engine/kernel/pool"
	"weir/engine/sample"
	"weir/internal/inference"
	"weir/internal/work"
	"weir/scheduler"
)

// logitTile is the most rows whose logits exist at one time: the output matrix
// is read once per tile, and a tile of a 128k vocabulary is 32 MiB.
const logitTile = 64

// outputs turns the hidden states of a step into logits, tokens and
// logprobs. Rows of a tile are sampled in parallel, each with its own
// sampler, so the order in which workers take rows does not matter. The draft
// rows of a chunk share a sampler; one worker samples all of them, in order.
type outputs struct {
	e      *Engine
	rows   []outputRow
	logits []float32 // [logitTile][vocab]
	points []float32 // [logitTile][queries and keys], of a decision head
	tile   int       // first row of the tile that is being sampled
	end    int       // end of that tile: the row behind its last
	raw    [][]float32
	work   []sample.Scratch
	plan   *scheduler.Plan
	until  time.Time // constraints of the step have time until then

	tokens []inference.TokenID // backs results
	stop   []bool
}

// outputRow is one row with logits: its chunk, its position in the sequence, and
// the events or the error that sampling gave.
type outputRow struct {
	chunk   int
	pos     int
	sampled bool // a token is sampled from this row, if the drafts up to it are accepted
	draft   int  // which draft of its chunk the row holds, from 1; 0 for a row without one
	prompt  inference.Event
	samples []inference.Event
	one     [1]inference.Event  // backs samples until there are several
	forced  []inference.TokenID // must follow the token that was sampled
	late    bool                // there was no time for the constraint: nothing was sampled
	err     error
	fault   *pool.Fault // a panic in the request's constraint
}

func (o *outputs) init(e *Engine) {
	o.e = e
	o.raw = make([][]float32, e.cpu.Threads())
	o.work = make([]sample.Scratch, e.cpu.Threads())
	for i := range o.work {
		o.work[i].Level = e.cpu.Level()
		if o.work[i].Meter = (work.Meter{Hurried: true, Ask: o.inTime}); e.opts.inTime != nil {
			o.work[i].Meter.Ask = e.opts.inTime
		}
	}
}

func (o *outputs) reset() {
	o.rows = o.rows[:0]
}

// add appends a row, reusing the memory that its element has from earlier steps.
func (o *outputs) add(row outputRow) {
	n := len(o.rows)
	if n < cap(o.rows) {
		o.rows = o.rows[:n+1]
	} else {
		o.rows = append(o.rows, outputRow{})
	}
	r := &o.rows[n]
	row.samples, row.forced = r.samples[:0], r.forced[:0]
	*r = row
	if cap(r.samples) == 0 {
		r.samples = r.one[:0]
	}
}

// run computes the logits of a batch's output, which are the given rows, tile by tile, and samples.
func (o *outputs) run(b *batch, rows block) {
	m, tile := o.e.model, cmp.Or(o.e.opts.logitRows, logitTile)
	o.allow(o.plan.Estimate)
	for o.tile = rows.lo; o.tile < rows.hi; o.tile += tile {
		n := min(tile, rows.hi-o.tile)
		o.end = o.tile + n
		hidden := b.hidden[(o.tile-rows.lo)*m.width:]
		words, points := o.kinds(o.tile, o.end)
		if points {
			o.point(hidden, n)
		}
		if words {
			grow(&o.logits, n*m.vocab)
			m.logits(o.e.cpu, o.logits, hidden, n)
			m.suppress(o.logits, n)
		}
		o.e.cpu.Run(o, n, 1)
	}
}

// Do samples from one row of the tile. A row without a draft, or the first of
// the tile, is followed by its chunk's draft rows for as long as drafts are
// accepted; Do does nothing when it is called for those.
func (o *outputs) Do(worker, item int) {
	i := o.tile + item
	if o.rows[i].draft > 0 && (item > 0 || !o.accepted(i)) {
		return
	}
	o.row(worker, i)
	for i++; i < o.end && o.rows[i].draft > 0 && o.accepted(i); i++ {
		o.row(worker, i)
	}
	o.force(worker, &o.rows[i-1])
}

// accepted reports whether the draft token of row i is the token that was sampled
// from the row before. The draft behind a token that ends its choice is never accepted.
func (o *outputs) accepted(i int) bool {
	before, r := &o.rows[i-1], &o.rows[i]
	if before.err != nil || before.fault != nil || len(before.samples) == 0 {
		return false
	}
	c := &o.plan.Chunks[r.chunk]
	id := before.samples[0].Token
	return id == c.Tokens[r.pos-c.Start] && !c.User.(*job).stops(id)
}

// row handles the logits of row i.
func (o *outputs) row(worker, i int) {
	r := &o.rows[i]
	c := &o.plan.Chunks[r.chunk]
	j := c.User.(*job)
	if j.points() {
		if r.sampled && c.Samples > 0 {
			o.fit(i)
		}
		return
	}
	logits := o.logits[(i-o.tile)*o.e.model.vocab:][:o.e.model.vocab]
	if !o.work[worker].Finite(logits) {
		r.err = fmt.Errorf("%w: the model gave no finite logit at position %d", inference.ErrInternal, r.pos)
		return
	}
	if next := r.pos + 1; j.req.PromptLogprobs >= 0 && next < len(j.req.Prompt) {
		id := j.req.Prompt[next]
		lp, top := o.work[worker].Logprob(logits, id, j.req.PromptLogprobs)
		r.prompt = inference.Event{Kind: inference.EventPrompt, Token: id, Logprob: lp, Rank: sample.Rank(logits, id), Top: top}
	}
	switch {
	case !r.sampled || c.Samples == 0:
	case j.req.Given != nil:
		o.measure(worker, r, c, logits)
	default:
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
		choice := i
		if c.Samples == 1 {
			choice = c.Choice
		}
		ev := inference.Event{Kind: inference.EventToken, Choice: choice}
		if o.draw(worker, r, j, &ev, row); r.err != nil || r.fault != nil {
			return
		}
		if r.late {
			for k := range r.samples {
				j.samplers[r.samples[k].Choice].Keep(r.samples[k].Token)
			}
			r.samples = r.samples[:0]
			return
		}
		switch s := &j.req.Sampling; {
		case s.Logprobs >= 0 && len(s.LogprobTokens) > 0:
			ev.Logprob, ev.Top = o.work[worker].LogprobsOf(logits, ev.Token, s.LogprobTokens)
		case s.Logprobs >= 0:
			ev.Logprob, ev.Top = o.work[worker].Logprob(logits, ev.Token, j.req.Sampling.Logprobs)
		}
		r.samples = append(r.samples, ev)
	}
}

// measure says how likely the tokens are that are given behind a row, at a fork one for each choice.
func (o *outputs) measure(worker int, r *outputRow, c *scheduler.Chunk, logits []float32) {
	j, norm := c.User.(*job), o.work[worker].LogNorm(logits)
	for i := range c.Samples {
		choice := i
		if c.Samples == 1 {
			choice = c.Choice
		}
		given, at := j.req.Given[choice], r.pos+1-len(j.req.Prompt)
		if at < 0 || at >= len(given) {
			r.err = fmt.Errorf("%w: position %d is behind the %d tokens that are given", inference.ErrInternal, r.pos, len(given))
			return
		}
		id := given[at]
		r.samples = append(r.samples, inference.Event{Kind: inference.EventToken, Choice: choice, Token: id, Logprob: float32(float64(logits[id]) - norm)})
	}
}

// emit pushes the step's events and fills the scheduler's results.
func (l *loop) emit(now time.Time) {
	o := &l.out
	l.results = l.results[:0]
	total := 0
	for i := range l.plan.Chunks {
		l.results = append(l.results, scheduler.Result{})
		total += l.plan.Chunks[i].Samples + l.plan.Chunks[i].Drafts
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
	if r.fault != nil {
		r.err = l.faults.constraintBroke(r.fault)
	}
	if r.err != nil {
		res.Err = r.err
		return
	}
	if r.late {
		res.Late = r.draft == 0 // a draft is as good as refused
		return
	}
	if r.pos == 0 && j.req.PromptLogprobs >= 0 && j.first.IsZero() { // a later choice computes the last row again
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
	lo := len(o.tokens) - len(res.Tokens) // the rows of a chunk are neighbours
	for i := range r.samples {
		ev := &r.samples[i]
		o.tokens = append(o.tokens, ev.Token)
		o.stop = append(o.stop, j.ends(ev, r.pos))
		if !j.ended[ev.Choice] {
			j.push(*ev)
		}
	}
	res.Tokens, res.Stop, res.Forced = o.tokens[lo:], o.stop[lo:], r.forced
}
