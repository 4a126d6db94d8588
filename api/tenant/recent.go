package tenant

import lru "github.com/hashicorp/golang-lru/v2"

// recent is a cache that forgets what was least recently used. It is an interface so that the
// compiler reads the cache's generic methods here alone: it compiles those of each instance
// that it meets in a struct, in every package that imports the struct.
type recent[K comparable, V any] interface {
	Get(K) (V, bool)
	Contains(K) bool
	Add(K, V) (evicted bool)
	Remove(K) (present bool)
	Len() int
}

// newRecent returns an empty cache of so many entries, at least 1.
func newRecent[K comparable, V any](entries int) recent[K, V] {
	c, err := lru.New[K, V](entries)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return c
}
