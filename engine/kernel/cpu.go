package kernel

import (
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// CPU runs the operations of one engine, on a compute pool of its own or on one
// that several engines share. One step at a time uses it: the operations are not
// safe for concurrent use, and none allocates after the first call of its size.
type CPU struct {
	level  isa.Level
	member *pool.Member
	own    *pool.Pool // ends with the CPU; nil where the pool is shared
	worker []*CPU     // for each worker of the pool one that computes on it alone; nil in those

	multiplier *weight.Multiplier
	attention  *attend.Attention
	reads      uint64
	recurrence *recurrence.Worker // made by the first call
	apart      []float32          // a gated product's second half, where it cannot be fused
	norm       normJob
	rotate     rotateJob
	gate       gateJob
	softCap    softCapJob
}

// NewCPU starts a pool of threads workers that compute at a level, which the
// machine must have. Close ends it.
func NewCPU(threads int, level isa.Level) *CPU {
	p := pool.New(threads)
	c := Share(p, 1, level)
	c.own = p
	return c
}

// Share is a CPU on a pool of others, of whose time it gets a share in
// proportion to share. Engines step in turns, see [CPU.Drive].
func Share(p *pool.Pool, share int, level isa.Level) *CPU {
	if level == isa.Auto {
		level = isa.Best()
	}
	c := newCPU(p.Join(share), level)
	for range c.Threads() {
		c.worker = append(c.worker, newCPU(pool.Alone(), level))
	}
	return c
}

func newCPU(member *pool.Member, level isa.Level) *CPU {
	return &CPU{level: level, member: member, multiplier: weight.NewMultiplier(member, level), attention: attend.New(member, level)}
}

// Worker is a CPU whose operations run on their caller alone: a job that Run calls on that worker may
// use it. Its results are those of the CPU, bit for bit. Such a CPU is its own only worker.
func (c *CPU) Worker(worker int) *CPU {
	if c.worker == nil {
		return c
	}
	return c.worker[worker]
}

// SetFine says whether all products from the next one on are fine, see [weight.Product].
func (c *CPU) SetFine(fine bool) {
	c.multiplier.SetFine(fine)
	for _, w := range c.worker {
		w.SetFine(fine)
	}
}

// NewReads is a number for queries of attention, of the CPU and of its workers, that no queries had before, see [attend.Query].
func (c *CPU) NewReads() uint64 {
	c.reads++
	return c.reads
}

// Level is the instruction set in use.
func (c *CPU) Level() isa.Level { return c.level }

// Threads is the number of workers.
func (c *CPU) Threads() int { return c.member.Workers() }

// Drive hands the steps of an engine to the pool, see [pool.Member.Drive]. During a
// step the pool is this CPU's alone.
func (c *CPU) Drive(step func() (more bool)) { c.member.Drive(step) }

// DriveBriefly is Drive for steps that may run inside of other engines' steps, see
// [pool.Member.DriveBriefly].
func (c *CPU) DriveBriefly(step func() (more bool)) { c.member.DriveBriefly(step) }

// Ready says that the engine has a step to do. It may be called from any goroutine.
func (c *CPU) Ready() { c.member.Ready() }

// Wanted reports whether another engine has a brief step to do, see [pool.Member.Wanted].
func (c *CPU) Wanted() bool { return c.member.Wanted() }

// Run does a job of the caller's own on the pool.
func (c *CPU) Run(job pool.Job, items, grain int) { c.member.Run(job, items, grain) }

// Close ends the workers, unless others share them; no operation may follow. The
// last step of an engine may call Close.
func (c *CPU) Close() {
	if c.own != nil {
		c.own.Close()
	}
}

// MatMul computes dst = x W^T + bias for rows rows of x, [rows][w.Cols].
func (c *CPU) MatMul(dst []float32, w *weight.Matrix, x []float32, rows int, bias []float32) {
	c.Products(x, rows, weight.Norm{}, weight.Product{Dst: dst, W: w, Bias: bias})
}

// Products computes several products of the rows of x, see
// [weight.Multiplier.Products].
func (c *CPU) Products(x []float32, rows int, norm weight.Norm, products ...weight.Product) {
	c.multiplier.Products(x, rows, norm, products...)
}

// Gated computes dst = a(x gate^T) * (x up^T), where a is gate.Act; dst is
// [rows][gate.W.Rows]. gate and up have the same shape, and their Dst is not used.
func (c *CPU) Gated(dst, x []float32, rows int, norm weight.Norm, gate, up weight.Product) {
	if weight.SideBySide(gate.W, up.W) {
		c.multiplier.Gated(dst, x, rows, norm, gate, up)
		return
	}
	n := rows * up.W.Rows
	if len(c.apart) < n {
		c.apart = make([]float32, n)
	}
	act := gate.Act
	gate.Dst, gate.Act, up.Dst = dst, vector.Identity, c.apart[:n]
	c.Products(x, rows, norm, gate, up)
	c.Gate(act, dst, up.Dst, rows, up.W.Rows)
}

// AdaptedProducts is Products of which some rows have low ranks, see [weight.Multiplier.AdaptedProducts].
func (c *CPU) AdaptedProducts(parts []weight.Adapted, x []float32, rows int, norm weight.Norm, products ...weight.Product) {
	c.multiplier.AdaptedProducts(parts, x, rows, norm, products...)
}

// AdaptedGated is Gated of which some rows have low ranks, see [weight.Multiplier.AdaptedGated].
func (c *CPU) AdaptedGated(parts []weight.Adapted, dst, x []float32, rows int, norm weight.Norm, gate, up weight.Product) {
	c.multiplier.AdaptedGated(parts, dst, x, rows, norm, gate, up)
}

// Mix adds what a mixture of experts gives for rows of x to dst, see [weight.Multiplier.Mix].
func (c *CPU) Mix(dst, x []float32, rows int, norm weight.Norm, m *weight.Mixture, r *weight.Routes) {
	c.multiplier.Mix(dst, x, rows, norm, m, r)
}

// StoreKV writes keys and values, each [len(places)][KVHeads*HeadDim], of a
// layer to their places, no two of which are the same.
func (c *CPU) StoreKV(kv *attend.KV, layer int, k, v []float32, places []attend.Place) {
	c.attention.Store(kv, layer, k, v, places)
}

// Attention answers a query, see [attend.Attention.Attend].
func (c *CPU) Attention(q attend.Query) { c.attention.Attend(q) }

// Recur takes rows through a recurrent layer, see [recurrence.Worker.Run].
func (c *CPU) Recur(l *recurrence.Layer, rows *recurrence.Rows) {
	if c.recurrence == nil {
		c.recurrence = recurrence.New(c.member, c.level)
	}
	c.recurrence.Run(l, rows)
}
