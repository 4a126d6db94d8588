package llm

import (
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
)

// With many rows of a small model the pool's workers would wait for each other, and for what the other one has just written,
// more than they compute: a layer is a dozen rounds of less than a millisecond. So the rows are cut into blocks, and a round takes
// each block from one attention to the next, on one worker and in its cache. Attention itself, whose work differs
// between rows, remains a round of its own.

const (
	leastApart = 384     // rows from which on blocks are worth it: with fewer too many are in the small last blocks
	mostApart  = 4 << 20 // bytes of a layer's weights up to which every block may read all of them
	blockRows  = 24      // of a block: more gain nothing, and its rows leave the second-level cache
)

// apart reports whether so many rows go through the layers in blocks.
func (m *model) apart(c *kernel.CPU, rows int) bool {
	return m.layerBytes <= mostApart && c.Threads() > 1 && rows >= leastApart
}

// blockwise runs all rows through the first whole layers.
func (m *model) blockwise(c *kernel.CPU, kv *attend.KV, b *batch, whole int) {
	if whole == 0 {
		return
	}
	b.cut(m, c)
	all, j := block{0, len(b.tokens)}, &b.round
	*j = round{m: m, c: c, kv: kv, b: b, whole: whole}
	for ; j.layer < whole; j.layer++ {
		c.Run(j, len(b.blocks), 1)
		m.look(c, kv, &m.layers[j.layer].attention, b, all)
	}
	c.Run(j, len(b.blocks), 1)
}

// round takes blocks from the attention of the layer before to that of layer.
type round struct {
	m     *model
	c     *kernel.CPU
	kv    *attend.KV
	b     *batch
	layer int
	whole int
}

// Do computes one block.
func (j *round) Do(worker, item int) {
	m, c, b, r := j.m, j.c.Worker(worker), &j.b.views[worker], j.b.blocks[item]
	if j.layer > 0 {
		y := &m.layers[j.layer-1]
		m.closeAttention(c, &y.attention, b, r, r.of(b.att, y.attention.heads*y.attention.headDim))
		m.feedForward(c, &y.feed, b, r)
	}
	if j.layer < j.whole {
		m.project(c, j.kv, &m.layers[j.layer].attention, b, r)
	}
}

// cut makes the blocks of the batch, the last ones smaller so that the workers end at the same
// time, and a view of it for each worker.
func (b *batch) cut(m *model, c *kernel.CPU) {
	b.blocks = b.blocks[:0]
	panel, rows, most := weight.PanelRows(c.Level()), len(b.tokens), 0
	for lo := 0; lo < rows; {
		n := min((rows-lo)/(2*c.Threads()), blockRows)
		n = max(n/panel, 2) * panel
		if rows-lo < n+2*panel {
			n = rows - lo
		}
		b.blocks = append(b.blocks, block{lo, lo + n})
		lo, most = lo+n, max(most, n)
	}
	for len(b.views) < c.Threads() {
		b.views = append(b.views, batch{})
	}
	for i := range b.views {
		own := b.views[i].scratch
		b.views[i] = *b
		b.views[i].scratch = own
		b.views[i].scratch.reserve(m, most)
	}
}
