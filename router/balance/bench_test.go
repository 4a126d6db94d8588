package balance

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir/router/prefix"
)

const (
	benchReplicas = 64
	benchDepth    = 128
	benchEntries  = 1 << 20
	benchShared   = 16 // keys of the system prompt, of one of 32 families
)

// conversations are chains that begin with a family's system prompt.
func conversations(n int) [][]prefix.Key {
	all := make([][]prefix.Key, n)
	for i := range all {
		all[i] = append(chain(1<<20+i%32, 0, benchShared), chain(i, 0, benchDepth-benchShared)...)
	}
	return all
}

// fullBalancer holds about benchEntries entries, each conversation at one replica, and has room for half as many more: new turns of
// conversations take the place of others' last turns.
func fullBalancer(b *testing.B, all [][]prefix.Key) *Balancer {
	b.Helper()
	bal := newBalancer(b, Config{Seed: 1, Index: prefix.Config{Replicas: benchReplicas, BytesPerReplica: 80 * benchEntries / benchReplicas * 3 / 2}},
		benchReplicas)
	for i, keys := range all {
		bal.Index().Hold(ReplicaID(i%benchReplicas), keys, 0)
	}
	return bal
}

// BenchmarkPick is a request's whole life in the balancer, Pick, Began and Done, by how many of its 128 keys are new: none (a prompt
// that came before), 8 (the next turn of a conversation), all (a first turn). Each
// goroutine has 128 requests in flight; the times are of Pick and Began, of keys that were made just before. Parallel ones are 64
// goroutines, and their keys are made, or read from wherever they are, within the time.
func BenchmarkPick(b *testing.B) {
	const held = benchEntries / benchDepth
	for _, fresh := range []int{0, 8, benchDepth} {
		for _, parallel := range []bool{false, true} {
			b.Run(fmt.Sprintf("new=%d/parallel=%t", fresh, parallel), func(b *testing.B) {
				all := conversations(held)
				bal := fullBalancer(b, all)
				var n atomic.Uint64
				// Each of a goroutine's requests in flight has keys of its own.
				prompt := func(rng *rand.Rand, scratch []prefix.Key) []prefix.Key {
					keys := all[rng.IntN(len(all))]
					if fresh == 0 && parallel {
						return keys
					}
					copy(scratch, keys)
					u := n.Add(1)
					for i := benchDepth - fresh; i < benchDepth; i++ {
						binary.LittleEndian.PutUint64(scratch[i][:8], mix(u<<8+uint64(i)))
						binary.LittleEndian.PutUint64(scratch[i][8:], mix(u<<8+uint64(i)+golden))
					}
					return scratch
				}
				run := func(keys []prefix.Key) Lease {
					l, err := bal.Pick(start, &Request{Keys: keys, Tokens: 16 * benchDepth, Output: 100})
					if err != nil {
						b.Error(err)
					}
					l.Began(start)
					return l
				}
				const flying = 128
				prompts := func() [][]prefix.Key {
					all := make([][]prefix.Key, flying)
					for i := range all {
						all[i] = make([]prefix.Key, benchDepth)
					}
					return all
				}
				b.ResetTimer()
				b.ReportAllocs()
				if parallel {
					var seed atomic.Uint64
					b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
					b.RunParallel(func(pb *testing.PB) {
						rng := rand.New(rand.NewPCG(seed.Add(1), 1))
						scratch := prompts()
						var open [flying]Lease
						for i := 0; pb.Next(); i++ {
							open[i%flying].Done(start, Outcome{Output: 2})
							open[i%flying] = run(prompt(rng, scratch[i%flying]))
						}
					})
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "picks/s")
					return
				}
				rng := rand.New(rand.NewPCG(1, 1))
				scratch := prompts()
				var open [flying]Lease
				took := make([]time.Duration, 0, 1<<22)
				for i := 0; b.Loop(); i++ {
					open[i%flying].Done(start, Outcome{Output: 2})
					keys := prompt(rng, scratch[i%flying])
					begin := time.Now()
					open[i%flying] = run(keys)
					took = append(took, time.Since(begin))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
				b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
			})
		}
	}
}

// BenchmarkMap is what a machine's picks are to be compared with: the time to find one key in Go's map of as many entries as BenchmarkPick's
// index has.
func BenchmarkMap(b *testing.B) {
	all := conversations(benchEntries / benchDepth)
	entries := make(map[prefix.Key]uint64, benchEntries)
	for i, keys := range all {
		for _, k := range keys {
			entries[k] = uint64(i)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	took := make([]time.Duration, 0, 1<<22)
	sum := uint64(0)
	for b.Loop() {
		k := all[rng.IntN(len(all))][rng.IntN(benchDepth)]
		begin := time.Now()
		sum += entries[k]
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	runtime.KeepAlive(sum)
}

// BenchmarkReplicas: a pick takes as long with a thousand replicas as with ten.
func BenchmarkReplicas(b *testing.B) {
	for p, name := range Policies() {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/replicas=%d", name, n), func(b *testing.B) {
				bal := newBalancer(b, Config{Policy: Policy(p), Seed: 1, Index: prefix.Config{Replicas: 1024}}, n)
				all := conversations(1000)
				for i, keys := range all {
					bal.Index().Hold(ReplicaID(i%n), keys, 0)
				}
				i := 0
				for b.Loop() {
					l, err := bal.Pick(start, &Request{Keys: all[i%len(all)], Tokens: 2000, Output: 100})
					if err != nil {
						b.Fatal(err)
					}
					l.Done(start, Outcome{})
					i++
				}
			})
		}
	}
}
