package versions

import (
	"testing"
	"testing/synctest"
	"time"
)

// rekeyed is a spec whose record in the configuration is another one, under the same label.
func rekeyed(s Spec) Spec {
	s.Key += " changed"
	return s
}

// What an operator has moved stays, by the label: also where the record of that version changes, or that of the configuration's choice.
func TestAMoveOutlivesItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keepLast := range []bool{true, false} {
			b := newBench(t, Options{})
			b.manager.opts.KeepLast = keepLast
			one, two := b.spec("a", "1", 10, Startup), b.spec("a", "2", 10, Never)
			if err := b.put(one, two); err != nil {
				t.Fatal(err)
			}
			if _, err := b.manager.Move(t.Context(), "a", "2"); err != nil {
				t.Fatal(err)
			}
			for i, specs := range [][]Spec{{one, rekeyed(two)}, {rekeyed(one), rekeyed(two)}, {rekeyed(one), two}, {one, two}} {
				if err := b.put(specs...); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if b.asked("a", "2"); time.Since(begun) != 0 {
					t.Errorf("list %d: the version that answers was not loaded before", i)
				}
				if st, _, err := b.manager.Find("a", ""); err != nil || !st.Answers {
					t.Errorf("list %d: %+v, %v", i, st, err)
				}
				if st, _, err := b.manager.Find("a", "2"); err != nil || !st.Answers {
					t.Errorf("list %d: the version that answers is not the one of its label: %+v, %v", i, st, err)
				}
			}
			if err := b.put(b.spec("a", "3", 10, Startup), one, two); err != nil {
				t.Fatal(err)
			}
			b.asked("a", "3") // the configuration chooses another one
			b.manager.Close()
		}
	})
}

// No list moves a name that others decide about, whatever it has in front, and one that lacks the version that answers does not either.
func TestOthersDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keepLast := range []bool{true, false} {
			decided := true
			b := newBench(t, Options{Decided: func(name string) bool { return name == "a" && decided }})
			b.manager.opts.KeepLast = keepLast
			one, two, three := b.spec("a", "1", 10, Startup), b.spec("a", "2", 10, Startup), b.spec("a", "3", 10, Startup)
			if err := b.put(one, two, three); err != nil {
				t.Fatal(err)
			}
			if _, err := b.manager.Move(t.Context(), "a", "2"); err != nil {
				t.Fatal(err)
			}
			for _, specs := range [][]Spec{{three, two, one}, {one, rekeyed(two)}, {two, one}, {three, one}, {one}, {one, two}} {
				if err := b.put(specs...); err != nil {
					t.Fatal(err)
				}
				b.asked("a", "2")
			}
			decided = false
			if err := b.put(three, two); err != nil {
				t.Fatal(err)
			}
			b.asked("a", "3")
			b.manager.Close()
		}
	})
}

// Who goes back to a version whose record has changed gets it as it was.
func TestRollbackToTheRecordBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.manager.Close()
		one := b.spec("a", "1", 10, Startup)
		for _, s := range []Spec{one, rekeyed(one)} {
			if err := b.put(s); err != nil {
				t.Fatal(err)
			}
		}
		_, changed, _ := b.manager.Answer("a")
		if _, _, err := b.manager.Rollback(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, before, _ := b.manager.Answer("a"); before == nil || before == changed {
			t.Error("the version that answers is the changed one")
		}
	})
}
