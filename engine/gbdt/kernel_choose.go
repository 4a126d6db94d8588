package gbdt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"weir/engine/kernel/isa"
)

// builder prepares the kernels that a model could be served with.
type builder[X, S float] struct {
	walker *walker[X, S]
	ranker *ranker[X]
	forest *forest[S]
	level  isa.Level
}

// option is a scorer that can be prepared.
type option[S float] struct {
	name, kind string
	build      func() scorer[S]
}

// blockOption is one for blocks of rows.
type blockOption[S float] struct {
	name  string
	build func() blockScorer[S]
}

// partBytes is about how much of the prepared trees a scorer reads before it goes to the next row: a share of a core's
// second-level cache.
const partBytes = 128 << 10

const (
	// maxWidth bounds the values of a leaf: scorers keep and walk a tree once for each of them.
	maxWidth = 16
	// maxPrepared bounds the bytes of a scorer's trees, which padding makes many of small ones.
	maxPrepared = 256 << 20
)

// newBuilder gives nil where only the walker computes the ensemble: linear leaves, leaves with many values, minimum and
// maximum, or too many columns.
func newBuilder[X, S float](w *walker[X, S], level isa.Level) *builder[X, S] {
	e := w.Ensemble
	if e.Width > maxWidth || e.Linear != nil || e.Aggregate != Sum || len(e.Feature) == 0 {
		return nil
	}
	ranker, tests, ok := newRanker(e, ranking[X](level))
	if !ok {
		return nil
	}
	f := &forest[S]{Ensemble: e, tests: tests, values: w.values, columns: ranker.columns(), copies: e.Width}
	f.measure()
	f.oblivious = f.isOblivious()
	f.parts = treeParts(e, partBytes/f.treeBytes())
	return &builder[X, S]{walker: w, ranker: ranker, forest: f, level: level}
}

// measure finds the depth and the leaves of the largest trees.
func (f *forest[S]) measure() {
	depth := make([]int32, len(f.Feature))
	for n := range f.Feature {
		f.depth = max(f.depth, int(depth[n])+1)
		for _, child := range [2]int32{f.Left[n], f.Right[n]} {
			if child >= 0 {
				depth[child] = depth[n] + 1
			}
		}
	}
	for t := range f.Trees {
		lo, hi := f.Ensemble.leaves(t)
		f.leaves = max(f.leaves, int(hi-lo))
	}
}

// treeBytes is about what a scorer of single rows reads of a tree.
func (f *forest[S]) treeBytes() int {
	if f.depth <= maxPaddedDepth {
		return max(128, 2<<f.depth)
	}
	return 16 * f.leaves
}

// room says whether trees prepared with so many bytes for their nodes and so many leaves keep to maxPrepared.
func (f *forest[S]) room(nodes, leaves int) bool {
	return f.copies*len(f.Trees)*(nodes+leaves*sizeOf[S]()) <= maxPrepared
}

// singles are the scorers for one row, the fastest in general first. Layouts of one kind hold the same trees in more
// and more memory, so that only the first of them that fits is worth a measurement.
func (b *builder[X, S]) singles() []option[S] {
	var all []option[S]
	for _, l := range maskLayouts {
		kernel, tables := maskKernel[S](b.level, l, b.forest.columns)
		f := b.forest
		if kernel != nil && l.fits(f.depth, f.leaves, f.oblivious) && f.room(l.treeBytes(tables), l.leaves) {
			all = append(all, option[S]{l.name, l.kind(), func() scorer[S] { return newMasks(b.forest, l, kernel, tables) }})
		}
	}
	if b.forest.depth <= maxPaddedDepth && b.forest.room(4<<b.forest.depth, 1<<b.forest.depth) {
		all = append(all, option[S]{"padded", "padded", func() scorer[S] { return newPadded(b.forest) }})
	}
	if b.forest.copies*len(b.forest.Feature) <= maxSteps {
		all = append(all, option[S]{"steps", "steps", func() scorer[S] { return newSteps(b.forest) }})
	}
	return all
}

