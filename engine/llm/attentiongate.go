package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/weight"
)

// Some attention has gates: its matrix of queries gives, for each head, a query and as many values by whose sigmoids counts what the head gives.

// queryProduct is the product with the matrix of queries.
func (b *batch) queryProduct(a *attention, r block) weight.Product {
	if a.gated {
		return a.q.into(b.att, false)
	}
	return a.q.into(b.queries(a, r), false)
}

// gates are those of a block, behind its queries.
func (b *batch) gates(a *attention, r block) []float32 {
	n := r.rows() * a.heads * a.headDim
	return b.q[r.lo*b.widest+n:][:n]
}

// partGates brings queries and gates to their places.
func (b *batch) partGates(c *kernel.CPU, a *attention, r block) {
	if !a.gated {
		return
	}
	b.parting = gateJob{mixed: b.att, queries: b.queries(a, r), gates: b.gates(a, r), heads: a.heads, headDim: a.headDim}
	c.Run(&b.parting, r.rows(), 4)
}

// applyGates multiplies what heads gave.
func (b *batch) applyGates(c *kernel.CPU, a *attention, r block) {
	if !a.gated {
		return
	}
	b.parting = gateJob{out: b.att, gates: b.gates(a, r), heads: a.heads, headDim: a.headDim}
	c.Run(&b.parting, r.rows(), 4)
}

// gateJob takes the gates of rows from their queries, or applies them to out.
type gateJob struct {
	mixed, queries, gates, out []float32
	heads, headDim             int
}

// Do computes a row.
func (j *gateJob) Do(_, row int) {
	n := j.heads * j.headDim
	gates := j.gates[row*n : (row+1)*n]
	if j.out != nil {
		out := j.out[row*n : (row+1)*n]
		for i, g := range gates {
			out[i] *= float32(1 / (1 + math.Exp(-float64(g))))
		}
		return
	}
	mixed, queries := j.mixed[2*row*n:2*(row+1)*n], j.queries[row*n:(row+1)*n]
	for h := range j.heads {
		head := mixed[2*h*j.headDim:][:2*j.headDim]
		copy(queries[h*j.headDim:], head[:j.headDim])
		copy(gates[h*j.headDim:(h+1)*j.headDim], head[j.headDim:])
	}
}
