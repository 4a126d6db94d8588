package prefix

import (
	"slices"

	"weir/internal/heap"
)

// leaves are the entries of a replica that have no children, as a heap by their stamps, the least first. A use writes its entry's stamp
// and leaves the heap as it is: an item's stamp is at most its entry's, and is put right when it comes first. In the same way items of
// entries that are no leaves any longer go when they come first, or when the heap would have to grow.
type leaves []leaf

type leaf struct{ stamp, entry uint32 }

// list puts an entry that is a leaf into the heap.
func (h *holdings) list(e uint32, p *entry) {
	p.listed = true
	if len(h.leaves) > 0 && h.at(h.leaves[0].entry).state == unused { // the leaf before it in its chain was evicted just now
		h.at(h.leaves[0].entry).listed = false
		h.leaves[0] = leaf{p.stamp, e}
		heap.Down(h.leaves, 0)
		return
	}
	if len(h.leaves) == cap(h.leaves) {
		h.weed()
		h.leaves = slices.Grow(h.leaves, len(h.leaves)/2+1)
	}
	h.leaves = append(h.leaves, leaf{p.stamp, e})
	heap.Up(h.leaves, len(h.leaves)-1)
}

// oldest is the leaf that was used least recently. There must be one.
func (h *holdings) oldest() uint32 {
	for {
		first := &h.leaves[0]
		p := h.at(first.entry)
		switch {
		case p.state == unused || p.children > 0:
			p.listed = false
			last := len(h.leaves) - 1
			*first = h.leaves[last]
			h.leaves = h.leaves[:last]
		case p.stamp != first.stamp:
			first.stamp = p.stamp
		default:
			return first.entry
		}
		heap.Down(h.leaves, 0)
	}
}

// weed takes out the items of entries that are no leaves.
func (h *holdings) weed() {
	kept := h.leaves[:0]
	for _, l := range h.leaves {
		if p := h.at(l.entry); p.state != unused && p.children == 0 {
			kept = append(kept, leaf{p.stamp, l.entry})
		} else {
			p.listed = false
		}
	}
	h.leaves = kept
	heap.Init(h.leaves)
}

// age lowers all stamps, and the count that they are from, by half of what there are. Those that are older become alike.
func (h *holdings) age() {
	const by = 1 << 31
	lower := func(stamp *uint32) { *stamp = max(*stamp, by) - by }
	lower(&h.uses)
	for e := uint32(1); e < h.next; e++ {
		lower(&h.at(e).stamp)
	}
	for i := range h.leaves {
		lower(&h.leaves[i].stamp)
	}
}

func (l leaves) Len() int           { return len(l) }
func (l leaves) Less(i, j int) bool { return l[i].stamp < l[j].stamp }
func (l leaves) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
