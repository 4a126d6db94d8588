package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/weight"
	"weir/internal/cpu"
	"weir/internal/roofline"
)

// MicroOptions say which kernels RunMicro measures. Zero fields take the
// defaults named.
type MicroOptions struct {
	Threads int
	Level   isa.Level
	Kernels []string    // of MicroKernels; default all
	Types   []gguf.Type // of weights; default those with products of their own
	Rows    []int       // of products; default 1, 4, 8, 16, 64, 512
	Outputs int         // rows of a weight matrix; default 8192
	Inputs  int         // its columns; default 2048
	Rounds  int         // of which the median counts; default 5
	Round   time.Duration
	Seed    uint64
	Cold    int64 // bytes of weights or cache to take in turn; default more than the processor caches

	Progress func(what string, done, total int) // called after each case
}

// MicroKernels are the groups that can be measured.
var MicroKernels = []string{"product", "attention", "rows"}

// maxSide bounds the rows and columns of a matrix, so that byte counts cannot overflow.
const maxSide = 1 << 18

func (o *MicroOptions) fill() error {
	if o.Threads == 0 {
		o.Threads = cpu.Threads()
	}
	if o.Level == isa.Auto {
		o.Level = isa.Best()
	}
	if len(o.Kernels) == 0 {
		o.Kernels = MicroKernels
	}
	if len(o.Types) == 0 {
		o.Types = gguf.SupportedTypes()
	}
	if len(o.Rows) == 0 {
		o.Rows = []int{1, 4, 8, 16, 64, 512}
	}
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.Outputs, 8192)
	set(&o.Inputs, 2048)
	set(&o.Rounds, 5)
	if o.Round == 0 {
		o.Round = 60 * time.Millisecond
	}
	if o.Cold == 0 {
		o.Cold = max(64<<20, 4*cpu.Identify().CacheBytes)
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	return o.check()
}

func (o *MicroOptions) check() error {
	for _, k := range o.Kernels {
		if !slices.Contains(MicroKernels, k) {
			return fmt.Errorf("kernel %q is not known; take %s", k, strings.Join(MicroKernels, ", "))
		}
	}
	for _, n := range o.Rows {
		if n < 1 || n > 1<<14 {
			return fmt.Errorf("rows %d: must be from 1 to %d", n, 1<<14)
		}
	}
	if o.Outputs < 1 || o.Outputs > maxSide || o.Inputs < 1 || o.Inputs > maxSide {
		return fmt.Errorf("matrix of %d x %d: sides must be from 1 to %d", o.Outputs, o.Inputs, maxSide)
	}
	for _, t := range o.Types {
		if _, err := weight.MatrixBytes(t, o.Outputs, o.Inputs); err != nil {
			return err
		}
	}
	if o.Threads < 1 || o.Rounds < 1 {
		return fmt.Errorf("threads %d and rounds %d must be at least 1", o.Threads, o.Rounds)
	}
	return nil
}

// MicroRow is a measured case.
type MicroRow struct {
	Kernel  string // "product", "attention", or an operation on rows
	Type    string // of weights or cache; empty where there is one
	Shape   string // "8192 x 2048, 16 rows"
	Rows    int    // of a product; 0 elsewhere
	Work    roofline.Work
	InCache bool      // the work's bytes come from caches: memory is not its limit
	Seconds []float64 // of a call, one for each round
}

// Name is unique among the rows.
func (r MicroRow) Name() string {
	return strings.Join(strings.Fields(r.Kernel+" "+r.Type+" "+r.Shape), " ")
}

