package llm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/recurrence"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// hybrids are the families with recurrent layers.
func hybrids() (list []tiny) {
	for _, f := range slices.Concat(families, furtherHybrids) {
		if f.hybrid != recurrence.None {
			list = append(list, f)
		}
	}
	return list
}

// Chats of several turns behind shared system prompts, all of them at the same time and with so few blocks that sequences are displaced amid their answers,
// find what was computed before except for blocks that are not whole, and answer as without a cache.
func TestConversationsOfHybridsFindTheirStates(t *testing.T) {
	reference.Slow(t)
	all := hybrids()
	if reference.Raced {
		all = all[:1]
	}
	for _, f := range all {
		t.Run(f.arch, func(t *testing.T) {
			alone, most := start(t, f, Options{KVBlocks: 100, Scheduler: scheduler.Config{MaxSeqs: 1}}), 5
			for converse(t, f, alone) == 0 { // whether something is displaced depends on when requests come
				if most--; most == 0 {
					t.Fatal("nothing was displaced in five runs")
				}
			}
		})
	}
}

// converse has all chats, and returns how many sequences were displaced. The last answers are held against those of an engine without a cache.
func converse(t *testing.T, f tiny, alone *Engine) (preempted uint64) {
	t.Helper()
	const prompts, chats, turns, answer, block = 12, 16, 4, 32, 16
	e := start(t, f, Options{KVBlocks: 195, Scheduler: scheduler.Config{MaxSeqs: chats, OutputEstimate: 1, WatermarkBlocks: -1}})
	texts, streams := make([][]int32, chats), make([]*inference.Stream, chats)
	found, could := 0, 0
	for n := range turns {
		for i := range chats {
			if n == 0 {
				texts[i] = slices.Clone(prompt(uint64(i%prompts), 50))
			} else {
				could += (len(texts[i]) - 1) / block * block // the last token of an answer was never computed
			}
			texts[i] = append(texts[i], prompt(uint64(1000+100*n+i), 5+i%8)...)
			s, err := e.Submit(greedy(slices.Clone(texts[i]), answer))
			if err != nil {
				t.Fatal(err)
			}
			streams[i] = s
		}
		for i, s := range streams {
			a := read(t, s)
			if a.err != nil {
				t.Fatal(a.err)
			}
			texts[i] = append(texts[i], a.tokens[0]...)
			if n > 0 {
				found += s.Progress().CachedTokens
			}
		}
	}
	preempted = e.Stats().Scheduler.Preemptions
	t.Logf("%d of %d tokens found, %d preemptions", found, could, preempted)
	if found*100 < 95*could {
		t.Errorf("%d of %d tokens that were computed before were found", found, could)
	}
	for i := range texts {
		r := greedy(texts[i][:len(texts[i])-answer], answer)
		r.CacheDomain = fmt.Sprint(i)
		if got := ask(t, alone, r).tokens[0]; !slices.Equal(got, texts[i][len(texts[i])-answer:]) {
			t.Errorf("chat %d: without a cache the answer is %v, not %v", i, got, texts[i][len(texts[i])-answer:])
		}
	}
	return preempted
}

// Where few blocks and few slots displace sequences amid their answers, these are the same.
func TestHybridsAnswerTheSameWherePreempted(t *testing.T) {
	reference.Slow(t)
	for _, f := range hybrids() {
		t.Run(f.arch, func(t *testing.T) {
			var want [][]int32
			wide := start(t, f, Options{KVBlocks: 300, Scheduler: scheduler.Config{MaxSeqs: 8}})
			narrow := start(t, f, Options{KVBlocks: 14, Scheduler: scheduler.Config{MaxSeqs: 8, OutputEstimate: 1, WatermarkBlocks: -1}})
			for i := range 6 {
				want = append(want, ask(t, wide, greedy(prompt(uint64(i), 20+i), 40)).tokens[0])
			}
			var all []*inference.Request
			for i := range 6 {
				all = append(all, greedy(prompt(uint64(i), 20+i), 40))
			}
			streams, err := narrow.SubmitAll(all)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range streams {
				if got := read(t, s); got.err != nil || !slices.Equal(got.tokens[0], want[i]) {
					t.Errorf("request %d: %v (%v), not %v", i, got.tokens[0], got.err, want[i])
				}
			}
			if st := narrow.Stats(); st.Scheduler.Preemptions == 0 {
				t.Errorf("nothing was preempted: %+v", st.Scheduler)
			}
		})
	}
}

