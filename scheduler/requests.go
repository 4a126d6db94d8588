package scheduler

import "slices"

// requestTable holds the live requests in reused slots. Pointers stay valid until put.
type requestTable struct {
	slots []*request
	free  []int

	partial   []*request // with choices that wait for a slot, in order of admission
	deadlines []*request // admitted, with deadlines, in order of admission
}

// take returns a slot whose id is new.
func (rt *requestTable) take() *request {
	if n := len(rt.free); n > 0 {
		r := rt.slots[rt.free[n-1]]
		rt.free = rt.free[:n-1]
		return r
	}
	r := &request{id: 1<<32 | ID(len(rt.slots))}
	rt.slots = append(rt.slots, r)
	return r
}

// put makes the slot's id stale and forgets what the request points to. Its
// list of choices is kept for reuse.
func (rt *requestTable) put(r *request) {
	clear(r.choices)
	next := r.id + 1<<32
	if next>>32 == 0 {
		next += 1 << 32
	}
	*r = request{id: next, choices: r.choices[:0]}
	rt.free = append(rt.free, r.id.Index())
}

// find returns nil for an id that has ended or never was.
func (rt *requestTable) find(id ID) *request {
	if i := id.Index(); i < len(rt.slots) && rt.slots[i].id == id && rt.slots[i].live > 0 {
		return rt.slots[i]
	}
	return nil
}

// trackPartial keeps the list of started requests with choices without a slot.
func (rt *requestTable) trackPartial(r *request) {
	i, waits := slices.Index(rt.partial, r), r.waitingChoices() > 0
	switch {
	case waits && i < 0:
		rt.partial = append(rt.partial, r)
	case !waits && i >= 0:
		rt.partial = slices.Delete(rt.partial, i, i+1)
	}
}

// trackDeadline lists an admitted request that has deadlines.
func (rt *requestTable) trackDeadline(r *request) {
	if r.FirstTokenBy != 0 || r.DoneBy != 0 {
		rt.deadlines = append(rt.deadlines, r)
	}
}

// untrackDeadline takes a request that has ended off the list.
func (rt *requestTable) untrackDeadline(r *request) {
	if r.FirstTokenBy == 0 && r.DoneBy == 0 {
		return
	}
	if i := slices.Index(rt.deadlines, r); i >= 0 {
		rt.deadlines = slices.Delete(rt.deadlines, i, i+1)
	}
}
