package inference

import "testing"

// A life has its turns in order, what does not change is no turn, and of a long one the beginning and the end are remembered.
func TestLife(t *testing.T) {
	var l Life
	for i := range 1000 {
		phase := PhaseDecode
		if i%2 == 0 {
			phase = PhasePaused
		}
		for range 3 {
			l.Note(Moment{At: int64(i), Phase: phase})
		}
		lived := l.Lived()
		if n := len(lived.Moments); n+lived.Left != i+1 || n > len(l.head)+maxMoments {
			t.Fatalf("after %d turns %d are remembered and %d forgotten", i+1, n, lived.Left)
		}
	}
	lived := l.Lived()
	for i, m := range lived.Moments {
		want := int64(i)
		if i >= lived.Gap {
			want += int64(lived.Left)
		}
		if m.At != want {
			t.Errorf("moment %d is that of %d, want %d", i, m.At, want)
		}
	}
	if first, last := lived.Moments[0].At, lived.Moments[len(lived.Moments)-1].At; first != 0 || last != 999 {
		t.Errorf("the life is from %d to %d", first, last)
	}
}

// The copy is the reader's own.
func TestLivedIsACopy(t *testing.T) {
	var l Life
	l.Note(Moment{Phase: PhaseWaiting})
	before := l.Lived()
	l.Note(Moment{Phase: PhaseDecode})
	if len(before.Moments) != 1 || len(l.Lived().Moments) != 2 {
		t.Errorf("%d and %d moments", len(before.Moments), len(l.Lived().Moments))
	}
}
