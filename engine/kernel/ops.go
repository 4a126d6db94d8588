package kernel

import "math"

// RMSNorm scales each row of x, [rows][width], to unit root mean square and
// multiplies by weight: dst = x / sqrt(mean(x^2)+eps) * weight. dst may be x.
// Norms with a weight of one head's size are rows of heads (Qwen3's q and k).
func (c *CPU) RMSNorm(dst, x, weight []float32, rows int, eps float32) {
	c.norm = normJob{dst: dst, x: x, weight: weight, eps: eps}
	c.pool.Run(&c.norm, rows, grainMACs/(4*len(weight))+1)
}

type normJob struct {
	dst, x, weight []float32
	eps            float32
}

func (j *normJob) Do(_, row int) {
	w := j.weight
	x := j.x[row*len(w) : (row+1)*len(w)]
	dst := j.dst[row*len(w) : (row+1)*len(w)]
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(w))+float64(j.eps)))
	for i, v := range x {
		dst[i] = v * scale * w[i]
	}
}

// RopeStyle says which elements of a head make a rotated pair.
type RopeStyle uint8

// Pairings: RopeNorm rotates (2i, 2i+1), RopeNeox (i, i+n/2) of the first n.
const (
	RopeNorm RopeStyle = iota
	RopeNeox
)

// Rope rotates the first 2*half elements of every head of every row in place.
// x is [rows][heads*headDim]; cos and sin are [rows][half], the row's
// position's angles, already scaled by the model's magnitude.
func (c *CPU) Rope(x []float32, rows, heads, headDim int, cos, sin []float32, half int, style RopeStyle) {
	c.rotate = rotateJob{x: x, heads: heads, headDim: headDim, cos: cos, sin: sin, half: half, style: style}
	c.pool.Run(&c.rotate, rows, grainMACs/(8*heads*headDim)+1)
}

type rotateJob struct {
	x              []float32
	heads, headDim int
	cos, sin       []float32
	half           int
	style          RopeStyle
}

func (j *rotateJob) Do(_, row int) {
	cos := j.cos[row*j.half : (row+1)*j.half]
	sin := j.sin[row*j.half : (row+1)*j.half]
	near, far, step := 0, j.half, 1
	if j.style == RopeNorm {
		far, step = 1, 2
	}
	for h := range j.heads {
		x := j.x[(row*j.heads+h)*j.headDim:]
		for i := range j.half {
			a, b := near+i*step, far+i*step
			u, v := x[a], x[b]
			x[a] = u*cos[i] - v*sin[i]
			x[b] = u*sin[i] + v*cos[i]
		}
	}
}

// SwiGLU computes gate = silu(gate) * up over n elements in place.
func (c *CPU) SwiGLU(gate, up []float32, rows, width int) {
	c.gate = gateJob{gate: gate, up: up, width: width}
	c.pool.Run(&c.gate, rows, grainMACs/(16*width)+1)
}

type gateJob struct {
	gate, up []float32
	width    int
}

func (j *gateJob) Do(_, row int) {
	gate := j.gate[row*j.width : (row+1)*j.width]
	up := j.up[row*j.width : (row+1)*j.width]
	for i, g := range gate {
		gate[i] = g / (1 + exp(-g)) * up[i]
	}
}

// Add computes x += y.
func Add(x, y []float32) {
	y = y[:len(x)]
	for i := range x {
		x[i] += y[i]
	}
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

// softmax turns scores into weights that are not yet normalised and returns
// their sum, both in index order.
func softmax(s []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range s {
		top = max(top, v)
	}
	sum := float32(0)
	for i, v := range s {
		e := exp(v - top)
		s[i] = e
		sum += e
	}
	return sum
}
