package llm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/internal/cpu"
	"weir/internal/reference"
	"weir/scheduler"
)

func TestLoadRefusesWhatItCannotRun(t *testing.T) {
	set := func(key string, v any) func(*gguf.Builder) { return func(b *gguf.Builder) { b.Set(key, v) } }
	for _, c := range []struct {
		name string
		m    tiny
		opts Options
		want string // in the message
	}{
		{"architecture", tiny{arch: "mamba"}, Options{}, `architecture "mamba" is not supported; the native engine runs llama, qwen2, qwen3`},
		{"an adapter", tiny{edit: set("general.type", "adapter")}, Options{}, "the file is an adapter"},
		{"no heads", tiny{edit: set("llama.attention.head_count", uint32(0))}, Options{}, "attention.head_count is 0"},
		{"heads not divisible", tiny{edit: set("llama.attention.head_count_kv", uint32(3))}, Options{}, "not a multiple"},
		{"head size 0", tiny{edit: set("llama.attention.key_length", uint32(0))}, Options{}, "key_length is 0"},
		{"odd head size", tiny{edit: set("llama.attention.key_length", uint32(31))}, Options{}, "value_length"},
		{"block count of a wrong type", tiny{edit: set("llama.block_count", "two")}, Options{}, "block_count"},
		{"absurd layers", tiny{edit: set("llama.block_count", uint32(1<<31))}, Options{}, "block_count is 2147483648"},
		{"more layers than tensors", tiny{edit: set("llama.block_count", uint32(3))}, Options{}, "blk.2.attn_norm.weight is missing"},
		{"far more layers than tensors", tiny{edit: set("llama.block_count", uint32(1<<20))}, Options{}, "block_count is 1048576, and the file has"},
		{"fewer layers than tensors", tiny{edit: set("llama.block_count", uint32(1))}, Options{}, "have no place"},
		{"experts", tiny{arch: "qwen3", norms: true, edit: set("qwen3.expert_count", uint32(8))}, Options{}, "mixtures of experts"},
		{"vocabulary", tiny{edit: set("tokenizer.ggml.tokens", []string{"a", "b"})}, Options{}, "the tokenizer has 2 tokens"},
		{"width", tiny{edit: set("llama.embedding_length", uint32(32))}, Options{}, "width is 32"},
		{"feed forward", tiny{edit: set("llama.feed_forward_length", uint32(64))}, Options{}, "ffn_gate.weight has shape"},
		{"layers that differ", tiny{edit: set("llama.attention.head_count_kv", []int32{2, 1})}, Options{}, "differs between layers"},
		{"rope scaling", tiny{edit: set("llama.rope.scaling.type", "longrope")}, Options{}, `rope.scaling.type is "longrope"`},
		{"rope dimensions", tiny{edit: set("llama.rope.dimension_count", uint32(64))}, Options{}, "rope.dimension_count is 64"},
		{"rope base", tiny{edit: set("llama.rope.freq_base", float32(-1))}, Options{}, "rope.freq_base"},
		{"an extra tensor", tiny{edit: func(b *gguf.Builder) { b.TensorF32("blk.0.attn_sinks", []uint64{4}, make([]float32, 4)) }}, Options{}, "blk.0.attn_sinks"},
		{"a missing bias", tiny{arch: "qwen2"}, Options{}, "attn_q.bias is missing"},
		{"a missing norm", tiny{arch: "qwen3"}, Options{}, "attn_q_norm.weight is missing"},
		{"absurd length", tiny{}, Options{MaxModelLen: 1 << 30}, "max-model-len 1073741824"},
		{"cache below one sequence", tiny{}, Options{KVBlocks: 4, MaxModelLen: 200}, "cannot hold one sequence of 200"},
		{"no cache at all", tiny{}, Options{KVBytes: 1}, "cannot hold one sequence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.m.arch == "" {
				c.m.arch = "llama"
			}
			e, err := Open(c.m.file(t), c.opts, nil)
			if err == nil {
				stop(t, e)
				t.Fatal("loaded")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
			if _, err := Describe(c.m.file(t), c.opts); err == nil {
				t.Error("Describe finds nothing wrong")
			}
		})
	}
}

func TestCheckTensorsFindsDamage(t *testing.T) {
	damage := tiny{arch: "llama", typ: gguf.TypeQ8_0}.build(t)
	// The last matrix ends the file: blow up one of its block scales.
	at := len(damage) - 34
	damage[at], damage[at+1] = 0x00, 0x7c // +Inf in half precision
	f := parse(t, damage)
	if _, err := Open(f, Options{CheckTensors: true, KVBlocks: 50}, nil); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "ffn_down") {
		t.Errorf("%v, want a damaged ffn_down", err)
	}
}

