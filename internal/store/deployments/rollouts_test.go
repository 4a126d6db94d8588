package deployments

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"weir/internal/store/storetest"

	"weir/router/deployment"
	"weir/router/rollout"
)

// A record replaces the one of its id, and all come back in the order of their last change.
func TestRolloutsAreKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		ctx, start := t.Context(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		for i, id := range []string{"a", "b", "c", "a"} {
			if err := s.SaveRollout(ctx, id, start.Add(time.Duration(i)*time.Second), rollout.StoredRecord{State: rollout.Running, JSON: fmt.Appendf(nil, `{"n":%d}`, i)}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.Rollouts(ctx)
		var got []string
		for _, r := range list {
			got = append(got, string(r))
		}
		if want := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q %v, want %q", got, err, want)
		}
		if err := s.SaveRollout(ctx, "bad\x00id", start, rollout.StoredRecord{}); err == nil {
			t.Error("an id that no database keeps was taken")
		}
	})
}

// A rollout is the process's that has it: another one neither writes its record nor forgets its answers nor takes it, until that one is dead. Who
// listens where that one did knows that it is.
func TestARolloutHasOneProcess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		ctx, at := t.Context(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		a, b := openStore(t, url, opts{}), openStore(t, url, opts{})
		record := func(state rollout.State, text string) rollout.StoredRecord {
			return rollout.StoredRecord{State: state, JSON: []byte(text)}
		}
		save := func(s *Store, want error, r rollout.StoredRecord) {
			t.Helper()
			if err := s.SaveRollout(ctx, "r", at, r); !errors.Is(err, want) {
				t.Fatalf("%s: %v, want %v", r.JSON, err, want)
			}
			if kept, err := s.Rollout(ctx, "r"); err != nil || (string(kept) == string(r.JSON)) != (want == nil) {
				t.Fatalf("%s is kept, %v", kept, err)
			}
		}
		take := func(s *Store, instance string, want bool) {
			t.Helper()
			if taken, err := s.TakeRollout(ctx, "r", instance); taken != want || err != nil {
				t.Fatalf("taken %v, %v, want %v", taken, err, want)
			}
		}
		if err := a.Announce(ctx, deployment.Server{Instance: "a:8000"}); err != nil {
			t.Fatal(err)
		}
		take(b, "b:8000", false) // there is none
		save(a, nil, record(rollout.Running, `1`))
		save(a, nil, record(rollout.Running, `2`))
		save(b, rollout.ErrElsewhere, record(rollout.Running, `3`))
		take(b, "b:8000", false)
		take(a, "a:8000", true)
		if err := a.SaveAnswers(ctx, []rollout.StoredAnswer{{Key: "k", Home: "r", At: at}}); err != nil {
			t.Fatal(err)
		}
		if err := b.ForgetRollout(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		if _, known, err := b.FindAnswer(ctx, "k"); !known || err != nil {
			t.Fatalf("the answers of a rollout that another process has: %v, %v", known, err)
		}
		c := openStore(t, url, opts{})
		for _, s := range []*Store{b, c} { // b was killed, too
			if err := s.Announce(ctx, deployment.Server{Instance: "a:8000"}); err != nil {
				t.Fatal(err)
			}
		}
		take(c, "a:8000", true) // it listens where a and b did
		take(b, "a:8000", true)
		save(b, nil, record(rollout.Running, `4`))
		save(a, rollout.ErrElsewhere, record(rollout.Promoted, `5`))
		storetest.Exec(t, b.DB, `UPDATE weir_owners SET expires = 0 WHERE id = '`+b.Owner()+`'`)
		take(a, "c:8000", true)
		save(a, nil, record(rollout.Promoted, `6`))
		save(b, rollout.ErrElsewhere, record(rollout.Running, `7`))
		save(b, nil, record(rollout.Replaced, `8`)) // by an operator
	})
}
