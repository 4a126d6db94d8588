package onnx

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/tensor"
)

// nodeOf is a NodeProto.
func nodeOf(op string, in, out []string, attributes ...[]byte) []byte {
	var p []byte
	for _, name := range in {
		p = field(p, 1, []byte(name))
	}
	for _, name := range out {
		p = field(p, 2, []byte(name))
	}
	p = field(field(p, 3, []byte(op+" here")), 4, []byte(op))
	for _, a := range attributes {
		p = field(p, 5, a)
	}
	return p
}

func attributeOf(name string, kind protowire.Number, content []byte) []byte {
	return field(field(nil, 1, []byte(name)), kind, content)
}

func intAttribute(name string, v int64) []byte { return integer(field(nil, 1, []byte(name)), 3, v) }

// named is a ValueInfoProto without a type.
func named(name string) []byte { return field(nil, 1, []byte(name)) }

// graphOf is a GraphProto.
func graphOf(in, out [][]byte, nodes ...[]byte) []byte {
	var p []byte
	for _, n := range nodes {
		p = field(p, 1, n)
	}
	p = field(p, 2, []byte("g"))
	for _, v := range in {
		p = field(p, 11, v)
	}
	for _, v := range out {
		p = field(p, 12, v)
	}
	return p
}

func modelOf(graph []byte, more ...[]byte) []byte {
	p := field(integer(nil, 1, 10), 7, graph)
	p = field(p, 8, integer(field(nil, 1, []byte("")), 2, 21))
	p = field(p, 8, integer(field(nil, 1, []byte("own")), 2, 1))
	return append(p, slices.Concat(more...)...)
}

// whole64 is a TensorProto of one INT64.
func whole64(v int64) []byte { return integer(integer(nil, 2, 7), 7, v) }

func constantOf(name string, v int64) []byte {
	return nodeOf("Constant", nil, []string{name}, attributeOf("value", 5, whole64(v)))
}

// doubling is a model that doubles its input, as often as count says.
func doubling(count int64, inner ...[]byte) []byte {
	nodes := append(slices.Clone(inner), nodeOf("Identity", []string{"on"}, []string{"on_out"}), nodeOf("Add", []string{"v", "v"}, []string{"v_out"}))
	body := graphOf([][]byte{named("i"), named("on"), named("v")}, [][]byte{named("on_out"), named("v_out")}, nodes...)
	return modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")},
		constantOf("count", count), nodeOf("Loop", []string{"count", "", "x"}, []string{"y"}, attributeOf("body", 6, body))))
}

func TestLoopCarriesItsState(t *testing.T) {
	m, err := Load(doubling(10))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // frames are used again
		in := floats("x", []int64{1, 2}, 1, -3)
		out, err := m.Run(in)
		if err != nil || !slices.Equal(tensor.Values[float32](&out[0]), []float32{1024, -3072}) {
			t.Errorf("%v, %v", out, err)
		}
		if x := tensor.Values[float32](&in[0]); x[0] != 1 {
			t.Errorf("the input is %v", x)
		}
	}
	if !m.CostIsOpen() || !m.RowsMayMix() {
		t.Error("the model has a loop, whose course rows may change")
	}
}

// A loop that runs no iteration gives its input in memory of its own.
func TestLoopOfNoIterationCopies(t *testing.T) {
	m, err := Load(doubling(0))
	if err != nil {
		t.Fatal(err)
	}
	in := floats("x", []int64{1, 2}, 1, -3)
	out, err := m.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	tensor.Values[float32](&out[0])[0] = 7
	if x := tensor.Values[float32](&in[0]); x[0] != 1 {
		t.Error("the output is the input's memory")
	}
}

var errStop = errors.New("the caller has gone")

