package gbdt

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/invariants"
)

// stump gives an ensemble of one tree: x[0] < 0.5 and then x[1] < 2 on its left side.
func stump() *Ensemble {
	e := &Ensemble{Features: 2, Outputs: 1, Width: 1, Less: true, Base: []float64{10}}
	err := e.Add([]Node{
		{Left: 4, Right: 1, Feature: 0, Threshold: 0.5, Rule: MissingLeft},
		{Left: -1, Right: -1, Value: 4},
		{Left: -1, Right: -1, Value: 1},
		{Left: -1, Right: -1, Value: 2},
		{Left: 2, Right: 3, Feature: 1, Threshold: 2},
	}, 0)
	if err != nil {
		panic(err)
	}
	return e
}

func TestWalkFollowsTests(t *testing.T) {
	m, err := New(stump())
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for _, c := range []struct{ x0, x1, want float64 }{
		{0, 0, 11}, {0, 2, 12}, {0, 3, 12}, {0.5, 0, 14}, {math.Inf(-1), 0, 11}, {math.Inf(1), 0, 14},
		{nan, 1, 11}, {0, nan, 12}, {nan, nan, 12}, {math.Nextafter(0.5, 0), 0, 14}, // rounds to float32(0.5)
	} {
		var wide [1]float64
		m.Predict64([]float64{c.x0, c.x1}, wide[:])
		var narrow [1]float32
		m.Predict32([]float32{float32(c.x0), float32(c.x1)}, narrow[:])
		if wide[0] != c.want || float64(narrow[0]) != c.want {
			t.Errorf("row %v %v: %v in float64 and %v in float32, want %v", c.x0, c.x1, wide[0], narrow[0], c.want)
		}
	}
}

func TestAddOrdersNodes(t *testing.T) {
	e := stump()
	if !slices.Equal(e.Feature, []int32{0, 1}) || !slices.Equal(e.Values, []float64{1, 2, 4}) {
		t.Errorf("nodes by feature %v, leaves %v: not in preorder", e.Feature, e.Values)
	}
}

func TestRules(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	set := []uint32{1<<0 | 1<<3, 1 << 1} // categories 0, 3, 33
	for _, c := range []struct {
		name        string
		node        Node
		rounding    Rounding
		left, right []float64
	}{
		{"at most", Node{Threshold: 1}, 0, []float64{1, -inf}, []float64{1.5, inf, nan}},
		{"at most, missing left", Node{Threshold: 1, Rule: MissingLeft}, 0, []float64{1, nan}, []float64{1.5}},
		{"zero missing", Node{Threshold: -1, Rule: MissingLeft | ZeroMissing}, 0, []float64{0, 1e-35, -1e-36, nan, -1}, []float64{-0.5, 2e-35}},
		{"zero missing right", Node{Threshold: 1, Rule: ZeroMissing}, 0, []float64{0.5, -3}, []float64{0, math.Copysign(0, -1), nan, 2}},
		{"equal", Node{Threshold: 2, Rule: Equal}, 0, []float64{2}, []float64{2.5, nan, inf}},
		{"XGBoost category", Node{Set: set, Rule: Member}, NonNegative, []float64{0, 0.9, 3, 33.5}, []float64{-0.5, 1, 34, 64, 1e300, inf, -inf, nan}},
		{"LightGBM category", Node{Set: set, Rule: Member}, Truncate, []float64{-0.5, 0, 3, 33.5}, []float64{-1, 1, 34, 64, 1e300, -inf, nan}},
		{"ONNX category", Node{Set: set, Rule: Member | MissingLeft}, Whole, []float64{0, 3, 33, nan}, []float64{-0.5, 3.5, 1, 64, inf}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Ensemble{Features: 1, Outputs: 1, Width: 1, Rows64: true, Sums64: true, Rounding: c.rounding}
			c.node.Left, c.node.Right = 1, 2
			if err := e.Add([]Node{c.node, {Left: -1, Right: -1, Value: 1}, {Left: -1, Right: -1, Value: 2}}, 0); err != nil {
				t.Fatal(err)
			}
			m, err := New(e)
			if err != nil {
				t.Fatal(err)
			}
			for want, list := range map[float64][]float64{1: c.left, 2: c.right} {
				for _, x := range list {
					var got [1]float64
					if m.Predict64([]float64{x}, got[:]); got[0] != want {
						t.Errorf("%v goes to leaf %v, want %v", x, got[0], want)
					}
				}
			}
		})
	}
}

