package llm

import (
	"cmp"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/cost"
)

// HiddenCost implements scheduler.Proposer: a draft model reads texts by itself.
func (g *draftModel) HiddenCost(cost.Load) float64 { return 0 }

// Price implements scheduler.Proposer.
func (g *draftModel) Price(texts []scheduler.DraftText, n int) (reading, proposing time.Duration) {
	round, all := cost.Load{}, cost.Load{}
	for i := range texts {
		if g.isTooLong(&texts[i], n) {
			continue // it gets no drafts
		}
		ids, unread := len(texts[i].IDs), g.unread(&texts[i])
		one := cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(ids, 1)}
		round = round.Add(one)
		if unread > 1 { // one row is where all drafts were accepted
			one = one.Add(cost.Load{Rows: unread, Prompt: g.attention.Attended(ids-unread-1, unread)})
		}
		all = all.Add(one)
	}
	if round.Rows == 0 {
		return never, never
	}
	each := g.cost.Estimate(round)
	return g.cost.Estimate(all) - each, time.Duration(n) * each
}

// unread is how many rows of a text are not read, the last one left out.
func (g *draftModel) unread(t *scheduler.DraftText) int {
	known := 0
	if r := g.read[t.ID]; r != nil {
		known = min(r.table.Tokens()+len(r.tail), len(t.IDs)-1)
	}
	return len(t.IDs) - known - 1
}

// minReadRows is how many rows a call may read, however long that takes.
const minReadRows = 16

// readBudget is how many rows a call may compute before it proposes, if reading takes so long at most.
func (g *draftModel) readBudget(texts []scheduler.DraftText, n int, most time.Duration) int {
	rows := g.cache.StepRows
	if takes, _ := g.Price(texts, 0); takes > most {
		unread := 0
		for i := range texts {
			unread += g.unread(&texts[i])
		}
		rows = min(rows, n+len(texts)+max(minReadRows, int(float64(unread)*float64(most)/float64(takes))))
	}
	return rows
}

// never is what drafts cost that cannot be made.
const never = time.Hour

// isTooLong reports whether the model's context ends before n drafts behind a text do.
func (g *draftModel) isTooLong(t *scheduler.DraftText, n int) bool { return len(t.IDs)+n > g.length }

// Propose implements scheduler.Proposer.
func (g *draftModel) Propose(texts []scheduler.DraftText, n int, reading time.Duration) time.Duration {
	began := time.Now()
	g.calls++
	g.selectTexts(texts, n, g.readBudget(texts, n, reading))
	g.proposeFirst(texts)
	g.proposals = slices.DeleteFunc(g.proposals, func(t proposal) bool { return !t.whole })
	for range n - 1 {
		if len(g.proposals) == 0 {
			break
		}
		g.proposeNext(texts)
	}
	for i := range g.proposals {
		texts[g.proposals[i].index].Drafts = g.proposals[i].drafts
	}
	return time.Since(began)
}

// Forget implements scheduler.Proposer. What was read stays in the cache.
func (g *draftModel) Forget(id scheduler.SequenceID) {
	if r := g.read[id]; r != nil {
		g.pool.Release(&r.table)
		delete(g.read, id)
	}
}

// selectTexts arranges which rows the call computes, left at most and those of drafts.
func (g *draftModel) selectTexts(texts []scheduler.DraftText, n, left int) {
	g.proposals, g.copies = g.proposals[:0], g.copies[:0]
	for i := range texts {
		if t := &texts[i]; len(g.proposals) < maxProposals && left > n && !g.isTooLong(t, n) {
			if r, ok := g.prepare(t, n, left, i); ok {
				g.proposals = append(g.proposals, r)
				left -= r.rows
			}
		}
	}
	g.copyRows()
}

// copyRows carries out what the pool asked for.
func (g *draftModel) copyRows() {
	for _, c := range g.copies {
		g.kv.Table(c.Group).CopyRows(c.Src, c.Dst, c.Rows)
	}
	g.copies = g.copies[:0]
}

// prepare keeps what is computed of a text and of the drafts that were accepted, and gets blocks for what is to be.
func (g *draftModel) prepare(t *scheduler.DraftText, n, left, index int) (proposal, bool) {
	r, hit := g.read[t.ID], kvcache.Hit{}
	if r == nil {
		r = &draftSequence{}
		g.pool.Begin(&r.table, t.Domain)
		hit = g.pool.Match(t.Domain, t.IDs, len(t.IDs)-1)
		g.read[t.ID] = r
	} else {
		g.keep(r, t.IDs)
	}
	r.call, r.drafts = g.calls, r.drafts[:0]
	for {
		from := r.table.Tokens()
		if from == 0 {
			from = hit.Tokens
		}
		rows := min(len(t.IDs)-from, left-n)
		whole, grown := from+rows == len(t.IDs), from+rows
		if whole {
			grown += n - 1
		}
		if g.pool.Grow(&r.table, grown, hit, &g.copies) {
			return proposal{draftSequence: r, index: index, from: from, rows: rows, whole: whole}, true
		}
		if !g.evict() {
			g.Forget(t.ID)
			return proposal{}, false
		}
		hit = g.pool.Match(t.Domain, t.IDs, len(t.IDs)-1) // of use to an empty table alone
	}
}

