package kvcache

import (
	"fmt"
	"testing"
)

// fill caches distinct single blocks until no block is free.
func fill(b *testing.B, p *Pool, d Domain) {
	b.Helper()
	var s Table
	var copies []Copy
	ids := make([]int32, p.BlockTokens())
	for i := range p.Usable() {
		ids[0] = int32(i)
		p.Begin(&s, d)
		p.Grow(&s, len(ids), Hit{}, &copies)
		p.Commit(&s, ids, len(ids))
		p.Release(&s)
	}
	if p.Stats().Cached != p.Usable() {
		b.Fatalf("%+v", p.Stats())
	}
}

// BenchmarkAlloc is one block handed out and given back: free (cold), or by
// evicting, hashing and publishing one.
func BenchmarkAlloc(b *testing.B) {
	for _, blocks := range []int{1 << 10, 1 << 14, 1 << 17, 1 << 20} {
		b.Run(fmt.Sprintf("cold/blocks=%d", blocks), func(b *testing.B) {
			p := newPool(b, Config{Blocks: blocks + 1})
			var s Table
			p.Begin(&s, p.Domain("t"))
			b.ReportAllocs()
			for b.Loop() {
				p.drop(p.alloc(s.domain, Normal, 0))
			}
		})
		b.Run(fmt.Sprintf("evicting/blocks=%d", blocks), func(b *testing.B) {
			p := newPool(b, Config{Blocks: blocks + 1})
			d := p.Domain("t")
			fill(b, p, d)
			var s Table
			p.Begin(&s, d)
			ids := make([]int32, 16)
			id := int32(blocks)
			b.ReportAllocs()
			for b.Loop() {
				id++
				ids[0] = id
				block := p.alloc(s.domain, Normal, 0)
				p.publish(block, 0, d.hashBlock(&p.buf, true, Hash{}, ids), ids)
				p.drop(block)
			}
		})
	}
}

// BenchmarkMatch is a whole prompt found, attached and released.
func BenchmarkMatch(b *testing.B) {
	for _, blocks := range []int{16, 256} {
		for _, chained := range []bool{false, true} {
			b.Run(fmt.Sprintf("blocks=%d/chained=%v", blocks, chained), func(b *testing.B) {
				p := newPool(b, Config{Blocks: 1<<14 + 1})
				d := p.Domain("t")
				ids := make([]int32, blocks*16+1)
				for i := range ids {
					ids[i] = int32(i)
				}
				var chain []Hash
				if chained {
					chain = d.Chain(nil, ids, 16)
				}
				var s Table
				var copies []Copy
				p.Begin(&s, d)
				p.Grow(&s, len(ids), Hit{}, &copies)
				p.Commit(&s, ids, len(ids))
				p.Release(&s)
				b.ReportAllocs()
				for b.Loop() {
					hit := p.MatchChain(d, chain, ids, len(ids)-1)
					p.Begin(&s, d)
					p.Grow(&s, len(ids), hit, &copies)
					p.Release(&s)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
			})
		}
	}
}

// BenchmarkChain is the hash of a prompt.
func BenchmarkChain(b *testing.B) {
	for _, blockTokens := range []int{16, 64} {
		b.Run(fmt.Sprintf("blocktokens=%d", blockTokens), func(b *testing.B) {
			d := Config{}.Domain("t")
			ids := make([]int32, 4096)
			dst := make([]Hash, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				dst = d.Chain(dst[:0], ids, blockTokens)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
	}
}

// BenchmarkDecode is one decode row: Grow and Commit, a publication every 16.
func BenchmarkDecode(b *testing.B) {
	p := newPool(b, Config{Blocks: 1<<12 + 1})
	d := p.Domain("t")
	ids := make([]int32, 8192)
	var s Table
	var copies []Copy
	p.Begin(&s, d)
	rows, epoch := 0, int32(0)
	b.ReportAllocs()
	for b.Loop() {
		if rows == len(ids) {
			p.Release(&s)
			p.Begin(&s, d)
			rows = 0
			epoch++
			ids[0] = epoch
		}
		rows++
		p.Grow(&s, rows, Hit{}, &copies)
		p.Commit(&s, ids, rows)
	}
}

// BenchmarkRelease is the end of a sequence of 256 blocks, with what leads to
// it taken out of the time.
func BenchmarkRelease(b *testing.B) {
	p := newPool(b, Config{Blocks: 1<<12 + 1})
	d := p.Domain("t")
	ids := make([]int32, 4096)
	var s, fork Table
	var copies []Copy
	p.Begin(&s, d)
	p.Grow(&s, len(ids), Hit{}, &copies)
	p.Commit(&s, ids, len(ids))
	p.Fork(&fork, &s)
	p.Release(&s)
	b.ReportAllocs()
	for b.Loop() {
		p.Fork(&s, &fork)
		p.Release(&fork)
		p.Fork(&fork, &s)
		p.Release(&s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/fork+release")
}