// Files whose sizes contradict each other are refused by name.
func TestUnusableHybridsAreRefused(t *testing.T) {
	for _, c := range []struct {
		arch, key string
		value     any
		says      string
	}{
		{"qwen35", "ssm.state_size", uint32(30), "keys of 30 values"},
		{"qwen35", "ssm.group_count", uint32(3), "no multiple of 3 groups"},
		{"qwen35", "ssm.inner_size", uint32(130), "not a multiple of time_step_rank"},
		{"qwen35", "ssm.conv_kernel", uint32(40), "convolution over 40 rows"},
		{"qwen35", "full_attention_interval", uint32(3), "missing"},
		{"qwen35", "attention.recurrent_layers", []bool{true}, "is of 1 layers"},
		{"qwen35", "block_count", uint32(1), "all 1 layers are recurrent"},
		{"qwen35", "nextn_predict_layers", uint32(1), "blk.3.nextn.eh_proj.weight is missing: block 3 of 4 is a layer of the model"},
		{"lfm2", "shortconv.l_cache", uint32(5), "shape"},
		{"lfm2", "attention.head_count_kv", []int32{0, 0, 0}, "0 in all layers"},
		{"lfm2", "attention.head_count_kv", []int32{0, 2}, "is of 2 layers"},
		{"granitehybrid", "attention.head_count_kv", []int32{2, 1, 0}, "differs between layers"},
		{"granitehybrid", "ssm.time_step_rank", uint32(8), "shape"},
		{"nemotron_h", "feed_forward_length", []int32{0, 0, 0, 96}, "is of 4 layers, and the model has 7"},
		{"nemotron_h", "feed_forward_length", []int32{0, 96, 0, 96, 0, 0, 0}, "feed_forward_length is 96 in layer 1, and attention.head_count_kv 2 there"},
		{"nemotron_h", "feed_forward_length", []int32{0, 0, 0, 0, 0, 0, 0}, "blk.3.ssm_in.weight is missing"},
		{"nemotron_h", "feed_forward_length", []int32{0, 0, 0, -5, 0, 0, 0}, "is 0, must be from 1"},
		{"nemotron_h", "nextn_predict_layers", uint32(7), "is 7, and the file has 7 layers"},
		{"qwen3next", "ssm.time_step_rank", uint32(8), "shape"},
		{"qwen3next", "expert_count", uint32(0), "expert_count"},
		{"falcon-h1", "attention.head_count_kv", []int32{2, 0}, "falcon-h1.attention.head_count_kv is 0 in layer 1"},
		{"falcon-h1", "ssm.group_count", uint32(4), "shape"},
	} {
		t.Run(fmt.Sprint(c.arch, " ", c.key, " ", c.value), func(t *testing.T) {
			f := hybrids()[slices.IndexFunc(hybrids(), func(f tiny) bool { return f.arch == c.arch })]
			f.edit = func(b *gguf.Builder) { b.Set(c.arch+"."+c.key, c.value) }
			_, err := Describe(f.file(t), Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// The last rows of a text of 4,096 tokens are as near their definition, row by row in doubles, as those of a short one: what states round does not
// add up. Chunks have odd sizes, so that a state is handed on everywhere in the blocks of the kernels.
func TestLongTextsMatchTheirDefinitions(t *testing.T) {
	if testing.Short() {
		t.Skip("4,096 rows through three models")
	}
	tokens := readIDs(t, filepath.Join(decoders, "long.txt"))
	paths, err := filepath.Glob(filepath.Join(decoders, "*.long"))
	if err != nil || len(paths) < 3 {
		t.Fatal(paths, err)
	}
	kinds := map[recurrence.Kind]bool{}
	for _, path := range paths {
		m, want := openDecoder(t, strings.TrimSuffix(filepath.Base(path), ".long"), Options{KVBlocks: 8}), readFloats(t, path)
		if kinds[m.arch.recurrent] && !reference.Long() {
			continue // one of each kind
		}
		kinds[m.arch.recurrent] = true
		for _, level := range levels() {
			if level != isa.Best() && !reference.Long() {
				continue
			}
			got := allLogits(t, m, level, tokens, attend.KVF32, 16, 509, 2)
			d := relativeL2(got[len(got)-len(want):], want)
			t.Logf("%-22s %v: relative L2 %.1e", filepath.Base(path), level, d)
			if !(d <= 2e-6) {
				t.Errorf("%s, %v: relative L2 %.2e of the last rows", path, level, d)
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("only %d of three kinds of recurrent layers", len(kinds))
	}
}

// Rows that pass the layers in blocks, on several workers, have the bits of those that pass them together.
func TestBlocksOfHybridsHandStatesOn(t *testing.T) {
	tokens := prompt(3, 150)
	for _, f := range hybrids() {
		m := load(t, f.file(t))
		want := allLogits(t, m, isa.Best(), tokens, attend.KVF32, 16, len(tokens), 1)
		for threads := 2; threads <= 4; threads++ {
			c := kernel.NewCPU(threads, isa.Best())
			if apart := m.apart(c, len(tokens)); !apart {
				t.Errorf("%s: %d rows are not cut into blocks for %d workers", f.arch, len(tokens), threads)
			}
			c.Close()
			for _, chunk := range []int{len(tokens), 131} {
				if !slices.Equal(allLogits(t, m, isa.Best(), tokens, attend.KVF32, 16, chunk, threads), want) {
					t.Errorf("%s, %d workers, chunks of %d: other bits than on one", f.arch, threads, chunk)
				}
			}
		}
	}
}
