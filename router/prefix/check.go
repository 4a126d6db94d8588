package prefix

import "fmt"

// Check recounts everything and names the first thing that is wrong. It is for tests, while nothing else uses the index.
func (ix *Index) Check() error {
	refs := make(map[nodeID]uint32)
	gaps := 0
	for r := range ix.holdings {
		h := &ix.holdings[r]
		if err := h.check(refs); err != nil {
			return fmt.Errorf("prefix: replica %d: %w", r, err)
		}
		gaps += h.gaps
	}
	if int64(gaps) != ix.gapped.Load() {
		return fmt.Errorf("prefix: %d gaps are counted as %d", gaps, ix.gapped.Load())
	}
	for i := range ix.shards {
		if err := ix.shards[i].check(uint32(i), refs); err != nil {
			return fmt.Errorf("prefix: shard %d: %w", i, err)
		}
	}
	return nil
}

// check recounts a replica's entries and adds its references to nodes.
func (h *holdings) check(refs map[nodeID]uint32) error {
	used, gaps, leaves := 0, 0, 0
	children := make(map[uint32]uint32)
	for e := uint32(1); e < h.next; e++ {
		p := h.at(e)
		if p.state == unused {
			continue
		}
		used++
		refs[p.node]++
		s := &h.shards[p.node&(shards-1)]
		set := holders(s.nodes.at(uint32(p.node >> shardBits)).holders.Load())
		switch {
		case h.find(p.node) != e:
			return fmt.Errorf("entry %d is not found by its node", e)
		case s.has(set, h.id) != (p.state == held):
			return fmt.Errorf("entry %d has state %d, and its node says held=%t", e, p.state, s.has(set, h.id))
		case p.state == gap && p.children == 0:
			return fmt.Errorf("gap %d has nothing after it", e)
		case p.parent != 0 && h.at(p.parent).state == unused:
			return fmt.Errorf("entry %d comes after %d, which is not used", e, p.parent)
		}
		if p.state == gap {
			gaps++
		}
		if p.children == 0 {
			leaves++
		}
		if p.parent != 0 {
			children[p.parent]++
		}
	}
	for e := uint32(1); e < h.next; e++ {
		if p := h.at(e); p.state != unused && p.children != children[e] {
			return fmt.Errorf("entry %d has %d children and counts %d", e, children[e], p.children)
		}
	}
	if used != h.used || gaps != h.gaps || used > h.limit {
		return fmt.Errorf("%d entries, %d gaps; counted %d and %d, limit %d", used, gaps, h.used, h.gaps, h.limit)
	}
	return h.checkLeaves(leaves)
}

// checkLeaves walks the list of leaves.
func (h *holdings) checkLeaves(leaves int) error {
	if h.used == 0 {
		return nil
	}
	n := 0
	for e := h.at(0).next; e != 0; e = h.at(e).next {
		switch p := h.at(e); {
		case p.state == unused || p.children > 0:
			return fmt.Errorf("entry %d is on the list of leaves in state %d with %d children", e, p.state, p.children)
		case h.at(p.next).prev != e:
			return fmt.Errorf("the list of leaves is broken after %d", e)
		}
		if n++; n > leaves {
			break
		}
	}
	if n != leaves {
		return fmt.Errorf("%d leaves, %d on their list", leaves, n)
	}
	return nil
}

// check compares a shard's nodes with the references that holdings have.
func (s *shard) check(number uint32, refs map[nodeID]uint32) error {
	t := s.table.Load()
	used := uint32(0)
	for i := range t.slots {
		v := slot(t.slots[i].Load())
		if v == 0 {
			continue
		}
		used++
		place := v.place()
		p := s.nodes.at(place)
		if got, at := s.find(split{p.lo.Load(), p.hi.Load()}); got != place || int(at) != i {
			return fmt.Errorf("node %d in slot %d is found as %d in %d", place, i, got, at)
		}
		if want := refs[nodeID(place<<shardBits|number)]; p.refs != want || want == 0 {
			return fmt.Errorf("node %d counts %d references of %d", place, p.refs, want)
		}
		set, n := holders(p.holders.Load()), 0
		for r := range s.words * 64 {
			if s.has(set, Replica(r)) {
				n++
			}
		}
		if v.count() != min(n, many) {
			return fmt.Errorf("node %d has %d holders, and its slot says %d", place, n, v.count())
		}
		if n != set.count() || n > int(p.refs) {
			return fmt.Errorf("node %d has %d holders, counts %d, and %d references", place, n, set.count(), p.refs)
		}
	}
	if used != s.used {
		return fmt.Errorf("%d nodes, counted %d", used, s.used)
	}
	return nil
}
