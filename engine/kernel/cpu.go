package kernel

import "weir/engine/kernel/pool"

// CPU runs the operations of one engine, on a compute pool of its own or on one
// that several engines share. One step at a time uses it: the operations are not
// safe for concurrent use, and none allocates after the first call of its size.
type CPU struct {
	level   Level
	lane    *pool.Lane
	own     *pool.Pool  // ends with the CPU; nil where the pool is shared
	scratch [][]float32 // per worker, grown to the widest use

	input   inputJob
	product productJob
	apart   []float32 // a gated product's second half, where it cannot be fused
	norm    normJob
	rotate  rotateJob
	gate    gateJob
	store   storeJob
	attend  attendJob
}

// NewCPU starts a pool of threads workers that compute at a level, which the
// machine must have. Close ends it.
func NewCPU(threads int, level Level) *CPU {
	p := pool.New(threads)
	c := Share(p, 1, level)
	c.own = p
	return c
}

// Share is a CPU on a pool of others, of whose time it gets a share in
// proportion to its weight. Steps are taken in turns, see [CPU.Enter].
func Share(p *pool.Pool, weight int, level Level) *CPU {
	if level == AutoLevel {
		level = BestLevel()
	}
	c := &CPU{level: level, lane: p.Lane(weight)}
	c.scratch = make([][]float32, c.lane.Workers())
	return c
}

// Level is the instruction set in use.
func (c *CPU) Level() Level { return c.level }

// Threads is the number of workers.
func (c *CPU) Threads() int { return c.lane.Workers() }

// Enter begins a step, during which the pool is this CPU's alone: it waits until
// the steps of others that come first are over. An operation outside a step
// waits for a turn of its own.
func (c *CPU) Enter() { c.lane.Enter() }

// Yield says that the step needs no more operations: the pool may go to another
// CPU's step meanwhile. The next step must Enter soon, or the loop Leave.
func (c *CPU) Yield() { c.lane.Yield() }

// Leave says that there is no next step for now.
func (c *CPU) Leave() { c.lane.Leave() }

// Run does a job of the caller's own on the pool.
func (c *CPU) Run(job pool.Job, items, grain int) { c.lane.Run(job, items, grain) }

// Close ends the workers, unless others share them; no operation may follow.
func (c *CPU) Close() {
	c.lane.Leave()
	if c.own != nil {
		c.own.Close()
	}
}

// reserve makes every worker's scratch at least n floats. It grows by
// doubling, since attention asks for a little more with each token.
func (c *CPU) reserve(n int) {
	for i := range c.scratch {
		if len(c.scratch[i]) < n {
			c.scratch[i] = make([]float32, max(n, 2*len(c.scratch[i])))
		}
	}
}
