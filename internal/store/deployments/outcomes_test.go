package deployments

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"

	"weir/router/rollout"
)

// Words about answers are counted once by the home of the answer, whichever server took them; what they replace is known.
func TestOutcomesAreKept(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{}), openStore(t, url, opts{})
		ctx, given := t.Context(), time.Now()
		var list []rollout.StoredAnswer
		for i := range 450 { // several statements
			list = append(list, rollout.StoredAnswer{Key: fmt.Sprintf("k%03d", i), Home: "r@a", Arm: rollout.Arm(i % 2), Step: 1, At: given})
		}
		if err := s.SaveAnswers(ctx, list); err != nil {
			t.Fatal(err)
		}
		tell := func(at *Store, key string, value float64) {
			t.Helper()
			if err := at.TellAnswers(ctx, []rollout.StoredSignal{{Key: key, Kind: rollout.Thumbs, Value: value}, {Key: "nobody", Kind: rollout.Label, Value: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		take := func() []rollout.UncountedOutcome {
			t.Helper()
			var got []rollout.UncountedOutcome
			err := s.CountOutcomes(ctx, "r@a", given, func(list []rollout.UncountedOutcome) (rollout.StoredRecord, error) {
				got = list
				return rollout.StoredRecord{State: rollout.Running, JSON: fmt.Appendf(nil, `{"counted":%g}`, list[0].Value)}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		tell(other, "k449", 0.25)
		tell(other, "k449", 0.25)
		if got := take(); len(got) != 1 || got[0].Arm != rollout.Candidate || got[0].Step != 1 || got[0].Kind != rollout.Thumbs || got[0].Value != 0.25 || got[0].Before != nil {
			t.Errorf("%+v", got)
		}
		tell(s, "k449", 0.25)
		if got := take(); len(got) != 0 {
			t.Errorf("told again: %+v", got)
		}
		tell(s, "k449", 1)
		if got := take(); len(got) != 1 || got[0].Value != 1 || got[0].Before == nil || *got[0].Before != 0.25 {
			t.Errorf("told otherwise: %+v", got)
		}
		if record, err := other.Rollout(ctx, "r@a"); err != nil || string(record) != `{"counted":1}` {
			t.Errorf("the record: %s %v", record, err)
		}
		tell(other, "k448", 1)
		failed := errors.New("there is no record")
		if err := s.CountOutcomes(ctx, "r@a", given, func([]rollout.UncountedOutcome) (rollout.StoredRecord, error) { return rollout.StoredRecord{}, failed }); !errors.Is(err, failed) {
			t.Errorf("a count without a record: %v", err)
		}
		if err := s.SaveAnswers(ctx, list); err != nil { // again, since a server does not know whether it has kept them
			t.Fatal(err)
		}
		if got := take(); len(got) != 1 || got[0].Key != "k448" || got[0].Before != nil {
			t.Errorf("an outcome is lost by a count that failed, or by answers that are kept again: %+v", got)
		}
		if told, ok, err := other.FindAnswer(ctx, "k449"); !ok || err != nil || told[rollout.Thumbs] != 1 || len(told) != 1 {
			t.Errorf("%v %v %v", told, ok, err)
		}
		if told, ok, err := other.FindAnswer(ctx, "k000"); !ok || err != nil || len(told) != 0 {
			t.Errorf("nothing was told of it: %v %v %v", told, ok, err)
		}
		if err := other.SaveAnswers(ctx, []rollout.StoredAnswer{{Key: "k449", Home: "r@a", Arm: rollout.Candidate, Step: 1, At: given.Add(time.Second)}}); err != nil {
			t.Fatal(err)
		}
		if told, ok, err := s.FindAnswer(ctx, "k449"); !ok || err != nil || len(told) != 0 {
			t.Errorf("another answer of the same id: %v %v %v", told, ok, err)
		}
		if err := other.SaveAnswers(ctx, []rollout.StoredAnswer{{Key: "k449", Home: "r@b", Step: 2, At: given}}); err != nil {
			t.Fatal(err)
		}
		tell(s, "k001", 0)
		if err := s.ForgetRollout(ctx, "r@a"); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.FindAnswer(ctx, "k001"); ok || err != nil || len(take()) != 0 {
			t.Errorf("forgotten: %v %v", ok, err)
		}
		if _, ok, err := s.FindAnswer(ctx, "k449"); !ok || err != nil {
			t.Errorf("of another home: %v %v", ok, err)
		}
		tell(s, "k449", 1)
		storetest.Exec(t, s.DB, `UPDATE weir_rollout_answers SET at = 1`)
		storetest.Exec(t, s.DB, `UPDATE weir_rollout_outcomes SET at = 1`)
		if err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"weir_rollout_answers", "weir_rollout_outcomes"} {
			if got := storetest.Texts(t, s.DB, `SELECT count(*) FROM `+table); got[0] != "0" {
				t.Errorf("%s has %s rows after its time", table, got[0])
			}
		}
	})
}
