package gbdt

import (
	"fmt"
	"sync"
)

// Model is an ensemble that is checked and has its kernel. It is safe for concurrent use; a call computes on the
// caller's goroutine and, after the first, allocates nothing.
type Model struct {
	ensemble *Ensemble
	bytes    int              // of the file; 0 where there was none
	numbers  []map[string]int // of categories, by feature and name; nil: the file names none
	evaluator
}

// evaluator hides the types of rows and sums.
type evaluator interface {
	predict32(rows, out []float32, raw bool)
	predict64(rows, out []float64, raw bool)
	kernelName() string
	choice() Choice
}

// New checks an ensemble and chooses its kernel. The model keeps the ensemble, which does not change from then on.
func New(e *Ensemble) (*Model, error) { return NewWith(e, Options{}) }

// NewWith is New with a say in the choice of the kernel.
func NewWith(e *Ensemble, o Options) (*Model, error) {
	if e.Width == 0 {
		e.Width = 1
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("gbdt: %w", err)
	}
	m := &Model{ensemble: e, numbers: numberCategories(e.Categories)}
	var err error
	switch {
	case e.Rows64:
		m.evaluator, err = newEngine[float64, float64](e, o)
	case e.Sums64:
		m.evaluator, err = newEngine[float32, float64](e, o)
	default:
		m.evaluator, err = newEngine[float32, float32](e, o)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Choice says which kernels were chosen.
func (m *Model) Choice() Choice { return m.choice() }

// Ensemble gives the trees. They are shared and not to be changed.
func (m *Model) Ensemble() *Ensemble { return m.ensemble }

// Features is the number of columns of a row.
func (m *Model) Features() int { return m.ensemble.Features }

// FeatureNames names the columns; nil where the file has no names.
func (m *Model) FeatureNames() []string { return m.ensemble.FeatureNames }

// Margins is the number of margins of a row.
func (m *Model) Margins() int { return m.ensemble.Outputs }

// Outputs is the number of values of a row after the objective's transformation.
func (m *Model) Outputs() int { return m.ensemble.Transform.width(m.ensemble.Outputs) }

// Double says whether the results are float64 (LightGBM, CatBoost); those of XGBoost are float32. Rows and results of the
// other type are converted.
func (m *Model) Double() bool { return m.ensemble.Sums64 }

// Predict32 fills out with Outputs values for each of len(rows)/Features rows, both row-major. It panics where the lengths
// do not fit.
func (m *Model) Predict32(rows, out []float32) {
	m.fit(len(rows), len(out), m.Outputs())
	m.predict32(rows, out, false)
}

// Predict64 is Predict32 with float64.
func (m *Model) Predict64(rows, out []float64) {
	m.fit(len(rows), len(out), m.Outputs())
	m.predict64(rows, out, false)
}

// Margins32 fills out with Margins values for each of len(rows)/Features rows: the sums of the trees, before the objective's
// transformation. It panics where the lengths do not fit.
func (m *Model) Margins32(rows, out []float32) {
	m.fit(len(rows), len(out), m.Margins())
	m.predict32(rows, out, true)
}

// Margins64 is Margins32 with float64.
func (m *Model) Margins64(rows, out []float64) {
	m.fit(len(rows), len(out), m.Margins())
	m.predict64(rows, out, true)
}

func (m *Model) fit(rows, out, width int) {
	if n := rows / m.Features(); rows != n*m.Features() || out != n*width {
		panic(fmt.Sprintf("gbdt: %d values for rows of %d features and room for %d values of %d per row", rows, m.Features(), out, width))
	}
}

// engine evaluates with rows of X and sums of S.
type engine[X, S float] struct {
	*Ensemble
	kernel  kernel[X, S]
	buffers sync.Pool // of *buffer[X, S]
}

// blockValues is how many values of rows are converted at once, about; a row is never cut.
const blockValues = 1 << 13

// buffer holds a block of rows and of margins.
type buffer[X, S float] struct {
	rows    []X
	margins []S
}

func newEngine[X, S float](e *Ensemble, o Options) (*engine[X, S], error) {
	k, err := choose[X, S](e, o)
	if err != nil {
		return nil, err
	}
	return &engine[X, S]{Ensemble: e, kernel: k}, nil
}

func (g *engine[X, S]) kernelName() string { return g.kernel.name() }

func (g *engine[X, S]) choice() Choice { return g.kernel.choice() }

func (g *engine[X, S]) predict32(rows, out []float32, raw bool) { run(g, rows, out, raw) }

func (g *engine[X, S]) predict64(rows, out []float64, raw bool) { run(g, rows, out, raw) }

// run predicts rows of R into outputs of R. What has the model's own type already is neither copied nor cut into blocks.
func run[X, S, R float](g *engine[X, S], rows, out []R, raw bool) {
	native, same := any(rows).([]X)
	results, direct := any(out).([]S)
	if same && direct && (raw || g.Transform.width(g.Outputs) == g.Outputs) {
		g.kernel.margins(native, results)
		if !raw {
			apply(g.Ensemble, results)
		}
		return
	}
	b, _ := g.buffers.Get().(*buffer[X, S])
	if b == nil {
		b = &buffer[X, S]{}
	}
	defer g.buffers.Put(b)
	for len(rows) > 0 {
		n := min(len(rows)/g.Features, max(1, blockValues/g.Features))
		block := b.block(n*g.Features, n*g.Outputs)
		convert(block.rows, rows[:len(block.rows)])
		g.kernel.margins(block.rows, block.margins)
		results := block.margins
		if !raw {
			results = apply(g.Ensemble, results)
		}
		convert(out[:len(results)], results)
		rows, out = rows[n*g.Features:], out[len(results):]
	}
}

// block gives a part of the buffer, which grows if need be.
func (b *buffer[X, S]) block(rows, margins int) buffer[X, S] {
	if cap(b.rows) < rows {
		b.rows = make([]X, rows)
	}
	if cap(b.margins) < margins {
		b.margins = make([]S, margins)
	}
	return buffer[X, S]{rows: b.rows[:rows], margins: b.margins[:margins]}
}

// convert rounds src into dst, which is as long.
func convert[A, B float](dst []A, src []B) {
	for i, x := range src {
		dst[i] = A(x)
	}
}
