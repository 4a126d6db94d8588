package admission

// slab is a growing array of reused slots. A slot is named by its index inside
// the queue and by index and generation outside; the generation changes when
// the slot is given back.
type slab[T any] struct {
	slots []slot[T]
	free  []int32
}

type slot[T any] struct {
	value T
	gen   uint32
	live  bool
}

// take returns the index of a zeroed slot.
func (s *slab[T]) take() int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.slots[i].live = true
		return i
	}
	s.slots = append(s.slots, slot[T]{live: true, gen: 1})
	return int32(len(s.slots) - 1)
}

// put gives a slot back and forgets its value.
func (s *slab[T]) put(i int32) {
	p := &s.slots[i]
	var zero T
	p.value, p.live = zero, false
	p.gen++
	s.free = append(s.free, i)
}

// at is valid until the next take.
func (s *slab[T]) at(i int32) *T { return &s.slots[i].value }

func (s *slab[T]) id(i int32) uint64 { return uint64(s.slots[i].gen)<<32 | uint64(uint32(i)) }

// index resolves an id; false means that its slot was given back since.
func (s *slab[T]) index(id uint64) (int32, bool) {
	i := uint32(id)
	if uint64(i) >= uint64(len(s.slots)) {
		return none, false
	}
	p := &s.slots[i]
	return int32(i), p.live && p.gen == uint32(id>>32)
}
