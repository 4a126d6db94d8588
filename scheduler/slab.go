package scheduler

// slab holds the live requests in reused slots. Pointers stay valid until put.
type slab struct {
	slots []*request
	free  []int
}

// take returns a slot whose id is new.
func (b *slab) take() *request {
	if n := len(b.free); n > 0 {
		r := b.slots[b.free[n-1]]
		b.free = b.free[:n-1]
		return r
	}
	r := &request{id: 1<<32 | ID(len(b.slots))}
	b.slots = append(b.slots, r)
	return r
}

// put makes the slot's id stale and forgets what the request points to. Its
// list of choices is kept for reuse.
func (b *slab) put(r *request) {
	clear(r.choices)
	next := r.id + 1<<32
	if next>>32 == 0 {
		next += 1 << 32
	}
	*r = request{id: next, choices: r.choices[:0]}
	b.free = append(b.free, r.id.Index())
}

// find returns nil for an id that has ended or never was.
func (b *slab) find(id ID) *request {
	if i := id.Index(); i < len(b.slots) && b.slots[i].id == id && b.slots[i].live > 0 {
		return b.slots[i]
	}
	return nil
}
