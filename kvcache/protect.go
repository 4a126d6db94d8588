package kvcache

import (
	"fmt"
	"math"
	"slices"
)

// A protected domain's floor holds against the sequences of others, too: what is cached within it is evicted for
// another domain's sequence only when nothing else runs (GrowAlone). Otherwise a live sequence comes before the cache.
// (The memory.low of Linux's control groups does the same for their pages.)

// Protect keeps the cached blocks of a domain, as far as they are within its floor, from other domains' sequences until
// a time. A domain without tables and blocks has nothing to keep.
func (p *Pool) Protect(d Domain, until int64) {
	slot, ok := p.slots[d]
	if !ok || p.config.FloorPercent == 0 {
		return
	}
	m := &p.domains[slot]
	if !m.protected {
		m.protected = true
		p.protected = append(p.protected, slot)
	}
	m.until = max(m.until, until)
	p.soonest = min(p.soonest, m.until)
}

// Advance ends the protection of domains whose time has passed.
func (p *Pool) Advance(now int64) {
	if now < p.soonest || len(p.protected) == 0 {
		return
	}
	p.soonest = math.MaxInt64
	for i, d := range slices.Backward(p.protected) {
		if until := p.domains[d].until; until <= now {
			p.unprotect(i)
		} else {
			p.soonest = min(p.soonest, until)
		}
	}
}

// unprotect takes a domain off the list, by its place there.
func (p *Pool) unprotect(i int) {
	d := &p.domains[p.protected[i]]
	d.protected, d.until = false, 0
	last := len(p.protected) - 1
	p.protected[i] = p.protected[last]
	p.protected = p.protected[:last]
}

// FreeFor is the number of blocks that Grow could hand out to a table of a domain now: FreeNow but for what is protected of
// others.
func (p *Pool) FreeFor(d Domain) int {
	slot, ok := p.slots[d]
	if !ok {
		slot = noDomain
	}
	return p.FreeNow() + p.leaving - p.protectedFrom(slot)
}

// Without has FreeFor answer as if a table had been released, until WithAll. Nothing is released.
func (p *Pool) Without(t *Table) {
	n := p.Sole(t)
	p.domains[t.domain].leaving += n
	p.leaving += n
	p.left = append(p.left, t.domain)
}

// WithAll ends what Without began.
func (p *Pool) WithAll() {
	for _, slot := range p.left {
		p.domains[slot].leaving = 0
	}
	p.left, p.leaving = p.left[:0], 0
}

// protectedFrom is how many cached blocks of other domains than one are protected.
func (p *Pool) protectedFrom(slot int32) (n int) {
	if len(p.protected) == 0 || len(p.slots) < 2 {
		return 0
	}
	floor := p.floor()
	for _, s := range p.protected {
		if d := &p.domains[s]; s != slot {
			cached := d.cached + d.leaving
			n += max(0, min(cached, floor-(d.resident-cached)))
		}
	}
	return n
}

// floor is how many blocks others leave each domain.
func (p *Pool) floor() int { return p.Usable() * p.config.FloorPercent / (100 * max(len(p.slots), 1)) }

// affords reports whether so many blocks can be taken for a domain, of so many that are idle, without what is protected of others.
func (p *Pool) affords(slot int32, need, idle int) bool {
	return need <= idle && (need <= p.free || need <= idle-p.protectedFrom(slot))
}

// checkProtection recounts them for Check.
func (p *Pool) checkProtection() error {
	listed := map[int32]bool{}
	for _, slot := range p.protected {
		if d := &p.domains[slot]; listed[slot] || !d.protected || d.tables+d.resident == 0 {
			return fmt.Errorf("K19: domain slot %d is listed as protected: twice %v, protected %v, %d tables, %d blocks", slot, listed[slot], d.protected, d.tables, d.resident)
		}
		listed[slot] = true
	}
	for slot := range p.domains {
		if d := &p.domains[slot]; d.protected != listed[int32(slot)] || d.leaving != 0 {
			return fmt.Errorf("K19: domain slot %d: protected %v, listed %v; %d blocks are supposed to leave", slot, d.protected, listed[int32(slot)], d.leaving)
		}
	}
	return nil
}