func TestAggregates(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Ensemble)
		want   []float64
	}{
		{"sum", func(*Ensemble) {}, []float64{4, 6}},
		{"base first, scaled", func(e *Ensemble) { e.Base, e.Scale = []float64{1, 2}, 2 }, []float64{10, 16}},
		{"base last, scaled", func(e *Ensemble) { e.Base, e.Scale, e.BaseLast = []float64{1, 2}, 2, true }, []float64{9, 14}},
		{"mean", func(e *Ensemble) { e.Divisor, e.Base, e.BaseLast = 2, []float64{1, 0}, true }, []float64{3, 3}},
		{"min", func(e *Ensemble) { e.Aggregate = Min }, []float64{1, 2}},
		{"max", func(e *Ensemble) { e.Aggregate, e.Base, e.BaseLast = Max, []float64{1, 1}, true }, []float64{4, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Ensemble{Features: 1, Outputs: 2, Width: 2, Sums64: true}
			for _, values := range [][]float64{{1, 2}, {3, 4}} {
				if err := e.Add([]Node{{Left: -1, Right: -1, Values: values}}, 0); err != nil {
					t.Fatal(err)
				}
			}
			c.change(e)
			m, err := New(e)
			if err != nil {
				t.Fatal(err)
			}
			out := make([]float64, 2)
			if m.Predict64([]float64{0}, out); !slices.Equal(out, c.want) {
				t.Errorf("margins %v, want %v", out, c.want)
			}
		})
	}
}

func TestLinearLeaves(t *testing.T) {
	e := &Ensemble{Features: 2, Outputs: 1, Width: 1, Rows64: true, Sums64: true}
	linear := &Terms{Const: 1, Feature: []int32{0, 1}, Coefficient: []float64{2, 1e40}}
	for _, node := range []Node{{Left: -1, Right: -1, Value: 100}, {Left: -1, Right: -1, Value: 7, Linear: linear}} {
		if err := e.Add([]Node{node}, 0); err != nil {
			t.Fatal(err)
		}
	}
	m, err := New(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ x0, x1, want float64 }{{3, 0, 107}, {3, 1e-36, 107}, {math.NaN(), 0, 107}, {0, math.NaN(), 107}, {5, 0, 111}} {
		var out [1]float64
		if m.Predict64([]float64{c.x0, c.x1}, out[:]); out[0] != c.want {
			t.Errorf("row %v %v: %v, want %v", c.x0, c.x1, out[0], c.want)
		}
	}
}

func TestTransforms(t *testing.T) {
	all := math.Exp(-5) + math.Exp(-3) + 1
	for _, c := range []struct {
		transform Transform
		want      []float64
	}{
		{Identity, []float64{-2, 0, 3}},
		{Sigmoid, []float64{1 / (1 + math.Exp(2)), 0.5, 1 / (1 + math.Exp(-3))}},
		{Exp, []float64{math.Exp(-2), 1, math.Exp(3)}},
		{ArgMax, []float64{2}},
		{Hinge, []float64{0, 0, 1}},
		{SignedSquare, []float64{-4, 0, 9}},
		{Log1pExp, []float64{math.Log1p(math.Exp(-2)), math.Ln2, math.Log1p(math.Exp(3))}},
		{Softmax, []float64{math.Exp(-5) / all, math.Exp(-3) / all, 1 / all}},
	} {
		e := &Ensemble{Features: 1, Outputs: 3, Sums64: true, Base: []float64{-2, 0, 3}, Transform: c.transform}
		m, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float64, 2*m.Outputs())
		m.Predict64(make([]float64, 2), out)
		for i, x := range out {
			if math.Abs(x-c.want[i%len(c.want)]) > 1e-14 {
				t.Errorf("%v: %v, want %v", c.transform, out, c.want)
				break
			}
		}
		raw := make([]float32, 6)
		if m.Margins32(make([]float32, 2), raw); !slices.Equal(raw, []float32{-2, 0, 3, -2, 0, 3}) {
			t.Errorf("%v: margins %v", c.transform, raw)
		}
	}
}

