package attend

import (
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// BenchmarkAttendKernels times the parts of one segment for four lanes, with
// everything in the caches, per lane and tile.
func BenchmarkAttendKernels(b *testing.B) {
	const dim, tiles, lanes = 64, segmentTokens / tileTokens, laneStep
	codes, halves := newKV(b, KVQ8, segmentTokens/2, 3, 1, dim), newKV(b, KVF16, segmentTokens/2, 3, 1, dim)
	clear(codes.data)
	clear(halves.data)
	codesAt, halvesAt := make([]int, tiles), make([]int, tiles)
	for i := range tiles {
		codesAt[i], halvesAt[i] = i*codes.tileSize, i*halves.tileSize
	}
	inCodes, inHalves := stretchOf(codes.data, codesAt), stretchOf(halves.data, halvesAt)
	codeValues, halfValues := inCodes, inHalves
	codeValues.at, halfValues.at = codes.valuesAt(), halves.valuesAt()
	w := &attendWork{}
	w.reserve(lanes, codes)
	for i := range w.seen {
		w.seen[i].N = segmentTokens
	}
	for _, level := range isa.Levels() {
		for _, k := range []struct {
			name string
			run  func()
		}{
			{"scoreQ8", func() { scoreQ8(level, w.scores, w.query, lanes, dim/blockValues, &inCodes) }},
			{"scoreF16", func() { scoreF16(level, w.scores, w.query, lanes, dim, &inHalves) }},
			{"vector.Weigh", func() { vector.Weigh(level, w.scores, scoreStride, segmentTokens, w.seen[:lanes], w.now) }},
			{"weighQ8", func() {
				weighQ8(level, w.codes, w.scores, tiles, w.seen, w.scales, w.now)
			}},
			{"mixQ8", func() { mixQ8(level, w.part, dim, new([laneStep]share), &w.codes[0], &codeValues) }},
			{"mixF16", func() {
				mixF16(level, w.part, w.scores, dim, &halfValues, segmentTokens)
			}},
		} {
			b.Run(k.name+"/level="+level.String(), func(b *testing.B) {
				for b.Loop() {
					k.run()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*tiles*lanes), "ns/tile")
			})
		}
	}
}
