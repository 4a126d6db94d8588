package weight

import (
	"math/rand/v2"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

// Assembly knows no lengths. Whatever memory it is given too little of, its wrapper stops before it reads or writes beyond.
func TestAssemblyStaysWithinItsMemory(t *testing.T) {
	const rows, tiles, cols = 2, 2, 256
	for _, level := range isa.Levels() {
		for _, typ := range []gguf.Type{gguf.TypeQ8_0, gguf.TypeQ4K, gguf.TypeF32} {
			m, err := NewMatrix(typ, tiles*tileLanes, cols, randomRows(rand.New(rand.NewPCG(1, 2)), typ, tiles*tileLanes, cols))
			if err != nil {
				t.Fatal(err)
			}
			funcs := m.funcs(level)
			if funcs == nil {
				continue
			}
			whole := span{
				w: m, funcs: funcs, hi: tiles, panels: 1, rows: rows, several: true, stride: m.Rows, dst: make([]float32, rows*m.Rows),
				bias: make([]float32, m.Rows), panel: panelView{codes: make([]byte, rows*m.format.kind.rowBytes(cols))},
			}
			if m.format.kind.rounds() {
				whole.panel.large, whole.panel.masks = make([]uint32, rows*cols/2), make([]uint16, cols/blockValues)
			}
			whole.multiply()
			for what, cut := range map[string]func(s *span){
				"results": func(s *span) { s.dst = s.dst[:len(s.dst)-1] },
				"biases":  func(s *span) { s.bias = s.bias[:len(s.bias)-1] },
				"codes":   func(s *span) { s.panel.codes = s.panel.codes[:len(s.panel.codes)-4] },
				"tiles":   func(s *span) { w := *s.w; w.data = w.data[:len(w.data)-1]; s.w = &w },
				"large":   func(s *span) { s.panel.large = s.panel.large[:max(len(s.panel.large), 1)-1] },
				"masks":   func(s *span) { s.panel.masks = s.panel.masks[:max(len(s.panel.masks), 1)-1] },
			} {
				if (what == "large" || what == "masks") && !m.format.kind.rounds() {
					continue
				}
				short := whole
				cut(&short)
				if !panics(short.multiply) {
					t.Errorf("%v %v: a product ran with too few %s", level, typ, what)
				}
			}
		}
		if level == isa.Portable {
			continue
		}
		for _, k := range []kind{kindBlock, kindSuper} {
			_, words := k.blockSize()
			n := superBlockValues / map[kind]int{kindBlock: blockValues, kindSuper: superBlockValues}[k] * words
			x := make([]float32, superBlockValues)
			if !panics(func() {
				quantizeRow(level, k, 1, make([]float32, k.words(len(x))-1), x, make([]float32, n))
			}) || !panics(func() {
				quantizeRow(level, k, 1, make([]float32, k.words(len(x))), x, make([]float32, n-1))
			}) {
				t.Errorf("%v: a row was rounded into too little memory", level)
			}
		}
	}
}

func panics(run func()) (did bool) {
	defer func() { did = recover() != nil }()
	run()
	return false
}
