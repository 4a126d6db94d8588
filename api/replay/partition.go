package replay

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// partitions are what a Cache of any type holds, by tenant. They are apart from Cache, and their entries are an
// interface, so that packages which import a cache do not compile the methods of both.
type partitions struct {
	config CacheConfig

	mu        sync.Mutex
	tenants   map[string]*partition
	bytes     int64
	hits      uint64
	misses    uint64
	evictions uint64
}

// partition is what one tenant holds.
type partition struct {
	entries recent
	bytes   int64
}

// recent is simplelru.LRU.
type recent interface {
	Get(Hash) (cached, bool)
	Peek(Hash) (cached, bool)
	Add(Hash, cached) (evicted bool)
	Remove(Hash) (present bool)
	RemoveOldest() (Hash, cached, bool)
	Values() []cached
	Len() int
}

type cached struct {
	value any
	bytes int64
	made  time.Time
}

// cachedBytes is what an entry costs beside its value.
const cachedBytes = 256

func (s *partitions) get(tenant string, h Hash) (v any, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t != nil {
		e, found := t.entries.Get(h)
		if found && time.Since(e.made) < s.config.MaxAge {
			s.hits++
			return e.value, true
		}
		if found {
			t.entries.Remove(h)
			s.gone(tenant, t, e)
		}
	}
	s.misses++
	return v, false
}

func (s *partitions) put(tenant string, h Hash, v any, bytes int64) {
	bytes += cachedBytes
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > s.config.Bytes/4 {
		return
	}
	t := s.tenants[tenant]
	if t == nil {
		const unbounded = 1<<31 - 1 // bytes are the bound
		entries, err := simplelru.NewLRU[Hash, cached](unbounded, nil)
		if err != nil {
			return // the size is constant and fits
		}
		t = &partition{entries: entries}
		s.tenants[tenant] = t
	}
	if old, found := t.entries.Peek(h); found {
		t.bytes -= old.bytes
		s.bytes -= old.bytes
	}
	t.entries.Add(h, cached{value: v, bytes: bytes, made: time.Now()})
	t.bytes += bytes
	s.bytes += bytes
	for s.bytes > s.config.Bytes {
		s.evict()
	}
}

func (s *partitions) weigh(tenant string, h Hash, bytes int64) {
	bytes += cachedBytes
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		return
	}
	e, found := t.entries.Peek(h)
	if !found || e.bytes == bytes {
		return
	}
	if bytes > s.config.Bytes/4 {
		t.entries.Remove(h)
		s.gone(tenant, t, e)
		return
	}
	t.bytes += bytes - e.bytes
	s.bytes += bytes - e.bytes
	e.bytes = bytes
	t.entries.Add(h, e)
	for s.bytes > s.config.Bytes {
		s.evict()
	}
}

func (s *partitions) shrink(tenant string, bytes int64, size func(any) int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		return
	}
	all := t.entries.Values() // the oldest first
	kept := len(all)
	for total := int64(0); kept > 0; kept-- {
		if total += size(all[kept-1].value); total > bytes {
			break
		}
	}
	for range kept {
		_, e, _ := t.entries.RemoveOldest()
		s.gone(tenant, t, e)
	}
}

func (s *partitions) forget(tenant string) (entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		return 0
	}
	s.bytes -= t.bytes
	delete(s.tenants, tenant)
	return t.entries.Len()
}

// evict forgets an entry of the tenant that holds the most.
func (s *partitions) evict() {
	var name string
	var most *partition
	for tenant, t := range s.tenants {
		if most == nil || t.bytes > most.bytes || t.bytes == most.bytes && tenant < name {
			name, most = tenant, t
		}
	}
	_, e, _ := most.entries.RemoveOldest()
	s.gone(name, most, e)
}

// gone books an entry that was removed.
func (s *partitions) gone(tenant string, t *partition, e cached) {
	s.evictions++
	t.bytes -= e.bytes
	s.bytes -= e.bytes
	if t.entries.Len() == 0 {
		delete(s.tenants, tenant)
	}
}

func (s *partitions) stats() CacheStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := CacheStats{Hits: s.hits, Misses: s.misses, Evictions: s.evictions, Bytes: s.bytes}
	for _, t := range s.tenants {
		st.Entries += t.entries.Len()
	}
	return st
}
