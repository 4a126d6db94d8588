package weight

import (
	"math/rand/v2"
	"testing"
)

// TestPiecesCoverEachTileOnce: in the order of memory, in ranges of about as many bytes.
func TestPiecesCoverEachTileOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		var p pieces
		p.clear()
		total, largest := 0, 0
		for range 1 + rng.IntN(9) {
			s := strip{1 + rng.IntN(300), 1 + rng.IntN(40<<10), rng.IntN(9)}
			p.strip(s.tiles, s.bytes, s.least)
			total, largest = total+s.tiles*s.bytes, max(largest, s.bytes)
		}
		workers := 1 + rng.IntN(5)
		p.sweep(workers, groupBytes)
		if len(p.ends) != workers || p.ends[workers-1] != len(p.list) {
			t.Fatalf("%d workers, %d pieces: ranges end at %v", workers, len(p.list), p.ends)
		}
		of, lo, n, w := 0, 0, 0, 0
		for i, c := range p.list {
			if int(c.of) != of || int(c.lo) != lo || c.hi <= c.lo || int(c.hi) > p.strips[of].tiles {
				t.Fatalf("piece %d of %v is %v behind tile %d of strip %d", i, p.strips, c, lo, of)
			}
			n += int(c.hi-c.lo) * p.strips[of].bytes
			if lo = int(c.hi); lo == p.strips[of].tiles {
				of, lo = of+1, 0
			}
			for ; w < workers && p.ends[w] == i+1; w++ {
				if want := total / workers * (w + 1); n < want-workers || n > want+9*largest {
					t.Fatalf("range %d of %d ends at byte %d of %d", w, workers, n, total)
				}
			}
		}
		if of != len(p.strips) {
			t.Fatalf("pieces end in strip %d of %d", of, len(p.strips))
		}
	}
}
