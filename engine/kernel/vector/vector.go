package vector

import (
	"math"

	"weir/engine/kernel/isa"
)

// Functions over one row at a level. A result depends on the row and the level
// alone: partial sums are laid out by the row's length. Levels differ in the
// last bits.

// Norm computes dst = x / sqrt(mean(x^2)+eps) * w; x and w are at least as
// long as dst, which may be x.
func Norm(level isa.Level, dst, x, w []float32, eps float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	mean := float64(sumSquares(level, x)) / float64(len(x))
	scaleBy(level, dst, x, w, float32(1/math.Sqrt(mean+float64(eps))))
}

// SumSquares is the sum of the squares of x.
func SumSquares(level isa.Level, x []float32) float32 { return sumSquares(level, x) }

// SwiGLU computes dst = silu(gate) * up, where silu(g) = g/(1+exp(-g)); dst
// may be either. Below -89 silu is -0, at -Inf it is NaN.
func SwiGLU(level isa.Level, dst, gate, up []float32) {
	swiglu(level, dst, gate[:len(dst)], up[:len(dst)])
}

// LayerNorm computes dst = (x-mean(x)) / sqrt(variance(x)+eps) * w + b; x, w and b
// are at least as long as dst, which may be x.
func LayerNorm(level isa.Level, dst, x, w, b []float32, eps float32) {
	x, w, b = x[:len(dst)], w[:len(dst)], b[:len(dst)]
	n := float64(len(x))
	mean := float32(float64(sum(level, x)) / n)
	variance := float64(sumDeviations(level, x, mean)) / n
	centerBy(level, dst, x, w, b, mean, float32(1/math.Sqrt(variance+float64(eps))))
}

// Activation is the function between the matrices of a feed-forward network.
type Activation uint8

// The activations. GELU is the tanh form of Hendrycks and Gimpel (2016), which GGUF's
// runtimes compute for every model; it is within 5e-4 of the form with erf.
const (
	Identity Activation = iota
	SiLU
	GELU
	SquaredReLU // max(x, 0)^2, of networks without a gate
)

// Gate computes dst = a(gate) * up for SiLU and GELU; dst may
// be either.
func (a Activation) Gate(level isa.Level, dst, gate, up []float32) {
	if a == GELU {
		geglu(level, dst, gate[:len(dst)], up[:len(dst)])
		return
	}
	SwiGLU(level, dst, gate, up)
}

// Softplus is ln(1+e^x).
func Softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// Apply replaces x by a(x), for all activations except SiLU.
func (a Activation) Apply(level isa.Level, x []float32) {
	switch a {
	case GELU:
		gelu(level, x)
	case SquaredReLU:
		for i, v := range x {
			x[i] = max(v, 0) * v
		}
	case Identity, SiLU:
	}
}

// SoftCap replaces x by limit*tanh(x/limit), which keeps it within the limit; a NaN stays one.
func SoftCap(level isa.Level, x []float32, limit float32) { softCap(level, x, limit, 1/limit) }

// RopeStyle says which elements of a head make a rotated pair.
type RopeStyle uint8

// Pairings: RopeNorm rotates (2i, 2i+1), RopeNeox (i, i+n/2) of the first n.
const (
	RopeNorm RopeStyle = iota
	RopeNeox
)

// Rotation says how rows of heads are rotated: the first 2*Half elements of each
// head, by the angles of the row's position.
type Rotation struct {
	Style    RopeStyle
	Heads    int
	HeadDim  int
	Half     int       // pairs of a head
	Cos, Sin []float32 // [rows][Half], already scaled by the model's magnitude
}

// Rope rotates row i of x, [rows][Heads*HeadDim], in place.
func (r *Rotation) Rope(level isa.Level, x []float32, i int) {
	width := r.Heads * r.HeadDim
	x = x[i*width : (i+1)*width]
	if 2*r.Half > r.HeadDim {
		panic("vector: more pairs than a head has")
	}
	cos, sin := r.Cos[i*r.Half:(i+1)*r.Half], r.Sin[i*r.Half:(i+1)*r.Half]
	if r.Style == RopeNorm {
		ropeNorm(level, x, cos, sin, r.Heads, r.HeadDim)
	} else {
		ropeNeox(level, x, cos, sin, r.Heads, r.HeadDim)
	}
}

// Softmax is a softmax that is not yet divided by its sum, of exp(score-Top); Sum is zero of no scores, and NaN if one is.
type Softmax struct{ Top, Sum float32 }

// Seen is which scores of a row count: N from First on.
type Seen struct{ First, N int }

// CheckSeen panics where some that count are beyond a row of so many scores.
func CheckSeen(seen []Seen, width int) {
	for _, s := range seen {
		if s.First < 0 || s.N < 0 || s.First > width-s.N {
			panic("vector: scores beyond their row")
		}
	}
}

// Weigh replaces scores of rows by weights, and the others of the row's first width by zeros. Row i is x[i*stride:], of which
// the scores seen[i] count; out[i] is its softmax.
func Weigh(level isa.Level, x []float32, stride, width int, seen []Seen, out []Softmax) {
	if len(seen) == 0 || width == 0 {
		clear(out[:len(seen)])
		return
	}
	_ = x[(len(seen)-1)*stride+width-1]
	CheckSeen(seen, width)
	softmax(level, x, stride, width, seen, out[:len(seen)])
}

// The same in plain Go, one function for each kernel of asm/vector.go.

