package replay

import "time"

// Hash is the content hash of a request.
type Hash = [32]byte

// Cache keeps answers that a repetition would compute again bit by bit, per tenant:
// one tenant never gets what another one asked for, nor learns that it did. All
// methods may be called at the same time.
type Cache[V any] struct{ kept *partitions }

// CacheConfig bounds a Cache.
type CacheConfig struct {
	Bytes  int64         // of all tenants together; 0: the cache is off
	MaxAge time.Duration // an entry is forgotten this long after it was computed
}

// CacheStats are counted since the cache was made, except for Bytes and Entries.
type CacheStats struct {
	Hits, Misses uint64
	Evictions    uint64 // entries that went because there was no room, or whose time was over
	Bytes        int64
	Entries      int
}

// NewCache returns an empty cache.
func NewCache[V any](c CacheConfig) *Cache[V] {
	return &Cache[V]{&partitions{config: c, tenants: map[string]*partition{}}}
}

// Get returns a tenant's entry.
func (c *Cache[V]) Get(tenant string, h Hash) (v V, ok bool) {
	kept, ok := c.kept.get(tenant, h)
	if ok {
		v, _ = kept.(V) // a nil interface is the zero V
	}
	return v, ok
}

// Put adds an entry of a tenant, of so many bytes. Where room is missing, the
// tenant that holds the most loses its least recently used entries, so that no tenant
// can push out all that another one has. An entry above a quarter of the cache is not
// kept.
func (c *Cache[V]) Put(tenant string, h Hash, v V, bytes int64) { c.kept.put(tenant, h, v, bytes) }

// Weigh says again how many bytes an entry takes, where it is still there. An entry that
// has come above a quarter of the cache is forgotten.
func (c *Cache[V]) Weigh(tenant string, h Hash, bytes int64) { c.kept.weigh(tenant, h, bytes) }

// Shrink forgets a tenant's least recently used entries until those that are left take
// at most so many bytes together, by size: for values that grow after they were put.
func (c *Cache[V]) Shrink(tenant string, bytes int64, size func(V) int64) {
	c.kept.shrink(tenant, bytes, func(kept any) int64 {
		v, _ := kept.(V)
		return size(v)
	})
}

// Forget drops all that a tenant has, and returns how many entries it had.
func (c *Cache[V]) Forget(tenant string) (entries int) { return c.kept.forget(tenant) }

// Stats counts.
func (c *Cache[V]) Stats() CacheStats { return c.kept.stats() }
