package gbdt

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
	for i, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			e := s.random(rand.New(rand.NewPCG(uint64(i), 9)))
			for _, level := range isa.Levels() {
				switch {
				case e.Rows64:
					checkBounds[float64, float64](t, e, level)
				case e.Sums64:
					checkBounds[float32, float64](t, e, level)
				default:
					checkBounds[float32, float32](t, e, level)
				}
			}
		})
	}
}

func checkBounds[X, S float](t *testing.T, e *Ensemble, level isa.Level) {
	b := newBuilder[X](newWalker[X, S](e), level)
	if b == nil {
		return
	}
	if r := b.ranker; len(r.plain) > 0 {
		guard.Check(t, fmt.Sprint(level, " rank"), func(m *guard.Margins) {
			const stride = 3
			n := len(r.plain)
			r.rankPlain(guard.Sized[byte](m, "ranks", (n-1)*stride+1), stride, guard.Sized[X](m, "row", int(uint32(r.plain[n-1]))+1),
				r.plain, guard.Filled(m, "thresholds", r.thresholds))
		})
	}
	last := len(b.forest.parts) - 1
	for _, o := range b.singles() {
		if s, ok := o.build().(*masks[S]); ok {
			guard.Check(t, fmt.Sprint(level, " ", o.name), func(m *guard.Margins) {
				own := *s
				own.nodes, own.leaves = guard.Filled(m, "nodes", s.nodes), guard.Filled(m, "leaves", s.leaves)
				own.add(guard.Sized[S](m, "sums", 1), guard.Sized[byte](m, "ranks", rankPad), last)
			})
		}
	}
	for _, o := range b.blocks() {
		guard.Check(t, fmt.Sprint(level, " ", o.name), func(m *guard.Margins) {
			switch s := o.build().(type) {
			case *sliced[S]:
				s.nodes, s.leaves = guard.Filled(m, "nodes", s.nodes), guard.Filled(m, "leaves", s.leaves)
				s.add(guard.Sized[S](m, "sums", s.rows), guard.Sized[byte](m, "ranks", s.ranks), last)
			case *slicedLeaves[S]:
				ranks := make([]byte, s.behind()+s.room())
				s.prepare(ranks[s.behind():])
				s.nodes, s.leaves = guard.Filled(m, "nodes", s.nodes), guard.Filled(m, "leaves", s.leaves)
				s.add(guard.Sized[S](m, "sums", s.rows), guard.Filled(m, "ranks", ranks), last)
			}
		})
	}
}
