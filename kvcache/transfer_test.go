package kvcache

import (
	"slices"
	"testing"
)

// A hash finds a block in its own domain only; blocks that were entered are found as computed ones are.
func TestBlocksAreFoundInTheirDomainAlone(t *testing.T) {
	c := Config{Blocks: 6, BlockTokens: 2, Secret: []byte("s")}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 2, 3, 4, 5, 6, 7}
	a, b := p.Domain("a"), p.Domain("b")
	chain := a.Chain(nil, ids, 2)
	var written []int
	if n := p.Insert(a, chain, ids, 0, func(i int, _ BlockID) { written = append(written, i) }); n != 3 || !slices.Equal(written, []int{0, 1, 2}) {
		t.Fatalf("%d blocks, %v written", n, written)
	}
	for i, h := range chain {
		if id, rows := p.Find(a, h); id == 0 || !slices.Equal(rows, ids[2*i:2*i+2]) {
			t.Errorf("block %d: %v, %v", i, id, rows)
		}
		if id, _ := p.Find(b, h); id != 0 {
			t.Errorf("block %d is found in a domain that has no blocks", i)
		}
	}
	p.Insert(b, nil, ids, 0, func(int, BlockID) {})
	if id, _ := p.Find(b, chain[0]); id != 0 {
		t.Error("a block of another domain is found")
	}
	if n := p.Insert(a, nil, append(ids[:6:6], 8, 9), 5, func(int, BlockID) { t.Error("written") }); n != 0 {
		t.Errorf("%d blocks behind one that is missing", n)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

func TestIdentitiesNameWhatDiffers(t *testing.T) {
	one := Identity{"d", "f16", "avx2 v1", 16, 100}
	if why := one.Differs(one); why != "" {
		t.Error(why)
	}
	for want, other := range map[string]Identity{
		`model_digest is "d" here and "e" there`: {"e", "f16", "avx2 v1", 16, 100}, `kv_cache_dtype is "f16" here and "q8_0" there`: {"d", "q8_0", "avx2 v1", 16, 100},
		`compute is "avx2 v1" here and "avx2 v2" there`: {"d", "f16", "avx2 v2", 16, 100}, `block_size is "16" here and "32" there`: {"d", "f16", "avx2 v1", 32, 100},
		`block_bytes is "100" here and "200" there`: {"d", "f16", "avx2 v1", 16, 200},
	} {
		if why := one.Differs(other); why != want {
			t.Errorf("%q, want %q", why, want)
		}
	}
}
