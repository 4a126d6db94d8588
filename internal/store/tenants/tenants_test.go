package tenants

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/internal/store/storetest"
)

func TestTenantRecords(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		other := openStore(t, url, opts{})
		at := time.Now().UTC().Truncate(time.Millisecond)
		revision := func() int64 {
			t.Helper()
			n, err := other.TenantRevision(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := revision(); n != 0 {
			t.Errorf("an empty store has revision %d", n)
		}
		b, err := s.CreateTenant(ctx, "b", []byte(`{"weight":2}`), at)
		if err != nil || b.Name != "b" || string(b.Spec) != `{"weight":2}` || !b.Created.Equal(at) || b.Revision != revision() {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, err := s.CreateTenant(ctx, "b", []byte(`{}`), at); !errors.Is(err, tenant.ErrTenantExists) {
			t.Errorf("twice: %v", err)
		}
		if _, err := s.CreateTenant(ctx, "a", []byte(`{}`), at); err != nil {
			t.Fatal(err)
		}
		later := at.Add(time.Second)
		changed, err := other.ChangeTenant(ctx, "b", b.Revision, []byte(`{"weight":3}`), later)
		if err != nil || changed.Revision != revision() || !changed.Created.Equal(at) || !changed.Changed.Equal(later) {
			t.Errorf("%+v, %v", changed, err)
		}
		if _, err := s.ChangeTenant(ctx, "b", b.Revision, []byte(`{}`), later); !errors.Is(err, tenant.ErrTenantChanged) {
			t.Errorf("over a newer change: %v", err)
		}
		if list, err := s.Tenants(ctx); err != nil || len(list) != 2 || list[0].Name != "a" || string(list[1].Spec) != `{"weight":3}` {
			t.Errorf("%+v, %v", list, err)
		}
		before := revision()
		if err := s.DeleteTenant(ctx, "b", later); err != nil || revision() <= before {
			t.Errorf("deleted: %v, revision %d after %d", err, revision(), before)
		}
		if _, err := s.ChangeTenant(ctx, "b", changed.Revision, nil, later); !errors.Is(err, tenant.ErrNoTenant) {
			t.Errorf("a deleted one changes: %v", err)
		}
		if err := s.DeleteTenant(ctx, "b", later); !errors.Is(err, tenant.ErrNoTenant) {
			t.Errorf("deleted twice: %v", err)
		}
		if again, err := s.CreateTenant(ctx, "b", []byte(`{}`), later); err != nil || again.Revision <= before || !again.Created.Equal(later) {
			t.Errorf("again: %+v, %v", again, err)
		}
		if _, err := s.CreateTenant(ctx, "nul\x00", nil, at); err == nil {
			t.Error("NUL is taken")
		}
	})
}

// Several processes change a tenant at once, as it was: one does.
func TestTenantRecordsChangeOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		stores := []*Store{openStore(t, url, opts{}), openStore(t, url, opts{})}
		r, err := stores[0].CreateTenant(t.Context(), "a", []byte(`{}`), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var done atomic.Int32
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				_, err := stores[i%2].ChangeTenant(t.Context(), "a", r.Revision, []byte(`{"weight":2}`), time.Now())
				if err == nil {
					done.Add(1)
				} else if !errors.Is(err, tenant.ErrTenantChanged) {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if done.Load() != 1 {
			t.Errorf("%d changes of one revision", done.Load())
		}
	})
}
