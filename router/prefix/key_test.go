package prefix

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func keysOf(r Root, parts ...string) []Key {
	c := r.Begin(nil)
	for i := 0; i+1 < len(parts); i += 2 {
		c.Part(parts[i], parts[i+1])
	}
	return c.Keys()
}

func TestKeysGrowWithTheConversation(t *testing.T) {
	r := NewRoot("model", "tenant")
	system := strings.Repeat("You are a patient assistant. ", 40)
	first := keysOf(r, "system", system, "user", strings.Repeat("a question ", 50))
	second := keysOf(r, "system", system, "user", strings.Repeat("a question ", 50), "assistant", strings.Repeat("an answer ", 90))
	other := keysOf(r, "system", system, "user", strings.Repeat("another one ", 90))
	if len(first) < 5 || !slices.Equal(second[:len(first)], first) {
		t.Errorf("a conversation that goes on does not begin with its %d keys", len(first))
	}
	if n := len(system) / PieceBytes; !slices.Equal(other[:n], first[:n]) || other[n] == first[n] {
		t.Errorf("conversations with a common system prompt of %d pieces do not part after them", n)
	}
	for _, root := range []Root{NewRoot("model", "other"), NewRoot("other", "tenant"), NewRoot("modelt", "enant")} {
		if keysOf(root, "system", system)[0] == first[0] {
			t.Error("keys of different roots meet")
		}
	}
}

func TestKeysAreThoseOfTheWholeText(t *testing.T) {
	r := NewRoot("m", "d")
	text := strings.Repeat("0123456789", 1000)
	whole := r.Begin(nil)
	whole.Open("prompt", text)
	longer := r.Begin(nil)
	longer.Open("prompt", text+"and on")
	if n := len(whole.Keys()); n != len("prompt\x1f"+text)/PieceBytes || !slices.Equal(longer.Keys()[:n], whole.Keys()) {
		t.Errorf("%d keys, and a longer prompt begins with others", n)
	}
	if keysOf(r, "user", "a")[:0] == nil && len(keysOf(r, "user", strings.Repeat("x", 300))) != 1 {
		t.Error("300 bytes are not one whole piece")
	}
	huge := r.Begin(make([]Key, 3))
	huge.Part("user", strings.Repeat("y", 2*MaxDepth*PieceBytes))
	huge.Part("user", "more")
	if got := len(huge.Keys()); got != 3+MaxDepth {
		t.Errorf("%d keys of a huge text, want 3 that were there and %d", got, MaxDepth)
	}
}

// Keys depend on the text alone, not on how it is cut, and different texts have different ones.
func FuzzChain(f *testing.F) {
	f.Add("system", "text", "more", uint16(3))
	f.Fuzz(func(t *testing.T, kind, text, more string, n uint16) {
		r := NewRoot(kind, text)
		long := strings.Repeat(text, int(n%64)+1)
		a := keysOf(r, kind, long)
		b := keysOf(r, kind, long, kind, more)
		if len(a) > MaxDepth || !slices.Equal(b[:len(a)], a) {
			t.Fatalf("%d keys, then %d that begin otherwise", len(a), len(b))
		}
		c := keysOf(r, kind, long+more)
		same := len(a) * PieceBytes
		joined, first := kind+"\x1f"+long+more+"\x1e", kind+"\x1f"+long+"\x1e"
		for i := range min(len(a), len(c)) {
			end := (i + 1) * PieceBytes
			if equal := joined[:end] == first[:end]; equal != (a[i] == c[i]) {
				t.Fatalf("piece %d of %d: equal texts %t, equal keys %t", i, same, equal, a[i] == c[i])
			}
		}
	})
}

func BenchmarkChain(b *testing.B) {
	text := string(bytes.Repeat([]byte("abcdefgh"), 4096))
	r := NewRoot("model", "domain")
	var keys []Key
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		c := r.Begin(keys[:0])
		c.Part("user", text)
		keys = c.Keys()
	}
}
