package attend

import (
	"unsafe"

	"weir/engine/kernel/vector"
)

// attendWork is one worker's memory for a tile of query rows and one key head:
// lanes are the tile's rows by the query heads of the group.
type attendWork struct {
	*attendJob
	tile  Span
	head  int
	lanes int

	query   []uint32                          // packed for the kernels, see packFloats and packCodes
	scores  []float32                         // [lanes][scoreStride]: scores of a segment, then weights
	part    []float32                         // [lanes][HeadDim]: a segment's mixed values, of floats
	acc     []float32                         // [lanes][HeadDim]: those of all segments so far
	seen    []vector.Seen                     // [lanes], of the segment
	now     []vector.Softmax                  // [lanes], of the segment
	all     []vector.Softmax                  // [lanes], of all segments so far
	codes   []weightCodes                     // of rounded values: [HeadDim/32]
	scales  []float32                         // of rounded values: [HeadDim/32][segmentTokens]
	turned  []float32                         // [lanes][HeadDim]: rotated queries
	scale   []float32                         // [lanes], of rotations
	places  [2][segmentTokens / leastPart]int // offsets of the tiles of a segment and of the next one
	form    keyForm                           // of the layer's keys
	offsets offsets                           // of centers of keys
	kept    []joined                          // of parts of tiles: what opened has of segments
	opened  []byte                            // of q4_0 and of parts of tiles: a segment's tiles as kernels read them
	data    []byte                            // the tiles that kernels read: opened, or the store
}

// reserve makes room for tiles of up to lanes lanes. Kernels work on four
// lanes at a time from any lane on, so there are some more than are used.
func (w *attendWork) reserve(lanes int, kv *KV) {
	headDim := kv.HeadDim
	w.data = kv.data
	if size := kv.openedTile(); size > 0 {
		if n := kv.keeps(size) * segmentTokens / tileTokens * size; n > len(w.opened) {
			w.opened, w.kept = make([]byte, n), w.kept[:0]
		}
		w.data = w.opened
	}
	lanes += 2*laneStep - 1
	if n := lanes * (headDim + headDim/4); n > len(w.query) {
		w.query = make([]uint32, n)
		w.part = make([]float32, n)
		w.acc = make([]float32, n)
		w.turned = make([]float32, n)
		w.offsets.reserve(lanes, n)
	}
	if blocks := headDim / blockValues; kv.Type.rounds() {
		if blocks > cap(w.codes) {
			w.codes, w.scales = alignedCodes(blocks), alignedFloats(blocks*segmentTokens)
		}
		w.codes = w.codes[:blocks] // layers may have heads of several sizes
	}
	if len(w.scale) < lanes {
		w.scale = make([]float32, lanes)
	}
	if n := lanes * scoreStride; n > len(w.scores) {
		w.scores = alignedFloats(n)
		w.seen = make([]vector.Seen, lanes)
		w.now = make([]vector.Softmax, lanes)
		w.all = make([]vector.Softmax, lanes)
	}
}

// alignedFloats allocates n floats from the start of a cache line on.
func alignedFloats(n int) []float32 {
	const line = 64
	s := make([]float32, n+line/4)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(s))) % line / 4
	return s[skip : int(skip)+n]
}

// alignedCodes allocates the codes of n blocks in the same way.
func alignedCodes(n int) []weightCodes {
	floats := alignedFloats(n * int(unsafe.Sizeof(weightCodes{})) / 4)
	return unsafe.Slice((*weightCodes)(unsafe.Pointer(unsafe.SliceData(floats))), n)
}

// aim points the worker at a tile, nothing mixed so far.
func (w *attendWork) aim(j *attendJob, t Span, head int) {
	w.attendJob, w.tile, w.head, w.lanes = j, t, head, t.Count*j.group
	w.form, w.offsets.on = j.KV.form(j.Layer), false
	clear(w.all[:w.lanes])
	clear(w.acc[:w.padded()*j.KV.HeadDim])
}

