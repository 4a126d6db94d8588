package kvcache

// link ties a node into a ring; a node that is on no ring points to itself.
type link struct{ prev, next int32 }

// rings are circular doubly linked lists over one array of nodes. A list is
// named by its sentinel, a node that carries no block, so linking and
// unlinking have no branches. Nodes below the pool's block count are blocks,
// those above are sentinels. Being ids, the links cost the garbage collector
// nothing.
type rings []link

// grow appends n nodes, each alone on its own ring.
func (r *rings) grow(n int) {
	for range n {
		i := int32(len(*r))
		*r = append(*r, link{i, i})
	}
}

// insert puts node n after node at.
func (r rings) insert(at, n int32) {
	next := r[at].next
	r[n] = link{at, next}
	r[at].next = n
	r[next].prev = n
}

func (r rings) pushFront(list, n int32) { r.insert(list, n) }

func (r rings) pushBack(list, n int32) { r.insert(r[list].prev, n) }

func (r rings) remove(n int32) {
	l := r[n]
	r[l.prev].next = l.next
	r[l.next].prev = l.prev
	r[n] = link{n, n}
}

// front is the first node, or the sentinel itself when the list is empty.
func (r rings) front(list int32) int32 { return r[list].next }

func (r rings) empty(list int32) bool { return r[list].next == list }
