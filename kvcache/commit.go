package kvcache

// Commit says that rows [0, verified) of the table are computed and final,
// tokens being the ids of the whole sequence so far. Blocks that are full now
// are published, or folded into a resident twin, so t.Blocks may change.
// Rows of drafts that were not accepted must not be counted: nothing beyond
// verified is ever hashed.
func (p *Pool) Commit(t *Table, tokens []int32, verified int) {
	if !p.holds(t) || verified < t.tokens || verified > min(t.grown, len(tokens)) {
		p.misuse("commit %d rows of %d tokens: the table is not live, has more, or was not grown that far", verified, len(tokens))
		return
	}
	n := p.blockTokens
	for i := t.tokens / n; i < verified/n; i++ {
		p.seal(t, i, tokens[i*n:(i+1)*n])
	}
	t.tokens = verified
}

// seal publishes entry i of the table, which holds ids from now on. It stays
// private when the block before it is not in the cache (a window slid past it)
// or when another prefix occupies its hash.
func (p *Pool) seal(t *Table, i int, ids []int32) {
	b := t.blocks[i]
	parent := BlockID(0)
	if i > 0 {
		parent = t.blocks[i-1]
		if parent == 0 || !p.blocks[parent].published {
			return
		}
	}
	d := &p.domains[t.domain]
	h := d.key.hashBlock(&p.buf, i == 0, p.blocks[parent].hash, ids)
	twin := p.index.find(h)
	switch {
	case twin == 0:
		p.publish(b, parent, h, ids)
	case p.same(twin, t.domain, parent, ids):
		p.hold(twin)
		p.raise(twin, p.blocks[b].class)
		t.set(p, i, twin)
		p.drop(b)
		p.counts.Folded++
	default:
		p.counts.Collisions++
	}
}
