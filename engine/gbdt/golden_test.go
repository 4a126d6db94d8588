package gbdt

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/reference"
)

// golden is a model with rows and what its own library predicts, as testdata/train.py wrote it.
type golden struct {
	name    string
	header  goldenHeader
	model   []byte
	rows    []float64
	margins []float64
	outputs []float64
}

type goldenHeader struct {
	Library    string `json:"library"`
	Loss       string `json:"loss"` // of a file that stands for it
	Best       bool   `json:"best_iteration"`
	Model      int    `json:"model"`
	Rows       int    `json:"rows"`
	Features   int    `json:"features"`
	Margins    int    `json:"margins"`
	Outputs    int    `json:"outputs"`
	RowBytes   int    `json:"row_bytes"`
	ValueBytes int    `json:"value_bytes"`
}

// goldens calls f for each golden file of the tree and those of the folder in WEIR_TEST_GBDT_GOLDEN if it is set.
func goldens(t *testing.T, f func(*testing.T, *golden)) {
	t.Helper()
	patterns := []string{"testdata/golden/*.gz", "testdata/losses/*.gz"}
	if folder := os.Getenv("WEIR_TEST_GBDT_GOLDEN"); folder != "" {
		patterns = append(patterns, filepath.Join(folder, "*.gz"))
	}
	for _, pattern := range patterns {
		goldensOf(t, pattern, func(t *testing.T, g *golden) {
			if slices.Contains(refusedLosses, g.header.Loss) {
				t.Skip("the loss is refused: TestEveryLoss")
			}
			f(t, g)
		})
	}
}

// goldensOf calls f for the golden files of a pattern.
func goldensOf(t *testing.T, pattern string, f func(*testing.T, *golden)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gz"), func(t *testing.T) {
			g, err := readGolden(path)
			if err != nil {
				t.Fatal(err)
			}
			f(t, g)
		})
	}
}

// options are those that the library's own predictions were made with.
func (g *golden) options() ReadOptions { return ReadOptions{BestIteration: g.header.Best} }

func readGolden(path string) (*golden, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	g := &golden{name: filepath.Base(path)}
	if err := json.Unmarshal(line, &g.header); err != nil {
		return nil, err
	}
	h := g.header
	g.model, rest = rest[:h.Model], rest[h.Model:]
	g.rows, rest = floats(rest, h.Rows*h.Features, h.RowBytes)
	g.margins, rest = floats(rest, h.Rows*h.Margins, h.ValueBytes)
	g.outputs, rest = floats(rest, h.Rows*h.Outputs, h.ValueBytes)
	if len(rest) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return g, nil
}

func floats(data []byte, n, width int) ([]float64, []byte) {
	list := make([]float64, n)
	for i := range list {
		if width == 4 {
			list[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[i*4:])))
		} else {
			list[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[i*8:]))
		}
	}
	return list, data[n*width:]
}

// TestGoldenMargins compares the margins of every kernel that a model can have with the library's own, bit by bit.
func TestGoldenMargins(t *testing.T) {
	reference.Slow(t)
	models, rows, margins := 0, 0, 0
	kernels := make(map[string]int)
	goldens(t, func(t *testing.T, g *golden) {
		e, err := read(g.model, g.options())
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		h := g.header
		if m.Features() != h.Features || m.Margins() != h.Margins || m.Outputs() != h.Outputs || m.Double() != (h.ValueBytes == 8) {
			t.Fatalf("%d features, %d margins, %d outputs, double %v; want %+v", m.Features(), m.Margins(), m.Outputs(), m.Double(), h)
		}
		compareMargins(t, g, m)
		for _, o := range allKernels(t, e) {
			m, err := NewWith(e, o)
			if err != nil {
				t.Fatal(err)
			}
			kernels[o.Kernel]++
			compareMargins(t, g, m)
		}
		models, rows, margins = models+1, rows+h.Rows, margins+len(g.margins)
	})
	t.Logf("%d models, %d rows, %d margins; models by kernel and level: %v", models, rows, margins, kernels)
}

