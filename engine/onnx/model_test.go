package onnx

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/reference"
	"weir/internal/tensor"
)

// field appends a length-delimited field.
func field(to []byte, number protowire.Number, content ...[]byte) []byte {
	to = protowire.AppendTag(to, number, protowire.BytesType)
	return protowire.AppendBytes(to, slices.Concat(content...))
}

func integer(to []byte, number protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), uint64(v))
}

// valueInfo is a ValueInfoProto of floats, two dimensions of any size.
func valueInfo(name string) []byte {
	shape := field(field(nil, 1), 1)
	typ := field(nil, 1, integer(nil, 1, 1), field(nil, 2, shape))
	return field(field(nil, 1, []byte(name)), 2, typ)
}

// oneNode is a model of one node, from x to y, with further fields of its graph.
func oneNode(domain, op string, set int64, more ...[]byte) []byte {
	node := field(field(field(field(nil, 1, []byte("x")), 2, []byte("y")), 3, []byte("the node")), 4, []byte(op))
	node = field(node, 7, []byte(domain))
	graph := field(field(field(field(nil, 1, node), 2, []byte("g")), 11, valueInfo("x")), 12, valueInfo("y"))
	opset := integer(field(nil, 1, []byte(domain)), 2, set)
	return field(field(integer(nil, 1, 8), 7, graph, slices.Concat(more...)), 8, opset)
}

func floats(name string, shape []int64, values ...float32) []tensor.Tensor {
	return []tensor.Tensor{tensor.Of(name, tensor.Float32, shape, values)}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	external := field(integer(integer(field(nil, 8, []byte("w")), 2, 1), 1, 4), 13, []byte{})
	for name, c := range map[string]struct {
		data  []byte
		words []string
	}{
		"unknown operator":  {oneNode("", "DeformConv", 21), []string{`"the node"`, "DeformConv", "ai.onnx", "set 21", "-tags ort"}},
		"unknown domain":    {oneNode("org.example", "Gelu", 1), []string{"Gelu", "org.example", "-tags ort"}},
		"old set":           {oneNode("", "Relu", 5), []string{"Relu", "set 5", "7 to 28"}},
		"new set":           {oneNode(domainML, "Normalizer", 6), []string{"ai.onnx.ml", "set 6", "1 to 5"}},
		"external data":     {oneNode("", "Relu", 21, field(nil, 5, external)), []string{`"w"`, "another file", "onnx.save_model"}},
		"no model":          {[]byte("GGUF and so on"), []string{"onnx:"}},
		"empty":             {nil, []string{"no graph"}},
		"missing attribute": {oneNode(domainML, "LinearRegressor", 1), []string{"LinearRegressor", "0 coefficients"}},
	} {
		_, err := Load(c.data)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, word := range c.words {
			if runtimeIsSet() && word == "-tags ort" {
				continue
			}
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

func TestInputsAreChecked(t *testing.T) {
	m, err := Load(oneNode("", "Relu", 21))
	if err != nil {
		t.Fatal(err)
	}
	if in, out := m.Inputs()[0], m.Outputs()[0]; in.Name != "x" || out.Name != "y" || !slices.Equal(out.Shape, []int64{-1, -1}) {
		t.Errorf("%v %v", in, out)
	}
	short := floats("x", []int64{2, 3}, 1, 2)
	for name, in := range map[string][]tensor.Tensor{
		"missing": floats("z", []int64{1, 1}, 1), "rank": floats("x", []int64{1}, 1), "short": short,
		"type":     {{Name: "x", Type: tensor.Float64, Shape: []int64{1, 1}, Data: make([]byte, 8)}},
		"negative": floats("x", []int64{-1, 1}, 1), "huge": floats("x", []int64{1 << 40, 1 << 40}, 1),
	} {
		if _, err := m.Run(in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	unaligned := append([]byte{0}, floats("x", []int64{1, 2}, -1, 2)[0].Data...)
	out, err := m.Run([]tensor.Tensor{{Name: "x", Type: tensor.Float32, Shape: []int64{1, 2}, Data: unaligned[1:]}})
	if err != nil || !slices.Equal(tensor.Values[float32](&out[0]), []float32{0, 2}) {
		t.Errorf("%v, %v", out, err)
	}
}

// part is rows from to end of a tensor.
func part(t tensor.Tensor, from, end int64) tensor.Tensor {
	p := t
	p.Shape = slices.Clone(t.Shape)
	p.Shape[0] = end - from
	rows := t.Shape[0]
	if t.Type == tensor.Bytes {
		width := int64(len(t.Strings)) / rows
		p.Strings = t.Strings[from*width : end*width]
	} else {
		width := int64(len(t.Data)) / rows
		p.Data = t.Data[from*width : end*width]
	}
	return p
}

// TestRowsDoNotDependOnTheBatch runs every model in random batches, with several
// goroutines at a time, against all rows at once.
func TestRowsDoNotDependOnTheBatch(t *testing.T) {
	reference.Slow(t)
	for _, name := range testModels(t) {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Load(readModel(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if m.RowsMayMix() {
				return // no batches are made of it
			}
			in, _, _ := readGolden(t, golden)
			want, err := m.Run(in)
			if err != nil {
				t.Fatal(err)
			}
			// The quantile transformer reshapes to its number of rows, and 0 means "as before" there.
			empty := name != "quantile"
			var wait sync.WaitGroup
			for g := range 4 {
				wait.Go(func() { runInBatches(t, m, rand.New(rand.NewPCG(3, uint64(g))), empty, in, want) })
			}
			wait.Wait()
		})
	}
}

func runInBatches(t *testing.T, m *Model, r *rand.Rand, empty bool, in, want []tensor.Tensor) {
	rows := in[0].Shape[0]
	for range 12 {
		from := r.Int64N(rows)
		end := from + r.Int64N(rows-from+1) // of no rows, too
		if end == from && !empty {
			continue
		}
		var batch []tensor.Tensor
		for _, t := range in {
			batch = append(batch, part(t, from, end))
		}
		got, err := m.Run(batch)
		if err != nil {
			t.Errorf("rows %d to %d: %v", from, end, err)
			return
		}
		for i := range got {
			expected := part(want[i], from, end)
			if !slices.Equal(got[i].Shape, expected.Shape) || string(got[i].Data) != string(expected.Data) ||
				!slices.EqualFunc(got[i].Strings, expected.Strings, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("rows %d to %d of output %q differ from those of the whole batch", from, end, want[i].Name)
				return
			}
		}
	}
}

func TestLabelsAreKnown(t *testing.T) {
	for name, want := range map[string][]string{
		"logistic_words": {"maybe", "no", "yes"}, "lightgbm_three": {"0", "1", "2"}, "forest_two": {"0", "1"}, "linear": nil,
	} {
		m, err := Load(readModel(t, name))
		if err != nil {
			t.Fatal(err)
		}
		outputs := m.Outputs()
		last := outputs[len(outputs)-1]
		if got := m.Labels()[last.Name]; !slices.Equal(got, want) {
			t.Errorf("%s: output %q has labels %q", name, last.Name, got)
		}
		if want != nil && !slices.Equal(last.Shape, []int64{tensor.Any, int64(len(want))}) {
			t.Errorf("%s: output %q has shape %v", name, last.Name, last.Shape)
		}
	}
}
