package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/weight"
	"weir/internal/reference"
	"weir/internal/roofline"
)

func openRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestMicroMeasuresEveryCase(t *testing.T) {
	reference.Slow(t)
	for _, level := range isa.Levels() {
		o := MicroOptions{
			Threads: 2, Level: level, Kernels: []string{"product", "rows"}, Types: gguf.SupportedTypes(),
			Rows: []int{1, 3}, Outputs: 40, Inputs: 256, Rounds: 2, Round: time.Microsecond, Cold: 1,
		}
		reports := 0
		o.Progress = func(_ string, done, total int) {
			if reports++; done != reports || done > total {
				t.Errorf("progress %d of %d at report %d", done, total, reports)
			}
		}
		rows, err := RunMicro(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2*len(o.Types) + 10; len(rows) != want || reports != want {
			t.Errorf("%s: %d rows and %d reports, want %d", level, len(rows), reports, want)
		}
		names := make(map[string]bool)
		for _, r := range rows {
			if names[r.Name()] {
				t.Errorf("%s: two rows are named %q", level, r.Name())
			}
			names[r.Name()] = true
			if len(r.Seconds) != 2 || !(r.Median() > 0) {
				t.Errorf("%s: %s took %v", level, r.Name(), r.Seconds)
			}
		}
	}
}

func TestMicroMeasuresAttention(t *testing.T) {
	m := &micro{o: MicroOptions{Rounds: 1, Round: time.Microsecond, Cold: 1, Progress: func(string, int, int) {}}}
	m.cpu, m.random = kernel.NewCPU(2, isa.Auto), openRandom()
	defer m.cpu.Close()
	for _, s := range []attentionShape{{3, 1, 40}, {1, 20, 0}, {1, 20, 30}} {
		if err := m.measure(t.Context(), m.attention(attend.KVQ8, s)); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.rows) != 3 || m.rows[0].Name() != "attention q8_0 3 x 40" {
		t.Errorf("rows %+v", m.rows)
	}
}

func TestAttentionWork(t *testing.T) {
	const perPosition = 4 * microHeads * microHeadDim
	for _, c := range []struct {
		shape     attentionShape
		positions float64 // that rows look at, of all rows
		bytes     float64
	}{
		{attentionShape{1, 1, 100}, 100, 100 * 8},
		{attentionShape{4, 1, 100}, 400, 400 * 8},
		{attentionShape{1, 3, 0}, 1 + 2 + 3, 3 * 8},
		{attentionShape{1, 3, 10}, 11 + 12 + 13, 13 * 8},
	} {
		want := roofline.Work{Bytes: c.bytes, FloatOps: c.positions * perPosition}
		if got := c.shape.work(attend.KVF16, 8); got != want {
			t.Errorf("%v: %+v, want %+v", c.shape, got, want)
		}
	}
}

func TestSensibleBytesAreOrdinaryInEveryType(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		n, _ := typ.RowBytes(256)
		values := make([]float32, 256)
		weight.Decode(typ, values, sensibleBytes(int(n), openRandom()))
		if !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }) {
			t.Errorf("%s: all values are 0", typ)
		}
		for i, v := range values {
			if typ != gguf.TypeMXFP4 && !(math.Abs(float64(v)) < 1000) { // MXFP4's scales are bare exponents
				t.Errorf("%s: value %d is %v", typ, i, v)
				break
			}
		}
	}
}

var microLimits = roofline.Limits{
	Level: roofline.AVX512, Threads: 2, ClockHz: 3.6e9,
	All: roofline.Rates{ReadBytes: 50e9, Int8Ops: 1700e9, FloatOps: 450e9},
}

// microRows are a product that memory limits, one that the multipliers limit,
// attention, and an operation in the caches.
func microRows() []MicroRow {
	return []MicroRow{
		{Kernel: "product", Type: "Q4_K", Shape: "8192 x 2048, 1 rows", Rows: 1,
			Work: roofline.Work{Bytes: 10e6, Int8Ops: 33.5e6}, Seconds: []float64{250e-6, 240e-6, 900e-6}},
		{Kernel: "product", Type: "Q4_K", Shape: "8192 x 2048, 512 rows", Rows: 512,
			Work: roofline.Work{Bytes: 10e6, Int8Ops: 17e9}, Seconds: []float64{20e-3}},
		{Kernel: "attention", Type: "f16", Shape: "8 x 4096", Work: roofline.Work{Bytes: 67e6, FloatOps: 268e6},
			Seconds: []float64{2e-3}},
		{Kernel: "norm", Shape: "1 x 2048", Work: roofline.Work{Bytes: 16384}, InCache: true, Seconds: []float64{410e-9}},
		{Kernel: "round", Shape: "empty", InCache: true, Seconds: []float64{1.5e-6}},
	}
}

