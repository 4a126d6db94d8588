package grammar

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/regex"
)

// naive is a grammar as its definition reads, for small texts over the letters a, b and c; X stands for the control token.
type naive struct {
	patterns []string // terminals 0 to len(patterns)-1; a pattern of X alone is the control token
	matchers []*regexp.Regexp
	rules    [][][]int // rule i is symbol len(patterns)+i
	repeats  map[int][3]int
	memo     map[string]bool
}

const naiveLetters = "abc"

// matches reports whether a terminal matches a text.
func (n *naive) matches(term int, text string) bool { return n.matchers[term].MatchString(text) }

// begins reports whether a terminal matches a text that begins with one; no pattern here needs more than three further letters.
func (n *naive) begins(term int, text string) bool {
	key := fmt.Sprint(term, ".", text)
	if known, ok := n.memo[key]; ok {
		return known
	}
	tails := []string{""}
	found := false
	for i := 0; i < len(tails) && !found; i++ {
		found = n.matches(term, text+tails[i])
		if len(tails[i]) < 3 {
			for _, c := range naiveLetters + "X" {
				tails = append(tails, tails[i]+string(c))
			}
		}
	}
	n.memo[key] = found
	return found
}

// table says, for a text, which symbols match text[i:j], and which match some text that begins with text[i:].
type table struct {
	span map[[3]int]bool
	head map[[2]int]bool
}

