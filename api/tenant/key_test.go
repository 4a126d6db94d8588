package tenant

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func testPepper(t testing.TB, fill byte) Pepper {
	t.Helper()
	p, err := NewPepper([]byte(strings.Repeat(string(rune(fill)), MinPepperBytes)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIssuedKeyOpensUnderItsPepperOnly(t *testing.T) {
	p, other := testPepper(t, 'a'), testPepper(t, 'b')
	seen := make(map[string]bool)
	for range 200 {
		k := p.Issue()
		id, h, err := p.Open(k.Text)
		if err != nil || id != k.ID || !h.Equal(k.Hash) || !IsKeyID(id) {
			t.Fatalf("%s opens as %s, %v", k.Text, id, err)
		}
		if _, _, err := other.Open(k.Text); !errors.Is(err, ErrKeyForged) {
			t.Fatalf("another pepper opens %s: %v", k.Text, err)
		}
		if seen[k.ID] || len(k.Text) != 52 || strings.Trim(k.Text[5:15], idAlphabet) != "" {
			t.Fatalf("bad key %s", k.Text)
		}
		seen[k.ID] = true
	}
}

// A key is refused whichever of its characters is another one, also where the
// forger knows the checksum.
func TestChangedKeysAreRefused(t *testing.T) {
	p := testPepper(t, 'a')
	k := p.Issue()
	for i := range k.Text {
		b := []byte(k.Text)
		b[i] = nextOf(b[i])
		if _, _, err := p.Open(string(b)); err == nil {
			t.Errorf("%s opens as %s", b, k.Text)
		}
		body := string(b[:len(b)-checksumChars])
		forged := body + checksum(body)
		if _, _, err := p.Open(forged); err == nil && forged != k.Text {
			t.Errorf("forged %s opens as %s", forged, k.Text)
		}
	}
	for _, text := range []string{
		"", "weir_", k.Text + "0", k.Text[:len(k.Text)-1], " " + k.Text, strings.ToUpper(k.Text), strings.Repeat("a", 1<<20),
	} {
		if _, _, err := p.Open(text); !errors.Is(err, ErrKeyFormat) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

func nextOf(b byte) byte {
	if b == 'k' {
		return 'm'
	}
	return 'k'
}

func TestShortPepperIsRefused(t *testing.T) {
	if _, err := NewPepper(make([]byte, MinPepperBytes-1)); err == nil {
		t.Error("a pepper of 31 bytes is taken")
	}
}

func TestScopes(t *testing.T) {
	s, err := ParseScope("metrics, inference")
	if err != nil || s != ScopeInference|ScopeMetrics || s.String() != "inference,metrics" {
		t.Errorf("%v %v", s, err)
	}
	if s.Has(ScopeAdmin) || !s.Has(ScopeMetrics) || s.Has(ScopeAdmin|ScopeMetrics) {
		t.Error("Has is wrong")
	}
	for _, text := range []string{"", "root", "inference,"} {
		if _, err := ParseScope(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestKeyLives(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		key  Key
		live bool
	}{
		{Key{}, true},
		{Key{Expires: now.Add(time.Millisecond)}, true},
		{Key{Expires: now}, false},
		{Key{Revoked: now.Add(time.Hour)}, false},
	} {
		if c.key.Live(now) != c.live {
			t.Errorf("%+v: live is %v", c.key, !c.live)
		}
	}
}

func FuzzOpen(f *testing.F) {
	p := testPepper(f, 'a')
	signed := KeyPrefix + "0123456789_" + strings.Repeat("Ab0", secretChars/3) // the same in every process that fuzzes
	genuine := signed + tag(p.hash(signed))
	genuine += checksum(genuine)
	f.Add(genuine)
	f.Add("")
	f.Add("weir_0000000000_000000000000000000000000000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		id, _, err := p.Open(text)
		if err == nil && text != genuine {
			t.Fatalf("%q was never issued and opens as %s", text, id)
		}
		if (err == nil || errors.Is(err, ErrKeyForged)) != LooksLikeKey(text) {
			t.Fatalf("%q: %v, LooksLikeKey %v", text, err, LooksLikeKey(text))
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	p := testPepper(b, 'a')
	text := p.Issue().Text
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.Open(text); err != nil {
			b.Fatal(err)
		}
	}
}
