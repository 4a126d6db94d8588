package gbdt

import (
	"fmt"
	"sync"
)

// ranked is the kernel that turns rows into ranks and has scorers add the trees: one that computes a row at a time and,
// where that is faster, one that computes a block of rows together.
type ranked[X, S float] struct {
	*walker[X, S] // for what begins and ends a row's margins
	ranker        *ranker[X]
	parts         []part
	single        scorer[S]      // nil: the walker is faster
	block         blockScorer[S] // nil: none is faster
	from          int            // rows; that many and more are given to block
	buffers       sync.Pool      // of *rankBuffer[S]
}

// part is a run of trees that add to one output, in order. The trees of an output are cut into parts so that what a
// scorer reads of a part stays in the processor's cache from one row to the next.
type part struct {
	output int
	trees  []int32
}

// scorer adds the leaves of trees, by the ranks of rows. Every scorer adds them in the order of the trees, so that
// sums have the same bits whichever computes them.
type scorer[S float] interface {
	name() string
	// lanes is how many rows are computed together.
	lanes() int
	// bytes is the memory of the prepared trees.
	bytes() int
	// add adds the leaves of parts[part] to the sums of the lanes. With one lane, ranks are a row's; with more, the
	// ranks of a column in all lanes follow one another.
	add(sums []S, ranks []byte, part int)
}

// blockScorer is a scorer that may keep what it likes behind the ranks of rowBlock rows.
type blockScorer[S float] interface {
	scorer[S]
	room() int             // bytes
	prepare(behind []byte) // a new buffer; only its owner writes there
}

const (
	maxLanes = 64
	// rowBlock is how many rows a scorer of single rows computes with one part before it goes to the next.
	rowBlock = 64
	// rankPad is what kernels may read beyond the ranks of a row's columns: they load whole tables.
	rankPad = 256
)

// rankBuffer holds the ranks of a block of rows and the sums of one output.
type rankBuffer[S float] struct {
	ranks []byte
	sums  [maxLanes]S
}

func (k *ranked[X, S]) name() string {
	c := k.choice()
	if c.Block == "" {
		return c.Single
	}
	return fmt.Sprintf("%s, %s from %d rows", c.Single, c.Block, c.From)
}

func (k *ranked[X, S]) choice() Choice {
	c := Choice{Single: k.walker.name(), Bytes: k.ranker.bytes()}
	if k.single != nil {
		c.Single = k.single.name()
		c.Bytes += k.single.bytes()
	}
	if k.block != nil {
		c.Block, c.From = k.block.name(), k.from
		c.Bytes += k.block.bytes()
	}
	return c
}

func (k *ranked[X, S]) margins(rows []X, out []S) {
	b, _ := k.buffers.Get().(*rankBuffer[S])
	if b == nil {
		b = k.newBuffer()
	}
	defer k.buffers.Put(b)
	for n := len(out) / k.Outputs; n > 0; n = len(out) / k.Outputs {
		switch {
		case k.block != nil && n >= k.from:
			n = min(n, k.block.lanes())
			k.together(b, rows[:n*k.Features], out[:n*k.Outputs])
		case k.single == nil:
			k.walker.margins(rows, out)
			return
		default:
			n = min(n, rowBlock)
			k.apart(b, rows[:n*k.Features], out[:n*k.Outputs])
		}
		rows, out = rows[n*k.Features:], out[n*k.Outputs:]
	}
}

func (k *ranked[X, S]) newBuffer() *rankBuffer[S] {
	ranks, room := rowBlock*k.ranker.columns(), rankPad
	if k.block != nil {
		room = max(room, k.block.room())
	}
	b := &rankBuffer[S]{ranks: make([]byte, ranks+room)}
	if k.block != nil {
		k.block.prepare(b.ranks[ranks:])
	}
	return b
}

// apart computes rows one by one, at most rowBlock.
func (k *ranked[X, S]) apart(b *rankBuffer[S], rows []X, out []S) {
	n, columns := len(out)/k.Outputs, k.ranker.columns()
	for i := range n {
		k.ranker.rank(b.ranks[i*columns:], 1, rows[i*k.Features:(i+1)*k.Features])
		k.begin(out[i*k.Outputs : (i+1)*k.Outputs])
	}
	for p := range k.parts {
		output := k.parts[p].output
		for i := range n {
			k.single.add(out[i*k.Outputs+output:][:1], b.ranks[i*columns:], p)
		}
	}
	for i := range n {
		k.finish(out[i*k.Outputs : (i+1)*k.Outputs])
	}
}

// together computes rows by the block scorer, at most as many as it has lanes. Lanes without a row compute with what
// the buffer held before.
func (k *ranked[X, S]) together(b *rankBuffer[S], rows []X, out []S) {
	n, lanes := len(out)/k.Outputs, k.block.lanes()
	for i := range n {
		k.ranker.rank(b.ranks[i:], lanes, rows[i*k.Features:(i+1)*k.Features])
		k.begin(out[i*k.Outputs : (i+1)*k.Outputs])
	}
	for p := 0; p < len(k.parts); {
		output := k.parts[p].output
		for i := range n {
			b.sums[i] = out[i*k.Outputs+output]
		}
		for ; p < len(k.parts) && k.parts[p].output == output; p++ {
			k.block.add(b.sums[:lanes], b.ranks, p)
		}
		for i := range n {
			out[i*k.Outputs+output] = b.sums[i]
		}
	}
	for i := range n {
		k.finish(out[i*k.Outputs : (i+1)*k.Outputs])
	}
}

// treeParts sorts the trees by output, keeping their order, and cuts them into parts of at most limit trees. If leaves have a
// value for each output, every output has all trees. All parts of an output but its last have an even number, since some
// scorers take trees in pairs.
func treeParts(e *Ensemble, limit int) []part {
	byOutput := make([][]int32, e.Outputs)
	for t := range e.Trees {
		if e.Width == 1 {
			output := e.Trees[t].Output
			byOutput[output] = append(byOutput[output], int32(t))
			continue
		}
		for output := range byOutput {
			byOutput[output] = append(byOutput[output], int32(t))
		}
	}
	limit = max(2, limit&^1)
	var parts []part
	for output, trees := range byOutput {
		for len(trees) > 0 {
			n := min(len(trees), limit)
			parts = append(parts, part{output: output, trees: trees[:n]})
			trees = trees[n:]
		}
	}
	return parts
}
