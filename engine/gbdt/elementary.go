package gbdt

import (
	"math"
	"math/big"
	"sync"
)

// Exponentials and logarithms with the bits of glibc's, which XGBoost and LightGBM call on Linux. Its functions are within
// 0.51 to 0.82 units in the last place, so no other accurate function has the same bits. The methods and minimax
// coefficients are those of Arm's optimized routines (exp, expf, logf), which glibc took in 2.28; with fused products,
// as glibc has them on processors with FMA.

// power is 2^(i/128): nearest·(1 + tail).
type power struct{ nearest, tail float64 }

// powers computes the powers once, with more digits than any of their bits needs.
var powers = sync.OnceValue(func() *[128]power {
	var table [128]power
	roots(7, func(i int, p *big.Float) {
		table[i].nearest, _ = p.Float64()
		nearest := new(big.Float).SetFloat64(table[i].nearest)
		tail := new(big.Float).Sub(p, nearest)
		table[i].tail, _ = tail.Quo(tail, nearest).Float64()
	})
	return &table
})

// roots calls each with 2^(i/2^bits) for all i below 2^bits.
func roots(bits int, each func(i int, p *big.Float)) {
	root := new(big.Float).SetPrec(256).SetInt64(2)
	for range bits {
		root.Sqrt(root)
	}
	p := new(big.Float).SetPrec(256).SetInt64(1)
	for i := range 1 << bits {
		each(i, p)
		p.Mul(p, root)
	}
}

// exponential computes e^x.
type exponential struct {
	table  *[128]power
	coarse *[1 << coarseBits]float64 // nil: glibc's; otherwise CatBoost's, of float64
}

func newExponential(coarse bool) exponential {
	if coarse {
		return exponential{powers(), coarsePowers()}
	}
	return exponential{table: powers()}
}

// coarseBits is the logarithm of how many powers CatBoost's exponential has.
const coarseBits = 11

var coarsePowers = sync.OnceValue(func() *[1 << coarseBits]float64 {
	var table [1 << coarseBits]float64
	roots(coarseBits, func(i int, p *big.Float) { table[i], _ = p.Float64() })
	return &table
})

// rough gives e^x as CatBoost's FastExp does on x86-64, by the method of the fmath library: 2^(n/2048) of a table times a cubic.
// It strays from the true value by some units in the last place for each binade, because ln2/2048 has no second part there.
// Conversions keep compilers from fusing what the library does not fuse.
func (e exponential) rough(x float64) float64 {
	const steps = 1 << coarseBits
	x = max(min(x, 709.78271289338397), -708.39641853226408)
	n := math.RoundToEven(float64(x * (steps / math.Ln2)))
	t := float64(n*(math.Ln2/steps)) - x
	y := float64(float64((3.0000000027955394-t)*float64(t*t))*0.16666666685227835064) - t + 1
	i := int64(n)
	return y * scaled(e.coarse[i&(steps-1)], i>>coarseBits)
}

// double gives e^x as glibc does where the result is a normal number.
func (e exponential) double(x float64) float64 {
	if e.coarse != nil && x == x {
		return e.rough(x)
	}
	if !(math.Abs(x) < 700) {
		return math.Exp(x)
	}
	// x = (128·k + i)·ln2/128 + r, so e^x = 2^k · 2^(i/128) · e^r.
	steps := math.RoundToEven(x * (0x1.71547652b82fep0 * 128))
	r := math.FMA(steps, -0x1.cf79abc9e3b39p-47, math.FMA(steps, -0x1.62e42fefa0000p-8, x))
	n := int64(steps)
	p := e.table[n&127]
	r2 := r * r
	low := math.FMA(r, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2)
	high := math.FMA(r, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5)
	rest := math.FMA(r2*r2, high, math.FMA(r2, low, p.tail+r))
	scale := scaled(p.nearest, n>>7)
	return math.FMA(scale, rest, scale)
}

// single gives e^x as glibc's expf does where the result is a normal number.
func (e exponential) single(x float32) float32 {
	if !(x < 88.7 && x > -87) {
		return float32(math.Exp(float64(x)))
	}
	const perOne = 0x1.71547652b82fep+0 * 32
	steps := math.RoundToEven(float64(x) * perOne)
	r := math.FMA(float64(x), perOne, -steps)
	n := int64(steps)
	high := math.FMA(0x1.c6af84b912394p-5/(32*32*32), r, 0x1.ebfce50fac4f3p-3/(32*32))
	low := math.FMA(0x1.62e42ff0c52d6p-1/32, r, 1)
	return float32(math.FMA(high, r*r, low) * scaled(e.table[n&31*4].nearest, n>>5))
}

// scaled gives x·2^k for a normal result.
func scaled(x float64, k int64) float64 {
	return math.Float64frombits(math.Float64bits(x) + uint64(k)<<52)
}

// logTable has, by sixteenth of a binade around 1, an inverse of a number there, and minus the inverse's logarithm.
var logTable = [16]struct{ inverse, log float64 }{
	{0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2}, {0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2},
	{0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2}, {0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3},
	{0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3}, {0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3},
	{0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4}, {0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4},
	{0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5}, {0x1p+0, 0},
	{0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5}, {0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4},
	{0x1.b2036576afce6p-1, 0x1.526e57720db08p-3}, {0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3},
	{0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2}, {0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2},
}

// logSingle gives the logarithm of a normal number as glibc's logf does.
func logSingle(x float32) float32 {
	bits := math.Float32bits(x)
	if bits < 0x00800000 || bits >= 0x7f800000 { // no positive normal number
		return float32(math.Log(float64(x)))
	}
	// x = 2^k·z with z in a binade around 1, whose sixteenth i chooses the row.
	offset := bits - 0x3f330000
	row := logTable[offset>>19&15]
	k := float64(int32(offset) >> 23)
	z := float64(math.Float32frombits(bits - offset&0xff800000))
	r := math.FMA(z, row.inverse, -1)
	base := math.FMA(k, 0x1.62e42fefa39efp-1, row.log)
	r2 := r * r
	y := math.FMA(0x1.5575b0be00b6ap-2, r, -0x1.ffffef20a4123p-2)
	y = math.FMA(-0x1.00ea348b88334p-2, r2, y)
	return float32(math.FMA(y, r2, base+r))
}
