package kvcache

import (
	"slices"
	"sync"
	"testing"
)

func hashes(hs []Hash) []string {
	var out []string
	for _, h := range hs {
		out = append(out, h.String())
	}
	return out
}

// The vectors were computed outside of Go from the description in the package
// and in Config.Domain; a router in another language must get the same.
func TestChainVectors(t *testing.T) {
	count := make([]int32, 40)
	for i := range count {
		count[i] = int32(i)
	}
	cases := []struct {
		name   string
		domain Domain
		ids    []int32
		block  int
		want   []string
	}{
		{"defaults", Config{}.Domain(""), count, 16,
			[]string{"40dcfca697a5db844676f58fcef3bcf3", "78f74abd8ef67390adf1fd0ecf2690d1"}},
		{
			"all fields",
			Config{BlockTokens: 4, Secret: []byte("s3cret"), ModelDigest: "sha256:abc", KVType: "f16"}.
				Domain("tenant", Field{"adapter", []byte("lora-1")}),
			[]int32{0, 1, -1, 1<<31 - 1, 5, 6, 7, 8, 9}, 4,
			[]string{"9508e769f6bcc228ffffa11d39943d37", "fd56f6cc50705dafee94dab9b058d56e"},
		},
		{"less than a block", Config{}.Domain(""), count[:15], 16, nil},
		{"no such block size", Config{}.Domain(""), count, 0, nil},
		{"block size beyond the limit", Config{}.Domain(""), make([]int32, 600), 257, nil},
	}
	for _, c := range cases {
		if got := hashes(c.domain.Chain(nil, c.ids, c.block)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The router and the pool agree: the chain of a sequence is what its blocks
// are published under, and a longer sequence has a longer chain, not another.
func TestChainIsWhatThePoolPublishes(t *testing.T) {
	for _, bits := range []int{0, 20} {
		p := newPool(t, Config{Blocks: 9, BlockTokens: 4, HashBits: bits, Events: true})
		s := start(t, p, "t", "abcdefghijklm")
		chain := p.Domain("t").Chain(nil, word("abcdefghijklmnop"), 4)
		for i, b := range s.Blocks(0)[:3] {
			if p.blocks[b].hash != chain[i] {
				t.Errorf("%d bits: block %d is published as %v, chain says %v", bits, b, p.blocks[b].hash, chain[i])
			}
		}
		if on := p.Domain("t").Extend(chain[:2:2], chain[1], word("ijklmnop"), 4); !slices.Equal(on, chain) {
			t.Errorf("%d bits: what follows two blocks is %v, want %v", bits, on, chain)
		}
		if grown := p.Domain("t").Chain(chain[:1:1], word("abcd"), 4); len(grown) != 2 || grown[1] != chain[0] {
			t.Errorf("%d bits: appending gives %v", bits, grown)
		}
		var stored []Event
		p.DrainEvents(func(e Event) { stored = append(stored, e) })
		want := []Event{{Stored, chain[0], Hash{}}, {Stored, chain[1], chain[0]}, {Stored, chain[2], chain[1]}}
		if !slices.Equal(stored, want) {
			t.Errorf("%d bits: events %v, want %v", bits, stored, want)
		}
	}
}

// Match hashes what a short chain lacks, and does not believe a wrong one.
func TestMatchChainOfAnyLength(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	start(t, p, "t", "abcdefghijkl")
	d, ids := p.Domain("t"), word("abcdefghijklm")
	chain := d.Chain(nil, ids, 4)
	for n := range 4 {
		if hit := p.MatchChain(d, chain[:n], ids, 12); hit.Full != 3 {
			t.Errorf("chain of %d: hit %+v", n, hit)
		}
	}
	wrong := d.Chain(nil, word("abcdEFGHijkl"), 4)
	if hit := p.MatchChain(d, wrong, ids, 12); hit.Full != 1 {
		t.Errorf("wrong chain: hit %+v", hit)
	}
	if hit := p.MatchChain(d, chain, word("abcdEFGHijkl"), 12); hit.Full != 1 {
		t.Errorf("chain of other ids: hit %+v", hit)
	}
	for _, limit := range []int{-5, 0, 3} {
		if hit := p.Match(d, ids, limit); hit.Tokens != 0 {
			t.Errorf("limit %d: hit %+v", limit, hit)
		}
	}
}

// T25: under 4-bit hashes collisions are everywhere. They cost hits, and never
// give one prompt another's rows.
func TestT25CollisionsAreMisses(t *testing.T) {
	p := newPool(t, Config{Blocks: 65, BlockTokens: 2, HashBits: 4})
	d := p.Domain("t")
	for id := range int32(40) {
		ids := []int32{id, id, id + 1, id + 1}
		s := &Table{}
		p.Begin(s, d)
		var copies []Copy
		p.Grow(s, 4, Hit{}, &copies)
		p.Commit(s, ids, 4)
		p.Release(s)
		if hit := p.Match(d, ids, 4); hit.Full > 0 && !slices.Equal(p.rows(hit.last), ids[2*hit.Full-2:2*hit.Full]) {
			t.Errorf("%v hits a block of %v", ids, p.rows(hit.last))
		}
	}
	if st := p.Stats(); st.Collisions < 20 || st.Published > 16 {
		t.Errorf("%+v: want many collisions and at most 16 hashes", st)
	}
	mustCheck(t, p)
}

// T25 between tenants: with one-bit hashes half of all first blocks meet, and
// still no tenant finds another's.
func TestT25CollisionsDoNotCrossDomains(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4, HashBits: 1})
	start(t, p, "owner", "abcdefgh")
	met := 0
	for i := range 20 {
		reader := "reader" + string(rune('a'+i))
		d := p.Domain(reader)
		p.openDomain(d)
		if d.Chain(nil, word("abcd"), 4)[0] == p.Domain("owner").Chain(nil, word("abcd"), 4)[0] {
			met++
		}
		if hit := p.Match(d, word("abcdefgh"), 8); hit.Tokens != 0 {
			t.Errorf("%s finds %+v", reader, hit)
		}
	}
	if met == 0 {
		t.Error("no hashes met")
	}
}

// T26: a value in one field is not the same value in another, nor can fields
// be cut differently, nor can an extra field pass for one of the pool's own.
func TestT26FieldsOfTheRootAreTagged(t *testing.T) {
	base := Config{Blocks: 2, ModelDigest: "m", KVType: "f16", Secret: []byte("s")}
	with := func(change func(c *Config)) Config {
		c := base
		change(&c)
		return c
	}
	field := func(k, v string) Field { return Field{k, []byte(v)} }
	domains := map[string]Domain{
		"tenant":              base.Domain("t"),
		"other tenant":        base.Domain("u"),
		"adapter x":           base.Domain("t", field("adapter", "x")),
		"salt x":              base.Domain("t", field("salt", "x")),
		"tenant x":            base.Domain("x"),
		"extra domain":        base.Domain("", field("domain", "t")),
		"tenant and field":    base.Domain("tadapter", field("", "x")),
		"moved border":        base.Domain("t", field("adapterx", "")),
		"two fields":          base.Domain("t", field("a", "1"), field("b", "2")),
		"two fields in one":   base.Domain("t", field("a", "1b2")),
		"two fields, swapped": base.Domain("t", field("b", "2"), field("a", "1")),
		"other model":         with(func(c *Config) { c.ModelDigest = "n" }).Domain("t"),
		"model in kv":         with(func(c *Config) { c.ModelDigest, c.KVType = "", "mf16" }).Domain("t"),
		"other kv":            with(func(c *Config) { c.KVType = "q8_0" }).Domain("t"),
		"other secret":        with(func(c *Config) { c.Secret = []byte("S") }).Domain("t"),
		"no secret":           with(func(c *Config) { c.Secret = nil }).Domain("t"),
		"other block size":    with(func(c *Config) { c.BlockTokens = 32 }).Domain("t"),
	}
	seen := map[Domain]string{}
	for name, d := range domains {
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s share a root", name, other)
		}
		seen[d] = name
	}
	// A setting that does not change the KV does not change the root, nor does a
	// default that is given explicitly.
	sized := with(func(c *Config) { c.Blocks, c.BlockTokens, c.TenantBlocks, c.Events = 99, 16, 5, true })
	if sized.Domain("t") != base.Domain("t") {
		t.Error("the pool's size is part of the root")
	}
}

