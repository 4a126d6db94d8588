package replay

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Hash is the content hash of a request.
type Hash = [32]byte

// Cache keeps answers that a repetition would compute again bit by bit, per tenant:
// one tenant never gets what another one asked for, nor learns that it did. All
// methods may be called at the same time.
type Cache[V any] struct {
	config CacheConfig

	mu        sync.Mutex
	tenants   map[string]*tenantCache[V]
	bytes     int64
	hits      uint64
	misses    uint64
	evictions uint64
}

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

// tenantCache is what one tenant holds.
type tenantCache[V any] struct {
	entries *simplelru.LRU[Hash, cached[V]]
	bytes   int64
}

type cached[V any] struct {
	value V
	bytes int64
	made  time.Time
}

// cachedBytes is what an entry costs beside its value.
const cachedBytes = 256

// NewCache returns an empty cache.
func NewCache[V any](c CacheConfig) *Cache[V] {
	return &Cache[V]{config: c, tenants: map[string]*tenantCache[V]{}}
}

// Get returns a tenant's entry.
func (c *Cache[V]) Get(tenant string, h Hash) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.tenants[tenant]
	if s != nil {
		e, found := s.entries.Get(h)
		if found && time.Since(e.made) < c.config.MaxAge {
			c.hits++
			return e.value, true
		}
		if found {
			s.entries.Remove(h)
			c.gone(tenant, s, e)
		}
	}
	c.misses++
	return v, false
}

// Put adds an entry of a tenant, of so many bytes. Where room is missing, the
// tenant that holds the most loses its least recently used entries, so that no tenant
// can push out all that another one has. An entry above a quarter of the cache is not
// kept.
func (c *Cache[V]) Put(tenant string, h Hash, v V, bytes int64) {
	bytes += cachedBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.config.Bytes/4 {
		return
	}
	s := c.tenants[tenant]
	if s == nil {
		const unbounded = 1<<31 - 1 // bytes are the bound
		entries, err := simplelru.NewLRU[Hash, cached[V]](unbounded, nil)
		if err != nil {
			return // the size is constant and fits
		}
		s = &tenantCache[V]{entries: entries}
		c.tenants[tenant] = s
	}
	if old, found := s.entries.Peek(h); found {
		s.bytes -= old.bytes
		c.bytes -= old.bytes
	}
	s.entries.Add(h, cached[V]{value: v, bytes: bytes, made: time.Now()})
	s.bytes += bytes
	c.bytes += bytes
	for c.bytes > c.config.Bytes {
		c.evict()
	}
}

// Weigh says again how many bytes an entry takes, where it is still there. An entry that
// has come above a quarter of the cache is forgotten.
func (c *Cache[V]) Weigh(tenant string, h Hash, bytes int64) {
	bytes += cachedBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.tenants[tenant]
	if s == nil {
		return
	}
	e, found := s.entries.Peek(h)
	if !found || e.bytes == bytes {
		return
	}
	if bytes > c.config.Bytes/4 {
		s.entries.Remove(h)
		c.gone(tenant, s, e)
		return
	}
	s.bytes += bytes - e.bytes
	c.bytes += bytes - e.bytes
	e.bytes = bytes
	s.entries.Add(h, e)
	for c.bytes > c.config.Bytes {
		c.evict()
	}
}

// Shrink forgets a tenant's least recently used entries until those that are left take
// at most so many bytes together, by size: for values that grow after they were put.
func (c *Cache[V]) Shrink(tenant string, bytes int64, size func(V) int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.tenants[tenant]
	if s == nil {
		return
	}
	all := s.entries.Values() // the oldest first
	kept := len(all)
	for total := int64(0); kept > 0; kept-- {
		if total += size(all[kept-1].value); total > bytes {
			break
		}
	}
	for range kept {
		_, e, _ := s.entries.RemoveOldest()
		c.gone(tenant, s, e)
	}
}

// Forget drops all that a tenant has, and returns how many entries it had.
func (c *Cache[V]) Forget(tenant string) (entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.tenants[tenant]
	if s == nil {
		return 0
	}
	c.bytes -= s.bytes
	delete(c.tenants, tenant)
	return s.entries.Len()
}

// evict forgets an entry of the tenant that holds the most.
func (c *Cache[V]) evict() {
	var name string
	var most *tenantCache[V]
	for tenant, s := range c.tenants {
		if most == nil || s.bytes > most.bytes || s.bytes == most.bytes && tenant < name {
			name, most = tenant, s
		}
	}
	_, e, _ := most.entries.RemoveOldest()
	c.gone(name, most, e)
}

// gone books an entry that was removed.
func (c *Cache[V]) gone(tenant string, s *tenantCache[V], e cached[V]) {
	c.evictions++
	s.bytes -= e.bytes
	c.bytes -= e.bytes
	if s.entries.Len() == 0 {
		delete(c.tenants, tenant)
	}
}

// Stats counts.
func (c *Cache[V]) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := CacheStats{Hits: c.hits, Misses: c.misses, Evictions: c.evictions, Bytes: c.bytes}
	for _, s := range c.tenants {
		st.Entries += s.entries.Len()
	}
	return st
}
