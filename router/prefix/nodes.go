package prefix

import "sync"

// nodes are those of all shards. Places are given out in runs, so that the keys that a replica takes in one after the other, and forgets
// so, lie side by side.
type nodes struct {
	slab[node]
	_ [56]byte // searches read what is before it

	mu   sync.Mutex
	next uint32   // the first place that was never given out
	free []uint32 // places that came back
}

// placeRun is how many places are given out, and come back, at a time.
const placeRun = 64

// spare are a replica's places of nodes that are not in use, behind its lock, the last first.
type spare []uint32

// fill gives a replica that has no place left another run; none when all are in use.
func (n *nodes) fill(s *spare) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := len(n.free); have > 0 {
		from := max(have-placeRun, 0)
		*s = append(*s, n.free[from:]...)
		n.free = n.free[:from]
		return
	}
	if n.next+placeRun > maxPlace {
		return
	}
	n.grow(n.next + placeRun)
	for i := range uint32(placeRun) {
		*s = append(*s, n.next+placeRun-1-i)
	}
	n.next += placeRun
}

// spareMost is how many places a replica keeps for itself.
const spareMost = 8 * placeRun

// put keeps a place, or gives those back that were kept longest.
func (n *nodes) put(s *spare, place uint32) {
	if *s = append(*s, place); len(*s) < spareMost {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, (*s)[:spareMost/2]...)
	*s = append((*s)[:0], (*s)[spareMost/2:]...)
}
