package store

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A record replaces the one of its id, and all come back in the order of their last change.
func TestRolloutsAreKept(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, Options{})
		ctx, start := t.Context(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		for i, id := range []string{"a", "b", "c", "a"} {
			if err := s.SaveRollout(ctx, id, start.Add(time.Duration(i)*time.Second), fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
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
		if err := s.SaveRollout(ctx, "bad\x00id", start, nil); err == nil {
			t.Error("an id that no database keeps was taken")
		}
	})
}
