package grammar_test

import (
	"slices"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/internal/reference"
	"weir/tokenizer"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// real is a reference tokenizer and its vocabulary.
type real struct {
	tok *tokenizer.Tokenizer
	v   *grammar.Vocabulary
}

// reals are the vocabularies that a test has asked for; they take long to build.
var reals = map[string]real{}

func vocabularyOf(tb testing.TB, name string) (*tokenizer.Tokenizer, *grammar.Vocabulary) {
	tb.Helper()
	if r, ok := reals[name]; ok {
		return r.tok, r.v
	}
	f, err := gguf.Open(reference.Path(tb, "testdata/tokenizers/vocab-"+name+".gguf"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		tb.Fatal(err)
	}
	pieces, control := make([][]byte, tok.Size()), map[string]int32{}
	for id := range int32(tok.Size()) {
		if tok.IsControl(id) {
			control[tok.TokenText(id)] = id
			continue
		}
		pieces[id] = tok.AppendPiece(nil, id, false)
	}
	v := grammar.NewVocabulary(pieces, control)
	v.SetEncoder(func(dst []int32, text string) []int32 { return tok.AppendEncode(dst, text, tokenizer.EncodeOptions{}) })
	reals[name] = real{tok, v}
	return tok, v
}

func pattern(tb testing.TB, p string) *regex.Regex {
	tb.Helper()
	r, err := regex.Parse(p, regex.RE2)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// jsonValue adds the rules of any JSON value, with at most one blank between its parts.
func jsonValue(tb testing.TB, b *grammar.Builder) (value, text grammar.Symbol) {
	blank := b.Regex(pattern(tb, `[ \n]?`))
	text = b.Regex(pattern(tb, `"([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`))
	number := b.Regex(pattern(tb, `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`))
	value = b.Rule("value")
	pair := b.Define("pair", []grammar.Symbol{text, blank, b.Literal(":"), blank, value})
	next := func(s grammar.Symbol) grammar.Symbol {
		return b.Define("next", []grammar.Symbol{blank, b.Literal(","), blank, s})
	}
	b.Add(value, []grammar.Symbol{text}, []grammar.Symbol{number}, []grammar.Symbol{b.Regex(regex.Words("true", "false", "null"))},
		[]grammar.Symbol{b.Literal("{"), blank, b.Literal("}")}, []grammar.Symbol{b.Literal("["), blank, b.Literal("]")},
		[]grammar.Symbol{b.Literal("{"), blank, pair, b.Repeat(next(pair), 0, -1), blank, b.Literal("}")},
		[]grammar.Symbol{b.Literal("["), blank, value, b.Repeat(next(value), 0, -1), blank, b.Literal("]")})
	return value, text
}

// person adds the rules of an object of the usual kind: bounded strings, an enum, numbers, lists, a recursive part and free metadata.
func person(tb testing.TB, b *grammar.Builder) grammar.Symbol {
	value, text := jsonValue(tb, b)
	type symbols = []grammar.Symbol
	person := b.Rule("person")
	name := b.Regex(pattern(tb, `"([^"\\\x00-\x1f]|\\["\\/bfnrt]){1,40}"`))
	field := func(key string, s grammar.Symbol) grammar.Symbol {
		return b.Define(key, symbols{b.Regex(pattern(tb, ` ?"`+key+`": ?`)), s})
	}
	friends := b.Define("friends", symbols{b.Literal("[")})
	list := b.Define("list", symbols{b.Literal("[]")}, symbols{friends, person, b.Repeat(b.Define("more", symbols{b.Literal(", "), person}), 0, 3),
		b.Literal("]")})
	b.Add(person, symbols{b.Literal("{"), field("name", name), b.Literal(","), field("age", b.Regex(pattern(tb, `[0-9]{1,3}`))), b.Literal(","),
		field("email", b.Regex(pattern(tb, `"[a-z0-9._]+@[a-z0-9]+(\.[a-z]+)+"`))), b.Literal(","),
		field("role", b.Regex(regex.Words(`"admin"`, `"user"`, `"guest"`))), b.Literal(","), field("bio", text), b.Literal(","),
		field("friends", list), b.Literal(","), field("extra", value), b.Literal("}")})
	return b.Define("answer", symbols{b.Regex(pattern(tb, ` ?`)), person}) // SentencePiece begins a text with a blank
}

const (
	personText = `{"name": "Ada Lovelace", "age": 36, "email": "ada.l@example.org", "role": "admin", "bio": "First \"programmer\", née Byron – 数学者.` +
		` She wrote notes on the analytical engine, which are longer than the paper that they explain.", "friends": [{"name": "Charles", ` +
		`"age": 79, "email": "cb@example.org", "role": "guest", "bio": "", "friends": [], "extra": null}], "extra": ` + valueText + `}`
	valueText = `{"tags": ["a", "bb", "c c"], "score": -12.5e3, "deep": [[1, 2], [3, [4, {"x": true}]]], "note": "line\nbreak"}`
)

// masksOf follows a text through a grammar and gives the time of each mask.
func masksOf(tb testing.TB, m *grammar.Matcher, tok *tokenizer.Tokenizer, v *grammar.Vocabulary, text string) []time.Duration {
	tb.Helper()
	mask := make([]uint64, v.Words())
	var took []time.Duration
	for _, id := range tok.AppendEncode(nil, text, tokenizer.EncodeOptions{}) {
		start := time.Now()
		if _, err := m.Mask(mask); err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(start))
		if mask[id>>6]>>(id&63)&1 == 0 {
			tb.Fatalf("%q is not in the mask", tok.TokenText(id))
		}
		if err := m.Accept(id); err != nil {
			tb.Fatal(err)
		}
	}
	if end, err := m.Mask(mask); err != nil || !end {
		tb.Fatalf("the text is complete, and the answer may not end: %v", err)
	}
	return took
}

func reportTimes(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, name+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, name+"-p99-µs")
}

// BenchmarkMasks follows answers: cold with a new grammar each time, warm with one that knows all.
func BenchmarkMasks(b *testing.B) {
	for _, vocab := range []string{"llama-bpe", "deepseek-llm", "llama-spm"} {
		tok, v := vocabularyOf(b, vocab)
		b.Run(vocab, func(b *testing.B) {
			var compile, cold, warm []time.Duration
			for b.Loop() {
				start := time.Now()
				builder := grammar.NewBuilder(grammar.Limits{})
				g, err := builder.Compile(person(b, builder))
				if err != nil {
					b.Fatal(err)
				}
				m, err := g.Matcher(v)
				if err != nil {
					b.Fatal(err)
				}
				compile = append(compile, time.Since(start))
				cold = append(cold, masksOf(b, m.Fork(), tok, v, personText)...)
				warm = append(warm, masksOf(b, m, tok, v, personText)...)
			}
			reportTimes(b, "compile", compile)
			reportTimes(b, "cold", cold)
			reportTimes(b, "warm", warm)
		})
	}
}

func BenchmarkVocabulary(b *testing.B) {
	tok, _ := vocabularyOf(b, "llama-bpe")
	pieces := make([][]byte, tok.Size())
	for id := range int32(tok.Size()) {
		pieces[id] = tok.AppendPiece(nil, id, false)
	}
	for b.Loop() {
		grammar.NewVocabulary(pieces, nil)
	}
}

// TestStepsDoNotAllocate: once known, a mask, an accepted token and a rollback allocate nothing.
func TestStepsDoNotAllocate(t *testing.T) {
	tok, v := vocabularyOf(t, "llama-spm")
	builder := grammar.NewBuilder(grammar.Limits{})
	value, _ := jsonValue(t, builder)
	g, err := builder.Compile(builder.Define("answer", []grammar.Symbol{builder.Regex(pattern(t, ` ?`)), value}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	masksOf(t, m.Fork(), tok, v, valueText)
	mask := make([]uint64, v.Words())
	ids := tok.AppendEncode(nil, valueText, tokenizer.EncodeOptions{})
	n := testing.AllocsPerRun(10, func() {
		for _, id := range ids {
			if _, err := m.Mask(mask); err != nil || !m.Allows(id) || m.Accept(id) != nil {
				t.Fatal(err)
			}
		}
		m.Rollback(len(ids))
	})
	if n > 1 { // the path grows once
		t.Errorf("%v allocations for %d tokens", n, len(ids))
	}
}

// TestForcedTokensOfRealVocabularies: what is forced is what the tokenizer makes of the text.
func TestForcedTokensOfRealVocabularies(t *testing.T) {
	names := []string{"llama-spm", "llama-bpe", "deepseek-llm"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		tok, v := vocabularyOf(t, name)
		builder := grammar.NewBuilder(grammar.Limits{})
		g, err := builder.Compile(person(t, builder))
		if err != nil {
			t.Fatal(err)
		}
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		ids, forced := tok.AppendEncode(nil, personText, tokenizer.EncodeOptions{}), 0
		for i, id := range ids {
			f := m.Forced(nil)
			if len(f) > len(ids)-i || !slices.Equal(f, ids[i:i+len(f)]) {
				t.Fatalf("%s: %v is forced before %v", name, f, ids[i:])
			}
			if len(f) > 0 {
				forced++
			}
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d of %d tokens are forced", name, forced, len(ids))
		if forced < 8 {
			t.Errorf("%s: only %d of %d tokens are forced", name, forced, len(ids))
		}
	}
}
