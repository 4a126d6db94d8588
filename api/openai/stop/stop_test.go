package stop

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// cutAt is the plain definition: the match that ends first, of those the
// longest.
func cutAt(text string, stops []string, include bool) (string, bool) {
	for end := 1; end <= len(text); end++ {
		start := -1
		for _, s := range stops {
			if strings.HasSuffix(text[:end], s) && (start < 0 || end-len(s) < start) {
				start = end - len(s)
			}
		}
		switch {
		case start >= 0 && include:
			return text[:end], true
		case start >= 0:
			return text[:start], true
		}
	}
	return text, false
}

// inPieces runs the matcher over text cut by next, and checks that what was
// given out early was never wrong.
func inPieces(t *testing.T, text string, stops []string, include bool, next func(rest int) int) (string, bool) {
	t.Helper()
	m := NewMatcher(NewSet(stops, include))
	want, _ := cutAt(text, stops, include)
	var out []byte
	for rest := text; rest != ""; {
		n := next(len(rest))
		var match *Pattern
		if out, match = m.Append(out, []byte(rest[:n])); match != nil {
			return string(out), true
		}
		if !strings.HasPrefix(want, string(out)) {
			t.Fatalf("gave out %q of %q with stops %q, which is not the beginning of %q", out, text, stops, want)
		}
		rest = rest[n:]
	}
	return string(m.Flush(out)), false
}

func TestStopDoesNotDependOnTheCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abé"[r.IntN(4)]
		}
		return string(b)
	}
	matches := 0
	for range 20000 {
		text := letters(r.IntN(30))
		var stops []string
		for range 1 + r.IntN(4) {
			stops = append(stops, letters(1+r.IntN(5)))
		}
		include := r.IntN(2) == 0
		want, wantMatch := cutAt(text, stops, include)
		got, match := inPieces(t, text, stops, include, func(rest int) int { return 1 + r.IntN(rest) })
		if got != want || match != wantMatch {
			t.Fatalf("%q with stops %q: got %q (%v), want %q (%v)", text, stops, got, match, want, wantMatch)
		}
		if match {
			matches++
		}
	}
	if matches < 5000 {
		t.Errorf("only %d of the cases had a match", matches)
	}
}

func TestStopHoldsBackNoMoreThanNeeded(t *testing.T) {
	m := NewMatcher(NewSet([]string{"abab", "b!"}, false))
	for _, step := range []struct{ in, out string }{
		{"x", "x"}, {"a", ""}, {"b", ""}, {"a", ""}, {"c", "abac"}, {"b", ""}, {"b", "b"}, {"a", "b"}, {"x", "ax"},
	} {
		out, match := m.Append(nil, []byte(step.in))
		if string(out) != step.out || match != nil {
			t.Errorf("after %q: gave out %q, want %q", step.in, out, step.out)
		}
	}
}

func FuzzStop(f *testing.F) {
	f.Add("hello END world", "END", "wor", byte(1))
	f.Add("aaaaab", "aab", "", byte(3))
	f.Add("\xff\xfe", "\xfe", "\xff\xff", byte(0))
	f.Fuzz(func(t *testing.T, text, a, b string, size byte) {
		if len(text) > 1<<12 || len(a) > 64 || len(b) > 64 {
			return
		}
		var stops []string
		for _, s := range []string{a, b} {
			if s != "" {
				stops = append(stops, s)
			}
		}
		include := size&1 == 1
		want, wantMatch := cutAt(text, stops, include)
		got, match := inPieces(t, text, stops, include, func(rest int) int { return min(rest, 1+int(size>>1)) })
		if got != want || match != wantMatch {
			t.Fatalf("%q with stops %q: got %q (%v), want %q (%v)", text, stops, got, match, want, wantMatch)
		}
	})
}

func BenchmarkStop(b *testing.B) {
	m := NewMatcher(NewSet([]string{"\n\nUser:", "</s>", "END"}, false))
	text := []byte(" some token")
	out := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		out, _ = m.Append(out[:0], text)
	}
}
