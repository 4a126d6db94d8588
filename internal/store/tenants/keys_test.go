package tenants

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weir/internal/store/storetest"

	"weir/api/tenant"
	"weir/scheduler/quota"
)

func TestKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		now := time.Now().UTC().Truncate(time.Millisecond)
		a := testKey("a", "acme", "", now)
		a.Expires = now.Add(time.Hour)
		b, c := testKey("b", "acme", "", now.Add(time.Second)), testKey("c", "acme", "", now)
		other := testKey("d", "zeta", "Ünicode", now)
		for _, k := range []tenant.Key{a, b, other} {
			if err := s.Create(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Create(ctx, a); !errors.Is(err, tenant.ErrKeyExists) {
			t.Errorf("a key twice: %v", err)
		}
		if err := s.Create(ctx, c); !errors.Is(err, tenant.ErrKeysAtMost) {
			t.Errorf("a third key: %v", err)
		}
		late := c
		late.Created = a.Expires // a lives until then, not at that moment
		if err := s.Create(ctx, late); err != nil {
			t.Errorf("a key for one that has expired: %v", err)
		}
		if got, err := s.Find(ctx, a.ID); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("found %v, %v; want %v", got, err, a)
		}
		for _, id := range []string{"", "zzzzzzzzzz", "nul\x00", "bad\xff"} {
			if _, err := s.Find(ctx, id); !errors.Is(err, tenant.ErrNoKey) {
				t.Errorf("find %q: %v", id, err)
			}
			if err := s.Rotate(ctx, id, now, testKey("r", "acme", "", now)); !errors.Is(err, tenant.ErrNoKey) {
				t.Errorf("rotate %q: %v", id, err)
			}
			if err := s.Revoke(ctx, id, now); !errors.Is(err, tenant.ErrNoKey) {
				t.Errorf("revoke %q: %v", id, err)
			}
		}
		list, err := s.List(ctx, "")
		if want := []tenant.Key{a, b, late, other}; err != nil || !reflect.DeepEqual(list, want) {
			t.Errorf("list %v, %v; want %v", list, err, want)
		}
		if list, err := s.List(ctx, "zeta"); err != nil || !reflect.DeepEqual(list, []tenant.Key{other}) {
			t.Errorf("list of zeta: %v, %v", list, err)
		}
		if err := s.Create(ctx, testKey("e", "nul\x00", "", now)); err == nil {
			t.Error("NUL in a tenant's name is taken")
		}
	})
}

func TestKeysEndOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		now := time.Now().UTC().Truncate(time.Millisecond)
		k := testKey("a", "acme", "", now)
		if err := s.Create(ctx, k); err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Time{now.Add(time.Minute), now.Add(time.Hour)} {
			if err := s.Revoke(ctx, k.ID, at); err != nil {
				t.Fatal(err)
			}
		}
		used := now.Add(time.Second)
		for _, at := range []time.Time{used, now} {
			if err := s.Touch(ctx, map[string]time.Time{k.ID: at, "0000000bad": at, "\x00": at}); err != nil {
				t.Fatal(err)
			}
		}
		k.Revoked, k.LastUsed = now.Add(time.Minute), used
		if got, err := s.Find(ctx, k.ID); err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("found %v, %v; want %v", got, err, k)
		}
	})
}

func TestRotation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		now := time.Now().UTC().Truncate(time.Millisecond)
		first, second, third := testKey("1", "acme", "", now), testKey("2", "acme", "", now), testKey("3", "acme", "", now)
		if err := s.Create(ctx, first); err != nil {
			t.Fatal(err)
		}
		ends := now.Add(time.Hour)
		if err := s.Rotate(ctx, first.ID, ends, second); err != nil {
			t.Fatal(err)
		}
		// Two live: a third has no room, and the second stays as it was.
		if err := s.Rotate(ctx, second.ID, ends, third); !errors.Is(err, tenant.ErrKeysAtMost) {
			t.Errorf("a third live key: %v", err)
		}
		if got, _ := s.Find(ctx, second.ID); !reflect.DeepEqual(got, second) {
			t.Errorf("a failed rotation left %v", got)
		}
		// The end that comes first stays.
		third.Created = ends
		if err := s.Rotate(ctx, second.ID, ends.Add(time.Hour), third); err != nil {
			t.Fatal(err)
		}
		if err := s.Rotate(ctx, second.ID, ends.Add(2*time.Hour), testKey("4", "other", "", ends)); err != nil {
			t.Fatal(err)
		}
		got, err := s.Find(ctx, second.ID)
		if err != nil || !got.Expires.Equal(ends.Add(time.Hour)) {
			t.Errorf("the rotated key: %v, %v", got, err)
		}
		for _, id := range []string{"zzzzzzzzzz", first.ID} { // none, and one that is over
			if err := s.Rotate(ctx, id, ends, testKey("5", "acme", "", ends)); !errors.Is(err, tenant.ErrNoKey) {
				t.Errorf("rotate %s: %v", id, err)
			}
		}
	})
}

func TestKeysOfOneLabelCreatedAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		var created atomic.Int32
		var wait sync.WaitGroup
		for i := range 12 {
			s := openStore(t, url, opts{})
			wait.Go(func() {
				switch err := s.Create(t.Context(), testKey(fmt.Sprint(i), "acme", "", now)); {
				case err == nil:
					created.Add(1)
				case !errors.Is(err, tenant.ErrKeysAtMost):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if created.Load() != tenant.MaxLiveKeys {
			t.Errorf("%d keys of one label live", created.Load())
		}
	})
}

// Rotations of one key at once: none waits for another in a circle, and as many keys
// live afterwards as may.
func TestRotationsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		first := openStore(t, url, opts{})
		now := time.Now().UTC().Truncate(time.Millisecond)
		k := testKey("0", "acme", "", now)
		if err := first.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		var rotated atomic.Int32
		var wait sync.WaitGroup
		for i := range 8 {
			s := openStore(t, url, opts{})
			wait.Go(func() {
				next := testKey(fmt.Sprint(i+1), "acme", "", now)
				switch err := s.Rotate(t.Context(), k.ID, now.Add(time.Hour), next); {
				case err == nil:
					rotated.Add(1)
				case !errors.Is(err, tenant.ErrKeysAtMost):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if rotated.Load() != 1 {
			t.Errorf("%d rotations", rotated.Load())
		}
	})
}

// What a key may is kept with it, is changed by one at a time, and goes over to the key that takes its place.
func TestTermsOfKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx, now := openStore(t, url, opts{}), t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		old := testKey("a", "acme", "", now)
		old.Limits, old.Models = quota.Limits{DailyCost: 5_000_000, MaxStreams: 3, Enforcement: quota.Strict}, []string{"m", "Ü"}
		if err := s.Create(ctx, old); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find(ctx, old.ID); err != nil || !reflect.DeepEqual(got, old) {
			t.Errorf("%+v, %v; want %+v", got, err, old)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := s.Change(ctx, old.ID, func(k *tenant.Key) error { k.Limits.MaxStreams++; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		old.Limits.MaxStreams += 8
		wrong := errors.New("not so")
		if _, err := s.Change(ctx, old.ID, func(k *tenant.Key) error { k.Models = nil; return wrong }); !errors.Is(err, wrong) {
			t.Errorf("%v", err)
		}
		if got, err := s.Find(ctx, old.ID); err != nil || !reflect.DeepEqual(got, old) {
			t.Errorf("%+v, %v; want %+v", got, err, old)
		}
		if n, err := s.KeyChanges(ctx); err != nil || n != 8 {
			t.Errorf("%d changes, %v; want 8", n, err)
		}
		next := testKey("b", "", "", now)
		next.Follow(&old)
		if err := s.Rotate(ctx, old.ID, now.Add(time.Hour), next); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find(ctx, next.ID); err != nil || !reflect.DeepEqual(got, next) || got.Holder().KeyAccount != old.ID || got.Holder().Key != next.ID {
			t.Errorf("%+v, %v; want %+v", got, err, next)
		}
		if err := s.Revoke(ctx, next.ID, now); err != nil {
			t.Fatal(err)
		}
		if n, err := s.KeyChanges(ctx); err != nil || n != 10 {
			t.Errorf("%d changes, %v; want 10", n, err)
		}
		for _, id := range []string{"", "zzzzzzzzzz", "nul\x00"} {
			if _, err := s.Change(ctx, id, func(*tenant.Key) error { return nil }); !errors.Is(err, tenant.ErrNoKey) {
				t.Errorf("change %q: %v", id, err)
			}
		}
	})
}
