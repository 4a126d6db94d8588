package deployments

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"

	"weir/router/deployment"
	"weir/telemetry/audit"
)

var _ deployment.Store = (*Store)(nil)

// apply asks for a version of a model, as a server does.
func apply(t *testing.T, s *Store, model, version string) (r deployment.Record) {
	t.Helper()
	err := s.NoteDeployment(t.Context(), model, func(old *deployment.Record, last int64) (*deployment.Record, *audit.Change, error) {
		if r = deployment.Apply(old, deployment.Spec{Model: model, Version: version}, "id", "test", time.Now()); old == nil {
			r = r.After(last)
		}
		return &r, nil, nil
	})
	if err != nil {
		t.Error(err)
	}
	return r
}

func TestDeploymentsAreKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{}), openStore(t, url, opts{})
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
		if _, ok, err := s.Deployment(t.Context(), "a"); ok || err != nil {
			t.Errorf("a record that was deleted: %v %v", ok, err)
		}
		if _, ok, err := s.Deployment(t.Context(), "a\x00\xff"); ok || err != nil {
			t.Errorf("a name that no record has: %v %v", ok, err)
		}
		if list, err := s.ObservationsOf(t.Context(), "a\x00\xff"); len(list) > 0 || err != nil {
			t.Errorf("a name that no server has: %v %v", list, err)
		}
		if r, ok, err := s.Deployment(t.Context(), "b"); !ok || err != nil || r.Model != "b" || r.Wanted.Version != "1" {
			t.Errorf("one record: %+v %v %v", r, ok, err)
		}
		again := apply(t, s, "a", "3") // its generations go on: what was seen of those before is of none of them
		if again.Generation <= 2 || again.Wanted.Generation != again.Generation || revision() != before+3 {
			t.Errorf("again: %+v, revision %d", again, revision())
		}
		if r := apply(t, other, "a", "4"); r.Generation != again.Generation+1 {
			t.Errorf("after it: %+v", r)
		}
	})
}

// Each of many changes at once, from two servers, sees the one before it: none is lost.
func TestDeploymentsChangeOneAfterAnother(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		stores := []*Store{openStore(t, url, opts{}), openStore(t, url, opts{})}
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
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		gone := openStore(t, url, opts{})
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
		if list, err := s.ObservationsOf(ctx, "a"); err != nil || len(list) != 2 || list[0].Instance != "one" || list[1].Instance != "two" {
			t.Errorf("of one model: %+v %v", list, err)
		}
		storetest.Close(t, gone.DB)
		if err := s.Unobserve(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		if got, want := instances(), []string{"a one failed"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.Read.QueryRow(`SELECT count(*) FROM weir_deployments_observed`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows after a sweep: %v", rows, err)
		}
	})
}

// Many servers take a part at once: as many have one as are wanted, and what a server that is gone has had is taken once.
func TestPartsAreTakenByLeases(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		const servers, replicas = 6, 2
		ctx := t.Context()
		var stores []*Store
		for range servers {
			stores = append(stores, openStore(t, url, opts{Lease: time.Hour}))
		}
		wanted := deployment.Spec{Model: "a", Version: "1", Placement: &deployment.Placement{Replicas: replicas}}
		change := func(spec deployment.Spec) {
			t.Helper()
			if err := stores[0].ChangeDeployment(ctx, "a", func(old *deployment.Record) (*deployment.Record, error) {
				r := deployment.Apply(old, spec, "id", "test", time.Now())
				return &r, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		change(wanted)
		take := func(generation int64) (has []int) {
			t.Helper()
			taken := make([]bool, servers)
			var all sync.WaitGroup
			for i, s := range stores {
				all.Go(func() {
					ok, err := s.TakePart(ctx, "a", generation)
					if err != nil {
						t.Error(err)
					}
					taken[i] = ok
				})
			}
			all.Wait()
			for i, ok := range taken {
				if ok {
					has = append(has, i)
				}
			}
			return has
		}
		if has := take(7); len(has) != 0 {
			t.Errorf("of another generation: %v", has)
		}
		has := take(1)
		if len(has) != replicas || !slices.Equal(take(1), has) {
			t.Fatalf("%v have a part, and then %v", has, take(1))
		}
		for _, i := range has {
			if err := stores[i].Announce(ctx, deployment.Server{Instance: "x", Labels: map[string]string{"region": "eu"}}); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Exec(t, stores[has[0]].DB, `UPDATE weir_owners SET expires = 1 WHERE id = '`+stores[has[0]].Owner()+`'`) // it is dead, or slow
		if list, err := stores[has[1]].Servers(ctx); err != nil || len(list) != 1 || !list[0].Own || list[0].Labels["region"] != "eu" {
			t.Errorf("%+v %v", list, err)
		}
		if ok, err := stores[has[0]].TakePart(ctx, "a", 1); !ok || err != nil { // no other server has taken it
			t.Errorf("%v %v", ok, err)
		}
		next := take(1)
		if len(next) != replicas && len(next) != replicas+1 { // the slow one may have asked before its part was taken
			t.Errorf("%v", next)
		}
		parts, err := stores[has[1]].Parts(ctx)
		if err != nil || len(parts) != replicas || parts[0].Number != 1 || parts[1].Number != 2 || slices.ContainsFunc(parts, func(p deployment.Part) bool { return p.Owner == stores[has[0]].Owner() }) {
			t.Errorf("%+v %v", parts, err)
		}
		if ok, err := stores[has[0]].TakePart(ctx, "a", 1); ok || err != nil {
			t.Errorf("the slow one takes a third part: %v %v", ok, err)
		}
		wanted.Placement = &deployment.Placement{Replicas: 1}
		change(wanted)
		if err := stores[has[1]].LeavePart(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if has := take(2); len(has) != 1 {
			t.Errorf("of one: %v", has)
		}
	})
}

// What somebody asks for and its entry in the audit log are one: neither is there without the other.
func TestADeploymentAndItsEntryAreOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		note := func(details string) error {
			return s.NoteDeployment(ctx, "a", func(old *deployment.Record, _ int64) (*deployment.Record, *audit.Change, error) {
				r := deployment.Apply(old, deployment.Spec{Model: "a", Version: details}, "id", "test", time.Now())
				return &r, &audit.Change{Time: time.Now(), Actor: "test", Action: "deployment.apply", Object: "a", Details: details}, nil
			})
		}
		state := func() string {
			t.Helper()
			list, err := s.Deployments(ctx)
			if err != nil {
				t.Fatal(err)
			}
			entries := 0
			for e, err := range s.log.Entries(ctx, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Action == "deployment.apply" {
					entries++
				}
			}
			version := ""
			if len(list) > 0 {
				version = list[0].Wanted.Version
			}
			return fmt.Sprint(version, " ", entries)
		}
		if err := note(`{}`); err != nil || state() != "{} 1" {
			t.Errorf("%v, %s", err, state())
		}
		if err := note(strings.Repeat("x", 1<<20)); err == nil || state() != "{} 1" { // the log takes no such entry
			t.Errorf("%v, %s", err, state())
		}
		if _, err := s.log.Verify(ctx); err != nil {
			t.Error(err)
		}
	})
}
