package llm

import (
	"errors"
	"math"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
)

// keptCosts are costs in memory.
type keptCosts map[string]float64

func (k keptCosts) Cost(digest string) (float64, bool) { nats, known := k[digest]; return nats, known }
func (k keptCosts) Keep(digest string, nats float64)   { k[digest] = nats }

// wideHeads is a model whose heads have 64 values, so that Auto may take q8_0.
var wideHeads = tiny{arch: "llama", typ: gguf.TypeF32, seed: 9, headDim: 64}

// sampleText is a sample of so many tokens.
func sampleText(n int) (list []inference.TokenID) {
	for i := range n {
		list = append(list, inference.TokenID(i*7%tinyVocab))
	}
	return list
}

// Auto takes q8_0 where it costs next to nothing, and f16 where scores are so large that rounding shows; what was measured is
// kept, and decides without a measurement.
func TestAutoGoesByWhatTheCacheCosts(t *testing.T) {
	for _, tc := range []struct {
		name string
		loud float32 // by which queries and keys are larger
		want string
	}{{"quiet", 0.25, "q8_0"}, {"loud", 6, "f16"}} {
		t.Run(tc.name, func(t *testing.T) {
			file := wideHeads
			file.loud = tc.loud
			costs := keptCosts{}
			var told []int
			o := Options{KVType: attend.KVAuto, KVBlocks: 64, Threads: 1, Sample: sampleText(200), CacheCosts: costs,
				OnMeasure: func(done, total int) { told = append(told, done, total) }}
			e := openTiny(t, file, o)
			info := e.Info()
			if info.KVType != tc.want || info.KVCost == nil || (*info.KVCost <= MostCacheCost) != (tc.want == "q8_0") {
				t.Errorf("cache %s at a cost of %v nats, want %s", info.KVType, show(info.KVCost), tc.want)
			}
			if n := len(told); n < 4 || told[0] != 0 || told[n-2] != told[n-1] || told[1] != told[n-1] {
				t.Errorf("the measuring was told of as %v; it goes from 0 to all rows", told)
			}
			if info.KVMeasured <= 0 {
				t.Errorf("a measurement took %v", info.KVMeasured)
			}
			if kept, known := costs[info.Digest]; !known || kept != *info.KVCost {
				t.Errorf("kept %v, measured %v", costs, show(info.KVCost))
			}
			described, err := Describe(file.file(t), o)
			if err != nil || described.KVType != tc.want || described.KVBytes != info.KVBytes {
				t.Errorf("described as %s, %d bytes (%v); it runs with %s, %d bytes", described.KVType, described.KVBytes, err, info.KVType, info.KVBytes)
			}
		})
	}
}

// What is known decides, and is not measured again; a type that is named is taken whatever it costs.
func TestKnownCostsDecide(t *testing.T) {
	file := wideHeads
	digest := openTiny(t, file, Options{KVBlocks: 64, Threads: 1}).Info().Digest
	for _, tc := range []struct {
		nats float64
		typ  attend.KVType
		want string
	}{{0.01, attend.KVAuto, "f16"}, {MostCacheCost, attend.KVAuto, "q8_0"}, {math.Inf(1), attend.KVQ8, "q8_0"}} {
		o := Options{KVType: tc.typ, KVBlocks: 64, Threads: 1, Sample: sampleText(200), CacheCosts: keptCosts{digest: tc.nats}}
		if info := openTiny(t, file, o).Info(); info.KVType != tc.want || *info.KVCost != tc.nats || info.KVMeasured != 0 {
			t.Errorf("%v with a known cost of %g: cache %s at %v", tc.typ, tc.nats, info.KVType, show(info.KVCost))
		}
	}
	o := Options{KVType: attend.KVAuto, KVBlocks: 64, Threads: 1}
	if info := openTiny(t, file, o).Info(); info.KVType != "q8_0" || info.KVCost != nil {
		t.Errorf("without a sample: cache %s at %v", info.KVType, show(info.KVCost))
	}
}

// A load that is stopped ends where it is, while weights are read as well as while the cache is measured, and nothing is kept.
func TestStoppedLoadsEnd(t *testing.T) {
	stop := errors.New("stop")
	for _, measuring := range []bool{false, true} {
		var read, measured int
		costs := keptCosts{}
		o := Options{KVType: attend.KVAuto, KVBlocks: 64, Threads: 1, Sample: sampleText(200), CacheCosts: costs, OnMeasure: func(int, int) { measured++ }}
		o.Stopped = func() error {
			if !measuring || measured > 0 {
				return stop
			}
			return nil
		}
		_, err := Open(wideHeads.file(t), o, func(done, total int64) {
			if done == total {
				read++
			}
		})
		if !errors.Is(err, stop) || (read > 0) != measuring || measured > 1 || len(costs) > 0 {
			t.Errorf("stopped while measuring %v: %v; read whole %d times, told of %d rows, kept %v", measuring, err, read, measured, costs)
		}
		o.Sample = nil
		if _, err := OpenScorer(wideHeads.file(t), o, nil, nil); !measuring && !errors.Is(err, stop) {
			t.Errorf("a scorer was opened: %v", err)
		}
	}
}

func show(nats *float64) any {
	if nats == nil {
		return "nothing"
	}
	return *nats
}

// openTiny opens an engine that the test closes.
func openTiny(t *testing.T, m tiny, o Options) *Engine {
	t.Helper()
	e, err := Open(m.file(t), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	return e
}

func TestSampleTokensAreBounded(t *testing.T) {
	for params, want := range map[uint64]int{0: 128, 135e6: 128, 630e6: 111, 8e9: 64} {
		if got := sampleTokens(params); got != want {
			t.Errorf("%d parameters: %d tokens, want %d", params, got, want)
		}
	}
}
