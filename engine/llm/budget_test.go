package llm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/scheduler"
)

// What an operator gives the cache is what keys and values, those of a draft model or MTP head, and states take together; one block more would not fit.
// What Describe tells beforehand is what Open then takes.
func TestDraftsAndStatesShareTheMemoryOfTheCache(t *testing.T) {
	big := tiny{arch: "qwen35", typ: gguf.TypeF32, seed: 24, layers: 6, norms: true, hybrid: headed[0].hybrid, mtp: true}
	windows := families[slices.IndexFunc(families, func(f tiny) bool { return f.arch == "gemma3" })]
	for _, c := range []struct {
		name  string
		model tiny
		draft *tiny
		mtp   bool
	}{
		{"alone", families[0], nil, false},
		{"a draft model", families[0], &families[0], false},
		{"a model with windows", windows, &families[0], false},
		{"a draft model with windows", families[0], &windows, false},
		{"states and a draft model", hybrids()[0], &families[0], false},
		{"an MTP head", headed[2], nil, true},
		{"states and an MTP head", big, nil, true},
	} {
		for _, budget := range []int64{1 << 20, 3<<20 + 12345} {
			for _, typ := range []attend.KVType{attend.KVF16, attend.KVF32} {
				t.Run(fmt.Sprintf("%s,%d,%v", c.name, budget, typ), func(t *testing.T) {
					o := Options{KVBytes: budget, KVType: typ, Threads: 1, MTP: c.mtp, MaxModelLen: 100, Scheduler: scheduler.Config{MaxSeqs: 4, MaxDrafts: 3, MaxBatchTokens: 32}}
					file := c.model.file(t)
					if c.draft != nil {
						o.Draft = c.draft.file(t)
					}
					told, err := Describe(file, o)
					if err != nil {
						t.Fatal(err)
					}
					e, err := newEngine(file, o, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer e.release()
					i := e.Info()
					taken := int64(e.kv.Bytes()) + 4*int64(len(e.states.memory))
					if g := e.drafts.model; g != nil {
						taken += int64(g.kv.Bytes())
					}
					if null := int64(e.kv.PageBytes()); taken > budget+null || taken < budget*9/10 {
						t.Errorf("it takes %d of %d (a block has %d)", taken, budget, null)
					}
					if i.CacheBytes() != taken || told.CacheBytes() != taken || told.MemoryBytes() != i.MemoryBytes() {
						t.Errorf("%d are taken; Info tells %d and Describe %d; of all %d and %d", taken, i.CacheBytes(), told.CacheBytes(), i.MemoryBytes(), told.MemoryBytes())
					}
					if c.draft != nil && i.DraftBytes-i.DraftKVBytes <= 0 || (c.draft != nil || c.mtp) != (i.DraftKVBytes > 0) {
						t.Errorf("the draft model takes %d, keys and values %d of these", i.DraftBytes, i.DraftKVBytes)
					}
				})
			}
		}
	}
}

// A cache that holds a sequence alone is too small beside a draft model's, and the error says so.
func TestACacheTooSmallForItsDraftModelIsRefused(t *testing.T) {
	o := Options{KVType: attend.KVF32, Threads: 1, MaxModelLen: 1000}
	alone, err := Describe(families[0].file(t), o)
	if err != nil {
		t.Fatal(err)
	}
	o.KVBytes = 1100 * int64(alone.KVBytesPerToken)
	if _, err := Describe(families[0].file(t), o); err != nil {
		t.Fatal(err)
	}
	o.Draft = families[0].file(t)
	if _, err := Describe(families[0].file(t), o); err == nil || !strings.Contains(err.Error(), "beside as many tokens of the draft model's") {
		t.Errorf("%v", err)
	}
}
