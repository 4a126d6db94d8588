package attend

import (
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/kvcache"
)

const (
	// segmentTokens is how many positions share one softmax. Segments begin at
	// multiples of it, whatever the batch, so that a row's result depends on its
	// position alone; each segment is computed by itself, and the results are merged in order.
	segmentTokens = 512

	// scoreStride is the distance between lanes of scores, in floats: a little
	// more than a segment, so that lanes do not compete for the same sets of
	// the first-level cache.
	scoreStride = segmentTokens + 16

	// attendLanes is how many query vectors share one pass over keys and values,
	// where there are as many rows and work for all workers: the scores of a segment
	// stay in the second-level cache, and keys and values are read from beyond it seldom.
	attendLanes = 96

	// laneStep is how many query vectors a kernel works on at a time.
	laneStep = 4

	// tilesTogether is how many tiles share steps of weights of q8_0; see [weightCodes].
	tilesTogether = 4
)

// Span is a run of query rows of one sequence: rows [Row, Row+Count) of the
// batch stand at positions [Start, Start+Count), and Blocks covers positions
// [0, Start+Count), or [0, Whole). Keys and values of all these are stored before
// attention runs.
type Span struct {
	Row    int
	Count  int
	Start  int
	Whole  int // the sequence's length, where each row sees all of it; 0 where a row sees itself and those before
	Blocks []kvcache.BlockID
}

// end is the number of positions that the span sees.
func (s Span) end() int { return max(s.Start+s.Count, s.Whole) }

// Query asks for grouped-query attention over the paged store for every row of
// every span: Out[r][h] = softmax(Q[r][h].K * Scale) V, over the positions that the
// row sees.
type Query struct {
	Out, Q []float32 // [rows][Heads*HeadDim]
	KV     *KV
	Layer  int
	Heads  int // of queries, a multiple of the store's heads
	Spans  []Span
	Scale  float32
	Reads  uint64 // a number of the caller's: what queries with the same one see of a store, nothing overwrites between them; 0: it may
	Reach  int    // how far from itself a row sees, in positions; 0 is any distance

	Cap float32 // scores are kept within it: Cap*tanh(score/Cap); 0 is any score

	// Slopes, one per head of queries, are what a score loses for each position between the row and the key (ALiBi);
	// nil: nothing.
	Slopes []float32

	// Sinks, one per head of queries, are scores of a position that has no value: they take from the others' weights; nil: nothing.
	Sinks []float32
}

// Attention answers queries for one engine as a member of a pool. It is not safe
// for concurrent use, and allocates nothing after the first query of a size.
type Attention struct {
	member *pool.Member
	level  isa.Level
	job    attendJob
	store  storeJob
}

// New is attention at a level, which the machine must have.
func New(member *pool.Member, level isa.Level) *Attention {
	a := &Attention{member: member, level: level}
	a.job.level, a.job.work = level, make([]attendWork, member.Workers())
	return a
}

// Attend answers a query. The work of a span grows with its own length only. A
// row's sums run over segments of fixed positions in ascending order, whichever worker
// computes them.
func (a *Attention) Attend(q Query) {
	j := &a.job
	j.Query, j.group = q, q.Heads/q.KV.KVHeads
	j.plan(q.Spans, a.member.Workers())
	for i := range j.work {
		j.work[i].reserve(j.lanes, q.KV)
	}
	a.member.Run(j, len(j.parts)*q.KV.KVHeads, 1)
	if j.splits > 0 {
		j.gather.attendJob = j
		a.member.Run(&j.gather, len(j.parts)*q.KV.KVHeads, 1)
	}
}

type attendJob struct {
	Query
	level isa.Level
	group int // query heads per key head

	tiles   []Span       // runs of rows that share passes
	parts   []attendPart // of tiles, in order
	work    []attendWork // per worker
	partial []float32    // results of segments of tiles that are split
	splits  int          // segments in partial
	lanes   int          // the most of a tile
	gather  gatherJob
}

// attendPart is a piece of work that one worker does for one key head: segments
// [from, to) of a tile of rows. Where a tile has one part, saved is -1; where it is split its
// segments' results are kept in partial from segment saved on.
type attendPart struct {
	tile     int
	from, to int
	saved    int
}