func (n *naive) read(text string) table {
	t := table{map[[3]int]bool{}, map[[2]int]bool{}}
	for s := range n.patterns {
		for i := 0; i <= len(text); i++ {
			t.head[[2]int{s, i}] = n.begins(s, text[i:])
			for j := i; j <= len(text); j++ {
				t.span[[3]int{s, i, j}] = n.matches(s, text[i:j])
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for r, alternatives := range n.rules {
			s := len(n.patterns) + r
			for i := 0; i <= len(text); i++ {
				for _, a := range alternatives {
					ends, head := n.sequence(t, a, i, len(text))
					if head && !t.head[[2]int{s, i}] {
						t.head[[2]int{s, i}], changed = true, true
					}
					for j := range ends {
						if !t.span[[3]int{s, i, j}] {
							t.span[[3]int{s, i, j}], changed = true, true
						}
					}
				}
				if rep, ok := n.repeats[s]; ok {
					ends, head := n.rounds(t, rep, i, len(text))
					if head && !t.head[[2]int{s, i}] {
						t.head[[2]int{s, i}], changed = true, true
					}
					for j := range ends {
						if !t.span[[3]int{s, i, j}] {
							t.span[[3]int{s, i, j}], changed = true, true
						}
					}
				}
			}
		}
	}
	return t
}

// sequence gives where symbols that begin at i may end, and whether they may go on past the text. A symbol that matches nothing at all
// has no heads, so what follows has to be productive, too.
func (n *naive) sequence(t table, symbols []int, i, end int) (map[int]bool, bool) {
	at, head := map[int]bool{i: true}, false
	for k, s := range symbols {
		next := map[int]bool{}
		for p := range at {
			head = head || t.head[[2]int{s, p}] && n.productive(symbols[k+1:])
			for j := p; j <= end; j++ {
				if t.span[[3]int{s, p, j}] {
					next[j] = true
				}
			}
		}
		at = next
	}
	return at, head || at[end]
}

func (n *naive) rounds(t table, rep [3]int, i, end int) (map[int]bool, bool) {
	ends, head, at := map[int]bool{}, false, map[int]bool{i: true}
	for round := 0; ; round++ {
		if round >= rep[1] {
			for p := range at {
				ends[p] = true
			}
		}
		if round == rep[2] || rep[2] < 0 && round > rep[1]+end-i+1 || len(at) == 0 {
			return ends, head || ends[end]
		}
		next := map[int]bool{}
		for p := range at {
			head = head || t.head[[2]int{rep[0], p}]
			for j := p; j <= end; j++ {
				if t.span[[3]int{rep[0], p, j}] {
					next[j] = true
				}
			}
		}
		at = next
	}
}

// productive reports whether symbols match any text: whether each has a head at the end of an empty one.
func (n *naive) productive(symbols []int) bool {
	for _, s := range symbols {
		if !n.fits(s) {
			return false
		}
	}
	return true
}

func (n *naive) fits(s int) bool {
	key := fmt.Sprint("fits ", s)
	known, ok := n.memo[key]
	if ok {
		return known
	}
	value := make([]bool, len(n.patterns)+len(n.rules))
	for i := range n.patterns {
		value[i] = true
	}
	for range value {
		for r, alternatives := range n.rules {
			for _, a := range alternatives {
				if !slices.ContainsFunc(a, func(s int) bool { return !value[s] }) {
					value[len(n.patterns)+r] = true
				}
			}
			if rep, ok := n.repeats[len(n.patterns)+r]; ok && (rep[1] == 0 || value[rep[0]]) {
				value[len(n.patterns)+r] = true
			}
		}
	}
	for i, v := range value {
		n.memo[fmt.Sprint("fits ", i)] = v
	}
	return value[s]
}

var naivePatterns = []string{"a", "b", "ab", "c", "a+", "[ab]*", "a?b", "(ab|c)", "b{2,3}", "a*b", "[abc]", "X", "(a|ba)*", "bc|a", ""}

// randomNaive is a random grammar, and the same for a Builder.
func randomNaive(r *rand.Rand, b *Builder) (*naive, Symbol) {
	n := &naive{repeats: map[int][3]int{}, memo: map[string]bool{}}
	var symbols []Symbol
	for range 2 + r.IntN(4) {
		p := naivePatterns[r.IntN(len(naivePatterns))]
		n.patterns = append(n.patterns, p)
		n.matchers = append(n.matchers, regexp.MustCompile(`\A(?:`+p+`)\z`))
		if p == "X" {
			symbols = append(symbols, b.Token("X"))
			continue
		}
		re, err := regex.Parse(p, regex.RE2)
		if err != nil {
			panic(err)
		}
		symbols = append(symbols, b.Regex(re))
	}
	rules := 1 + r.IntN(4)
	total := len(n.patterns) + rules
	n.rules = make([][][]int, rules)
	var open []int
	for i := range rules {
		s := len(n.patterns) + i
		if i > 0 && r.IntN(4) == 0 {
			least := r.IntN(3)
			n.repeats[s] = [3]int{r.IntN(s), least, least + r.IntN(3)}
			if r.IntN(3) == 0 {
				n.repeats[s] = [3]int{n.repeats[s][0], least, -1}
			}
			rep := n.repeats[s]
			symbols = append(symbols, b.Repeat(symbols[rep[0]], rep[1], rep[2]))
			continue
		}
		symbols = append(symbols, b.Rule(fmt.Sprint(i)))
		open = append(open, i)
	}
	for _, i := range open {
		for range 1 + r.IntN(3) {
			var a []int
			var mapped []Symbol
			for range r.IntN(4) {
				s := r.IntN(total)
				a, mapped = append(a, s), append(mapped, symbols[s])
			}
			n.rules[i] = append(n.rules[i], a)
			b.Add(symbols[len(n.patterns)+i], mapped)
		}
	}
	return n, symbols[len(n.patterns)+open[len(open)-1]]
}

// randomVocabulary has the letters, one letter that no grammar has, longer texts, some of them twice, and the control token, last.
func randomVocabulary(r *rand.Rand) (*Vocabulary, []string) {
	texts := []string{"a", "b", "c", "d"}
	for range r.IntN(12) {
		var t strings.Builder
		for range 1 + r.IntN(4) {
			t.WriteByte(naiveLetters[r.IntN(len(naiveLetters))])
		}
		texts = append(texts, t.String())
	}
	var pieces [][]byte
	for _, t := range texts {
		pieces = append(pieces, []byte(t))
	}
	texts = append(texts, "X")
	pieces = append(pieces, nil)
	return NewVocabulary(pieces, map[string]int32{"X": int32(len(texts) - 1)}), texts
}

func has(mask []uint64, id int) bool { return mask[id>>6]>>(id&63)&1 != 0 }

// TestMasksAreTheDefinition: a token is allowed exactly where some text of the grammar begins with what was said and the token; going back
// and forking change nothing.
func TestMasksAreTheDefinition(t *testing.T) {
	reference.Slow(t)
	grammars := reference.Repeats(100, 120, 240)
	walked := 0
	for seed := range grammars {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		b := NewBuilder(Limits{})
		n, start := randomNaive(r, b)
		root := slices.Index(startOf(n, b, start), true)
		g, err := b.Compile(start)
		if err != nil {
			if n.fits(root) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		if !n.fits(root) {
			t.Fatalf("seed %d: a grammar that no text fits compiles", seed)
		}
		v, texts := randomVocabulary(r)
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		checkWalk(t, seed, n, root, m, texts, r)
		walked++
	}
	if walked < grammars/2 {
		t.Errorf("only %d of %d grammars were walked", walked, grammars)
	}
}

// startOf marks the naive symbol of a builder's symbol.
func startOf(n *naive, b *Builder, start Symbol) []bool {
	marks := make([]bool, len(n.patterns)+len(n.rules))
	rule := -1
	for i := range b.symbols {
		if b.symbols[i].kind == kindRule || b.symbols[i].kind == kindRepeat {
			rule++
		}
		if Symbol(i) == start {
			marks[len(n.patterns)+rule] = true
		}
	}
	return marks
}

func checkWalk(t *testing.T, seed int, n *naive, root int, m *Matcher, texts []string, r *rand.Rand) {
	t.Helper()
	mask := make([]uint64, m.e.v.Words())
	var said []string
	var masks [][]uint64
	for range 6 {
		text := strings.Join(said, "")
		end, err := m.Mask(mask)
		if err != nil {
			t.Fatalf("seed %d, %q: %v", seed, text, err)
		}
		if want := n.read(text).span[[3]int{root, 0, len(text)}]; end != want {
			t.Fatalf("seed %d: %q may end: %v, want %v", seed, text, end, want)
		}
		var allowed []int
		for id, tok := range texts {
			want := n.read(text + tok).head[[2]int{root, 0}]
			if has(mask, id) != want || m.Allows(int32(id)) != want {
				t.Fatalf("seed %d: %q after %q: mask %v, Allows %v, want %v", seed, tok, text, has(mask, id), m.Allows(int32(id)), want)
			}
			if want {
				allowed = append(allowed, id)
			} else if f := m.Fork(); f.Accept(int32(id)) == nil {
				t.Fatalf("seed %d: %q after %q is accepted", seed, tok, text)
			}
		}
		masks = append(masks, slices.Clone(mask))
		if len(allowed) == 0 {
			break
		}
		id := allowed[r.IntN(len(allowed))]
		if err := m.Accept(int32(id)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		said = append(said, texts[id])
	}
	fork := m.Fork()
	for i := len(said); i >= 0; i-- {
		m.Rollback(len(said) - i - (len(said) - m.Tokens()))
		if i == len(masks) {
			continue
		}
		if _, err := m.Mask(mask); err != nil || !slices.Equal(mask, masks[i]) {
			t.Fatalf("seed %d: the mask after going back to %d tokens differs", seed, i)
		}
	}
	if fork.Tokens() != len(said) {
		t.Fatalf("seed %d: a fork went back with the matcher that it was made of", seed)
	}
}