// T27: the same last block after other blocks is another prefix.
func TestT27TheWholePrefixCounts(t *testing.T) {
	p := newPool(t, Config{Blocks: 17, BlockTokens: 4})
	start(t, p, "t", "aaaaxxxxzzzz")
	for text, want := range map[string]int{"aaaaxxxxzzzz": 12, "aaaayyyyzzzz": 4, "bbbbxxxxzzzz": 0, "zzzz": 0, "xxxxzzzz": 0} {
		if hit := p.Match(p.Domain("t"), word(text), len(text)); hit.Tokens != want {
			t.Errorf("%s: hit %+v, want %d tokens", text, hit, want)
		}
	}
}

// Connections derive domains and chains while the step loop works.
func TestDomainsAndChainsFromAnyGoroutine(t *testing.T) {
	p := newPool(t, Config{Blocks: 33, BlockTokens: 4})
	want := p.Domain("t").Chain(nil, word("abcdefgh"), 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if got := p.Domain("t").Chain(nil, word("abcdefgh"), 4); !slices.Equal(got, want) {
					t.Errorf("chain %v, want %v", got, want)
				}
			}
		})
	}
	for range 200 {
		p.Release(start(t, p, "t", "abcdefghi"))
	}
	wg.Wait()
}

func TestTruncatedHashesKeepTheirFirstBits(t *testing.T) {
	full := Hash{0xff, 0xff, 0xff}
	for bits, want := range map[uint8]Hash{1: {0x80}, 8: {0xff}, 9: {0xff, 0x80}, 23: {0xff, 0xff, 0xfe}, 128: full} {
		if got := full.truncate(bits); got != want {
			t.Errorf("%d bits: %v, want %v", bits, got, want)
		}
	}
}

// The index under churn, against a map, in a table small enough that runs wrap
// around its end.
func TestIndexFindsWhatAMapFinds(t *testing.T) {
	blocks := make([]block, 24)
	x := newIndex(blocks)
	want := map[Hash]BlockID{}
	seed := uint32(1)
	for range 20000 {
		seed = seed*1664525 + 1013904223
		b := BlockID(1 + seed>>16%23)
		if blocks[b].published {
			x.remove(b)
			delete(want, blocks[b].hash)
			blocks[b].published = false
		} else if h := (Hash{byte(seed >> 24 & 0x3f)}); x.find(h) == 0 {
			blocks[b].hash, blocks[b].published = h, true
			x.insert(b)
			want[h] = b
		}
		for i := range 64 {
			if h := (Hash{byte(i)}); x.find(h) != want[h] {
				t.Fatalf("find %d: %d, want %d", i, x.find(h), want[h])
			}
		}
		if x.count != len(want) {
			t.Fatalf("%d entries, want %d", x.count, len(want))
		}
	}
}
