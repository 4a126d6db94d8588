//go:build amd64 && !purego && !noasm

package attend

import (
	"fmt"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/internal/guard"
)

const (
	boundTiles = 8
	boundWidth = boundTiles * tileTokens
	boundDim   = 96
	boundBlock = boundDim / blockValues
	boundCodes = 2 * tileTokens * (boundDim + 2*boundBlock) // bytes of a tile of q8_0
	lastLane   = (laneStep - 1) * scoreStride
)

// tiles are tiles of so many bytes, of which the last one has need of them.
func tiles(m *guard.Margins, bytes, need int) stretch {
	data, places := guard.Sized[byte](m, "tiles", (boundTiles-1)*bytes+need), guard.Sized[int](m, "places", boundTiles)
	for i := range places {
		places[i] = i * bytes
	}
	return stretchOf(data, places)
}

func ahead(m *guard.Margins, s *stretch) *stretch {
	s.ahead = guard.Sized[int](m, "ahead", boundTiles)
	return s
}

// bounded are the functions of assembly in memory that is just enough.
var bounded = map[string]func(level isa.Level, m *guard.Margins){
	"quantizeBy": func(level isa.Level, m *guard.Margins) {
		quantizeBy(level, (*blockCodes)(guard.Whole[int8](m, blockValues)), (*[blockValues]float32)(guard.Whole[float32](m, blockValues)), 1)
	},
	"halveEights": func(level isa.Level, m *guard.Margins) {
		halveEights(level, guard.Sized[byte](m, "halves", 2*24), guard.Sized[float32](m, "values", 24))
	},
	"packQ8": func(level isa.Level, m *guard.Margins) {
		packQ8(level, guard.Sized[uint32](m, "query", boundBlock*queryWords), guard.Sized[float32](m, "values", laneStep*boundDim), 1)
	},
	"storeFourQ8": func(level isa.Level, m *guard.Margins) {
		kv, width := &KV{KVShape: KVShape{Type: KVQ8, HeadDim: boundDim}, tileSize: boundCodes}, 2*boundDim
		n := (valueTokens-1)*width + boundDim
		storeFourQ8(level, guard.Sized[byte](m, "tile", boundCodes), kv,
			fourTokens{guard.Sized[float32](m, "keys", n), guard.Sized[float32](m, "values", n), width, tileTokens - valueTokens})
	},
	"scoreQ8": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, boundCodes, 2*tileTokens*(boundDim+boundBlock))
		scoreQ8(level, guard.Sized[float32](m, "scores", lastLane+boundWidth), guard.Sized[uint32](m, "query", boundBlock*queryWords), laneStep, boundBlock, &s)
	},
	"scoreF16": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, 4*tileTokens*boundDim, 2*tileTokens*boundDim)
		scoreF16(level, guard.Sized[float32](m, "scores", lastLane+boundWidth), guard.Sized[uint32](m, "query", laneStep*boundDim), laneStep, boundDim, &s)
	},
	"scoreF32": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, 8*tileTokens*boundDim, 4*tileTokens*boundDim)
		scoreF32(level, guard.Sized[float32](m, "scores", lastLane+boundWidth), guard.Sized[uint32](m, "query", laneStep*boundDim), laneStep, boundDim, &s)
	},
	"openScales": func(level isa.Level, m *guard.Margins) {
		s := stretchOf(guard.Sized[byte](m, "tiles", boundCodes), make([]int, boundTiles))
		s.at = boundCodes - 2*tileTokens*boundBlock
		openScales(level, guard.Sized[float32](m, "scales", (boundBlock-1)*segmentTokens+boundWidth), boundBlock, &s)
	},
	"weighQ8": func(level isa.Level, m *guard.Margins) {
		seen := guard.Sized[vector.Seen](m, "seen", laneStep)
		for i := range seen {
			seen[i] = vector.Seen{First: 3, N: boundWidth - 3}
		}
		weighQ8(level, guard.Whole[weightCodes](m, boundBlock), guard.Sized[float32](m, "scores", lastLane+boundWidth), boundTiles, seen,
			guard.Sized[float32](m, "scales", (boundBlock-1)*segmentTokens+boundWidth), guard.Sized[vector.Softmax](m, "softmax", laneStep))
	},
	"mixQ8": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, boundCodes, tileTokens*boundDim+tileTokens*blockValues)
		s.at = tileTokens * boundDim
		mixQ8(level, guard.Sized[float32](m, "values", (laneStep-1)*boundDim+blockValues), boundDim, new([laneStep]share), &guard.Whole[weightCodes](m, 1)[0], ahead(m, &s))
	},
	"mixF16": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, 4*tileTokens*boundDim, 4*tileTokens*boundDim)
		s.at = 2 * tileTokens * boundDim
		mixF16(level, guard.Sized[float32](m, "values", laneStep*boundDim), guard.Sized[float32](m, "weights", lastLane+boundWidth), boundDim, ahead(m, &s), boundWidth)
	},
	"mixF32": func(level isa.Level, m *guard.Margins) {
		s := tiles(m, 8*tileTokens*boundDim, 8*tileTokens*boundDim)
		s.at = 4 * tileTokens * boundDim
		mixF32(level, guard.Sized[float32](m, "values", laneStep*boundDim), guard.Sized[float32](m, "weights", lastLane+boundWidth), boundDim, ahead(m, &s), boundWidth)
	},
	"blend": func(level isa.Level, m *guard.Margins) {
		blend(level, guard.Whole[float32](m, 29), guard.Sized[float32](m, "values", 29), 1, 1)
	},
	"rotateHeads": func(level isa.Level, m *guard.Margins) {
		for _, dim := range []int{32, 64, 96, 256} {
			rotateHeads(level, guard.Sized[float32](m, "to", 7*dim), guard.Sized[float32](m, "values", 5*dim), headRows{dim, 2, 5 * dim, 3 * dim}, guard.Whole[float32](m, 4))
		}
	},
	"unpack": func(level isa.Level, m *guard.Margins) {
		unpack(level, guard.Sized[byte](m, "codes", 2*openedLine), guard.Whole[byte](m, 2*packedLine), guard.Whole[byte](m, 1), keysOpened)
	},
}

// Assembly knows no lengths. Each function stays within memory that is just enough for it, and refuses less.
func TestAssemblyStaysWithinItsMemory(t *testing.T) {
	for _, level := range isa.Levels() {
		for name, call := range bounded {
			if level == isa.Portable || level == isa.AVX2 && (name == "storeFourQ8" || name == "packQ8") { // in plain Go
				continue
			}
			guard.Check(t, fmt.Sprint(level, " ", name), func(m *guard.Margins) { call(level, m) })
		}
	}
}
