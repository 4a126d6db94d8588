package grammar

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/regex"
)

func mustParse(t testing.TB, pattern string) *regex.Regex {
	t.Helper()
	r, err := regex.Parse(pattern, regex.RE2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// follow feeds a text with a mask before each byte; what it took is measured in places, rows and lexer states that were worked out.
func follow(t *testing.T, m *Matcher, text string) (int, error) {
	t.Helper()
	mask := make([]uint64, m.e.v.Words())
	for i := range len(text) {
		if _, err := m.Mask(mask); err != nil {
			return m.e.table.size(), err
		}
		if err := m.Accept(int32(text[i])); err != nil {
			return m.e.table.size(), err
		}
	}
	_, err := m.Mask(mask)
	return m.e.table.size(), err
}

// TestHostileGrammarsStaySmall: what grammars of this kind take is bounded by the answer's length, or they are refused as an ErrLimit.
func TestHostileGrammarsStaySmall(t *testing.T) {
	type symbols = []Symbol
	v := bytesVocabulary([]string{"aaaa", "bbbb", "ab"})
	long := strings.Repeat("a", 300)
	for name, c := range map[string]struct {
		build func(b *Builder) Symbol
		text  string
		most  int // of places, rows and states
	}{
		"a billion": {func(b *Builder) Symbol { return b.Regex(mustParse(t, `a{1000000000}`)) }, long, 1500},
		"counts in counts": {func(b *Builder) Symbol {
			return b.Repeat(b.Repeat(b.Literal("a"), 0, 1<<28), 0, 1<<28)
		}, long[:100], 4000},
		"may be empty, often": {func(b *Builder) Symbol {
			a := b.Repeat(b.Literal("a"), 0, 1)
			return b.Define("s", symbols{b.Repeat(a, 1000, 1000), b.Repeat(a, 1000, 1000)})
		}, long, 4000},
		"pairs of itself": {func(b *Builder) Symbol {
			s := b.Rule("s")
			b.Add(s, symbols{s, s}, symbols{b.Literal("a")}, symbols{})
			return s
		}, long[:100], 4000},
		"right recursion": {func(b *Builder) Symbol {
			s := b.Rule("s")
			b.Add(s, symbols{b.Literal("a"), s}, symbols{})
			return s
		}, long, 20},
		"left recursion": {func(b *Builder) Symbol {
			s := b.Rule("s")
			b.Add(s, symbols{s, b.Literal("a")}, symbols{})
			return s
		}, long, 20},
		"a list in a list": {func(b *Builder) Symbol {
			item, list := b.Rule("item"), b.Rule("list")
			b.Add(item, symbols{b.Literal("a")}, symbols{b.Literal("["), list, b.Literal("]")})
			b.Add(list, symbols{item}, symbols{item, b.Literal(","), list})
			return list
		}, strings.Repeat("a,", 200) + strings.Repeat("[", 200) + "a", 1500},
		"the twentieth before the end": {func(b *Builder) Symbol { return b.Regex(mustParse(t, `[ab]*a[ab]{20}`)) },
			strings.Repeat("aababb", 50), 4000},
		"a circle of rules": {func(b *Builder) Symbol {
			x, y := b.Rule("x"), b.Rule("y")
			b.Add(x, symbols{y}, symbols{b.Literal("a")})
			b.Add(y, symbols{x}, symbols{b.Literal("b")})
			return b.Repeat(x, 0, -1)
		}, long, 50},
		"a long chain of rules": {func(b *Builder) Symbol {
			s := b.Literal("a")
			for i := range 15_000 {
				s = b.Define(fmt.Sprint(i), symbols{s})
			}
			return s
		}, "a", 20},
		"ten thousand literals": {func(b *Builder) Symbol {
			s := b.Rule("s")
			for i := range 10_000 {
				b.Add(s, symbols{b.Literal(fmt.Sprintf("a%d", i))})
			}
			return s
		}, "a1", 60},
		"a hundred thousand words": {func(b *Builder) Symbol {
			words := make([]string, 100_000)
			for i := range words {
				words[i] = fmt.Sprintf("a%d", i)
			}
			return b.Regex(regex.Words(words...))
		}, "a1", 60},
	} {
		b := NewBuilder(Limits{})
		g, err := b.Compile(c.build(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, err := g.Matcher(v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		took, err := follow(t, m, c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took > c.most {
			t.Errorf("%s: %d places, rows and states, want at most %d", name, took, c.most)
		}
	}
}

func TestLimitsAreNamed(t *testing.T) {
	v := bytesVocabulary([]string{"abcxc"})
	for name, c := range map[string]struct {
		limits Limits
		build  func(b *Builder) Symbol
		text   string
	}{
		"symbols": {Limits{}, func(b *Builder) Symbol {
			s := b.Rule("s")
			b.Add(s, make([]Symbol, 1_000_000))
			return s
		}, ""},
		"alternatives at one place": {Limits{}, func(b *Builder) Symbol {
			s, a := b.Rule("s"), b.Literal("a")
			for range 30_000 {
				b.Add(s, []Symbol{a, a})
			}
			return s
		}, ""},
		"states": {Limits{States: 100}, func(b *Builder) Symbol { return b.Regex(mustParse(t, `a{1000}`)) }, strings.Repeat("a", 200)},
		"work": {Limits{Work: 1}, func(b *Builder) Symbol {
			return b.Define("s", []Symbol{b.Literal("a"), b.Literal("b"), b.Literal("c"), b.Regex(mustParse(t, `[x-z]`)), b.Literal("c")})
		}, "abcx"},
	} {
		b := NewBuilder(c.limits)
		g, err := b.Compile(c.build(b))
		if err == nil {
			var m *Matcher
			if m, err = g.Matcher(v); err == nil {
				_, err = follow(t, m, c.text)
			}
		}
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v, want an ErrLimit", name, err)
		}
	}
}

// doubled is a rule whose rows grow with every byte.
func doubled(b *Builder) Symbol {
	s := b.Repeat(b.Literal("a"), 0, 1)
	for i := range 59 {
		s = b.Define(fmt.Sprint(i), []Symbol{s, s})
	}
	return s
}

// TestAmbiguityIsBounded: what one token takes is counted by the items that come up, so that no answer holds up a step of the others for
// long, and the memory of all of its places is bounded, too.
func TestAmbiguityIsBounded(t *testing.T) {
	reference.Slow(t)
	v := bytesVocabulary([]string{strings.Repeat("a", 16)})
	for word, limits := range map[string]Limits{"ways": {}, "bytes": {Bytes: 1 << 20}, "units": {Work: 100_000}} {
		b := NewBuilder(limits)
		g, err := b.Compile(doubled(b))
		if err != nil {
			t.Fatal(err)
		}
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		spent := int64(0)
		mask := make([]uint64, v.Words())
		for range 200 {
			before := m.Taken()
			if _, err = m.Mask(mask); err == nil {
				err = m.Accept('a')
			}
			if spent = max(spent, m.Taken()-before); err != nil {
				break
			}
		}
		most := int64(2*b.limits.Work + maxTries*b.limits.Items) // of the mask and of its token
		if !errors.Is(err, ErrLimit) || spent > most || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v after %d units for one token, want an ErrLimit and at most %d", word, err, spent, most)
		}
		if kept := m.e.table.memory.kept(); word == "bytes" && kept > 2<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	}
}

// TestFullEnginesGiveWay: what one grammar keeps is bounded; a new answer starts from nothing, an old one goes on.
func TestFullEnginesGiveWay(t *testing.T) {
	b := NewBuilder(Limits{States: 200})
	g, err := b.Compile(b.Regex(mustParse(t, `a{1000}`)))
	if err != nil {
		t.Fatal(err)
	}
	v := bytesVocabulary(nil)
	old, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := follow(t, old, strings.Repeat("a", 60)); err != nil {
		t.Fatal(err)
	}
	fresh, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	if fresh.e == old.e {
		t.Error("a new answer begins in an engine that is half full")
	}
	if err := old.Accept('a'); err != nil {
		t.Error(err)
	}
}

// TestMatchersSideBySide: matchers that share a grammar, whose caches are filled as they go, give the masks of one that is alone.
func TestMatchersSideBySide(t *testing.T) {
	build := func() *Grammar {
		b := NewBuilder(Limits{})
		g, err := b.Compile(arithmetic(b))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	v := bytesVocabulary([]string{"1+", "12", "))", ")*(", "((", "+(1", "99*"})
	answers := []string{"1+2*(3+4)", "((1))*7", "12+(34*56)+7", "(1+(2+(3+(4))))", "1*2*3*4*5*6", "999+(99*(9))"}
	seed := maphash.MakeSeed()
	masks := func(g *Grammar, text string) []uint64 {
		m, err := g.Matcher(v)
		if err != nil {
			t.Error(err)
			return nil
		}
		var sums []uint64
		mask := make([]uint64, v.Words())
		for i := range len(text) {
			if _, err := m.Mask(mask); err != nil {
				t.Error(err)
			}
			if err := m.Accept(int32(text[i])); err != nil {
				t.Error(err)
			}
			sums = append(sums, maphash.Comparable(seed, fmt.Sprint(mask)))
		}
		return sums
	}
	shared := build()
	var group sync.WaitGroup
	for i := range 4 * len(answers) {
		text := answers[i%len(answers)]
		group.Go(func() {
			if got, want := masks(shared, text), masks(build(), text); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: the masks beside others differ", text)
			}
		})
	}
	group.Wait()
}

// FuzzCompile builds a grammar of bytes and follows what they say.
func FuzzCompile(f *testing.F) {
	f.Add([]byte("\x00a\x01b\x02\x10\x20\x30"), "ab")
	f.Add([]byte("\x03\x00\x05\x04\x01\x02\x06(a|b)*c"), "abac")
	v := bytesVocabulary([]string{"ab", "abc", "aa"})
	f.Fuzz(func(t *testing.T, program []byte, answer string) {
		b := NewBuilder(Limits{Symbols: 2000, Items: 500, States: 1000, Work: 10_000})
		start := buildRandom(b, program)
		g, err := b.Compile(start)
		if err != nil {
			return
		}
		m, err := g.Matcher(v)
		if err != nil {
			return
		}
		mask := make([]uint64, v.Words())
		for i := range min(len(answer), 20) {
			end, err := m.Mask(mask)
			if err != nil {
				return
			}
			bits := uint64(0)
			for _, w := range mask {
				bits |= w
			}
			if !end && bits == 0 {
				t.Fatalf("nothing may come after %q, and the answer may not end", answer[:i])
			}
			id := int32(answer[i])
			if has(mask, int(id)) != m.Allows(id) {
				t.Fatalf("%q after %q: Mask and Allows differ", answer[i], answer[:i])
			}
			if m.Accept(id) != nil {
				return
			}
		}
	})
}

// buildRandom reads bytes as instructions; each adds a symbol that later ones may use.
func buildRandom(b *Builder, program []byte) Symbol {
	rules := []Symbol{b.Rule("first"), b.Rule("second")}
	symbols := []Symbol{rules[0], rules[1], b.Literal("a")}
	pick := func(i int) Symbol {
		if i >= len(program) {
			return symbols[len(symbols)-1]
		}
		return symbols[int(program[i])%len(symbols)]
	}
	for i := 0; i < len(program) && i < 200; i++ {
		switch program[i] % 7 {
		case 0:
			symbols = append(symbols, b.Literal(string(program[i+1:min(i+3, len(program))])))
		case 1:
			b.Add(rules[0], []Symbol{pick(i + 1), pick(i + 2)})
		case 2:
			b.Add(rules[1], []Symbol{pick(i + 1)}, []Symbol{pick(i + 2), pick(i + 3)})
		case 3:
			symbols = append(symbols, b.Repeat(pick(i+1), int(program[i]/7)%4, int(program[i]/7)%4+2))
		case 4:
			symbols = append(symbols, b.Repeat(pick(i+1), int(program[i]/7)%3, -1))
		case 5:
			b.Add(rules[int(program[i]/7)%2], []Symbol{})
		case 6:
			if r, err := regex.Parse(string(program[i+1:min(i+12, len(program))]), regex.RE2); err == nil {
				symbols = append(symbols, b.Regex(regex.And(r, regex.Without("aab"))))
			}
		}
	}
	return rules[0]
}
