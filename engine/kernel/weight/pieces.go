package weight

import "weir/engine/kernel/pool"

// piece is tiles lo to hi-1 of a product, or of an expert's matrices, that a worker multiplies at a time.
type piece struct{ of, lo, hi int32 }

// pieces are those of a round. Where weights are read once, each worker has a range of its own, of as many bytes: see [pool.Member.Sweep].
type pieces struct {
	list   []piece
	ends   []int // of the workers' ranges, in the list; empty where there are none
	strips []strip
}

// strip is tiles that lie in memory one behind the other.
type strip struct{ tiles, bytes, least int }

const (
	// groupBytes is how much of a matrix a worker multiplies with all panels before
	// it goes on: it stays in the second-level cache meanwhile.
	groupBytes = 256 << 10

	// fewBytes are the least that is worth a piece of a range: what others may take over at its end is not much then.
	fewBytes = 64 << 10

	// pairBytes are the most of a piece where two matrices are read by turns: each turn interrupts a stream.
	pairBytes = 2 << 20
)

// clear makes the pieces none of no matrices.
func (p *pieces) clear() { p.list, p.ends, p.strips = p.list[:0], p.ends[:0], p.strips[:0] }

// even cuts n tiles into pieces of so many.
func (p *pieces) even(of, n, size int) {
	for lo := 0; lo < n; lo += size {
		p.list = append(p.list, piece{int32(of), int32(lo), int32(min(lo+size, n))})
	}
}

// strip adds tiles of so many bytes to what sweep cuts; fewer than least are not worth a piece.
func (p *pieces) strip(tiles, bytes, least int) {
	p.strips = append(p.strips, strip{tiles, bytes, max(1, least)})
}

// sweep cuts the strips into a range for each worker. Pieces have at most so many bytes, and get smaller towards the end of a range,
// where workers help each other.
func (p *pieces) sweep(workers, most int) {
	total := 0
	for _, s := range p.strips {
		total += s.tiles * s.bytes
	}
	of, lo, done := 0, 0, 0
	for w := 1; w <= workers; w++ {
		end := int(int64(total) * int64(w) / int64(workers))
		for done < end {
			s := p.strips[of]
			size := max(s.least, min(most, max(fewBytes, (end-done)/3))/s.bytes)
			size = min(size, (end-done+s.bytes-1)/s.bytes, s.tiles-lo)
			p.list = append(p.list, piece{int32(of), int32(lo), int32(lo + size)})
			done += size * s.bytes
			if lo += size; lo == s.tiles {
				of, lo = of+1, 0
			}
		}
		p.ends = append(p.ends, len(p.list))
	}
}

// widest is how many tiles the largest piece has.
func (p *pieces) widest() (tiles int) {
	for _, c := range p.list {
		tiles = max(tiles, int(c.hi-c.lo))
	}
	return tiles
}

// run does all pieces.
func (p *pieces) run(member *pool.Member, job pool.Job) {
	if len(p.ends) > 0 {
		member.Sweep(job, p.ends)
		return
	}
	member.Run(job, len(p.list), 1)
}