func TestImpliedContextShrinksToTheCache(t *testing.T) {
	i, err := Describe(tiny{arch: "llama"}.file(t), Options{KVBlocks: 5})
	if err != nil {
		t.Fatal(err)
	}
	if i.MaxModelLen != 64 || i.KVTokens != 64 {
		t.Errorf("length %d, cache %d tokens, want 64 and 64", i.MaxModelLen, i.KVTokens)
	}
	if want := 2 * tinyLayers * tinyKVHeads * tinyHeadDim * 2; i.KVBytesPerToken != want {
		t.Errorf("%d bytes per token, want %d", i.KVBytesPerToken, want)
	}
}

func TestProgressRunsToTheTotal(t *testing.T) {
	var last, total int64
	e, err := Open(families[0].file(t), Options{KVBlocks: 50}, func(done, all int64) {
		if done < last {
			t.Errorf("progress went back from %d to %d", last, done)
		}
		last, total = done, all
	})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, e)
	if last != total || total == 0 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
}

func TestKVTypeMustFitTheHeads(t *testing.T) {
	s := attend.KVShape{Type: attend.KVQ8, Layers: 1, KVHeads: 4, HeadDim: 8, BlockTokens: 16, Blocks: 2}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "use f16") {
		t.Errorf("q8_0 for heads of 8: %v", err)
	}
}

// What cannot be held is refused by the header alone, with the counts.
func TestACacheBeyondTheMachineIsRefusedBeforeWeightsAreRead(t *testing.T) {
	opts := Options{KVBytes: 1 << 50}
	_, err := Open(tiny{arch: "llama"}.file(t), opts, func(int64, int64) { t.Error("weights are read") })
	for _, want := range []string{"kv cache of 1.0 PiB", "weights", "memory", "--kv-cache-memory-bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks: %s", err, want)
		}
	}
	if _, err := Describe(tiny{arch: "llama"}.file(t), opts); err == nil {
		t.Error("Describe finds nothing wrong")
	}
}

// One weight that is no number, wherever it is, is found before the first
// request, at every level, and the tensor is named.
func TestLoadRefusesWeightsThatAreNoNumbers(t *testing.T) {
	reference.Slow(t)
	const nan, inf = 0x7e00, 0x7c00 // in half precision
	for _, typ := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ8_0} {
		for _, name := range []string{
			"token_embd.weight", "output.weight", "blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.attn_v.weight",
			"blk.1.attn_output.weight", "blk.0.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight",
		} {
			for _, half := range []uint16{nan, inf} {
				for _, level := range levels() {
					t.Run(fmt.Sprintf("%v/%s/%x/%v", typ, name, half, level), func(t *testing.T) {
						raw := tiny{arch: "llama", typ: typ, seed: 7}.build(t)
						tensor, ok := parse(t, raw).Tensor(name)
						if !ok {
							t.Fatal("no such tensor")
						}
						at := raw[tensor.Offset+tensor.RowBytes():] // the second row: that of the token tried
						if typ == gguf.TypeF32 {
							binary.LittleEndian.PutUint32(at, uint32(half)<<16|0x7f800000)
						} else {
							binary.LittleEndian.PutUint16(at, half)
						}
						e, err := Open(parse(t, raw), Options{KVBlocks: 50, Level: level}, nil)
						if err == nil {
							stop(t, e)
							t.Fatal("loaded")
						}
						if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".weight")) {
							t.Errorf("%v, want the tensor's name", err)
						}
					})
				}
			}
		}
	}
}

// The default cache is a share of what the weights will leave, before they are
// there.
func TestDefaultCacheLeavesRoomForTheWeights(t *testing.T) {
	o := Options{Scheduler: scheduler.Config{MaxSeqs: 1 << 20}}
	shape := cacheShape{attend.Tables{{Layers: 32, KVHeads: 8, HeadDim: 128}}, []int{0}}
	free := cpu.AvailableMemoryBytes()
	alone, err := o.size(shape, attend.KVF16, 1<<16, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := o.size(shape, attend.KVF16, 1<<10, free/2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := alone.shape.Bytes(), beside.shape.Bytes(); b > a*2/3 {
		t.Errorf("%d bytes alone, %d beside weights that take half of the memory", a, b)
	}
	if _, err := o.size(shape, attend.KVF16, 1<<10, 2*free, 0); err == nil || !strings.Contains(err.Error(), "of weights") {
		t.Errorf("no memory left: %v", err)
	}
}