func TestHostileLoopEnds(t *testing.T) {
	endless, err := Load(doubling(1 << 60))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	_, err = endless.RunUntil(floats("x", []int64{1, 2}, 1, 2), func() error {
		if asked++; asked == 1000 {
			return errStop
		}
		return nil
	})
	if !errors.Is(err, errStop) || asked != 1000 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	f := endless.newFrame()
	f.budget, f.work, f.iterations = maxRunBytes, math.MaxInt64, 5000
	if err := endless.bind(f, floats("x", []int64{1, 2}, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := endless.run(f); err == nil || !strings.Contains(err.Error(), "iterations") || !strings.Contains(err.Error(), `"Loop here"`) {
		t.Errorf("after too many iterations: %v", err)
	}
	// Memory and work that grow in each iteration.
	grows := graphOf([][]byte{named("i"), named("on"), named("v")}, [][]byte{named("on_out"), named("v_out")},
		nodeOf("Identity", []string{"on"}, []string{"on_out"}), nodeOf("Concat", []string{"v", "v"}, []string{"v_out"}, intAttribute("axis", 1)))
	m, err := Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")},
		constantOf("count", 1<<60), nodeOf("Loop", []string{"count", "", "x"}, []string{"y"}, attributeOf("body", 6, grows)))))
	if err != nil {
		t.Fatal(err)
	}
	f = m.newFrame()
	f.budget, f.work = maxTrialBytes, maxTrialWork
	if err := m.bind(f, floats("x", []int64{1, 2}, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.run(f); err == nil {
		t.Error("a tensor of 2^60 elements was computed")
	}
}

func TestGraphsWithinGraphsAreLimited(t *testing.T) {
	body := graphOf(nil, [][]byte{named("r")}, nodeOf("Identity", []string{"x"}, []string{"r"}))
	for depth := range maxNesting + 2 {
		m := modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")},
			nodeOf("ReduceMax", []string{"x"}, []string{"top"}, intAttribute("keepdims", 0)),
			nodeOf("Cast", []string{"top"}, []string{"condition"}, intAttribute("to", 9)),
			nodeOf("If", []string{"condition"}, []string{"y"}, attributeOf("then_branch", 6, body), attributeOf("else_branch", 6, body))))
		_, err := Load(m)
		if deep := depth >= maxNesting; deep != (err != nil && strings.Contains(err.Error(), "deep")) {
			t.Fatalf("at depth %d: %v", depth+1, err)
		}
		other := graphOf(nil, [][]byte{named("r")}, nodeOf("Neg", []string{"x"}, []string{"r"}))
		body = graphOf(nil, [][]byte{named("r")},
			nodeOf("If", []string{"condition"}, []string{"r"}, attributeOf("then_branch", 6, body), attributeOf("else_branch", 6, other)))
	}
}

// functionOf is a FunctionProto of the domain own.
func functionOf(name string, in, out []string, nodes ...[]byte) []byte {
	p := field(nil, 1, []byte(name))
	for _, v := range in {
		p = field(p, 4, []byte(v))
	}
	for _, v := range out {
		p = field(p, 5, []byte(v))
	}
	for _, n := range nodes {
		p = field(p, 7, n)
	}
	p = field(p, 9, integer(field(nil, 1, []byte("")), 2, 21))
	p = field(p, 9, integer(field(nil, 1, []byte("own")), 2, 1))
	return field(nil, 25, field(p, 10, []byte("own")))
}

func ownNode(op string, in, out []string, attributes ...[]byte) []byte {
	return field(nodeOf(op, in, out, attributes...), 7, []byte("own"))
}

func TestFunctionsAreTheirNodes(t *testing.T) {
	refers := field(field(nil, 1, []byte("to")), 21, []byte("type"))
	functions := [][]byte{
		functionOf("Twice", []string{"a"}, []string{"b"}, nodeOf("Add", []string{"a", "a"}, []string{"b"})),
		functionOf("Four", []string{"a"}, []string{"c"}, ownNode("Twice", []string{"a"}, []string{"b"}), ownNode("Twice", []string{"b"}, []string{"c"})),
		functionOf("As", []string{"a"}, []string{"b"}, nodeOf("Cast", []string{"a"}, []string{"b"}, refers)),
	}
	graph := graphOf([][]byte{valueInfo("x")}, [][]byte{named("y")},
		ownNode("Four", []string{"x"}, []string{"b"}), ownNode("As", []string{"b"}, []string{"y"}, intAttribute("type", 7)))
	m, err := Load(modelOf(graph, functions...))
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(floats("x", []int64{1, 2}, 1, -3))
	if err != nil || !slices.Equal(tensor.Values[int64](&out[0]), []int64{4, -12}) {
		t.Errorf("%v, %v", out, err)
	}
	if m.RowsMayMix() {
		t.Error("nothing mixes rows")
	}
}