// Median is a call's time in seconds.
func (r MicroRow) Median() float64 {
	s := slices.Sorted(slices.Values(r.Seconds))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Ops are the operations of a call, of either kind.
func (r MicroRow) Ops() float64 { return r.Work.Int8Ops + r.Work.FloatOps }

// Share is how much of what the machine can do at most the case reaches, and
// what limits it there; ok is false where no limit was measured.
func (r MicroRow) Share(limit roofline.Rates) (share float64, bound roofline.Bound, ok bool) {
	if limit.ReadBytes == 0 || r.InCache {
		return 0, 0, false
	}
	least, bound := limit.Seconds(r.Work)
	return least / r.Median(), bound, true
}

// microCase is a call to measure.
type microCase struct {
	row  MicroRow
	call func()
}

// microGroup is cases that share memory, which exists while they run.
type microGroup struct {
	count   int
	prepare func() (cases []microCase, release func() error, err error)
}

// RunMicro measures kernels one by one, through the calls that the engine
// makes. Weights and caches are larger than the processor's caches and taken
// in turn, as a model's layers are; activations stay in the caches.
func RunMicro(ctx context.Context, o MicroOptions) ([]MicroRow, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	m := &micro{o: o, cpu: kernel.NewCPU(o.Threads, o.Level), random: rand.New(rand.NewPCG(o.Seed, 1))}
	defer m.cpu.Close()
	var groups []microGroup
	for _, k := range o.Kernels {
		switch k {
		case "product":
			for _, t := range o.Types {
				groups = append(groups, m.products(t))
			}
		case "attention":
			for _, t := range []attend.KVType{attend.KVF16, attend.KVQ8} {
				for _, s := range attentionShapes {
					groups = append(groups, m.attention(t, s))
				}
			}
		case "rows":
			groups = append(groups, m.operations())
		}
	}
	for _, g := range groups {
		m.total += g.count
	}
	for _, g := range groups {
		if err := m.measure(ctx, g); err != nil {
			return nil, err
		}
	}
	return m.rows, nil
}

// micro is a run in progress.
type micro struct {
	o      MicroOptions
	cpu    *kernel.CPU
	random *rand.Rand
	total  int // cases
	rows   []MicroRow
}

func (m *micro) measure(ctx context.Context, g microGroup) (err error) {
	cases, release, err := g.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, c := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.call() // memory of its size is reserved
		for range m.o.Rounds {
			c.row.Seconds = append(c.row.Seconds, timeCall(c.call, m.o.Round))
		}
		m.rows = append(m.rows, c.row)
		m.o.Progress(c.row.Name(), len(m.rows), m.total)
	}
	return nil
}

// timeCall is the mean time of calls that fill d, at least one.
func timeCall(call func(), d time.Duration) float64 {
	start := time.Now()
	for n := 1; ; n++ {
		call()
		if t := time.Since(start); t >= d {
			return t.Seconds() / float64(n)
		}
	}
}

// floats are n ordinary activations.
func (m *micro) floats(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(m.random.NormFloat64())
	}
	return x
}

// AddMicro appends a row for each case, and what the machine can do at most.
func (r *Result) AddMicro(rows []MicroRow, l roofline.Limits) {
	for _, row := range rows {
		rates := make([]float64, len(row.Seconds))
		unit, amount := "Gop/s", row.Ops()
		if amount == 0 {
			unit, amount = "GB/s", row.Work.Bytes
		}
		for i, s := range row.Seconds {
			rates[i] = amount / s / 1e9
		}
		if amount == 0 {
			r.AddValue(row.Name(), "us", 1e6*row.Median())
			continue
		}
		r.Add(row.Name(), unit, rates...)
		r.Rows[len(r.Rows)-1].Value = amount / row.Median() / 1e9
		if share, _, ok := row.Share(l.All); ok {
			r.AddValue(row.Name()+", of limit", "%", 100*share)
		}
	}
	if l.Threads > 0 {
		r.set("limits", map[string]float64{
			"threads": float64(l.Threads), "read_bytes_per_s": l.All.ReadBytes, "int8_ops_per_s": l.All.Int8Ops,
			"float32_ops_per_s": l.All.FloatOps, "clock_hz": l.ClockHz,
		})
	}
}
