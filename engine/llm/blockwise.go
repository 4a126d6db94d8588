package llm

import (
	"sync"
	"sync/atomic"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/weight"
)

// With many rows of a small model the pool's workers would wait for each other, and for what the other one has just written,
// more than they compute: a layer is a dozen rounds of less than a millisecond. So the rows are cut into blocks, and a worker takes
// a block from the keys of one layer to those of the next, in its cache. Blocks pass through the layers one behind the other, as through a pipeline:
// a block's rows see themselves and the rows before them, so that it needs keys and values of the blocks before it, and of the next one
// where that writes to the same block of the cache; workers do not wait for each other where a layer ends. (Where rows see all of
// their text, a block needs all of that.)

const (
	mostApart      = 16 << 20 // bytes of a layer's weights: every block reads all of them, from the cache that workers share
	leastBlockRows = 16       // rows: fewer take longer to bring weights than to multiply by them
	mostBlockRows  = 48       // rows: more leave the second-level cache
	eachBlocks     = 2        // blocks for each worker at least
)

// apart reports whether so many rows go through the layers in blocks.
func (m *model) apart(c *kernel.CPU, rows int) bool {
	return m.layerBytes <= mostApart && c.Threads() > 1 && rows >= eachBlocks*c.Threads()*leastBlockRows
}

// blockwise runs all rows through the first whole layers.
func (m *model) blockwise(c *kernel.CPU, kv *attend.Pages, b *batch, whole int) {
	if whole == 0 {
		return
	}
	b.cut(m, c)
	if b.line == nil {
		b.line = &pipeline{}
	}
	j := b.line
	j.begin(m, c, kv, b, whole)
	for j.next < j.end {
		j.round()
	}
}

// round lets all workers go on until the end, or until somebody else wants the pool.
func (j *pipeline) round() {
	j.first, j.paused = j.next, false
	j.c.Run(j, j.c.Threads(), 1)
}

// cut makes the blocks of the batch, of nearly as many panels each, and a view of it for each worker.
func (b *batch) cut(m *model, c *kernel.CPU) {
	panel, rows := weight.PanelRows(c.Level()), len(b.tokens)
	panels := (rows + panel - 1) / panel
	most := max(min(rows/(eachBlocks*c.Threads()), mostBlockRows)/panel, 1) // panels of a block
	count := (panels + most - 1) / most
	b.blocks = b.blocks[:0]
	for i := range count {
		b.blocks = append(b.blocks, block{i * panels / count * panel, min((i+1)*panels/count*panel, rows)})
	}
	for len(b.views) < c.Threads() {
		b.views = append(b.views, batch{})
	}
	for i := range b.views {
		own := b.views[i].scratch
		b.views[i] = *b
		b.views[i].scratch = own
		b.views[i].scratch.reserve(m, most*panel)
	}
}

// pipeline takes blocks through the layers. Stage s of a block is all from the attention of layer s-1 to the keys and values of layer s;
// the first stage has no attention, the last one no keys. Stages are begun in order, of all blocks one after the other.
type pipeline struct {
	m      *model
	c      *kernel.CPU
	kv     *attend.Pages
	b      *batch
	wanted func() bool // somebody else wants the pool for a moment
	needs  []int       // of each block the last one that it waits for
	done   []stages
	broken atomic.Bool // a worker panicked

	mu          sync.Mutex // of what follows, while a round is open
	next        int        // stage times blocks, and block
	first, end  int        // of the round; of all
	whole, size int        // layers; blocks
	paused      bool
}

// stages is how many stages of a block are done, in a cache line of its own.
type stages struct {
	atomic.Int64
	_ [56]byte
}

func (j *pipeline) begin(m *model, c *kernel.CPU, kv *attend.Pages, b *batch, whole int) {
	j.m, j.c, j.kv, j.b, j.wanted = m, c, kv, b, c.Wanted
	j.whole, j.size, j.next, j.end = whole, len(b.blocks), 0, (whole+1)*len(b.blocks)
	j.broken.Store(false)
	if len(j.done) < j.size {
		j.done = make([]stages, j.size)
	}
	for i := range j.done {
		j.done[i].Store(0)
	}
	j.needs = b.needs(j.needs[:0], kv.Table(0).BlockTokens)
}

// needs appends for each block the last one that writes to blocks of the cache that its rows read, of cacheTokens tokens each: those of
// the rows that they see, and rows behind these whose keys lie in the same words.
func (b *batch) needs(to []int, cacheTokens int) []int {
	for i, r := range b.blocks {
		last := r.hi
		for _, s := range b.spans() {
			if s.Row >= r.hi || s.Row+s.Count <= r.lo {
				continue
			}
			seen := max(s.Whole, s.Start+min(r.hi-s.Row, s.Count)) // positions
			end := (seen + cacheTokens - 1) / cacheTokens * cacheTokens
			last = max(last, s.Row+min(s.Count, end-s.Start))
		}
		for b.blocks[i].hi < last {
			i++
		}
		to = append(to, i)
	}
	return to
}

// Do takes one block after the other through a stage.
func (j *pipeline) Do(worker, _ int) {
	through := false
	defer func() {
		if !through {
			j.broken.Store(true)
		}
	}()
	for {
		stage, i, ok := j.claim()
		if !ok || !j.await(stage, i) {
			break
		}
		j.pass(worker, stage, i)
		j.done[i].Store(int64(stage) + 1)
	}
	through = true
}

// claim is what to do next. Where somebody else wants the pool, the round ends here.
func (j *pipeline) claim() (stage, i int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.paused = j.paused || j.next > j.first && j.wanted()
	if j.paused || j.next == j.end {
		return 0, 0, false
	}
	stage, i = j.next/j.size, j.next%j.size
	j.next++
	return stage, i, true
}

// await returns when all that a block's stage needs is there; false: another worker has panicked.
func (j *pipeline) await(stage, i int) bool {
	for before := range j.needs[i] + 1 {
		if !j.reach(before, stage) {
			return false
		}
	}
	return true
}

// reach returns when so many stages of a block are done; false: another worker has panicked.
func (j *pipeline) reach(i, stages int) bool {
	for polls := 0; i >= 0 && j.done[i].Load() < int64(stages); polls++ {
		if j.broken.Load() {
			return false
		}
		pool.Pause(polls)
	}
	return true
}

// pass takes a block through a stage.
func (j *pipeline) pass(worker, stage, i int) {
	m, c, b, r := j.m, j.c.Worker(worker), &j.b.views[worker], j.b.blocks[i]
	b.turn = turnInLine{j, i - 1, stage + 1}
	if stage > 0 {
		m.endLayer(c, j.kv, &m.layers[stage-1], b, r)
	}
	if stage < j.whole {
		m.beginLayer(c, j.kv, &m.layers[stage], b, r)
	}
}
