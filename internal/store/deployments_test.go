package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/router/deployment"
)

var _ deployment.Store = (*Store)(nil)

// apply asks for a version of a model, as a server does.
func apply(t *testing.T, s *Store, model, version string) (r deployment.Record) {
	t.Helper()
	err := s.ChangeDeployment(t.Context(), model, func(old *deployment.Record) (*deployment.Record, error) {
		r = deployment.Apply(old, deployment.Spec{Model: model, Version: version}, "id", "test", time.Now())
		return &r, nil
	})
	if err != nil {
		t.Error(err)
	}
	return r
}

func TestDeploymentsAreKept(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, Options{}), openStore(t, url, Options{})
		revision := func() int64 {
			t.Helper()
			n, err := other.DeploymentRevision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := revision(); n != 0 {
			t.Errorf("an empty store has revision %d", n)
		}
		apply(t, s, "b", "1")
		apply(t, s, "a", "1")
		before := revision()
		if apply(t, other, "a", "1"); revision() != before {
			t.Error("what was asked for already is a change")
		}
		if r := apply(t, other, "a", "2"); r.Generation != 2 || revision() != before+1 {
			t.Errorf("%+v, revision %d after %d", r, revision(), before)
		}
		list, err := s.Deployments(t.Context())
		if err != nil || len(list) != 2 || list[0].Model != "a" || list[0].Wanted.Version != "2" || list[1].Model != "b" {
			t.Errorf("%+v %v", list, err)
		}
		refused := errors.New("refused")
		if err := s.ChangeDeployment(t.Context(), "a", func(*deployment.Record) (*deployment.Record, error) { return nil, refused }); !errors.Is(err, refused) || revision() != before+1 {
			t.Errorf("a change that was refused: %v, revision %d", err, revision())
		}
		if err := s.ChangeDeployment(t.Context(), "a", func(*deployment.Record) (*deployment.Record, error) { return nil, nil }); err != nil || revision() != before+2 {
			t.Errorf("deleted: %v, revision %d", err, revision())
		}
		if list, err = s.Deployments(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%+v %v", list, err)
		}
		if r := apply(t, s, "a", "3"); r.Generation != 1 || revision() != before+3 {
			t.Errorf("again: %+v, revision %d", r, revision())
		}
	})
}

// Of many changes at once, from two servers, each sees the one before it: none is lost.
func TestDeploymentsChangeOneAfterAnother(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		stores := []*Store{openStore(t, url, Options{}), openStore(t, url, Options{})}
		var all sync.WaitGroup
		generations := make([]int64, 24)
		for i := range generations {
			all.Go(func() { generations[i] = apply(t, stores[i%2], "a", fmt.Sprint(i)).Generation })
		}
		all.Wait()
		slices.Sort(generations)
		for i, g := range generations {
			if g != int64(i+1) {
				t.Fatalf("the generations are %v", generations)
			}
		}
	})
}

// What a server observes stands as long as its lease: a server that is gone is not shown.
func TestObservationsEndWithTheLease(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, Options{}), t.Context()
		gone, err := Open(ctx, url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		instances := func() (names []string) {
			list, err := s.Observations(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				names = append(names, list[i].Model+" "+list[i].Instance+" "+string(list[i].State))
			}
			return names
		}
		for _, o := range []deployment.Observation{
			{Model: "b", Instance: "one", State: deployment.Loading}, {Model: "b", Instance: "one", State: deployment.Serving}, {Model: "a", Instance: "one", State: deployment.Failed},
		} {
			if err := s.Observe(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		if err := gone.Observe(ctx, deployment.Observation{Model: "a", Instance: "two", State: deployment.Serving}); err != nil {
			t.Fatal(err)
		}
		if got, want := instances(), []string{"a one failed", "a two serving", "b one serving"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		closeStore(t, gone)
		if err := s.Unobserve(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		if got, want := instances(), []string{"a one failed"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if err := s.sweep(ctx); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.read.QueryRow(`SELECT count(*) FROM weir_deployments_observed`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows after a sweep: %v", rows, err)
		}
	})
}
