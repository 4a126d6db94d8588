package llm

import (
	"time"

	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/cost"
)

// mtpProposer proposes with the file's MTP head. A row of the head needs the model's hidden state of a position, which only the step has that computes
// the position: the loop gives it those of all rows with logits, and of prompts those that the scheduler asks for (takeHidden). Keys and values of rows
// whose next token is known are computed at once for prompts, and with the next draft for outputs. Rows that were not given are left out: the head's
// rows of a text follow each other in its blocks and in its rotation whether or not the text's positions do, so that it never waits for any, and
// what it lacks costs drafts, not answers.
type mtpProposer struct {
	draftModel
	rowShare, positionShare float64 // of what a row costs the model, and a position that it attends to: how much more with the head's part
	prior                   cost.Prior
	hiddenRows              []hiddenRows // of the step
	flushing                []flushed
	chain                   []float32 // [texts of the call][width] what the head made of the rows before
}

// hiddenStates is what an MTP head was told of a text.
type hiddenStates struct {
	ids    []inference.TokenID // of the rows that are computed: the tokens whose embeddings they have
	next   int                 // position of the hidden state of the next row
	hidden []float32           // [positions from next on][width]
	tokens []inference.TokenID // of these positions
}

// hiddenRows are the rows of a chunk whose hidden states are known after the step.
type hiddenRows struct {
	chunk, first int // of the plan; position of the first row
	at, rows     int // place in the batch's output; how many
}

// flushed is a text of which keys and values are computed.
type flushed struct {
	*draftSequence
	rows int
}

// maxPending is how many positions of an output's hidden states are kept before keys and values are computed of them.
const maxPending = 64

// openMTP makes the proposer of an engine whose model has an MTP head.
func openMTP(e *Engine, o *outline) (_ *mtpProposer, err error) {
	m, b := e.model.mtpHead, &o.budget
	g := &mtpProposer{draftModel: draftModel{cpu: e.cpu, vocab: e.model.vocab, model: m}}
	blockTokens := b.shape.blockTokens()
	shape := o.mtpShape(b.shape.Tables[0].Type, blockTokens, e.info.KVTokens)
	if g.kv, err = attend.NewPages(shape.Tables); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.kv.Close()
		}
	}()
	g.kvBytes, g.length = shape.Bytes(), b.maxModelLen
	m.formKeys(g.cpu, g.kv, b.maxModelLen)
	g.attention = m.attention()
	g.cost = cost.New(m.price(int64(m.layerBytes)+int64(m.output.Bytes()), e.cpu.Threads()))
	for range 2 { // the second time is what a row takes
		began := time.Now()
		if err := m.try(g.cpu, g.kv, blockTokens, e.opts.stopped); err != nil {
			return nil, err
		}
		g.cost.Observe(cost.Load{Rows: 1, Outputs: 1, Decode: 1}, time.Since(began))
	}
	g.cache = kvcache.Config{
		Blocks: shape.blocks(), BlockTokens: blockTokens, Windows: shape.windows, StepRows: b.stepRows,
		ModelDigest: e.info.Digest, KVType: "mtp " + e.info.KVLayout, Secret: e.opts.Secret,
	}
	g.tables = make([][]kvcache.BlockID, len(shape.Tables))
	g.prior = e.model.price(e.info.WeightBytes, e.cpu.Threads())
	g.rowShare, g.positionShare = hiddenShares(e.model)
	return g, nil
}

// hiddenShares is by what part a row, and a position that it attends to, cost the model more of which an MTP head gets the hidden state: without it the
// last layer computes keys and values alone of a prompt's rows, as the head does.
func hiddenShares(m *model) (row, position float64) {
	rows, positions := 0, 0
	for i := range m.layers {
		rows += m.rowOperations(&m.layers[i])
		positions += m.layers[i].attention.heads * m.layers[i].attention.headDim
	}
	keys := func(m *model, a *attention) int { return 2 * m.width * 2 * a.kvHeads * a.headDim }
	more, further := 2*2*m.width*m.width+keys(m.mtpHead, &m.mtpHead.layers[0].attention), 0
	if last := &m.layers[len(m.layers)-1]; m.lastKeys() < len(m.layers) {
		more += m.rowOperations(last) - keys(m, &last.attention)
		further = last.attention.heads * last.attention.headDim
	}
	return float64(more) / float64(max(rows, 1)), float64(further) / float64(max(positions, 1))
}

// HiddenCost implements scheduler.Proposer.
func (g *mtpProposer) HiddenCost(chunk cost.Load) float64 {
	rows, positions := float64(chunk.Rows)*g.prior.Row, float64(chunk.Prompt)*g.prior.Position
	if rows+positions == 0 {
		return 0
	}
	return (rows*g.rowShare + positions*g.positionShare) / (rows + positions)
}

// expectHidden notes that rows of a chunk, from position first on, are the batch's output from place at on.
func (g *mtpProposer) expectHidden(chunk, first, at, rows int) {
	g.hiddenRows = append(g.hiddenRows, hiddenRows{chunk, first, at, rows})
}