// begin also packs the tile's queries.
func (w *attendWork) begin(j *attendJob, t Span, head int) {
	w.aim(j, t, head)
	if j.KV.Type.rounds() {
		w.packCodes()
		return
	}
	for l := 0; l < w.lanes; l += laneStep {
		w.packFloats(w.query, l)
	}
}

// position is where a lane's row stands.
func (w *attendWork) position(lane int) int { return w.tile.Start + lane/w.group }

// visible is how many positions from first on a lane may see, those that are
// hidden included; none or fewer where it stands before them.
func (w *attendWork) visible(lane, first int) int {
	n := w.tile.Whole
	if n == 0 {
		n = w.position(lane) + 1
	}
	if w.Reach > 0 {
		n = min(n, w.position(lane)+w.Reach+1)
	}
	return n - first
}

// hidden is how many positions from first on are too far before a lane's own.
func (w *attendWork) hidden(lane, first int) int {
	if w.Reach == 0 {
		return 0
	}
	return max(0, w.position(lane)-w.Reach-first)
}

// window is the positions of segment s that some lane may see: n from first on, none or fewer where no lane sees any. The
// window begins at a multiple of tilesTogether tiles: so positions alone decide which weights share a step, and not the lanes
// that are computed together.
func (w *attendWork) window(s int) (first, n int) {
	first = s * segmentTokens
	end := min(w.tile.end(), first+segmentTokens)
	if w.Reach > 0 {
		end = min(end, w.tile.Start+w.tile.Count+w.Reach)
		first += w.hidden(0, first) / (tilesTogether * tileTokens) * tilesTogether * tileTokens
	}
	return first, end - first
}

// segment adds segment s to those before it.
func (w *attendWork) segment(s int) {
	first, n := w.window(s)
	if n <= 0 {
		return
	}
	places := w.locate(w.places[0][:0], first, n)
	ahead := w.ahead((s+1)*segmentTokens, (len(places)+tilesTogether-1)/tilesTogether*tilesTogether)
	switch {
	case w.KV.Type == KVQ4:
		places, ahead = w.open(places), nil // what is opened next is prefetched as it is opened
	case w.KV.part < tileTokens:
		places, ahead = w.joinParts(s, first, places), nil
	}
	places = padded(places)
	w.offset(s)
	tiles := stretchOf(w.data, places)
	w.score(tiles, (n+2*tileTokens-1)/(2*tileTokens)*2)
	if w.Cap > 0 {
		w.cap(n)
	}
	if w.Slopes != nil {
		w.slope(first, n)
	}
	w.see(first, n)
	if w.KV.Type.rounds() {
		w.mixCodes(s, tiles, ahead)
		return
	}
	vector.Weigh(w.level, w.scores, scoreStride, len(places)*tileTokens, w.seen[:w.lanes], w.now)
	w.mixFloats(tiles, ahead, first, n)
	w.merge()
}

// locate finds the tiles of n positions from first on.
func (w *attendWork) locate(places []int, first, n int) []int {
	kv := w.KV
	for pos := first; pos < first+n; pos += kv.part {
		places = append(places, kv.tile(w.Layer, w.tile.Blocks[pos/kv.BlockTokens], w.head, pos%kv.BlockTokens))
	}
	return places
}

// padded repeats the last of some tiles until there is a multiple of tilesTogether, which kernels take at a time.
func padded(places []int) []int {
	for len(places)%tilesTogether != 0 {
		places = append(places, places[len(places)-1])
	}
	return places
}

// ahead finds n tiles from first on whose keys are asked for while the values
// before them are mixed; none at the end.
func (w *attendWork) ahead(first, n int) []int {
	left := min(w.tile.end()-first, segmentTokens)
	if left <= 0 {
		return nil
	}
	places := padded(w.locate(w.places[1][:0], first, left))
	for len(places) < n {
		places = append(places, places[0])
	}
	return places
}

