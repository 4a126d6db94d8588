package attend

import "weir/engine/kernel/vector"

// Keys of a head have much in common: the bias of their projection, which can be many times as large as what tells tokens apart, and then
// leaves few steps to it. So stores that round keep keys less a center, one vector for each segment of positions: positions turn
// a bias, too, but the less the larger it is. What a center adds to a score is the same for all positions of a segment, and the
// softmax of a segment does not see it. It is added to the segment's top score, from the query as it is, where segments are joined.
//
// And where a channel is large in keys and small in queries, or the other way around, rounding loses more than where both are of
// a size: then keys are multiplied by a power of two, and queries divided by it.

// KeyForm is how a layer's keys are stored: (key - center) * scale.
type KeyForm struct {
	Centers []float32 // [segments][KVHeads*HeadDim], of SegmentTokens positions each; later ones have the last one's; nil: zero
	Scales  []float32 // [KVHeads*HeadDim], powers of two; nil: one
}

// SegmentTokens is how many positions share a center.
const SegmentTokens = segmentTokens

// keyForm is a KeyForm as it is computed with.
type keyForm struct {
	rows    []float32 // centers, [segments][KVHeads*HeadDim]; nil: zero
	centers []byte    // the same, [segments/16][KVHeads][HeadDim][16]: as tiles of an f32 store have keys
	scales  []float32
	inverse []float32 // of scales
}

// centersTogether is how many segments' centers meet queries at a time: two tiles, the least that kernels take.
const centersTogether = 2 * tileTokens

// SetKeyForm says how the keys of a layer are stored, before any is. Types that do not round store them as they are.
func (kv *KV) SetKeyForm(layer int, f KeyForm) {
	if !kv.Type.rounds() {
		return
	}
	if kv.forms == nil {
		kv.forms = make([]keyForm, kv.Layers)
	}
	to := &kv.forms[layer]
	*to = keyForm{scales: f.Scales}
	for _, s := range f.Scales {
		to.inverse = append(to.inverse, 1/s)
	}
	width := kv.KVHeads * kv.HeadDim
	segments := len(f.Centers) / width
	if segments == 0 {
		return
	}
	rounded := (segments + centersTogether - 1) / centersTogether * centersTogether
	floats := alignedFloats(rounded * width)
	for s := range rounded {
		tile := floats[s/tileTokens*tileTokens*width+s%tileTokens:]
		for i, v := range f.Centers[min(s, segments-1)*width:][:width] {
			tile[i*tileTokens] = v
		}
	}
	to.rows, to.centers = f.Centers, vector.Bytes(floats)
}

// form is how a layer's keys are stored.
func (kv *KV) form(layer int) keyForm {
	if kv.forms == nil {
		return keyForm{}
	}
	return kv.forms[layer]
}

// tile is the offset of the centers of a segment and its neighbours for a head, of the last ones where there are none.
func (f *keyForm) tile(s *KVShape, segment, head int) int {
	size := 4 * tileTokens * s.HeadDim
	last := len(f.centers)/(size*s.KVHeads) - 1
	return (min(segment/tileTokens, last)*s.KVHeads + head) * size
}

// apply leaves in dst the keys k of all heads, of rows of one segment, as they are stored; false where that is as they are.
func (f *keyForm) apply(s *KVShape, dst, k []float32, segment int) bool {
	width := s.KVHeads * s.HeadDim
	from := k
	if f.rows != nil {
		center := f.rows[min(segment, len(f.rows)/width-1)*width:][:width]
		for row := 0; row < len(k); row += width {
			subtract(dst[row:row+width], k[row:row+width], center)
		}
		from = dst
	}
	if f.scales != nil {
		for row := 0; row < len(k); row += width {
			multiply(dst[row:row+width], from[row:row+width], f.scales)
		}
	}
	return f.rows != nil || f.scales != nil
}

// subtract computes dst = x-y.
func subtract(dst, x, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i, v := range x {
		dst[i] = v - y[i]
	}
}

// multiply computes dst = x*y.
func multiply(dst, x, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i, v := range x {
		dst[i] = v * y[i]
	}
}

// offsets are what centers add to the scores of a tile's lanes, where its segments are joined.
type offsets struct {
	on      bool
	queries []uint32  // as they are, see packFloats
	first   int       // segment of added; -1: none is computed
	added   []float32 // [lanes][centersTogether]
	tiles   [2]int    // of the centers
}

// reserve makes room for so many lanes, whose queries have so many values.
func (o *offsets) reserve(lanes, values int) {
	o.queries, o.added = make([]uint32, values), make([]float32, lanes*centersTogether)
}

// center packs the tile's queries for the products with centers, by the worker that joins its segments. One segment is not to be joined.
func (w *attendWork) center() {
	o := &w.offsets
	from, to := w.segments(w.tile)
	o.on, o.first = w.form.centers != nil && to-from > 1, -1
	for l := 0; o.on && l < w.lanes; l += laneStep {
		w.packFloats(o.queries, l)
	}
}

// offset computes what the centers of a segment and its neighbours add to scores. It overwrites w.scores.
func (w *attendWork) offset(segment int) {
	o, first := &w.offsets, segment/centersTogether*centersTogether
	if !o.on || first == o.first {
		return
	}
	o.first = first
	o.tiles[0] = w.form.tile(&w.KV.KVShape, first, w.head)
	o.tiles[1] = o.tiles[0] // again, which is in the cache, where no lane sees so far
	if next := first + tileTokens; next*segmentTokens < w.tile.end() {
		o.tiles[1] = w.form.tile(&w.KV.KVShape, next, w.head)
	}
	s := stretchOf(w.form.centers, o.tiles[:])
	scoreF32(w.level, w.scores, o.queries, w.padded(), w.KV.HeadDim, &s)
	for l := range w.lanes {
		copy(o.added[l*centersTogether:][:centersTogether], w.scores[l*scoreStride:])
	}
}

// addOffsets adds what its center does to the scores of a segment, of four lanes.
func (w *attendWork) addOffsets(segment, lane int) {
	if !w.offsets.on {
		return
	}
	for l := lane; l < min(lane+laneStep, w.lanes); l++ {
		w.now[l].Top += w.offsets.added[l*centersTogether+segment%centersTogether]
	}
}