// plan cuts the spans into tiles and the tiles into parts. Long tiles are split
// only where workers would idle.
func (j *attendJob) plan(spans []Span, workers int) {
	j.tiles, j.parts, j.splits, j.lanes = j.tiles[:0], j.parts[:0], 0, 0
	count, total := 0, 0
	for _, s := range spans {
		count += s.Count
	}
	lanes := attendLanes
	for lanes > attendLanes/4 && count*j.group*j.KV.KVHeads < 4*workers*lanes {
		lanes /= 2
	}
	rows := tileRows(j.group, lanes)
	for _, s := range spans {
		for lo := 0; lo < s.Count; lo += rows {
			t := Span{Row: s.Row + lo, Count: min(rows, s.Count-lo), Start: s.Start + lo, Whole: s.Whole, Blocks: s.Blocks}
			j.tiles = append(j.tiles, t)
			from, to := j.segments(t)
			total += to - from
			j.lanes = max(j.lanes, t.Count*j.group)
		}
	}
	most := max(1, total*j.KV.KVHeads/(4*workers)) // segments of a part
	if workers == 1 {
		most = math.MaxInt
	}
	for i, t := range j.tiles {
		from, to := j.segments(t)
		if to-from <= most {
			j.parts = append(j.parts, attendPart{tile: i, from: from, to: to, saved: -1})
			continue
		}
		for lo := from; lo < to; lo += most {
			j.parts = append(j.parts, attendPart{tile: i, from: lo, to: min(lo+most, to), saved: j.splits + lo - from})
		}
		j.splits += to - from
	}
	if n := j.splits * j.KV.KVHeads * j.savedFloats(); n > len(j.partial) {
		j.partial = make([]float32, max(n, 2*len(j.partial)))
	}
}

// segments are those that some row of a tile sees: [from, to). What is behind a window costs nothing.
func (j *attendJob) segments(t Span) (from, to int) {
	end := t.end()
	if j.Reach > 0 {
		from, end = max(0, t.Start-j.Reach)/segmentTokens, min(end, t.Start+t.Count+j.Reach)
	}
	return from, (end + segmentTokens - 1) / segmentTokens
}

// tileRows is how many rows share a pass, of so many query heads each: as have so many query vectors, and then some
// until kernels have no lane left over.
func tileRows(group, lanes int) int {
	rows := max(1, lanes/group)
	for rows > 1 && rows*group%laneStep != 0 {
		rows++
	}
	return rows
}

// savedFloats is the size of one segment's result: per lane its top score, its
// sum and its mixed values.
func (j *attendJob) savedFloats() int { return j.lanes * (2 + j.KV.HeadDim) }

// saved is the place of a segment's result in partial.
func (j *attendJob) saved(segment, head int) []float32 {
	n := j.savedFloats()
	o := (segment*j.KV.KVHeads + head) * n
	return j.partial[o : o+n]
}

// Do computes one part for one key head, with all query heads that share it.
func (j *attendJob) Do(worker, item int) {
	p, head := j.parts[item/j.KV.KVHeads], item%j.KV.KVHeads
	w := &j.work[worker]
	w.begin(j, j.tiles[p.tile], head)
	if p.saved < 0 {
		w.center()
		if w.tile.Count > 1 {
			w.fetchOut()
		}
	}
	for s := p.from; s < p.to; s++ {
		w.segment(s)
		if p.saved >= 0 {
			w.save(j.saved(p.saved+s-p.from, head))
			w.aim(j, w.tile, head)
		}
	}
	if p.saved < 0 {
		w.finish()
	}
}

// gatherJob merges the segments of split tiles, in order.
type gatherJob struct{ *attendJob }

// Do merges one tile and key head; the item of the tile's first part does it.
func (j *gatherJob) Do(worker, item int) {
	p, head := j.parts[item/j.KV.KVHeads], item%j.KV.KVHeads
	w, t := &j.work[worker], j.tiles[p.tile]
	from, to := j.segments(t)
	if p.saved < 0 || p.from > from {
		return
	}
	w.aim(j.attendJob, t, head)
	w.center()
	for s := from; s < to; s++ {
		w.restore(j.saved(p.saved+s-from, head))
		w.offset(s)
		for l := 0; l < w.lanes; l += laneStep {
			w.addOffsets(s, l)
		}
		w.merge()
	}
	w.finish()
}

// vector returns the place of a lane's query head, in q or out: lanes are
// rows by the query heads of the group of head.
func (j *attendJob) vector(x []float32, t Span, head, lane int) []float32 {
	d := j.KV.HeadDim
	o := ((t.Row+lane/j.group)*j.Heads + head*j.group + lane%j.group) * d
	return x[o : o+d]
}