// score computes the scores of the first tiles of a stretch.
func (w *attendWork) score(s stretch, tiles int) {
	kv := w.KV
	s.tiles = s.tiles[:tiles]
	switch kv.Type {
	case KVQ8, KVQ4:
		scoreQ8(w.level, w.scores, w.query, w.padded(), kv.HeadDim/blockValues, &s)
	case KVF32:
		scoreF32(w.level, w.scores, w.query, w.padded(), kv.HeadDim, &s)
	default:
		scoreF16(w.level, w.scores, w.query, w.padded(), kv.HeadDim, &s)
	}
}

// cap keeps the scores of a segment's first n positions within the cap.
func (w *attendWork) cap(n int) {
	for l := range w.lanes {
		vector.SoftCap(w.level, w.scores[l*scoreStride:][:n], w.Cap)
	}
}

// slope takes from the scores of n positions from first on what their distance costs.
func (w *attendWork) slope(first, n int) {
	for l := range w.lanes {
		by, at := w.Slopes[w.head*w.group+l%w.group], w.position(l)-first
		scores := w.scores[l*scoreStride:][:n]
		for i := range scores {
			scores[i] -= by * float32(max(at-i, i-at))
		}
	}
}

// see says which of n positions from first on each lane sees; a lane that is no query's sees none.
func (w *attendWork) see(first, n int) {
	for l := range w.lanes {
		hi := max(0, min(w.visible(l, first), n))
		lo := min(w.hidden(l, first), hi)
		w.seen[l] = vector.Seen{First: lo, N: hi - lo}
	}
	clear(w.seen[w.lanes:w.padded()])
}

// mixCodes turns four lanes' scores into weights of 8 bits and adds up values in integers, 32 at a time. The first lanes'
// pass asks for what is ahead.
func (w *attendWork) mixCodes(segment int, s stretch, ahead []int) {
	kv := w.KV
	s.at = kv.valueScalesAt()
	openScales(w.level, w.scales, len(w.codes), &s)
	for l := 0; l < w.lanes; l += laneStep {
		weighQ8(w.level, w.codes, w.scores[l*scoreStride:], len(s.tiles), w.seen[l:], w.scales, w.now[l:])
		w.addOffsets(segment, l)
		shares := w.shares(l)
		for b := range w.codes {
			codes, scales := b*blockValues*tileTokens, b*2*tileTokens
			s.at, s.ahead, s.keys, s.scales = kv.valuesAt()+codes, ahead, codes, kv.keyScalesAt()+scales
			mixQ8(w.level, w.acc[l*kv.HeadDim+b*blockValues:], kv.HeadDim, &shares, &w.codes[b], &s)
		}
		ahead = nil
	}
}

// shares adds the softmaxes of four lanes to those of the segments before.
func (w *attendWork) shares(lane int) (s [laneStep]share) {
	for i := range s {
		s[i].old = 1
		if w.seen[lane+i].N > 0 {
			s[i] = join(&w.all[lane+i], w.now[lane+i])
		}
	}
	return s
}

// mixFloats adds up values position by position. Positions that some row must
// not see are taken one by one, for the rows that do: a zero weight would not
// keep out a value that is not finite.
func (w *attendWork) mixFloats(s stretch, ahead []int, first, n int) {
	d, places := w.KV.HeadDim, s.tiles
	s.at, s.ahead = w.KV.valuesAt(), ahead
	clear(w.part[:(w.lanes+laneStep-1)*d])
	if w.tile.Whole > 0 { // what a window hides is of the same text, which fails as a whole
		w.mix(0, 0, n, s)
		return
	}
	shared := max(0, min(w.visible(0, first), n))
	w.mix(0, 0, shared, s)
	for pos := shared; pos < n; pos++ {
		row := max(0, first+pos-w.tile.Start)
		one := stretchOf(s.data, []int{places[pos/tileTokens] + pos%tileTokens*w.valueBytes()})
		one.at = s.at
		w.mix(row*w.group, pos, 1, one)
	}
}

