package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/internal/defaultmodel"
	"weir/internal/roofline"
	"weir/scheduler/cost"
)

// small is a model of one matrix per layer, in numbers that are easy to check.
var small = Cost{
	layers:    roofline.Work{Bytes: 600, Int8Ops: 1000},
	output:    roofline.Work{Bytes: 400, Int8Ops: 500},
	attention: []attended{{kvBytes: 2, ops: 3}},
}

func TestCostOfDecode(t *testing.T) {
	for _, c := range []struct {
		sequences, context int
		want               roofline.Work
	}{
		{1, 0, roofline.Work{Bytes: 1000, Int8Ops: 1500}},
		{1, 10, roofline.Work{Bytes: 1020, Int8Ops: 1500, FloatOps: 30}},
		{4, 10, roofline.Work{Bytes: 1080, Int8Ops: 6000, FloatOps: 120}}, // weights are read once for all
	} {
		if got := small.Decode(c.sequences, c.context); got != c.want {
			t.Errorf("%d sequences after %d tokens: %+v, want %+v", c.sequences, c.context, got, c.want)
		}
	}
}

func TestCostOfPrefill(t *testing.T) {
	for _, c := range []struct {
		n, batch int
		want     roofline.Work
	}{
		{4, 8, roofline.Work{Bytes: 1000, Int8Ops: 4500, FloatOps: 30}},
		{4, 2, roofline.Work{Bytes: 1600, Int8Ops: 4500, FloatOps: 30}},
		{5, 2, roofline.Work{Bytes: 2200, Int8Ops: 5500, FloatOps: 45}},
	} {
		if got := small.Prefill(c.n, c.batch); got != c.want {
			t.Errorf("%d tokens in steps of %d: %+v, want %+v", c.n, c.batch, got, c.want)
		}
	}
}

// A step reads the experts that some row meets, and multiplies each row by its own.
func TestCostOfExperts(t *testing.T) {
	c := small
	c.mixed, c.use = roofline.Work{Bytes: 1600, Int8Ops: 800}, cost.Experts{Count: 4, Use: 2}
	for _, x := range []struct {
		name string
		got  roofline.Work
		want roofline.Work
	}{
		{"one row", c.Decode(1, 0), roofline.Work{Bytes: 1000 + 800, Int8Ops: 1500 + 400}},
		{"two rows", c.Decode(2, 0), roofline.Work{Bytes: 1000 + 1200, Int8Ops: 3000 + 800}},
		{"a prompt in two steps", c.Prefill(4, 2), roofline.Work{Bytes: 1600 + 2400, Int8Ops: 4500 + 1600, FloatOps: 30}},
	} {
		if x.got != x.want {
			t.Errorf("%s: %+v, want %+v", x.name, x.got, x.want)
		}
	}
}

// A token reads one row of the embeddings of layers, and the matrix that makes inputs of layers is multiplied for each row of a prompt.
func TestCostOfEmbeddingsOfLayers(t *testing.T) {
	var b gguf.Builder
	b.TensorF32("token_embd.weight", []uint64{64, 96}, make([]float32, 64*96))
	b.TensorF32("per_layer_token_embd.weight", []uint64{32, 96}, make([]float32, 32*96))
	b.TensorF32("per_layer_model_proj.weight", []uint64{64, 32}, make([]float32, 64*32))
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCost(f, llm.Info{})
	if err != nil || c.output.FloatOps != 2*64*96 || c.layers.FloatOps != 2*64*32 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestForecasts(t *testing.T) {
	r := roofline.Rates{ReadBytes: 1000, Int8Ops: 1e5, FloatOps: 1e9}
	all := small.Forecasts(r, 10, func(int) int { return 32 })
	if len(all) != 4 || all[0].Name != "prefill of 10 tokens" {
		t.Fatalf("forecasts %+v", all)
	}
	one := all[1] // 1020 bytes at 1000 a second, 1500 operations at 100000
	memory, compute := 1.02/memoryShare, 0.015/computeShare
	if one.Bound != "memory" || math.Abs(one.Limit-1/1.02) > 1e-6 || one.Expected >= 1/memory || one.Expected <= 1/(memory+compute) {
		t.Errorf("one sequence: %+v, want less than %v and more than %v expected", one, 1/memory, 1/(memory+compute))
	}
	if many := all[3]; many.Limit <= 8*one.Limit || many.Limit >= 32*one.Limit {
		t.Errorf("32 sequences: %+v against one: %+v", many, one)
	}
}

// No more sequences are forecast than the cache holds, and one in any case.
func TestForecastsAreOfSequencesThatFit(t *testing.T) {
	for most, want := range map[int]string{
		0: "decode, 1 sequence", 1: "decode, 1 sequence", 5: "decode, 1 sequence; decode, 5 sequences", 8: "decode, 1 sequence; decode, 8 sequences",
		20: "decode, 1 sequence; decode, 8 sequences; decode, 20 sequences", 99: "decode, 1 sequence; decode, 8 sequences; decode, 32 sequences",
	} {
		var names []string
		for _, f := range small.Forecasts(roofline.Rates{ReadBytes: 1000, Int8Ops: 1e5, FloatOps: 1e9}, 10, func(int) int { return most })[1:] {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, "; "); got != want {
			t.Errorf("%d fit: %s, want %s", most, got, want)
		}
	}
}

// TestReadingAndComputingOverlapInPart: equal times take less than twice one.
func TestReadingAndComputingOverlapInPart(t *testing.T) {
	one := together(memoryShare, 0)
	if math.Abs(one-1) > 1e-9 || math.Abs(together(0, computeShare)-1) > 1e-9 {
		t.Errorf("alone they take %v and %v, want 1", one, together(0, computeShare))
	}
	if both := together(memoryShare, computeShare); both < 1.5 || both > 1.7 {
		t.Errorf("together they take %v, want 2 to the power of 2/3", both)
	}
}

func TestCostOfTheEmbeddedModel(t *testing.T) {
	data := defaultmodel.GGUF()
	f, err := gguf.Parse(strings.NewReader(string(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := llm.Describe(f, llm.Options{KVBlocks: 64, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCost(f, info)
	if err != nil {
		t.Fatal(err)
	}
	w := c.Decode(1, 0)
	if ops := w.Int8Ops + w.FloatOps; ops < float64(info.Params) || ops > 2*float64(info.Params) {
		t.Errorf("%v operations per token for %d parameters", ops, info.Params)
	}
	if w.Bytes < 0.5*float64(info.FileBytes) || w.Bytes > 1.2*float64(info.FileBytes) {
		t.Errorf("%v bytes per token for a file of %d", w.Bytes, info.FileBytes)
	}
}

// Layers with a window read no more than it.
func TestForecastsCountWindows(t *testing.T) {
	c := Cost{attention: []attended{{kvBytes: 2, ops: 3}, {window: 10, kvBytes: 5, ops: 7}}}
	if w := c.Decode(2, 100); w.Bytes != 2*(100*2+10*5) || w.FloatOps != 2*(100*3+10*7) {
		t.Errorf("two sequences after 100 tokens: %+v", w)
	}
	if w := c.Prefill(20, 512); w.FloatOps != 210*3+(55+10*10)*7 {
		t.Errorf("a prompt of 20 tokens: %+v", w)
	}
}