func TestRecursiveFunctionsAreRefused(t *testing.T) {
	graph := graphOf([][]byte{valueInfo("x")}, [][]byte{named("y")}, ownNode("Ping", []string{"x"}, []string{"y"}))
	_, err := Load(modelOf(graph,
		functionOf("Ping", []string{"a"}, []string{"b"}, ownNode("Pong", []string{"a"}, []string{"b"})),
		functionOf("Pong", []string{"a"}, []string{"b"}, ownNode("Ping", []string{"a"}, []string{"b"}))))
	if err == nil || !strings.Contains(err.Error(), "calls itself") {
		t.Errorf("%v", err)
	}
	// Each function calls the next one twice: 2^15 nodes and more.
	var functions [][]byte
	for i := range maxNesting - 2 {
		next := string(rune('A' + i + 1))
		calls := [][]byte{ownNode(next, []string{"a"}, []string{"b"})}
		for _, pair := range [][2]string{{"b", "c"}, {"c", "d"}, {"d", "e"}} {
			calls = append(calls, ownNode(next, []string{pair[0]}, []string{pair[1]}))
		}
		functions = append(functions, functionOf(string(rune('A'+i)), []string{"a"}, []string{"e"}, calls...))
	}
	last := string(rune('A' + maxNesting - 2))
	functions = append(functions, functionOf(last, []string{"a"}, []string{"b"}, nodeOf("Neg", []string{"a"}, []string{"b"})))
	_, err = Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{named("y")}, ownNode("A", []string{"x"}, []string{"y"})), functions...))
	if err == nil || !strings.Contains(err.Error(), "more than 65536") {
		t.Errorf("functions that grow: %v", err)
	}
}

func TestSequencesAreOutputsOneByOne(t *testing.T) {
	graph := graphOf([][]byte{valueInfo("x")}, [][]byte{named("y")},
		nodeOf("Neg", []string{"x"}, []string{"n"}), nodeOf("SequenceConstruct", []string{"x", "n"}, []string{"y"}))
	m, err := Load(modelOf(graph))
	if err != nil {
		t.Fatal(err)
	}
	if o := m.Outputs(); len(o) != 2 || o[0].Name != "y/0" || o[1].Name != "y/1" || !slices.Equal(o[1].Shape, []int64{-1, -1}) {
		t.Fatalf("%v", o)
	}
	out, err := m.Run(floats("x", []int64{1, 2}, 1, -3))
	if err != nil || !slices.Equal(tensor.Values[float32](&out[1]), []float32{-1, 3}) {
		t.Errorf("%v, %v", out, err)
	}
	// A tensor is no sequence, and a sequence no tensor; both errors say which.
	for _, nodes := range [][][]byte{
		{nodeOf("SequenceLength", []string{"x"}, []string{"y"})},
		{nodeOf("SequenceConstruct", []string{"x"}, []string{"s"}), nodeOf("Shape", []string{"s"}, []string{"y"})},
		{nodeOf("SplitToSequence", []string{"x"}, []string{"y"})},
	} {
		if _, err := Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{named("y")}, nodes...))); err == nil || !strings.Contains(err.Error(), "sequence") && !strings.Contains(err.Error(), "tensor of FP32") {
			t.Errorf("%v", err)
		}
	}
}

// The cost of a model is open where what an input holds says how large a tensor becomes; not where its shape does.
func TestCostIsOpen(t *testing.T) {
	cast := nodeOf("Cast", []string{"x"}, []string{"size"}, intAttribute("to", 7))
	for name, tc := range map[string]struct {
		nodes [][]byte
		open  bool
	}{
		"its own shape":    {[][]byte{nodeOf("Shape", []string{"x"}, []string{"size"}), nodeOf("Expand", []string{"x", "size"}, []string{"y"})}, false},
		"a shape's cast":   {[][]byte{cast, nodeOf("Shape", []string{"size"}, []string{"s"}), nodeOf("Expand", []string{"x", "s"}, []string{"y"})}, false},
		"a constant":       {[][]byte{constantOf("one", 1), nodeOf("Tile", []string{"x", "one"}, []string{"y"})}, false},
		"values":           {[][]byte{cast, nodeOf("Expand", []string{"x", "size"}, []string{"y"})}, true},
		"values, of sizes": {[][]byte{cast, nodeOf("ConstantOfShape", []string{"size"}, []string{"y"})}, true},
	} {
		m, err := Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")}, tc.nodes...)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if m.CostIsOpen() != tc.open {
			t.Errorf("%s: open is %t", name, m.CostIsOpen())
		}
	}
}

// What stops a run is asked before each node.
func TestRunsStopBetweenNodes(t *testing.T) {
	m, err := Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")},
		nodeOf("Neg", []string{"x"}, []string{"a"}), nodeOf("Abs", []string{"a"}, []string{"b"}), nodeOf("Neg", []string{"b"}, []string{"y"}))))
	if err != nil {
		t.Fatal(err)
	}
	asked, enough := 0, errors.New("enough")
	_, err = m.RunUntil(floats("x", []int64{1, 2}, 1, 2), func() error {
		if asked++; asked == 3 {
			return enough
		}
		return nil
	})
	if asked != 3 || !errors.Is(err, enough) {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
