package grammar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/regex"
)

// longestFirst is a tokenizer: the longest token first, from left to right.
func longestFirst(texts []string) func(dst []int32, text string) []int32 {
	return func(dst []int32, text string) []int32 {
		for text != "" {
			best := -1
			for id, t := range texts {
				if strings.HasPrefix(text, t) && (best < 0 || len(t) > len(texts[best])) {
					best = id
				}
			}
			dst, text = append(dst, int32(best)), text[len(texts[best]):]
		}
		return dst
	}
}

// randomText walks a matcher byte by byte (the first four tokens are a, b, c and d) until the answer may end, up to a length.
func randomText(m *Matcher, r *rand.Rand) (string, bool) {
	m = m.Fork()
	var text []byte
	for range 30 {
		if p := m.place(); p.end && (len(p.parts) == 0 || r.IntN(3) == 0) {
			return string(text), true
		}
		id := int32(r.IntN(3))
		for range 3 {
			if m.Accept(id) == nil {
				text = append(text, "abc"[id])
				break
			}
			id = (id + 1) % 3
		}
	}
	return string(text), m.place().end
}

// TestForcedTokensAreTheTokenizersOwn: what is forced after the tokens of a text is what the tokenizer goes on with, and any tokenisation of
// a text of the grammar is taken.
func TestForcedTokensAreTheTokenizersOwn(t *testing.T) {
	reference.Slow(t)
	grammars, forced := reference.Repeats(100, 150, 400), 0
	for seed := range grammars {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		b := NewBuilder(Limits{})
		_, start := randomNaive(r, b)
		start = b.Define("whole", []Symbol{b.Literal("abcab"), start, b.Literal("ccba")})
		g, err := b.Compile(start)
		if err != nil {
			continue
		}
		v, texts := randomVocabulary(r)
		v.SetEncoder(longestFirst(texts[:len(texts)-1]))
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			text, ok := randomText(m, r)
			if !ok {
				continue
			}
			checkForced(t, seed, m.Fork(), v.encode(nil, text), &forced)
			checkAnyTokens(t, seed, m.Fork(), text, texts, r)
		}
	}
	if forced < grammars {
		t.Errorf("only %d tokens were forced", forced)
	}
}

func checkForced(t *testing.T, seed int, m *Matcher, ids []int32, forced *int) {
	t.Helper()
	for i, id := range ids {
		f := m.Forced(nil)
		if !slices.Equal(f, ids[i:min(i+len(f), len(ids))]) {
			t.Fatalf("seed %d: %v is forced after %v, the tokenizer goes on with %v", seed, f, ids[:i], ids[i:])
		}
		*forced += len(f)
		if err := m.Accept(id); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if !m.place().end {
		t.Fatalf("seed %d: the answer is complete and may not end", seed)
	}
}

func checkAnyTokens(t *testing.T, seed int, m *Matcher, text string, texts []string, r *rand.Rand) {
	t.Helper()
	whole := text
	for text != "" {
		id := r.IntN(len(texts) - 1)
		if !strings.HasPrefix(text, texts[id]) {
			continue
		}
		if err := m.Accept(int32(id)); err != nil {
			t.Fatalf("seed %d, %q: %v", seed, whole, err)
		}
		text = text[len(texts[id]):]
	}
	if !m.place().end {
		t.Fatalf("seed %d: %q is complete and may not end", seed, whole)
	}
}

func TestForcedTextIsTheOnlyOne(t *testing.T) {
	b := NewBuilder(Limits{})
	start := b.Define("answer", []Symbol{b.Literal(`{"name": "`), b.Regex(regex.Words("Ada", "Adele")), b.Literal(`"}`)})
	texts := []string{`{"`, `name`, `":`, ` "`, `A`, `Ad`, `ele`, `a`, `"}`, `"`, `}`, `{`, `":x`}
	var pieces [][]byte
	for _, x := range texts {
		pieces = append(pieces, []byte(x))
	}
	v := NewVocabulary(pieces, nil)
	m := mustMatcher(t, b, start, v)
	if got := m.Forced(nil); len(got) != 0 {
		t.Errorf("%v is forced without an encoder", got)
	}
	v.SetEncoder(longestFirst(texts))
	for _, step := range []struct {
		forced []int32
		then   int32
	}{{[]int32{0, 1, 2, 3, 5}, 0}, {[]int32{1, 2, 3, 5}, 1}, {[]int32{2, 3, 5}, 2}, {[]int32{3, 5}, 3}, {[]int32{5}, 5}, {nil, 7}, {[]int32{8}, 8}, {nil, none}} {
		if got := m.Forced(nil); !slices.Equal(got, step.forced) {
			t.Errorf("after %v: %v is forced, want %v", m.ids, got, step.forced)
		}
		if step.then != none {
			if err := m.Accept(step.then); err != nil {
				t.Fatal(err)
			}
		}
	}
}
