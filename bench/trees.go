package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"weir/engine/gbdt"
	"weir/internal/roofline"
	"weir/internal/unit"
)

// TreeOptions say how RunTrees measures a model. Zero fields take the defaults named.
type TreeOptions struct {
	Batches []int // rows of a call; default 1, 8, 64, 1024
	Rounds  int   // of which the median counts; default 9
	Round   time.Duration
	Rows    []float32 // row-major; default made from the model's thresholds
	Seed    uint64

	Progress func(what string, done, total int) // called after each round
}

// TreeRow is what calls of one size took.
type TreeRow struct {
	Batch  int
	Kernel string
	Trees  int
	Limit  float64   // nanoseconds per row that no kernel can be faster than; 0: not measured
	Nanos  []float64 // per row, one for each round
}

// MakeTrees gives random perfect trees over normally distributed features with 255 thresholds each, as a library
// that sorts values into 256 bins would train them.
func MakeTrees(trees, depth, features int, seed uint64) (*gbdt.Ensemble, error) {
	if trees < 1 || trees > 1<<16 || depth < 1 || depth > 16 || features < 1 || features > 1<<14 || trees<<depth > 1<<26 {
		return nil, fmt.Errorf("%d trees of depth %d over %d features: take at most 65536, 16 and 16384, and 2^26 leaves together",
			trees, depth, features)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	bins := make([]float64, 255)
	e := &gbdt.Ensemble{Format: "made", Features: features, Outputs: 1, Less: true, Base: []float64{0.5}, BaseLast: true}
	for f := range bins {
		bins[f] = float64(float32(random.NormFloat64()))
	}
	nodes := make([]gbdt.Node, 2<<depth-1)
	for range trees {
		for i := range nodes {
			if 2*i+2 >= len(nodes) {
				nodes[i] = gbdt.Node{Left: -1, Right: -1, Value: float64(float32(random.NormFloat64()))}
				continue
			}
			nodes[i] = gbdt.Node{Left: int32(2*i + 1), Right: int32(2*i + 2), Feature: int32(random.IntN(features)),
				Threshold: bins[random.IntN(len(bins))]}
		}
		if err := e.Add(nodes, 0); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// fill sets defaults and makes rows where there are none.
func (o *TreeOptions) fill(m *gbdt.Model) error {
	if len(o.Batches) == 0 {
		o.Batches = []int{1, 8, 64, 1024}
	}
	if o.Rounds == 0 {
		o.Rounds = 9
	}
	if o.Round == 0 {
		o.Round = 30 * time.Millisecond
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	for _, b := range o.Batches {
		if b < 1 || b > 1<<16 {
			return fmt.Errorf("batch %d: must be from 1 to %d", b, 1<<16)
		}
	}
	if o.Rounds < 1 {
		return fmt.Errorf("rounds %d: must be at least 1", o.Rounds)
	}
	if o.Rows == nil {
		o.Rows = treeRows(m, max(1024, slices.Max(o.Batches)), o.Seed)
	}
	if n := len(o.Rows) / m.Features(); n*m.Features() != len(o.Rows) || n < slices.Max(o.Batches) {
		return fmt.Errorf("%d values are no rows of %d features, or fewer than the %d of the largest batch",
			len(o.Rows), m.Features(), slices.Max(o.Batches))
	}
	return nil
}

// treeRows makes rows around the model's thresholds, so that they go everywhere in its trees.
func treeRows(m *gbdt.Model, n int, seed uint64) []float32 {
	values := m.Ensemble().Sample(n, rand.New(rand.NewPCG(seed, 2)))
	rows := make([]float32, len(values))
	for i, x := range values {
		rows[i] = float32(x)
	}
	return rows
}

// RunTrees measures a model's calls on rows that follow one another, on one thread. Margins are computed, not the
// objective's transformation.
func RunTrees(ctx context.Context, m *gbdt.Model, o TreeOptions) ([]TreeRow, error) {
	if err := o.fill(m); err != nil {
		return nil, err
	}
	c := newTreeCaller(m, o.Rows)
	choice := m.Choice()
	rows := make([]TreeRow, len(o.Batches))
	for i, batch := range o.Batches {
		rows[i] = TreeRow{Batch: batch, Kernel: choice.Single, Trees: len(m.Ensemble().Trees)}
		if choice.Block != "" && batch >= choice.From {
			rows[i].Kernel = choice.Block
		}
	}
	for round := range o.Rounds + 1 { // the first one warms up
		for i, batch := range o.Batches {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			nanos := c.run(batch, o.Round)
			if round > 0 {
				rows[i].Nanos = append(rows[i].Nanos, nanos)
			}
		}
		o.Progress("rounds", round, o.Rounds)
	}
	return rows, nil
}

// treeCaller calls the model with its own type of rows.
type treeCaller struct {
	model  *gbdt.Model
	rows32 []float32
	rows64 []float64
	out32  []float32
	out64  []float64
}

func newTreeCaller(m *gbdt.Model, rows []float32) *treeCaller {
	c := &treeCaller{model: m}
	margins := len(rows) / m.Features() * m.Margins()
	if !m.Ensemble().Rows64 {
		c.rows32, c.out32 = rows, make([]float32, margins)
		return c
	}
	c.rows64, c.out64 = make([]float64, len(rows)), make([]float64, margins)
	for i, x := range rows {
		c.rows64[i] = float64(x)
	}
	return c
}

// run calls for at least d and gives nanoseconds per row.
func (c *treeCaller) run(batch int, d time.Duration) float64 {
	width, margins := batch*c.model.Features(), batch*c.model.Margins()
	calls := max(len(c.out32), len(c.out64)) / margins
	done, begun := 0, time.Now()
	for time.Since(begun) < d {
		for i := range calls {
			if c.rows64 != nil {
				c.model.Margins64(c.rows64[i*width:(i+1)*width], c.out64[i*margins:(i+1)*margins])
			} else {
				c.model.Margins32(c.rows32[i*width:(i+1)*width], c.out32[i*margins:(i+1)*margins])
			}
		}
		done += calls
	}
	return float64(time.Since(begun)) / float64(done*batch)
}

// LimitTrees sets what no kernel can be faster than: each test of a node compares a byte, at the rate at which this thread
// multiplies bytes; and with a single row the trees of an output are added one after the other, since a sum's bits
// depend on its order.
func LimitTrees(rows []TreeRow, m *gbdt.Model, rates roofline.Rates) error {
	if rates.Int8Ops <= 0 {
		return errors.New("the machine's rate of byte operations is not known")
	}
	e := m.Ensemble()
	const opsPerByte = 2 // a multiply-add of the limit is two operations
	compare := 1e9 * float64(len(e.Feature)) * opsPerByte / rates.Int8Ops
	chain := float64(len(e.Trees)) / float64(e.Outputs) * addNanos()
	for i := range rows {
		rows[i].Limit = compare
		if rows[i].Batch == 1 {
			rows[i].Limit = max(compare, chain)
		}
	}
	return nil
}

// addNanos is the time of an addition that waits for the one before.
func addNanos() float64 {
	x := make([]float32, 4096)
	least := math.Inf(1)
	for range 50 {
		begun := time.Now()
		sum := float32(0)
		for _, v := range x {
			sum += v
		}
		if d := float64(time.Since(begun)) / float64(len(x)); sum == 0 {
			least = min(least, d)
		}
	}
	return least
}

// Median is the median time of a row in nanoseconds.
func (r TreeRow) Median() float64 {
	sorted := slices.Sorted(slices.Values(r.Nanos))
	return sorted[len(sorted)/2]
}

// AddTrees appends the times by batch, and how the model computes.
func (r *Result) AddTrees(rows []TreeRow, c gbdt.Choice) {
	for _, row := range rows {
		name := "batch" + strconv.Itoa(row.Batch)
		r.Add(name, "ns/row", row.Nanos...)
		r.Rows[len(r.Rows)-1].Value = row.Median()
		r.AddValue(name+", tree", "ns", row.Median()/float64(max(row.Trees, 1)))
		if row.Limit > 0 {
			r.AddValue(name+", of limit", "%", 100*row.Limit/row.Median())
		}
	}
	kernel := c.Single
	if c.Block != "" {
		kernel = fmt.Sprintf("%s, %s from %d rows", c.Single, c.Block, c.From)
	}
	r.set("kernel", kernel)
	r.set("prepared_bytes", c.Bytes)
}

// WriteTreesMarkdown writes a line for each batch.
func WriteTreesMarkdown(w io.Writer, rows []TreeRow) error {
	columns := []column{
		{"rows", 5, right}, {"kernel", 15, left}, {"ns per row", 10, right}, {"least", 9, right}, {"ns per tree and row", 19, right},
		{"of limit", 8, right},
	}
	var cells [][]string
	for _, r := range rows {
		limit := "–"
		if r.Limit > 0 {
			limit = fmt.Sprintf("%.0f %%", 100*r.Limit/r.Median())
		}
		cells = append(cells, []string{
			strconv.Itoa(r.Batch), r.Kernel, unit.ThreeDigits(r.Median()), unit.ThreeDigits(slices.Min(r.Nanos)),
			unit.ThreeDigits(r.Median() / float64(max(r.Trees, 1))), limit,
		})
	}
	return markdown(w, columns, cells)
}
