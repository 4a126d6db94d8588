package attend

import "math"

// vectors returns the place in q or out of the tile's first query; those of its row are its neighbours, those of the next
// row are all heads behind.
func (w *attendWork) vectors(x []float32) []float32 {
	return x[(w.tile.Row*w.Heads+w.head*w.group)*w.KV.HeadDim:]
}

// padded is the number of lanes that kernels work on.
func (w *attendWork) padded() int { return (w.lanes + laneStep - 1) &^ (laneStep - 1) }

// packFloats lays the queries of four lanes out in dst as [HeadDim][4]; where the tile has fewer, the last one comes again.
func (w *attendWork) packFloats(dst []uint32, lane int) {
	var q [laneStep][]float32
	for i := range q {
		q[i] = w.vector(w.Q, w.tile, w.head, min(lane+i, w.lanes-1))
	}
	d := w.KV.HeadDim
	to := dst[lane*d:][:laneStep*d]
	a, b, c, e := q[0][:d], q[1][:d], q[2][:d], q[3][:d]
	for i := range d {
		four := (*[laneStep]uint32)(to[laneStep*i:])
		four[0], four[1] = math.Float32bits(a[i]*w.Scale), math.Float32bits(b[i]*w.Scale)
		four[2], four[3] = math.Float32bits(c[i]*w.Scale), math.Float32bits(e[i]*w.Scale)
	}
}

// packCodes rotates the queries and packs them for scoreQ8.
func (w *attendWork) packCodes() {
	d, scale := w.KV.HeadDim, w.scale[:w.lanes]
	for i := range scale {
		scale[i] = 1
	}
	q := w.vectors(w.Q)
	fetch(w.level, q, w.group*d, w.Heads*d, w.tile.Count)
	from := headRows{d, w.group, w.group * d, w.Heads * d}
	if w.form.inverse != nil {
		inverse := w.form.inverse[w.head*d:][:d]
		for l := range w.lanes {
			multiply(w.turned[l*d:][:d], w.vector(w.Q, w.tile, w.head, l), inverse)
		}
		q, from.x = w.turned, from.dst
	}
	rotateHeads(w.level, w.turned, q, from, scale)
	clear(w.turned[w.lanes*d : w.padded()*d])
	factor := w.Scale / float32(rotated(d)) // exact
	for l := 0; l < w.lanes; l += laneStep {
		packQ8(w.level, w.query[l/laneStep*(d/blockValues)*queryWords:], w.turned[l*d:(l+laneStep)*d], factor)
	}
}
