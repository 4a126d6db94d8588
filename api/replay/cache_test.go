package replay

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheIsPerTenantAndAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache[string](CacheConfig{Bytes: 1 << 20, MaxAge: time.Minute})
		c.Put("a", Hash{1}, "one", 3)
		if v, ok := c.Get("a", Hash{1}); !ok || v != "one" {
			t.Errorf("%q, %v", v, ok)
		}
		for _, miss := range []struct {
			tenant string
			hash   Hash
		}{{"b", Hash{1}}, {"", Hash{1}}, {"a", Hash{2}}} {
			if v, ok := c.Get(miss.tenant, miss.hash); ok {
				t.Errorf("%q gets %q", miss.tenant, v)
			}
		}
		time.Sleep(time.Minute)
		if _, ok := c.Get("a", Hash{1}); ok {
			t.Error("an entry outlives its time")
		}
		if got, want := c.Stats(), (CacheStats{Hits: 1, Misses: 4, Evictions: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// One tenant's flood pushes out its own entries, not those of others.
func TestCacheEvictsFromWhoHoldsTheMost(t *testing.T) {
	const each = cachedBytes + 100
	c := NewCache[int](CacheConfig{Bytes: 10 * each, MaxAge: time.Hour})
	for i := range 4 {
		c.Put("small", Hash{byte(i)}, i, 100)
	}
	for i := range 100 {
		c.Put("flood", Hash{byte(i)}, i, 100)
	}
	for i := range 4 {
		if v, ok := c.Get("small", Hash{byte(i)}); !ok || v != i {
			t.Errorf("entry %d of the small tenant: %v, %v", i, v, ok)
		}
	}
	if _, ok := c.Get("flood", Hash{99}); !ok {
		t.Error("the newest of the flood is gone")
	}
	if _, ok := c.Get("flood", Hash{93}); ok {
		t.Error("the flood holds more than its room")
	}
	c.Put("small", Hash{9}, 9, 10*each)
	if _, ok := c.Get("small", Hash{9}); ok {
		t.Error("an entry of the whole cache is kept")
	}
}

// The books are right whatever is put: against sums over all entries.
func TestCacheBooks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := NewCache[int](CacheConfig{Bytes: 50_000, MaxAge: time.Hour})
	for range 20_000 {
		tenant, hash := string(rune('a'+r.IntN(6))), Hash{byte(r.IntN(100))}
		if r.IntN(3) == 0 {
			c.Get(tenant, hash)
		} else {
			c.Put(tenant, hash, 0, int64(r.IntN(8000)))
		}
		var sum int64
		for name, s := range c.kept.tenants {
			var own int64
			for _, e := range s.entries.Values() {
				own += e.bytes
			}
			if own != s.bytes || own == 0 {
				t.Fatalf("%s holds %d bytes, booked %d", name, own, s.bytes)
			}
			sum += own
		}
		if sum != c.kept.bytes || sum > c.kept.config.Bytes {
			t.Fatalf("%d bytes, booked %d, allowed %d", sum, c.kept.bytes, c.kept.config.Bytes)
		}
	}
}

func TestCacheForgetsATenant(t *testing.T) {
	c := NewCache[int](CacheConfig{Bytes: 1 << 20, MaxAge: time.Hour})
	c.Put("acme", Hash{1}, 1, 100)
	c.Put("acme", Hash{2}, 2, 100)
	c.Put("other", Hash{1}, 3, 100)
	if n := c.Forget("acme") + c.Forget("nobody"); n != 2 {
		t.Errorf("%d forgotten", n)
	}
	_, mine := c.Get("acme", Hash{1})
	_, theirs := c.Get("other", Hash{1})
	if st := c.Stats(); mine || !theirs || st.Bytes != cachedBytes+100 || st.Entries != 1 {
		t.Errorf("%v, %v, %+v", mine, theirs, st)
	}
}

// An entry that has grown counts as what it is now, and goes when it is too large.
func TestCacheWeighsAgain(t *testing.T) {
	const each = cachedBytes + 100
	c := NewCache[int](CacheConfig{Bytes: 12 * each, MaxAge: time.Hour})
	for i := range 12 {
		c.Put("a", Hash{byte(i)}, i, 100)
	}
	c.Weigh("a", Hash{11}, 100+each)
	if st := c.Stats(); st.Entries != 11 || st.Bytes != 12*each || st.Evictions != 1 {
		t.Errorf("%+v", st)
	}
	if _, ok := c.Get("a", Hash{0}); ok {
		t.Error("the oldest entry is still there")
	}
	c.Weigh("a", Hash{11}, 4*each)
	c.Weigh("a", Hash{99}, 100)
	c.Weigh("b", Hash{1}, 100)
	if _, ok := c.Get("a", Hash{11}); ok {
		t.Error("an entry above a quarter of the cache is kept")
	}
	if st := c.Stats(); st.Entries != 10 || st.Bytes != 10*each {
		t.Errorf("%+v", st)
	}
}

func TestCacheShrinks(t *testing.T) {
	c := NewCache[int](CacheConfig{Bytes: 1 << 20, MaxAge: time.Hour})
	for i := range 10 {
		c.Put("a", Hash{byte(i)}, i, 100)
	}
	c.Put("b", Hash{1}, 1, 100)
	c.Get("a", Hash{0})                                // now the last that was used
	size := func(v int) int64 { return int64(10 * v) } // by what they have grown to
	c.Shrink("a", 1000, size)
	c.Shrink("nobody", 0, size)
	if st := c.Stats(); st.Entries != 11 || st.Evictions != 0 {
		t.Errorf("all have room, %+v are left", st)
	}
	c.Shrink("a", 9*10+8*10+9, size)
	for i := range 10 {
		if _, ok := c.Get("a", Hash{byte(i)}); ok != (i == 0 || i >= 8) {
			t.Errorf("entry %d: is there: %v", i, ok)
		}
	}
	if st := c.Stats(); st.Entries != 4 || st.Bytes != 4*(cachedBytes+100) {
		t.Errorf("%+v", st)
	}
	c.Shrink("a", -1, size)
	if st := c.Stats(); st.Entries != 1 || st.Bytes != cachedBytes+100 {
		t.Errorf("%+v after all of a tenant's went", st)
	}
}
