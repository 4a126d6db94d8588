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
	return ix.checkPlaces()
}

// checkPlaces counts the places of nodes: each is in use, or free, or spared by one replica.
func (ix *Index) checkPlaces() error {
	places := make(map[uint32]bool)
	add := func(all []uint32) {
		for _, place := range all {
			places[place] = true
		}
	}
	add(ix.nodes.free)
	listed := len(ix.nodes.free)
	for r := range ix.holdings {
		add(ix.holdings[r].spare)
		listed += len(ix.holdings[r].spare)
	}
	used := 0
	for i := range ix.shards {
		t := ix.shards[i].table.Load()
		for j := range t.slots {
			if v := slot(t.slots[j].Load()); v != 0 {
				add([]uint32{v.place()})
				used++
			}
		}
	}
	if all := int(ix.nodes.next) - 1; used+listed != all || len(places) != all {
		return fmt.Errorf("prefix: %d nodes in use and %d not, at %d places, of %d", used, listed, len(places), all)
	}
	return nil
}

// check recounts a replica's entries and adds its references to nodes.
func (h *holdings) check(refs map[nodeID]uint32) error {
	used, gaps, leaves, others := 0, 0, 0, 0
	children := make(map[uint32]uint32)
	for e := uint32(1); e < h.next; e++ {
		p := h.at(e)
		if p.state == unused {
			continue
		}
		used++
		refs[p.node]++
		s := &h.shards[p.node.shard()]
		node := s.nodes.at(p.node.place())
		set, known := holders(node.holders.Load()), names(node.names.Load())
		found := h.others.find(p.node)
		if known.of(h.id) && found == 0 {
			found = known.entry()
			others--
		}
		others++
		switch {
		case found != e:
			return fmt.Errorf("entry %d is found as %d by its node", e, found)
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
	if others != h.others.used {
		return fmt.Errorf("%d entries that their nodes do not know, counted %d", others, h.others.used)
	}
	return h.checkLeaves(leaves)
}

// checkLeaves looks at the heap of leaves.
func (h *holdings) checkLeaves(leaves int) error {
	items := make(map[uint32]bool)
	for i, l := range h.leaves {
		p := h.at(l.entry)
		switch {
		case i > 0 && h.leaves[(i-1)/2].stamp > l.stamp:
			return fmt.Errorf("item %d of the heap has stamp %d, and the one before it %d", i, l.stamp, h.leaves[(i-1)/2].stamp)
		case items[l.entry] || !p.listed:
			return fmt.Errorf("item %d of the heap is entry %d, which is there twice or not listed", i, l.entry)
		case p.state != unused && p.stamp < l.stamp:
			return fmt.Errorf("item %d of the heap has stamp %d, and its entry %d", i, l.stamp, p.stamp)
		}
		items[l.entry] = true
		if p.state != unused && p.children == 0 {
			leaves--
		}
	}
	for e := uint32(1); e < h.next; e++ {
		if h.at(e).listed != items[e] {
			return fmt.Errorf("entry %d is listed=%t, and in the heap %t", e, h.at(e).listed, items[e])
		}
	}
	if leaves != 0 {
		return fmt.Errorf("%d leaves are not in the heap", leaves)
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
		if got, at := s.find(split{p.lo.Load(), uint64(p.hi.Load())<<32 | uint64(number)}); got != place || int(at) != i {
			return fmt.Errorf("node %d in slot %d is found as %d in %d", place, i, got, at)
		}
		count := names(p.names.Load()).count()
		if want := refs[newNodeID(place, number)]; uint32(count) != want || want == 0 {
			return fmt.Errorf("node %d counts %d entries of %d", place, count, want)
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
		if n != set.count() || n > count {
			return fmt.Errorf("node %d has %d holders, counts %d, and %d entries", place, n, set.count(), count)
		}
	}
	if used != s.used {
		return fmt.Errorf("%d nodes, counted %d", used, s.used)
	}
	return nil
}
