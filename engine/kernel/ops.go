package kernel

// pieceElems is how many elements an element-wise operation hands to a worker
// at a time; a row may be cut, since no element depends on another.
const pieceElems = 4096

// RMSNorm scales each row of x, [rows][width], to unit root mean square and
// multiplies by weight: dst = x / sqrt(mean(x^2)+eps) * weight. dst may be x.
// Norms with a weight of one head's size are rows of heads (Qwen3's q and k).
func (c *CPU) RMSNorm(dst, x, weight []float32, rows int, eps float32) {
	c.norm = normJob{level: c.level, dst: dst, x: x, weight: weight, eps: eps}
	c.lane.Run(&c.norm, rows, pieceElems/len(weight)+1)
}

type normJob struct {
	level          Level
	dst, x, weight []float32
	eps            float32
}

func (j *normJob) Do(_, row int) {
	w := j.weight
	normRow(j.level, j.dst[row*len(w):(row+1)*len(w)], j.x[row*len(w):], w, j.eps)
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
	c.rotate = rotateJob{level: c.level, x: x, heads: heads, headDim: headDim, cos: cos, sin: sin, half: half, style: style}
	c.lane.Run(&c.rotate, rows, pieceElems/(heads*headDim)+1)
}

type rotateJob struct {
	level          Level
	x              []float32
	heads, headDim int
	cos, sin       []float32
	half           int
	style          RopeStyle
}

func (j *rotateJob) Do(_, row int) {
	cos := j.cos[row*j.half : (row+1)*j.half]
	sin := j.sin[row*j.half : (row+1)*j.half]
	ropeRow(j.level, j.x[row*j.heads*j.headDim:], cos, sin, j.heads, j.headDim, j.style)
}

// SwiGLU computes gate = silu(gate) * up over rows*width elements in place.
func (c *CPU) SwiGLU(gate, up []float32, rows, width int) {
	n := rows * width
	c.gate = gateJob{level: c.level, gate: gate[:n], up: up[:n]}
	c.lane.Run(&c.gate, pieces(n), 1)
}

type gateJob struct {
	level    Level
	gate, up []float32
}

func (j *gateJob) Do(_, i int) {
	gate := piece(j.gate, i)
	swigluRow(j.level, gate, gate, piece(j.up, i))
}

// pieces is how many pieces n elements make.
func pieces(n int) int { return (n + pieceElems - 1) / pieceElems }

func piece(x []float32, i int) []float32 {
	return x[i*pieceElems : min((i+1)*pieceElems, len(x))]
}
