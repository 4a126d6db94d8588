package kernel

import (
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// pieceElems is how many elements an element-wise operation hands to a worker
// at a time; a row may be cut, since no element depends on another.
const pieceElems = 4096

// Norm norms each row of x, [rows][len(norm.Weight)], to dst, which may be x. Norms
// with a weight of one head's size are rows of heads (Qwen3's q and k).
func (c *CPU) Norm(dst, x []float32, norm weight.Norm, rows int) {
	c.norm = normJob{level: c.level, dst: dst, x: x, norm: norm}
	c.member.Run(&c.norm, rows, pieceElems/len(norm.Weight)+1)
}

type normJob struct {
	level  isa.Level
	dst, x []float32
	norm   weight.Norm
}

func (j *normJob) Do(_, row int) {
	n := len(j.norm.Weight)
	j.norm.Apply(j.level, j.dst[row*n:(row+1)*n], j.x[row*n:(row+1)*n])
}

// Rope rotates the heads of every row of x, [rows][Heads*HeadDim], in place.
func (c *CPU) Rope(x []float32, rows int, r vector.Rotation) {
	c.rotate = rotateJob{level: c.level, x: x, Rotation: r}
	c.member.Run(&c.rotate, rows, pieceElems/(r.Heads*r.HeadDim)+1)
}

type rotateJob struct {
	vector.Rotation
	level isa.Level
	x     []float32
}

func (j *rotateJob) Do(_, row int) { j.Rope(j.level, j.x, row) }

// Gate computes gate = act(gate) * up over rows*width elements in place.
func (c *CPU) Gate(act vector.Activation, gate, up []float32, rows, width int) {
	n := rows * width
	c.gate = gateJob{level: c.level, act: act, gate: gate[:n], up: up[:n]}
	c.member.Run(&c.gate, pieces(n), 1)
}

type gateJob struct {
	level    isa.Level
	act      vector.Activation
	gate, up []float32
}

func (j *gateJob) Do(_, i int) {
	gate := piece(j.gate, i)
	j.act.Gate(j.level, gate, gate, piece(j.up, i))
}

// pieces is how many pieces n elements make.
func pieces(n int) int { return (n + pieceElems - 1) / pieceElems }

func piece(x []float32, i int) []float32 {
	return x[i*pieceElems : min((i+1)*pieceElems, len(x))]
}

// SoftCap keeps rows of x, [rows][width], within a limit: limit*tanh(x/limit).
func (c *CPU) SoftCap(x []float32, rows int, limit float32) {
	c.softCap = softCapJob{x, len(x) / rows, limit, c.level}
	c.Run(&c.softCap, rows, 1)
}

type softCapJob struct {
	x     []float32
	width int
	limit float32
	level isa.Level
}

func (j *softCapJob) Do(_, row int) {
	vector.SoftCap(j.level, j.x[row*j.width:][:j.width], j.limit)
}
