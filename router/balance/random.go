package balance

import "sync/atomic"

// source draws random numbers for all goroutines: the n-th draw depends on the seed and n alone.
type source struct {
	seed uint64
	n    atomic.Uint64
}

// draw begins the random numbers of one pick.
func (s *source) draw() random { return random(mix(s.seed + s.n.Add(1)*golden)) }

const golden = 0x9e3779b97f4a7c15

// random is a SplitMix64 generator.
type random uint64

func (r *random) next() uint64 {
	*r += golden
	return mix(uint64(*r))
}

// below is a number from 0 to n-1.
func (r *random) below(n int) int { return int(r.next() >> 32 * uint64(n) >> 32) }

// float is a number from 0 up to 1.
func (r *random) float() float64 { return float64(r.next()>>11) / (1 << 53) }

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