// blocks are the scorers for many rows, the fastest in general first.
func (b *builder[X, S]) blocks() []blockOption[S] {
	var all []blockOption[S]
	f := b.forest
	depth := max(f.depth, minSliceDepth)
	if kernel, lanes := sliceKernel[S](b.level, depth, f.oblivious); kernel != nil && f.room(sliceNode<<depth, 1<<depth) {
		all = append(all, blockOption[S]{sliceName(f.oblivious), func() blockScorer[S] { return newSlices(f, lanes, kernel) }})
	}
	if kernel, lanes, leaves := sliceLeavesKernel[S](b.level, f.leaves); kernel != nil && f.room(20*f.leaves, leaves) {
		all = append(all, blockOption[S]{sliceLeavesName, func() blockScorer[S] {
			return newSlicedLeaves(f, lanes, leaves, kernel)
		}})
	}
	return all
}

// kernel joins a scorer for single rows and one for blocks of from rows or more; single may be nil for the walker, and
// block for none.
func (b *builder[X, S]) kernel(single scorer[S], block blockScorer[S], from int) *ranked[X, S] {
	return &ranked[X, S]{walker: b.walker, ranker: b.ranker, parts: b.forest.parts, single: single, block: block, from: from}
}

// choose gives the kernel that a model is served with: the fastest on rows like the model's own thresholds, measured for
// about choiceTime, for single rows and for blocks of them. What the time does not suffice for is not considered: the
// first scorer that fits is the fastest in general, and the only one for models with more than maxMeasured features, which
// are not measured. Every kernel gives the same bits, so that nothing but time depends on the choice.
func choose[X, S float](e *Ensemble, o Options) (kernel[X, S], error) {
	w := newWalker[X, S](e)
	if o.Level == isa.Auto {
		o.Level = isa.Best()
	}
	b := newBuilder[X](w, o.Level)
	switch {
	case o.Kernel != "":
		return b.named(w, o.Kernel)
	case b == nil:
		return w, nil
	}
	if e.Features > maxMeasured {
		return b.untimed(), nil
	}
	m := newMeasurement(e, w)
	single, one := b.fastestSingle(m)
	block, from := b.fastestBlock(m, b.kernel(single, nil, 0), one)
	if single == nil && block == nil {
		return w, nil
	}
	return b.kernel(single, block, from), nil
}

// untimed gives the scorer that is the fastest in general.
func (b *builder[X, S]) untimed() kernel[X, S] {
	for _, o := range b.singles() {
		return b.kernel(o.build(), nil, 0)
	}
	return b.walker
}

// fastestSingle gives the scorer for one row, nil for the walker, and the time of a row. One that is slower in general
// must be clearly faster here.
func (b *builder[X, S]) fastestSingle(m *measurement[X, S]) (scorer[S], time.Duration) {
	var best scorer[S]
	kinds := map[string]bool{}
	least := time.Duration(0)
	for _, o := range b.singles() {
		if kinds[o.kind] || (best != nil && m.over()) {
			continue
		}
		kinds[o.kind] = true
		s := o.build()
		if d := m.time(b.kernel(s, nil, 0), 1); best == nil || clearly(d, least) {
			best, least = s, d
		}
	}
	if best != nil && m.over() {
		return best, least
	}
	if d := m.time(b.walker, 1); best == nil || clearly(d, least) {
		return nil, d
	}
	return best, least
}

// clearly says whether a is less than b by more than noise.
func clearly(a, b time.Duration) bool { return a < b-b/8 }