// keep makes rows of drafts that were accepted final, and drops the others.
func (g *draftModel) keep(r *draftSequence, ids []inference.TokenID) {
	rows := r.table.Tokens()
	for _, id := range r.tail {
		if rows >= len(ids)-1 || ids[rows] != id {
			break
		}
		rows++
	}
	g.pool.Commit(&r.table, ids[:rows], rows)
	g.pool.Truncate(&r.table, rows)
	r.tail = r.tail[:0]
}

// evict gives the blocks back of the text that was asked for longest ago, unless that is of this call.
func (g *draftModel) evict() bool {
	var oldest scheduler.SequenceID
	least := g.calls
	for id, r := range g.read {
		if r.call < least || r.call == least && least < g.calls && before(id, oldest) {
			oldest, least = id, r.call
		}
	}
	if least == g.calls {
		return false
	}
	g.Forget(oldest)
	return true
}

func before(a, b scheduler.SequenceID) bool {
	return cmp.Or(cmp.Compare(a.Request, b.Request), cmp.Compare(a.Choice, b.Choice)) < 0
}

// proposeFirst computes what was not read, and makes the first drafts.
func (g *draftModel) proposeFirst(texts []scheduler.DraftText) {
	load := cost.Load{}
	g.batch.reset()
	for i := range g.proposals {
		t := &g.proposals[i]
		if t.rows == 0 {
			continue
		}
		row := g.appendRows(t.draftSequence, texts[t.index].IDs[t.from:t.from+t.rows], t.from)
		load = load.Add(cost.Load{Rows: t.rows, Prompt: g.attention.Attended(t.from, t.rows)})
		if t.whole {
			g.batch.output = append(g.batch.output, row+t.rows-1)
			load.Outputs++
		}
	}
	g.compute(load)
	for i, at := 0, 0; i < len(g.proposals); i++ {
		t := &g.proposals[i]
		ids := texts[t.index].IDs
		g.pool.Commit(&t.table, ids, t.from+t.rows)
		if t.whole && t.rows > 0 {
			t.after = g.best[at]
			at++
		}
		if t.whole {
			t.drafts = append(t.drafts, t.after)
		}
	}
}

// proposeNext makes a further draft behind each text.
func (g *draftModel) proposeNext(texts []scheduler.DraftText) {
	load := cost.Load{}
	g.batch.reset()
	for i := range g.proposals {
		t := &g.proposals[i]
		last, at := len(t.drafts)-1, len(texts[t.index].IDs)+len(t.drafts)-1
		g.batch.output = append(g.batch.output, g.appendRows(t.draftSequence, t.drafts[last:], at))
		t.tail = append(t.tail, t.drafts[last])
		load = load.Add(cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(at, 1)})
	}
	g.compute(load)
	for i := range g.proposals {
		g.proposals[i].drafts = append(g.proposals[i].drafts, g.best[i])
	}
}

// appendRows appends rows of a text to the batch. The draft model's vocabulary may be the shorter one: it reads tokens beyond as its first one.
func (g *draftModel) appendRows(t *draftSequence, ids []inference.TokenID, at int) (row int) {
	for k := range g.tables {
		g.tables[k] = t.table.Blocks(k)
	}
	row = g.batch.add(ids, at, g.cache.BlockTokens, g.tables...)
	for i, id := range g.batch.tokens[row:] {
		if int(id) >= g.model.vocab {
			g.batch.tokens[row+i] = 0
		}
	}
	return row
}

// compute runs the batch and finds the likeliest token of each row of its output.
func (g *draftModel) compute(load cost.Load) {
	if load.Rows == 0 {
		return
	}
	began, rows := time.Now(), len(g.batch.output)
	g.model.forward(g.cpu, g.kv, &g.batch)
	grow(&g.logits, rows*g.model.vocab)
	g.best = slices.Grow(g.best[:0], rows)[:rows]
	if rows > 0 {
		g.model.logits(g.cpu, g.logits, g.batch.hidden, rows)
		g.model.suppress(g.logits, rows)
		g.cpu.Run((*argmaxJob)(g), rows, 1)
	}
	g.cost.Observe(load, time.Since(began))
}

// argmaxJob finds the greatest logit of rows.
type argmaxJob draftModel

func (g *argmaxJob) Do(_, row int) {
	logits := g.logits[row*g.model.vocab:][:min(g.model.vocab, g.vocab)]
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	g.best[row] = inference.TokenID(best) //nolint:gosec // below the size of a vocabulary
}