// takeHidden takes the hidden states of a step.
func (g *mtpProposer) takeHidden(plan *scheduler.Plan, hidden []float32) {
	g.calls++
	g.copies, g.flushing = g.copies[:0], g.flushing[:0]
	width := g.model.width
	for _, h := range g.hiddenRows {
		c := &plan.Chunks[h.chunk]
		j := c.User.(*job) //nolint:forcetypeassert // what the loop submits
		r := g.sequenceOf(c, j, h.first)
		last := c.Start + c.Count - c.Drafts // behind the rows whose tokens are known
		r.take(h.first, c.Tokens[h.first-c.Start:], hidden[h.at*width:(h.at+h.rows)*width], width)
		if n := min(len(r.tokens), last-r.next) - 1; n > 0 && (!c.Decode || n >= maxPending) {
			g.flush(c, r, n)
		}
	}
	g.hiddenRows = g.hiddenRows[:0]
	g.computeKeys(width)
	g.fork(plan)
}

// sequenceOf is what is known of a chunk's sequence, of which nothing is at first but what the cache has of rows before the first one.
func (g *mtpProposer) sequenceOf(c *scheduler.Chunk, j *job, first int) *draftSequence {
	id := scheduler.SequenceID{Request: c.Request, Choice: c.Choice}
	r := g.read[id]
	if r == nil {
		r = &draftSequence{}
		g.pool.Begin(&r.table, j.domain)
		g.read[id] = r
		if prompt := j.req.Prompt; first > 0 && first < len(prompt) {
			hit := g.pool.Match(j.domain, prompt[1:], first)
			if hit.Tokens > 0 && g.pool.Grow(&r.table, hit.Tokens, hit, &g.copies) {
				r.ids, r.next = append(r.ids, prompt[1:1+hit.Tokens]...), hit.Tokens
			}
		}
	}
	r.call = g.calls
	return r
}

// take appends the hidden states of positions from first on, in the place of those that it has of them already.
func (h *hiddenStates) take(first int, tokens []inference.TokenID, hidden []float32, width int) {
	switch have := h.next + len(h.tokens); {
	case first > have:
		h.next, h.tokens, h.hidden = first, h.tokens[:0], h.hidden[:0]
	case first >= h.next:
		h.tokens, h.hidden = h.tokens[:first-h.next], h.hidden[:(first-h.next)*width]
	default: // rows that are computed again
		known := min(h.next-first, len(tokens))
		tokens, hidden = tokens[known:], hidden[known*width:]
		h.tokens, h.hidden = h.tokens[:0], h.hidden[:0]
	}
	h.tokens, h.hidden = append(h.tokens, tokens...), append(h.hidden, hidden...)
}

// flush arranges that keys and values of a text's next n rows are computed.
func (g *mtpProposer) flush(c *scheduler.Chunk, r *draftSequence, n int) {
	if g.grow(r, r.table.Tokens()+n) {
		g.flushing = append(g.flushing, flushed{r, n})
	} else {
		g.Forget(scheduler.SequenceID{Request: c.Request, Choice: c.Choice})
	}
}

// grow gets blocks for a text's rows.
func (g *mtpProposer) grow(r *draftSequence, rows int) bool {
	for rows <= g.length && !g.pool.Grow(&r.table, rows, kvcache.Hit{}, &g.copies) {
		if !g.evict() {
			return false
		}
	}
	return rows <= g.length
}

// computeKeys computes keys and values of what flush arranged.
func (g *mtpProposer) computeKeys(width int) {
	g.copyRows()
	if len(g.flushing) == 0 {
		return
	}
	g.batch.reset()
	for _, f := range g.flushing {
		g.appendWithHidden(f.draftSequence, f.tokens[1:1+f.rows], f.hidden[:f.rows*width])
	}
	g.model.forward(g.cpu, g.kv, &g.batch)
	for _, f := range g.flushing {
		g.commit(f.draftSequence, f.tokens[1:1+f.rows], width)
	}
}

// appendWithHidden appends a text's next rows to the batch.
func (g *mtpProposer) appendWithHidden(r *draftSequence, ids []inference.TokenID, hidden []float32) (row int) {
	row = g.appendRows(r, ids, r.table.Tokens())
	g.batch.headHidden = append(g.batch.headHidden, hidden...)
	return row
}

// commit makes a text's next rows, of these tokens, final.
func (g *mtpProposer) commit(r *draftSequence, ids []inference.TokenID, width int) {
	n := len(ids)
	r.ids = append(r.ids[:r.table.Tokens()], ids...)
	g.pool.Commit(&r.table, r.ids, len(r.ids))
	r.next += n
	r.hidden = r.hidden[:copy(r.hidden, r.hidden[min(n*width, len(r.hidden)):])]
	r.tokens = r.tokens[:copy(r.tokens, r.tokens[min(n, len(r.tokens)):])]
}

