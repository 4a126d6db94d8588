package outputlen

import "testing"

func TestMeansFollowTheAnswers(t *testing.T) {
	l := NewLengths()
	m := l.Means()
	if got, known := m.Of(1000); known || got != firstLength {
		t.Errorf("before any answer %v tokens are expected, want %d", got, firstLength)
	}
	for i := range 200 {
		l.Learn("a", 1000, 20+i%2*20)
	}
	m = l.Means()
	if got, known := m.Of(1000); !known || got < 28 || got > 32 {
		t.Errorf("after answers of 20 and 40 tokens %v are expected (known: %v)", got, known)
	}
	if got, _ := m.Of(10); got != 10 {
		t.Errorf("with a limit of 10 tokens %v are expected", got)
	}
}
