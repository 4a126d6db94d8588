package grammar_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// TestBytes: what a grammar says that it takes is near what it takes, when it is new and after answers.
func TestBytes(t *testing.T) {
	reference.Slow(t)
	pieces := make([][]byte, 256)
	for b := range pieces {
		pieces[b] = []byte{byte(b)}
	}
	v := grammar.NewVocabulary(pieces, nil)
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // below 2^63
	}
	compile := func() *grammar.Grammar {
		b := grammar.NewBuilder(grammar.Limits{})
		value, _ := jsonValue(t, b)
		counted := b.Regex(regex.Concat(regex.Literal("<"), regex.Repeat(regex.AnyRune(), 0, 3000), regex.Literal(">")))
		many := b.Regex(pattern(t, `!(\p{L}{1,40}|[^a-z]{3,70}){2,9}`)) // its derivatives are long lists
		g, err := b.Compile(b.Define("answer", []grammar.Symbol{value}, []grammar.Symbol{counted}, []grammar.Symbol{many}))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	const copies = 20
	before := live()
	all := make([]*grammar.Grammar, copies)
	for i := range all {
		all[i] = compile()
	}
	check := func(what string) int64 {
		var said int64
		for _, g := range all {
			said += g.Bytes()
		}
		took := live() - before
		if said < took/2 || said > 3*took {
			t.Errorf("%s: %d bytes are said, %d taken", what, said/copies, took/copies)
		}
		return said
	}
	compiled := check("compiled")
	text := "{" + strings.TrimSuffix(strings.Repeat(`"key": [1, -2.5e3, {"a": "béd\\n", "b": [[], {}, null]}], `, 3), ", ") + "}"
	for i, g := range all {
		for _, text := range []string{text, "<" + strings.Repeat("x", 1000) + ">", fmt.Sprintf(`[[[[[%d]]]]]`, i), "!ÄÖ字ÜÄÖÜÄ Ö字ÜÄ9Ö"} {
			m, err := g.Matcher(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []byte(text) {
				if err := m.Accept(int32(b)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if used := check("used"); used < 2*compiled {
		t.Errorf("%d bytes compiled, %d after answers", compiled, used)
	}
	runtime.KeepAlive(all)
}