// fork gives the choices that begin with the end of a prompt what is known of it.
func (g *mtpProposer) fork(plan *scheduler.Plan) {
	for i := range plan.Chunks {
		c := &plan.Chunks[i]
		j := c.User.(*job) //nolint:forcetypeassert // what the loop submits
		from := g.read[scheduler.SequenceID{Request: c.Request, Choice: c.Choice}]
		for k := c.Choice + 1; k < c.Samples && from != nil; k++ {
			id := scheduler.SequenceID{Request: c.Request, Choice: k}
			if g.read[id] != nil || j.ended[k] {
				continue
			}
			to := &draftSequence{call: g.calls}
			g.pool.Fork(&to.table, &from.table)
			to.ids, to.next = append(to.ids, from.ids...), from.next
			to.hidden, to.tokens = append(to.hidden, from.hidden...), append(to.tokens, from.tokens...)
			g.read[id] = to
		}
	}
}

// ready is how many rows a text lacks for a draft, all of which can be computed; 0: the last position's hidden state is not known.
func (g *mtpProposer) ready(t *scheduler.DraftText, n int) int {
	r, width := g.read[t.ID], g.model.width
	if r == nil || g.isTooLong(t, n) {
		return 0
	}
	rows := len(t.IDs) - 1 - r.next
	if rows < 1 || rows > len(r.hidden)/width || r.table.Tokens()+rows+n-1 > g.length {
		return 0
	}
	return rows
}

// Price implements scheduler.Proposer.
func (g *mtpProposer) Price(texts []scheduler.DraftText, n int) (reading, proposing time.Duration) {
	round, all := cost.Load{}, cost.Load{}
	for i := range texts {
		rows := g.ready(&texts[i], n)
		if rows == 0 {
			continue
		}
		known := g.read[texts[i].ID].table.Tokens()
		one := cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(known+rows, 1)}
		round, all = round.Add(one), all.Add(one).Add(cost.Load{Rows: rows - 1})
	}
	each := g.cost.Estimate(round)
	return g.cost.Estimate(all) - each, time.Duration(n) * each
}

// Propose implements scheduler.Proposer.
func (g *mtpProposer) Propose(texts []scheduler.DraftText, n int, _ time.Duration) time.Duration {
	began := time.Now()
	g.calls++
	g.proposals, g.copies = g.proposals[:0], g.copies[:0]
	for i := range texts {
		rows := g.ready(&texts[i], n)
		if rows == 0 || len(g.proposals) == maxProposals {
			continue
		}
		r := g.read[texts[i].ID]
		r.call = g.calls
		if g.grow(r, r.table.Tokens()+rows+n-1) {
			r.drafts = r.drafts[:0]
			g.proposals = append(g.proposals, proposal{draftSequence: r, index: i, rows: rows})
		} else {
			g.Forget(texts[i].ID)
		}
	}
	g.copyRows()
	if len(g.proposals) > 0 {
		g.proposeFirst(texts)
		for k := 1; k < n; k++ {
			g.proposeNext(k)
		}
	}
	for i := range g.proposals {
		g.pool.Truncate(&g.proposals[i].table, g.proposals[i].table.Tokens())
		texts[g.proposals[i].index].Drafts = g.proposals[i].drafts
	}
	return time.Since(began)
}

// proposeFirst computes what is known of texts, and makes the first drafts.
func (g *mtpProposer) proposeFirst(texts []scheduler.DraftText) {
	load, width := cost.Load{}, g.model.width
	g.batch.reset()
	for i := range g.proposals {
		t := &g.proposals[i]
		ids := texts[t.index].IDs
		row := g.appendWithHidden(t.draftSequence, ids[len(ids)-t.rows:], t.hidden[:t.rows*width])
		g.batch.output = append(g.batch.output, row+t.rows-1)
		load = load.Add(cost.Load{Rows: t.rows, Outputs: 1, Decode: g.attention.Attended(t.table.Tokens(), t.rows)})
	}
	g.appendBest(load)
	for i := range g.proposals {
		t := &g.proposals[i]
		ids := texts[t.index].IDs
		g.commit(t.draftSequence, ids[len(ids)-t.rows:], width)
		t.hidden, t.tokens = t.hidden[:0], t.tokens[:0] // of drafts that were not accepted
	}
}

// proposeNext makes draft k, counted from 0, of each text: the head's own hidden state stands for the model's.
func (g *mtpProposer) proposeNext(k int) {
	load, width := cost.Load{}, g.model.width
	g.chain = append(g.chain[:0], g.batch.hidden[:len(g.proposals)*width]...)
	g.batch.reset()
	for i := range g.proposals {
		t := &g.proposals[i]
		at := t.table.Tokens() + k - 1
		g.batch.output = append(g.batch.output, g.appendRows(t.draftSequence, t.drafts[k-1:], at))
		g.batch.headHidden = append(g.batch.headHidden, g.chain[i*width:(i+1)*width]...)
		load = load.Add(cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(at, 1)})
	}
	g.appendBest(load)
}

// appendBest computes the batch and appends the likeliest token to each text.
func (g *mtpProposer) appendBest(load cost.Load) {
	g.compute(load)
	for i := range g.proposals {
		g.proposals[i].drafts = append(g.proposals[i].drafts, g.best[i])
	}
}