// valueBytes is the distance between the values of neighbours in a tile.
func (w *attendWork) valueBytes() int { return w.KV.valuesAt() / tileTokens }

// mix adds n positions' values, weighed from position at on, to the lanes from
// lane on.
func (w *attendWork) mix(lane, at, n int, s stretch) {
	kv := w.KV
	for l := lane; l < w.lanes; l += laneStep {
		out, weights := w.part[l*kv.HeadDim:], w.scores[l*scoreStride+at:]
		if kv.Type == KVF32 {
			mixF32(w.level, out, weights, kv.HeadDim, &s, n)
		} else {
			mixF16(w.level, out, weights, kv.HeadDim, &s, n)
		}
		s.ahead = nil
	}
}

// join adds the softmax of a segment to all, of those before it, and gives the share of either in the values of both.
func join(all *vector.Softmax, now vector.Softmax) share {
	if all.Sum == 0 {
		*all = now
		return share{now: 1}
	}
	s, top := share{1, 1}, max(all.Top, now.Top)
	if all.Top != top {
		s.old = vector.Exp(all.Top - top)
	}
	if now.Top != top {
		s.now = vector.Exp(now.Top - top)
	}
	*all = vector.Softmax{Top: top, Sum: all.Sum*s.old + now.Sum*s.now}
	return s
}

// merge adds now and part, of a segment, to all and acc, of those before it.
func (w *attendWork) merge() {
	d := w.KV.HeadDim
	for l := range w.lanes {
		if w.now[l].Sum != 0 { // the lane sees some of it
			s := join(&w.all[l], w.now[l])
			blend(w.level, w.acc[l*d:l*d+d], w.part[l*d:l*d+d], s.old, s.now)
		}
	}
}

// save keeps the result of one segment for gatherJob, restore brings it back.
func (w *attendWork) save(to []float32) {
	for l := range w.lanes {
		to[2*l], to[2*l+1] = w.all[l].Top, w.all[l].Sum
	}
	copy(to[2*w.lanes:], w.acc[:w.lanes*w.KV.HeadDim])
}

func (w *attendWork) restore(from []float32) {
	for l := range w.lanes {
		w.now[l] = vector.Softmax{Top: from[2*l], Sum: from[2*l+1]}
	}
	copy(w.part, from[2*w.lanes:][:w.lanes*w.KV.HeadDim])
}

// finish normalises the result, and rotates it back where values are rotated.
func (w *attendWork) finish() {
	d := w.KV.HeadDim
	if w.Sinks != nil {
		w.sink()
	}
	if w.KV.Type.rounds() {
		w.turnBack()
		return
	}
	for l := range w.lanes {
		acc, out := w.acc[l*d:l*d+d], w.vector(w.Out, w.tile, w.head, l)[:d]
		inverse := 1 / w.all[l].Sum
		for i, v := range acc {
			out[i] = v * inverse
		}
	}
}

// sink adds to the sums what the heads' sinks weigh beside the top score; where that is too much for a float, nothing else counts.
func (w *attendWork) sink() {
	for l := range w.lanes {
		all := &w.all[l]
		all.Sum += vector.Exp(w.Sinks[w.head*w.group+l%w.group] - all.Top)
	}
}

// fetchOut asks for the lines of a result of many rows: stores wait for lines that other cores read.
func (w *attendWork) fetchOut() {
	d := w.KV.HeadDim
	fetch(w.level, w.vectors(w.Out), w.group*d, w.Heads*d, w.tile.Count)
}

// turnBack normalises and rotates the result.
func (w *attendWork) turnBack() {
	d, scale := w.KV.HeadDim, w.scale[:w.lanes]
	back := float32(rotated(d))
	for i := range scale {
		scale[i] = 1 / w.all[i].Sum / back
	}
	rotateHeads(w.level, w.vectors(w.Out), w.acc, headRows{d, w.group, w.Heads * d, w.group * d}, scale)
}