func sumSquaresPortable(x []float32) float32 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s0 += a * a
		s1 += b * b
		s2 += c * c
		s3 += d * d
		x = x[4:]
	}
	for _, v := range x {
		s0 += float64(v) * float64(v)
	}
	return float32((s0 + s2) + (s1 + s3))
}

func scaleByPortable(dst, x, w []float32, f float32) {
	for i := range dst {
		dst[i] = x[i] * f * w[i]
	}
}

// absMaxPortable compares as integers, where a NaN is above infinity and is
// kept.
func absMaxPortable(x []float32) float32 {
	top := uint32(0)
	for _, v := range x {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(top)
}

func maximumPortable(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

func swigluPortable(dst, gate, up []float32) {
	for i := range dst {
		g := gate[i]
		dst[i] = g / (1 + Exp(-g)) * up[i]
	}
}

func sumPortable(x []float32) float32 {
	var s [4]float64
	for len(x) >= 4 {
		for i, v := range x[:4] {
			s[i] += float64(v)
		}
		x = x[4:]
	}
	for _, v := range x {
		s[0] += float64(v)
	}
	return float32((s[0] + s[2]) + (s[1] + s[3]))
}

func sumDeviationsPortable(x []float32, mean float32) float32 {
	var s [4]float64
	for len(x) >= 4 {
		for i, v := range x[:4] {
			d := float64(v) - float64(mean)
			s[i] += d * d
		}
		x = x[4:]
	}
	for _, v := range x {
		d := float64(v) - float64(mean)
		s[0] += d * d
	}
	return float32((s[0] + s[2]) + (s[1] + s[3]))
}

func centerByPortable(dst, x, w, b []float32, mean, f float32) {
	for i := range dst {
		dst[i] = (x[i]-mean)*f*w[i] + b[i]
	}
}

func geluPortable(x []float32) {
	for i, v := range x {
		x[i] = geluOf(v)
	}
}

func gegluPortable(dst, gate, up []float32) {
	for i := range dst {
		dst[i] = geluOf(gate[i]) * up[i]
	}
}

// geluOf uses that (1+tanh(u))/2 is 1/(1+exp(-2u)).
func geluOf(x float32) float32 {
	const (
		linear = -2 * 0.7978845608028654 // sqrt(2/pi)
		cubic  = linear * 0.044715
	)
	return x / (1 + Exp(x*(linear+cubic*(x*x))))
}

func softCapPortable(x []float32, limit, inverse float32) {
	for i, v := range x {
		x[i] = limit * tanh(v*inverse)
	}
}

// tanh is a quotient of two polynomials, an odd and an even one; beyond the limit a float32 is 1.
func tanh(x float32) float32 {
	const limit = 7.90531110763549805
	if x > limit {
		x = limit
	} else if x < -limit {
		x = -limit
	}
	s := x * x
	above := float32(-2.76076847742355e-16)
	for _, c := range [...]float32{2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03} {
		above = above*s + c
	}
	below := float32(1.19825839466702e-06)
	for _, c := range [...]float32{1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03} {
		below = below*s + c
	}
	return x * above / below
}

func softmaxPortable(x []float32, stride, width int, seen []Seen, out []Softmax) {
	for i, s := range seen {
		row := x[i*stride:][:width]
		counts := row[s.First:][:s.N]
		top, sum := maximumPortable(counts), 0.0
		for k, v := range counts {
			counts[k] = Exp(v - top)
			sum += float64(counts[k])
		}
		clear(row[:s.First])
		clear(row[s.First+s.N:])
		out[i] = Softmax{top, float32(sum)}
	}
}

func ropeNeoxPortable(x, cos, sin []float32, heads, headDim int) {
	half := len(cos)
	for h := range heads {
		near := x[h*headDim:][:half]
		far := x[h*headDim+half:][:half]
		for i, c := range cos {
			u, v := near[i], far[i]
			near[i] = u*c - v*sin[i]
			far[i] = u*sin[i] + v*c
		}
	}
}

func ropeNormPortable(x, cos, sin []float32, heads, headDim int) {
	for h := range heads {
		head := x[h*headDim:][:2*len(cos)]
		for i, c := range cos {
			u, v := head[2*i], head[2*i+1]
			head[2*i] = u*c - v*sin[i]
			head[2*i+1] = u*sin[i] + v*c
		}
	}
}

// Exp is e^x to a unit in the last place or two, for every x: with n the
// integer nearest to x/ln2 and r = x - n*ln2 in [-0.35,0.35], exp(x) is
// 2^n * (1 + r + r^2*q(r)), where q has the least largest relative error for
// its degree, 3e-9. ln2 is subtracted in two parts, the first of few bits so
// that n times it is exact. The kernels do the same.
func Exp(x float32) float32 {
	const (
		nearest      = 3 << 22 // a sum with it has no room for a fraction
		log2e        = math.Log2E
		ln2hi, ln2lo = 0.693359375, -2.12194440e-4
	)
	switch { // a NaN passes both
	case x > 89:
		x = 89
	case x < -104:
		x = -104
	}
	t := x*log2e + nearest
	n := t - nearest
	x -= n * ln2hi
	x -= n * ln2lo
	q := float32(0x1.6a2256p-10)
	q = q*x + 0x1.123b02p-07
	q = q*x + 0x1.5558f8p-05
	q = q*x + 0x1.55549p-03
	q = q*x + 0x1.fffffcp-02
	whole := int32(math.Float32bits(t)) - int32(math.Float32bits(nearest))
	part := whole >> 1 // two steps, as 2^n may be beyond the exponents where the product is not
	return (q*(x*x) + x + 1) * power(part) * power(whole-part)
}

// power is 2^n for n in [-126,127].
func power(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }
