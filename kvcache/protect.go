package kvcache

import (
	"fmt"
	"math"
	"slices"
)

// domainTable has the domains with tables or blocks, and the floors that others leave them.
//
// A protected domain's floor holds against the sequences of others, too: what is cached within it is evicted for
// another domain's sequence only when nothing else runs (GrowAlone). Otherwise a live sequence comes before the cache.
// (The memory.low of Linux's control groups does the same for their pages.)
type domainTable struct {
	usable       int // blocks that sequences can hold
	floorPercent int // Config.FloorPercent

	slots     map[Domain]int32 // into domains; looked up, never iterated
	domains   []domain
	slotsFree []int32

	protected []int32 // domains whose floor holds against sequences of others, too
	soonest   int64   // when the protection of one ends, or before
	left      []int32 // domains of the tables that Without counts as released
	leaving   int     // their blocks
}

// Protect keeps the cached blocks of a domain, as far as they are within its floor, from other domains' sequences until
// a time. A domain without tables and blocks has nothing to keep.
func (dt *domainTable) Protect(d Domain, until int64) {
	slot, ok := dt.slots[d]
	if !ok || dt.floorPercent == 0 {
		return
	}
	m := &dt.domains[slot]
	if !m.protected {
		m.protected = true
		dt.protected = append(dt.protected, slot)
	}
	m.until = max(m.until, until)
	dt.soonest = min(dt.soonest, m.until)
}

// Advance ends the protection of domains whose time has passed.
func (dt *domainTable) Advance(now int64) {
	if now < dt.soonest || len(dt.protected) == 0 {
		return
	}
	dt.soonest = math.MaxInt64
	for i, d := range slices.Backward(dt.protected) {
		if until := dt.domains[d].until; until <= now {
			dt.unprotect(i)
		} else {
			dt.soonest = min(dt.soonest, until)
		}
	}
}

// unprotect takes a domain off the list, by its place there.
func (dt *domainTable) unprotect(i int) {
	d := &dt.domains[dt.protected[i]]
	d.protected, d.until = false, 0
	last := len(dt.protected) - 1
	dt.protected[i] = dt.protected[last]
	dt.protected = dt.protected[:last]
}

// protectedFrom is how many cached blocks of other domains than one are protected.
func (dt *domainTable) protectedFrom(slot int32) (n int) {
	if len(dt.protected) == 0 || len(dt.slots) < 2 {
		return 0
	}
	floor := dt.floor()
	for _, s := range dt.protected {
		if d := &dt.domains[s]; s != slot {
			cached := d.cached + d.leaving
			n += max(0, min(cached, floor-(d.resident-cached)))
		}
	}
	return n
}

// floor is how many blocks others leave each domain.
func (dt *domainTable) floor() int {
	return dt.usable * dt.floorPercent / (100 * max(len(dt.slots), 1))
}

// checkProtection recounts them for Check.
func (dt *domainTable) checkProtection() error {
	listed := map[int32]bool{}
	for _, slot := range dt.protected {
		if d := &dt.domains[slot]; listed[slot] || !d.protected || d.tables+d.resident == 0 {
			return fmt.Errorf("K19: domain slot %d is listed as protected: twice %v, protected %v, %d tables, %d blocks", slot, listed[slot], d.protected, d.tables, d.resident)
		}
		listed[slot] = true
	}
	for slot := range dt.domains {
		if d := &dt.domains[slot]; d.protected != listed[int32(slot)] || d.leaving != 0 {
			return fmt.Errorf("K19: domain slot %d: protected %v, listed %v; %d blocks are supposed to leave", slot, d.protected, listed[int32(slot)], d.leaving)
		}
	}
	return nil
}

// aboveFloor reports whether a domain has more blocks than others leave it.
func (dt *domainTable) aboveFloor(slot int32) bool {
	return dt.domains[slot].resident*len(dt.slots)*100 > dt.usable*dt.floorPercent
}