// fastestBlock gives the scorer for blocks, nil for none, and the rows from which it beats rows that take one each.
func (b *builder[X, S]) fastestBlock(m *measurement[X, S], single kernel[X, S], one time.Duration) (blockScorer[S], int) {
	var best blockScorer[S]
	from, least := 0, time.Duration(0)
	for _, o := range b.blocks() {
		if best != nil && m.over() {
			break
		}
		s := o.build()
		k := b.kernel(nil, s, 1)
		together := m.time(k, s.lanes())
		// By turns, since what else the machine does slows both: where they meet is what counts.
		for turn := 0; turn < choiceTurns && !m.over(); turn++ {
			one = min(one, m.time(single, 1))
			together = min(together, m.time(k, s.lanes()))
		}
		rows := int(together/max(one, 1)) + 1
		if rows <= s.lanes() && (best == nil || clearly(together, least)) {
			best, from, least = s, rows, together
		}
	}
	return best, from
}

// named prepares the kernel of that name for all numbers of rows.
func (b *builder[X, S]) named(w *walker[X, S], name string) (kernel[X, S], error) {
	known := []string{w.name()}
	if name == w.name() {
		return w, nil
	}
	if b != nil {
		for _, o := range b.singles() {
			if o.name == name {
				return b.kernel(o.build(), nil, 0), nil
			}
			known = append(known, o.name)
		}
		for _, o := range b.blocks() {
			if o.name == name {
				return b.kernel(nil, o.build(), 1), nil
			}
			known = append(known, o.name)
		}
	}
	return nil, fmt.Errorf("gbdt: this model has no kernel %q; it has %s", name, strings.Join(known, ", "))
}

// measurement times kernels on made rows.
type measurement[X, S float] struct {
	rows  []X
	out   []S
	e     *Ensemble
	until time.Time
}

const (
	// choiceTime is about how long a model's kernels are measured.
	choiceTime = 10 * time.Millisecond
	// A kernel is measured in groups of up to choiceGroup calls, some groupTime long.
	choiceGroup = 16
	groupTime   = 100 * time.Microsecond
	minGroups   = 4
	maxGroups   = 16
	// choiceTurns is how often a scorer of blocks and one of rows are measured by turns.
	choiceTurns = 4
	// maxMeasured bounds the features of made rows, and so their memory.
	maxMeasured = 1 << 14
)

// newMeasurement makes maxLanes rows whose values stand around the thresholds of the model: values come from nodes at
// random, so that rows go everywhere in the trees and no branch is foreseen.
func newMeasurement[X, S float](e *Ensemble, w *walker[X, S]) *measurement[X, S] {
	m := &measurement[X, S]{rows: make([]X, maxLanes*e.Features), out: make([]S, maxLanes*e.Outputs), e: e}
	random := rand.New(rand.NewPCG(1, 2))
	for range maxLanes * min(len(e.Feature), 4*e.Features) {
		node := random.IntN(len(e.Feature))
		x := w.thresholds[node]
		if e.Rules[node]&Member != 0 {
			x = X(random.IntN(32*len(e.Sets[int(x)]) + 1))
		}
		if !math.IsInf(float64(x), 0) {
			m.rows[random.IntN(maxLanes)*e.Features+int(e.Feature[node])] = x
		}
	}
	m.until = time.Now().Add(choiceTime)
	return m
}

// over says whether the time for measurements is.
func (m *measurement[X, S]) over() bool { return time.Now().After(m.until) }

// time is the mean time of a call with that many rows, in the best of some groups of calls: what else the machine does
// meets some of them only.
func (m *measurement[X, S]) time(k kernel[X, S], rows int) time.Duration {
	width, outputs := rows*m.e.Features, rows*m.e.Outputs
	calls := len(m.out) / outputs
	at := 0
	call := func() {
		k.margins(m.rows[at*width:(at+1)*width], m.out[at*outputs:(at+1)*outputs])
		at = (at + 1) % calls
	}
	call() // what it reads comes into the caches
	begun := time.Now()
	call()
	least := max(time.Since(begun), 1)
	group := int(min(max(groupTime/least, 1), choiceGroup))
	for started, g := time.Now(), 0; g < minGroups || (g < maxGroups && time.Since(started) < groupTime*minGroups); g++ {
		begun := time.Now()
		for range group {
			call()
		}
		least = min(least, max(time.Since(begun)/time.Duration(group), 1))
	}
	return least
}
