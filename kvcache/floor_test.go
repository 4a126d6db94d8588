package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// leave runs a sequence of so many blocks in a domain and releases it, so that its
// blocks are cached.
func leave(t *testing.T, p *Pool, d Domain, first int32, blocks int) []int32 {
	t.Helper()
	ids := make([]int32, blocks*p.BlockTokens())
	for i := range ids {
		ids[i] = first + int32(i)
	}
	var table Table
	var copies []Copy
	p.Begin(&table, d)
	if !p.Grow(&table, len(ids), Hit{}, &copies) {
		t.Fatalf("%d blocks do not fit", blocks)
	}
	p.Commit(&table, ids, len(ids))
	p.Release(&table)
	return ids
}

// A tenant that fills the cache again and again leaves another one's floor alone:
// what that one left is found again. Without a floor it is gone.
func TestOthersDoNotEvictATenantsFloor(t *testing.T) {
	for _, tc := range []struct{ percent, want int }{{50, 20}, {0, 0}} {
		p := newPool(t, Config{Blocks: 101, BlockTokens: 4, FloorPercent: tc.percent})
		quiet, flood := p.Domain("quiet"), p.Domain("flood")
		ids := leave(t, p, quiet, 0, 20) // its floor is 25 of 100
		for i := range 20 {
			leave(t, p, flood, int32(1000*(i+1)), 40)
			mustCheck(t, p)
		}
		if hit := p.Match(quiet, ids, len(ids)); hit.Full != tc.want {
			t.Errorf("floor of %d %%: %d of 20 blocks are found again, want %d", tc.percent, hit.Full, tc.want)
		}
		if n := p.Resident(flood); n < 75 {
			t.Errorf("floor of %d %%: the other tenant has %d blocks, want all that no other domain has", tc.percent, n)
		}
	}
}

// The floor is no reservation: a live sequence gets every block, and a tenant alone
// has no floor to mind.
func TestTheFloorGivesWayToLiveSequences(t *testing.T) {
	p := newPool(t, Config{Blocks: 41, BlockTokens: 4, FloorPercent: 100})
	leave(t, p, p.Domain("quiet"), 0, 10)
	var table Table
	var copies []Copy
	p.Begin(&table, p.Domain("live"))
	if !p.Grow(&table, 40*4, Hit{}, &copies) {
		t.Fatal("a sequence does not get the blocks that only the cache holds")
	}
	mustCheck(t, p)
	p.Release(&table)
	mustCheck(t, p)
}

// Random sequences of several domains: whenever one loses blocks to another while it
// is within its floor, no domain has cached blocks above the floor.
func TestFloorsHoldInRandomUse(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := newPool(t, Config{Blocks: 20 + rng.IntN(60), BlockTokens: 2, FloorPercent: 1 + rng.IntN(100)})
		domains := make([]Domain, 2+rng.IntN(5))
		for i := range domains {
			domains[i] = p.Domain(fmt.Sprint(i))
		}
		type live struct {
			table  Table
			domain int
			ids    []int32
		}
		var running []*live
		var copies []Copy
		kept, lost := 0, 0
		for range 2000 {
			switch {
			case len(running) < 4 && rng.IntN(4) == 0:
				l := &live{domain: rng.IntN(len(domains))}
				p.Begin(&l.table, domains[l.domain])
				running = append(running, l)
			case len(running) > 0 && rng.IntN(12) == 0:
				i := rng.IntN(len(running))
				p.Release(&running[i].table)
				running = append(running[:i], running[i+1:]...)
			case len(running) > 0:
				l := running[rng.IntN(len(running))]
				before, sheltered := residents(p, domains), true
				for slot := range p.domains {
					if p.domains[slot].cached > 0 && p.aboveFloor(int32(slot)) {
						sheltered = false
					}
				}
				within := func(i int) bool { return before[i]*len(p.slots)*100 <= p.Usable()*p.config.FloorPercent }
				within0 := make([]bool, len(domains))
				for i := range domains {
					within0[i] = within(i)
				}
				ids := append(l.ids, rng.Int32N(3), rng.Int32N(3)) // a block more
				if !p.Grow(&l.table, len(ids), Hit{}, &copies) {
					continue
				}
				for i, n := range residents(p, domains) {
					switch {
					case i == l.domain || n >= before[i]:
					case within0[i] && !sheltered:
						t.Fatalf("seed %d: domain %d lost blocks within its floor while others had cached ones above theirs", seed, i)
					case within0[i]:
						lost++
					default:
						kept++
					}
				}
				l.ids = ids
				p.Commit(&l.table, ids, len(ids))
			}
			mustCheck(t, p)
		}
		if kept+lost == 0 {
			t.Logf("seed %d: nothing was evicted for others", seed)
		}
	}
}

func residents(p *Pool, domains []Domain) []int {
	n := make([]int, len(domains))
	for i, d := range domains {
		n[i] = p.Resident(d)
	}
	return n
}
