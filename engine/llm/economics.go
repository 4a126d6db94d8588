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
	row, position := 0, 0 // operations: of a row in all matrices, of a row with one earlier position
	for i := range m.layers {
		a, f := &m.layers[i].attention, &m.layers[i].feed
		row += 2*m.width*(2*a.heads+2*a.kvHeads)*a.headDim + 2*3*m.width*f.width
		position += 4 * a.heads * a.headDim
	}
	return cost.Prior{
		Step:     float64(weightBytes) / readBytes,
		Row:      float64(row) / products,
		Output:   float64(2*m.width*m.vocab) / products,
		Position: float64(position) / (attend * float64(threads)),
	}
}
