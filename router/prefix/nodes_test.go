package prefix

import "testing"

// Nodes that one replica makes and another one forgets last come back: the one would take new places for ever, and the other keep them.
func TestPlacesOfNodesComeBack(t *testing.T) {
	const first, last = 2000, 4000 // limits of two replicas
	ix := newIndex(t, Config{Replicas: 2})
	ix.Limit(0, first)
	ix.Limit(1, last)
	keys := make([]Key, 20)
	for i := range 4000 {
		numbers(keys, i)
		ix.Hold(0, keys, 0)
		ix.Hold(1, keys, 0)
	}
	if err := ix.Check(); err != nil {
		t.Fatal(err)
	}
	if most := last + 2*spareMost + placeRun + len(keys); int(ix.nodes.next) > most {
		t.Errorf("%d nodes were made for %d keys, want at most %d", ix.nodes.next, last, most)
	}
	ix.Drop(0)
	ix.Drop(1)
	if err := ix.Check(); err != nil {
		t.Fatal(err)
	}
}
