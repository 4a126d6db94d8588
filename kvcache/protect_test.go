package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A live sequence of another tenant leaves what is cached within a protected floor, and has it only where it is alone.
func TestAProtectedFloorHoldsAgainstLiveSequences(t *testing.T) {
	for _, tc := range []struct {
		name             string
		until            int64
		cached, grows    int // blocks of the quiet tenant, and those that the other's sequence gets; 100 are usable, the floor is 25
		foundAfter, last int // of the quiet tenant's, then and when the other has got all that it can alone
	}{
		{"protected", 10, 20, 80, 20, 0},
		{"protected above its floor", 10, 40, 75, 25, 0},
		{"the time is over", 5, 20, 100, 0, 0},
		{"never protected", 0, 20, 100, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPool(t, Config{Blocks: 101, BlockTokens: 4, FloorPercent: 50})
			quiet, live := p.Domain("quiet"), p.Domain("live")
			ids := leave(t, p, quiet, 0, tc.cached)
			if tc.until > 0 {
				p.Protect(quiet, tc.until)
			}
			p.Advance(5)
			var table Table
			var copies []Copy
			p.Begin(&table, live)
			grown := 0
			for p.Grow(&table, 4*(grown+1), Hit{}, &copies) {
				grown++
				mustCheck(t, p)
			}
			if hit := p.Match(quiet, ids, len(ids)); grown != tc.grows || hit.Full != tc.foundAfter {
				t.Errorf("the live sequence has %d blocks, want %d; %d of %d are found again, want %d", grown, tc.grows, hit.Full, tc.cached, tc.foundAfter)
			}
			if p.FreeFor(live) != 0 || p.FreeFor(quiet) != p.FreeNow() {
				t.Errorf("free for the live sequence %d, want 0; for the quiet tenant %d of %d", p.FreeFor(live), p.FreeFor(quiet), p.FreeNow())
			}
			if !p.CanGrowAlone(&table, 400, Hit{}) || !p.GrowAlone(&table, 400, Hit{}, &copies) {
				t.Error("a sequence that is alone does not get all blocks")
			}
			mustCheck(t, p)
			if hit := p.Match(quiet, ids, len(ids)); hit.Full != tc.last {
				t.Errorf("%d blocks are found, want %d", hit.Full, tc.last)
			}
			p.Release(&table)
			mustCheck(t, p)
		})
	}
}

// A sequence takes its own tenant's cached blocks and those of tenants that are not protected before it is refused.
func TestASequenceTakesItsOwnCachedBlocksBesideProtectedOnes(t *testing.T) {
	p := newPool(t, Config{Blocks: 61, BlockTokens: 4, FloorPercent: 100})
	quiet, gone, live := p.Domain("quiet"), p.Domain("gone"), p.Domain("live")
	ids := leave(t, p, quiet, 0, 20)
	leave(t, p, gone, 1000, 20)
	leave(t, p, live, 2000, 20)
	p.Protect(quiet, 1)
	p.Protect(live, 1) // its own is no hindrance
	var table Table
	var copies []Copy
	p.Begin(&table, live)
	if p.Grow(&table, 41*4, Hit{}, &copies) || !p.Grow(&table, 40*4, Hit{}, &copies) {
		t.Fatal("want 40 blocks, and not one more")
	}
	mustCheck(t, p)
	if hit := p.Match(quiet, ids, len(ids)); hit.Full != 20 {
		t.Errorf("%d of 20 protected blocks are found", hit.Full)
	}
	p.Release(&table)
}

// Random sequences of several domains, some of them protected: what Grow gives leaves each protected floor alone, what
// CanGrow and FreeFor say is what Grow does, and Without foretells what a release leaves.
func TestProtectionHoldsInRandomUse(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := newPool(t, Config{Blocks: 20 + rng.IntN(80), BlockTokens: 2, FloorPercent: 1 + rng.IntN(100)})
		type live struct {
			table  Table
			domain Domain
			ids    []int32
		}
		domains := make([]Domain, 2+rng.IntN(5))
		for i := range domains {
			domains[i] = p.Domain(fmt.Sprint(i))
		}
		var running []*live
		var copies []Copy
		refused, now := 0, int64(0)
		for range 1500 {
			d := domains[rng.IntN(len(domains))]
			switch kind := rng.IntN(20); {
			case kind == 0:
				p.Protect(d, now+1+rng.Int64N(50))
			case kind == 1:
				now++
				p.Advance(now)
			case kind < 6 && len(running) < 5:
				l := &live{domain: d}
				p.Begin(&l.table, d)
				running = append(running, l)
			case kind < 8 && len(running) > 0:
				i := rng.IntN(len(running))
				l := running[i]
				other := domains[rng.IntN(len(domains))]
				if p.domains[p.slots[l.domain]].protected { // a last block that is not published is free afterwards
					other = l.domain
				}
				open := len(p.slots)
				p.Without(&l.table)
				want := p.FreeFor(other)
				p.WithAll()
				p.Release(&l.table)
				if len(p.slots) == open && p.FreeFor(other) != want {
					t.Fatalf("seed %d: %d blocks are free, foretold were %d", seed, p.FreeFor(other), want)
				}
				running = append(running[:i], running[i+1:]...)
			case len(running) > 0:
				l := running[rng.IntN(len(running))]
				ids := l.ids
				for range 1 + rng.IntN(6) {
					ids = append(ids, rng.Int32N(3), rng.Int32N(3))
				}
				slot := p.slots[l.domain]
				kept := map[int32]int{}
				for _, s := range p.protected {
					if s != slot {
						kept[s] = max(0, min(p.domains[s].cached, p.floor()-p.domains[s].resident+p.domains[s].cached))
					}
				}
				need, can := p.CanGrow(&l.table, len(ids), Hit{})
				free, open := p.FreeFor(l.domain), len(p.slots)
				grew := p.Grow(&l.table, len(ids), Hit{}, &copies)
				if grew != can || grew != (need <= free) {
					t.Fatalf("seed %d: grew %v, CanGrow said %v, %d blocks of %d", seed, grew, can, need, free)
				}
				if !grew {
					refused++
					continue
				}
				for s, n := range kept {
					if len(p.slots) == open && p.domains[s].cached < n {
						t.Fatalf("seed %d: a protected domain has %d cached blocks, %d were kept from the sequence", seed, p.domains[s].cached, n)
					}
				}
				l.ids = ids
				p.Commit(&l.table, ids, len(ids))
			}
			mustCheck(t, p)
		}
		t.Logf("seed %d: %d refused", seed, refused)
	}
}
