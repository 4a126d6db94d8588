package prefix

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

// number is the i-th key of a chain, made without reading memory.
func number(chain, i int) (k Key) {
	z := uint64(chain)<<16 + uint64(i)
	binary.LittleEndian.PutUint64(k[:8], mix(z))
	binary.LittleEndian.PutUint64(k[8:], mix(^z))
	return k
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30 + 1) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// numbers writes the keys of a chain.
func numbers(keys []Key, chain int) []Key {
	for i := range keys {
		keys[i] = number(chain, i)
	}
	return keys
}

const (
	benchReplicas = 64
	benchDepth    = 128
	benchEntries  = 1 << 20
)

func benchIndex(b *testing.B) *Index {
	b.Helper()
	ix := newIndex(b, Config{Replicas: benchReplicas, BytesPerReplica: entryBytes * benchEntries / benchReplicas})
	keys := make([]Key, benchDepth)
	for i := range benchEntries / benchDepth {
		ix.Hold(Replica(i%benchReplicas), numbers(keys, i), 0)
	}
	return ix
}

// BenchmarkOps counts operations on an index of a million entries: who holds a key, for one key and for all of a chain; the longest
// prefixes of a chain; keys stored, with one evicted for each.
func BenchmarkOps(b *testing.B) {
	const chains = benchEntries / benchDepth
	each := func(name string, op func(b *testing.B, ix *Index, rng *rand.Rand, next func() bool)) {
		b.Run(name, func(b *testing.B) {
			ix := benchIndex(b)
			var seed atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) { op(b, ix, rand.New(rand.NewPCG(seed.Add(1), 3)), pb.Next) })
		})
	}
	each("holders", func(b *testing.B, ix *Index, rng *rand.Rand, next func() bool) {
		for next() {
			k := number(rng.IntN(chains), rng.IntN(benchDepth))
			if ix.countOf(&k) == 0 {
				b.Error("a key is missing")
			}
		}
	})
	each("holders-in-order", func(b *testing.B, ix *Index, rng *rand.Rand, next func() bool) {
		for chain, i := 0, 0; next(); i++ {
			if i%benchDepth == 0 {
				chain = rng.IntN(chains)
			}
			k := number(chain, i%benchDepth)
			if ix.countOf(&k) == 0 {
				b.Error("a key is missing")
			}
		}
	})
	each("lookup", func(b *testing.B, ix *Index, rng *rand.Rand, next func() bool) {
		var buf [8]Match
		all := make([][]Key, chains)
		for i := range all {
			all[i] = numbers(make([]Key, benchDepth), i)[:1+rng.IntN(benchDepth)]
			all[i] = append(all[i], numbers(make([]Key, rng.IntN(benchDepth)), -1-i)...)
		}
		for next() {
			if len(ix.Lookup(buf[:0], all[rng.IntN(len(all))], 1)) == 0 {
				b.Error("a key is missing")
			}
		}
	})
	each("store", func(_ *testing.B, ix *Index, rng *rand.Rand, next func() bool) {
		const batch = 16
		keys := make([]Key, batch)
		for i := 0; next(); i++ {
			if i%batch == 0 {
				ix.Hold(Replica(rng.IntN(benchReplicas)), numbers(keys, rng.Int()), 0)
			}
		}
	})
}

// BenchmarkMemory is what a million entries take, by the heap's growth.
func BenchmarkMemory(b *testing.B) {
	for _, holders := range []int{1, 3, 64} {
		b.Run(map[int]string{1: "holders=1", 3: "holders=3", 64: "holders=64"}[holders], func(b *testing.B) {
			for b.Loop() {
				ix := newIndex(b, Config{Replicas: benchReplicas, BytesPerReplica: 1 << 30})
				keys := make([]Key, benchDepth)
				before := heapBytes()
				for i := range benchEntries / benchDepth / holders {
					numbers(keys, i)
					for h := range holders {
						ix.Hold(Replica((i+h)%benchReplicas), keys, 0)
					}
				}
				grown := heapBytes() - before
				st := ix.Stats()
				b.ReportMetric(float64(grown)/float64(st.Entries), "B/entry")
				b.ReportMetric(float64(st.Bytes)/float64(st.Entries), "counted-B/entry")
				runtime.KeepAlive(ix)
			}
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