func TestMicroShares(t *testing.T) {
	rows := microRows()
	for i, want := range []float64{0.8, 0.5, 0.67} {
		share, _, ok := rows[i].Share(microLimits.All)
		if !ok || math.Abs(share-want) > 1e-9 {
			t.Errorf("%s: share %v, want %v", rows[i].Name(), share, want)
		}
	}
	if _, _, ok := rows[3].Share(microLimits.All); ok {
		t.Error("an operation in the caches has a share of memory's limit")
	}
	if _, _, ok := rows[0].Share(roofline.Rates{}); ok {
		t.Error("a share of limits that were not measured")
	}
}

func TestMicroTable(t *testing.T) {
	var out strings.Builder
	if err := WriteMicroMarkdown(&out, microRows(), microLimits); err != nil {
		t.Fatal(err)
	}
	const want = `
limits of 2 threads at avx512: 50.0 GB/s read, 1700 Gop/s int8, 450 Gop/s float32

| kernel    | type   | shape                  |      time |    GB/s |   Gop/s | limited by | of limit |
| --------- | ------ | ---------------------- | --------: | ------: | ------: | ---------- | -------: |
| product   | Q4_K   | 8192 x 2048, 1 rows    |    250 us |    40.0 |     134 | memory     |     80 % |
| product   | Q4_K   | 8192 x 2048, 512 rows  |   20.0 ms |   0.500 |     850 | compute    |     50 % |
| attention | f16    | 8 x 4096               |   2.00 ms |    33.5 |     134 | memory     |     67 % |
| norm      |        | 1 x 2048               |    410 ns |    40.0 |       – | –          |        – |
| round     |        | empty                  |   1.50 us |       – |       – | –          |        – |
`
	if "\n"+out.String() != want {
		t.Errorf("table:\n%s\nwant:%s", out.String(), want)
	}
}

func TestMicroEntersTheResult(t *testing.T) {
	r := NewResult("micro")
	r.AddMicro(microRows(), microLimits)
	byName := make(map[string]Row)
	for _, row := range r.Rows {
		byName[row.Name] = row
	}
	if got := byName["product Q4_K 8192 x 2048, 1 rows"]; got.Unit != "Gop/s" || math.Abs(got.Value-134) > 1e-9 ||
		len(got.Samples) != 3 {
		t.Errorf("product: %+v", got)
	}
	if got := byName["product Q4_K 8192 x 2048, 1 rows, of limit"]; math.Abs(got.Value-80) > 1e-9 {
		t.Errorf("share: %+v", got)
	}
	if got := byName["round empty"]; got.Unit != "us" || math.Abs(got.Value-1.5) > 1e-9 {
		t.Errorf("round: %+v", got)
	}
	if got := byName["norm 1 x 2048"]; got.Unit != "GB/s" {
		t.Errorf("norm: %+v", got)
	}
}

func TestRooflinePlotIsXML(t *testing.T) {
	var out strings.Builder
	if err := PlotRoofline(&out, microRows(), microLimits); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"product Q4_K", "attention f16", ">512<", "up to 80 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "norm") {
		t.Error("the plot holds what has no place")
	}
	if err := PlotRoofline(&out, microRows()[3:], microLimits); err == nil {
		t.Error("no error where there is nothing to draw")
	}
}

func TestMicroRefusesWhatItCannot(t *testing.T) {
	for name, o := range map[string]MicroOptions{
		"kernel":  {Kernels: []string{"fft"}},
		"rows":    {Rows: []int{0}},
		"size":    {Outputs: -1},
		"columns": {Inputs: 100, Types: []gguf.Type{gguf.TypeQ4K}},
		"threads": {Threads: -1},
	} {
		if _, err := RunMicro(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