// allKernels names the kernels of an ensemble on all levels of the machine.
func allKernels(t *testing.T, e *Ensemble) []Options {
	t.Helper()
	var all []Options
	for _, level := range isa.Levels() {
		_, err := NewWith(e, Options{Level: level, Kernel: "none"})
		_, names, ok := strings.Cut(err.Error(), "it has ")
		if !ok {
			t.Fatal(err)
		}
		for name := range strings.SplitSeq(names, ", ") {
			all = append(all, Options{Level: level, Kernel: name})
		}
	}
	return all
}

// compareMargins compares many rows at once and, for some of them, one by one.
func compareMargins(t *testing.T, g *golden, m *Model) {
	t.Helper()
	features, width := g.header.Features, g.header.Margins
	got := make([]float64, len(g.margins))
	m.Margins64(g.rows, got)
	different := 0
	for i, want := range g.margins {
		if math.Float64bits(got[i]) != math.Float64bits(want) {
			if different++; different <= 5 {
				r := i / width
				t.Errorf("%s: row %d %v: margin %v, want %v", m.kernelName(), r, g.rows[r*features:(r+1)*features], got[i], want)
			}
		}
	}
	if different > 0 {
		t.Errorf("%s: %d of %d margins differ", m.kernelName(), different, len(got))
	}
	one := make([]float64, width)
	for r := range min(g.header.Rows, 400) {
		m.Margins64(g.rows[r*features:(r+1)*features], one)
		for k, x := range one {
			if math.Float64bits(x) != math.Float64bits(g.margins[r*width+k]) {
				t.Fatalf("%s: row %d alone: margin %v, want %v", m.kernelName(), r, x, g.margins[r*width+k])
			}
		}
	}
}

// TestGoldenOutputs compares outputs with the library's own. XGBoost and LightGBM take exponentials from the C library, whose bits
// this package has; log1p is Go's. CatBoost has an exponential of its own for softmax and Exponent, see rough.
func TestGoldenOutputs(t *testing.T) {
	count, differing := make(map[string]int), make(map[string]int)
	goldens(t, func(t *testing.T, g *golden) {
		m, err := ReadWith(g.model, g.options())
		if err != nil {
			t.Fatal(err)
		}
		library, _, _ := strings.Cut(g.header.Library, " ")
		transform := m.Ensemble().Transform
		allowed := 0
		if transform == Log1pExp {
			allowed = 1
		}
		got := make([]float64, len(g.outputs))
		m.Predict64(g.rows, got)
		worst, different := 0, 0
		for i, want := range g.outputs {
			d := ulps(got[i], want, g.header.ValueBytes == 8)
			worst = max(worst, d)
			if d > 0 {
				different++
			}
			if d > allowed {
				t.Fatalf("output %d: %v, want %v: %d ulp", i, got[i], want, d)
			}
		}
		kind := library + " " + transform.String()
		count[kind] += len(got)
		differing[kind] += different
		if different > 0 {
			t.Logf("%v: %d of %d outputs differ, by %d ulp at most", kind, different, len(got), worst)
		}
	})
	t.Logf("outputs: %v; of them different: %v", count, differing)
}

// ulps counts the floats between a and b.
func ulps(a, b float64, double bool) int {
	if math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	if double {
		return int(min(abs(order(int64(math.Float64bits(a)))-order(int64(math.Float64bits(b)))), 1<<30))
	}
	x, y := int32(math.Float32bits(float32(a))), int32(math.Float32bits(float32(b)))
	return int(abs(order(int64(x)<<32)>>32 - order(int64(y)<<32)>>32))
}

// order makes the bits of floats ascend with their values.
func order(bits int64) int64 {
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

func abs(x int64) int64 { return max(x, -x) }
