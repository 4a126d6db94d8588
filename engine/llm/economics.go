package llm

import "weir/scheduler/cost"

// price is what a step of this model may cost, in nanoseconds of an ordinary
// machine, before one was timed. What counts is the relation of the parts: how
// many rows fit into the time that reading the weights takes anyway, and what
// attention adds as sequences grow.
func (m *model) price(weightBytes int64, threads int) cost.Prior {
	const (
		readBytes = 20  // bytes per nanosecond, all threads together
		multiply  = 100 // operations per nanosecond and thread, in matrix products
		attend    = 10  // the same in attention
	)
	products := multiply * float64(threads)
	perLayer := m.width*(2*m.heads+2*m.kvHeads)*m.headDim + 3*m.width*m.ffn
	return cost.Prior{
		Step:     float64(weightBytes) / readBytes,
		Row:      float64(2*m.depth*perLayer) / products,
		Output:   float64(2*m.width*m.vocab) / products,
		Position: float64(4*m.depth*m.heads*m.headDim) / (attend * float64(threads)),
	}
}