func TestManyRowsInBlocks(t *testing.T) {
	m, err := New(stump())
	if err != nil {
		t.Fatal(err)
	}
	const n = 3*blockValues/2 + 7
	r := rand.New(rand.NewPCG(1, 2))
	rows32, rows64 := make([]float32, 2*n), make([]float64, 2*n)
	for i := range rows32 {
		rows32[i] = r.Float32() * 4
		rows64[i] = float64(rows32[i])
	}
	out32, out64 := make([]float32, n), make([]float64, n)
	m.Predict32(rows32, out32)
	m.Predict64(rows64, out64)
	for i := range n {
		if float64(out32[i]) != out64[i] || out32[i] < 11 {
			t.Fatalf("row %d: %v and %v", i, out32[i], out64[i])
		}
	}
	if allocs := testing.AllocsPerRun(10, func() {
		m.Predict32(rows32, out32)
		m.Predict64(rows64, out64)
	}); allocs > 0 && !invariants.Enabled { // the race detector lets a sync.Pool forget
		t.Errorf("%v allocations per call", allocs)
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Ensemble)
		want   string
	}{
		"feature":          {func(e *Ensemble) { e.Feature[1] = 2 }, "feature 2 of 2"},
		"negative":         {func(e *Ensemble) { e.Feature[0] = -1 }, "feature -1"},
		"child beyond":     {func(e *Ensemble) { e.Left[0] = 2 }, "child 2"},
		"cycle":            {func(e *Ensemble) { e.Left[1] = 0 }, "child 0"},
		"own child":        {func(e *Ensemble) { e.Left[1] = 1 }, "child 1"},
		"leaf beyond":      {func(e *Ensemble) { e.Right[0] = ^3 }, "child -4"},
		"leaf twice":       {func(e *Ensemble) { e.Right[0] = ^0 }, "child -1"},
		"node twice":       {func(e *Ensemble) { e.Right[0] = 1 }, "child 1"},
		"short thresholds": {func(e *Ensemble) { e.Threshold = e.Threshold[:1] }, "thresholds"},
		"rule":             {func(e *Ensemble) { e.Rules[0] = 1 << 7 }, "rule 0x80"},
		"two rules":        {func(e *Ensemble) { e.Rules[0] = Equal | Member }, "rule"},
		"set":              {func(e *Ensemble) { e.Rules[0] = Member; e.Threshold[0] = 0 }, "set 0 of 0"},
		"NaN":              {func(e *Ensemble) { e.Threshold[0] = math.NaN() }, "NaN"},
		"double":           {func(e *Ensemble) { e.Threshold[0] = 0.1 }, "no float32"},
		"double leaf":      {func(e *Ensemble) { e.Values[0] = 0.1 }, "no float32"},
		"output":           {func(e *Ensemble) { e.Trees[0].Output = 1 }, "output 1 of 1"},
		"tree's start":     {func(e *Ensemble) { e.Trees[0].Leaf = 1 }, "starts"},
		"base":             {func(e *Ensemble) { e.Base = []float64{1, 2} }, "base scores"},
		"no features":      {func(e *Ensemble) { e.Features = 0 }, "0 features"},
		"no outputs":       {func(e *Ensemble) { e.Outputs = 0 }, "0 outputs"},
		"names":            {func(e *Ensemble) { e.FeatureNames = []string{"a"} }, "feature names"},
		"width":            {func(e *Ensemble) { e.Width = 2 }, "leaves of 2"},
		"values":           {func(e *Ensemble) { e.Values = e.Values[:2] }, "leaves 0 to 2"},
		"rows":             {func(e *Ensemble) { e.Rows64 = true }, "float64"},
		"transformation":   {func(e *Ensemble) { e.Transform = transforms }, "transformation"},
		"minimum":          {func(e *Ensemble) { e.Aggregate = Min }, "minimum"},
		"empty maximum": {func(e *Ensemble) {
			e.Aggregate, e.Base, e.Outputs = Max, nil, 2
		}, "output 1 has no trees"},
		"linear": {func(e *Ensemble) { e.Linear = &Linear{} }, "linear"},
		"linear feature": {func(e *Ensemble) {
			e.Rows64, e.Sums64 = true, true
			e.Linear = &Linear{make([]float64, 3), []int32{0, 0, 1, 1}, []int32{2}, []float64{1}}
		}, "feature 2 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			e := stump()
			c.change(e)
			if _, err := New(e); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	leaf := Node{Left: -1, Right: -1}
	for name, c := range map[string]struct {
		nodes  []Node
		output int
		want   string
	}{
		"nothing":   {nil, 0, "no nodes"},
		"output":    {[]Node{leaf}, 1, "output 1 of 1"},
		"loop":      {[]Node{{Left: 0, Right: 1}, leaf}, 0, "descendant"},
		"two":       {[]Node{{Left: 1, Right: 1}, leaf}, 0, "two parents"},
		"beyond":    {[]Node{{Left: 1, Right: 2}, leaf}, 0, "node 2 of 2"},
		"one child": {[]Node{{Left: 1, Right: -1}, leaf}, 0, "node -1"},
		"values":    {[]Node{{Left: -1, Right: -1, Values: []float64{1, 2}}}, 0, "2 values"},
		"terms":     {[]Node{{Left: -1, Right: -1, Linear: &Terms{Feature: []int32{1}}}}, 0, "1 features"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Ensemble{Features: 1, Outputs: 1}
			if err := e.Add(c.nodes, c.output); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	chain := make([]Node, 0, 2*maxDepth+5)
	for i := range int32(maxDepth + 1) {
		chain = append(chain, Node{Left: 2*i + 1, Right: 2*i + 2}, Node{Left: -1, Right: -1})
	}
	chain = append(chain, Node{Left: -1, Right: -1})
	e := &Ensemble{Features: 1, Outputs: 1}
	if err := e.Add(chain, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := New(e); err == nil || !strings.Contains(err.Error(), "deeper") {
		t.Errorf("a chain of %d nodes: %v", maxDepth+1, err)
	}
}
