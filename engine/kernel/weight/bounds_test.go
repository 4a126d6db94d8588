//go:build amd64 && !purego && !noasm

package weight

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/guard"
	"weir/internal/reference"
)

// Assembly knows no lengths. Each function stays within memory that is just enough for it, and refuses less.
func TestAssemblyStaysWithinItsMemory(t *testing.T) {
	reference.Slow(t)
	const tiles, cols = 4, 512
	for _, typ := range tiledTypes() {
		t.Run(typ.String(), func(t *testing.T) {
			m, err := NewMatrix(typ, tiles*tileLanes, cols, randomRows(rand.New(rand.NewPCG(1, 2)), typ, tiles*tileLanes, cols))
			if err != nil {
				t.Fatal(err)
			}
			for _, level := range isa.Levels() {
				if m.funcs(level) == nil {
					continue
				}
				for _, several := range []bool{false, true} {
					for rows, run := range m.funcs(level).one {
						if run != nil {
							guard.Check(t, fmt.Sprintf("%v, %d rows, several=%v", level, rows, several), func(g *guard.Margins) {
								spanOf(g, m, level, rows, several).multiply()
							})
						}
					}
				}
			}
		})
	}
}

// spanOf is all tiles of a matrix and two panels of so many rows.
func spanOf(g *guard.Margins, m *Matrix, level isa.Level, rows int, several bool) *span {
	const panels = 2
	own, k := *m, m.format.kind
	own.data = guard.Filled(g, "tiles", m.data)
	s := &span{
		w: &own, funcs: m.funcs(level), hi: m.tiles(), panels: panels, rows: rows, several: several, stride: m.Rows,
		dst: guard.Sized[float32](g, "results", panels*rows*m.Rows), bias: guard.Sized[float32](g, "biases", m.Rows),
		panel: panelView{codes: guard.Sized[byte](g, "codes", panels*rows*k.rowBytes(m.Cols))},
	}
	if k.rounds() {
		s.panel.large = guard.Sized[uint32](g, "large", panels*rows*m.Cols/2)
		s.panel.masks = guard.Sized[uint16](g, "masks", panels*m.Cols/blockValues)
	}
	return s
}

func TestRoundingStaysWithinItsMemory(t *testing.T) {
	const values = 3 * superBlockValues
	for _, level := range isa.Levels() {
		if level == isa.Portable {
			continue
		}
		for _, k := range []kind{kindBlock, kindSuper} {
			size, words := k.blockSize()
			guard.Check(t, fmt.Sprintf("%v, blocks of %d", level, size), func(g *guard.Margins) {
				quantizeRow(level, k, 1, guard.Sized[float32](g, "codes", k.words(values)), guard.Whole[float32](g, values),
					guard.Sized[float32](g, "marks", values/size*words))
			})
		}
		guard.Check(t, fmt.Sprint(level, " places"), func(g *guard.Margins) {
			placeRowFast(level, guard.Sized[float32](g, "panel", 4*(values-1)+1), 4, guard.Whole[float32](g, values))
		})
	}
}
