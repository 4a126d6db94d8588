package kernel

// CPU runs the engine's operations on a worker pool. One step at a time uses
// it: the operations are not safe for concurrent use, and none allocates
// after the first call of its size.
type CPU struct {
	level   Level
	pool    *Pool
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
	if level == AutoLevel {
		level = BestLevel()
	}
	c := &CPU{level: level, pool: NewPool(threads)}
	c.scratch = make([][]float32, c.pool.Workers())
	return c
}

// Level is the instruction set in use.
func (c *CPU) Level() Level { return c.level }

// Threads is the number of workers.
func (c *CPU) Threads() int { return c.pool.Workers() }

// Run does a job of the caller's own on the pool.
func (c *CPU) Run(job Job, items, grain int) { c.pool.Run(job, items, grain) }

// Close ends the workers; no operation may follow.
func (c *CPU) Close() { c.pool.Close() }

// reserve makes every worker's scratch at least n floats. It grows by
// doubling, since attention asks for a little more with each token.
func (c *CPU) reserve(n int) {
	for i := range c.scratch {
		if len(c.scratch[i]) < n {
			c.scratch[i] = make([]float32, max(n, 2*len(c.scratch[i])))
		}
	}
}
