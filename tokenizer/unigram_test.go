package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

// unigramGoldens are what testdata/unigram.py had the sentencepiece library do.
type unigramGoldens struct {
	Texts  [][]byte
	Maps   map[string][]byte
	Models []unigramModel
}

type unigramModel struct {
	Name, Map        string
	Prefix, Collapse bool
	Tokens           []string
	Scores           []float32
	Types            []int32
	Unknown          uint32
	IDs              [][]int32
}

func readUnigramGoldens(t testing.TB) *unigramGoldens {
	t.Helper()
	f, err := os.Open("testdata/unigram.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	g := new(unigramGoldens)
	if err := json.NewDecoder(z).Decode(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// fields is a model as GGUF holds it.
func (g *unigramGoldens) fields(m *unigramModel) fields {
	return fields{
		"model": kindUnigram, "tokens": m.Tokens, "scores": m.Scores, "token_type": m.Types, "unknown_token_id": m.Unknown,
		"add_space_prefix": m.Prefix, "remove_extra_whitespaces": m.Collapse, "precompiled_charsmap": g.Maps[m.Map],
		"bos_token_id": uint32(1), "eos_token_id": uint32(2), "add_bos_token": false, "add_eos_token": false,
	}
}

// Ids are the sentencepiece library's, whatever the text.
func TestUnigramEqualsItsLibrary(t *testing.T) {
	g := readUnigramGoldens(t)
	if len(g.Models) < 5 || len(g.Texts) < 500 {
		t.Fatalf("%d models, %d texts", len(g.Models), len(g.Texts))
	}
	for i := range g.Models {
		m := &g.Models[i]
		t.Run(m.Name, func(t *testing.T) {
			tok := mustBuild(t, g.fields(m))
			bad := 0
			for k, text := range g.Texts {
				got := tok.AppendEncode(nil, string(text), EncodeOptions{})
				if slices.Equal(got, m.IDs[k]) {
					continue
				}
				if bad++; bad <= 10 {
					from := 0
					for from < min(len(got), len(m.IDs[k])) && got[from] == m.IDs[k][from] {
						from++
					}
					rest := func(ids []int32) []string { return texts(tok, ids[from:min(from+8, len(ids))]) }
					t.Errorf("%.80q, from id %d on: got %q, want %q", text, from, rest(got), rest(m.IDs[k]))
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d texts differ", bad, len(g.Texts))
			}
		})
	}
}

func TestUnigramOptions(t *testing.T) {
	g := readUnigramGoldens(t)
	f := g.fields(&g.Models[0])
	for _, c := range []struct {
		name string
		f    fields
		text string
		o    EncodeOptions
		want []string
	}{
		{"both ends", f.with("add_bos_token", true).with("add_eos_token", true), "the", EncodeOptions{AddSpecial: true}, []string{"<s>", "▁", "the", "</s>"}},
		{"a client writes a control token", f, "</s>", EncodeOptions{}, []string{"▁", "<", "/", "s", ">"}},
		{"a caller does", f, "</s>the", EncodeOptions{ParseSpecial: true}, []string{"</s>", "▁", "the"}},
		{"user-defined entries go on the text", f, "the<mask>the", EncodeOptions{ParseSpecial: true}, []string{"▁", "the", "<mask>", "the"}},
	} {
		tok := mustBuild(t, c.f)
		if got := texts(tok, tok.AppendEncode(nil, c.text, c.o)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A text may be cut where no entry crosses; Limit and Pause end a call in the midst of a long text.
func TestUnigramEndsEarly(t *testing.T) {
	g := readUnigramGoldens(t)
	tok := mustBuild(t, g.fields(&g.Models[0]))
	text := strings.Repeat("the quick brown fox ", 50000)
	all := tok.AppendEncode(nil, text, EncodeOptions{})
	if got := tok.AppendEncode(nil, text, EncodeOptions{Limit: 100}); len(got) <= 100 || len(got) > 200 || !slices.Equal(got, all[:len(got)]) {
		t.Errorf("limit 100: %d ids", len(got))
	}
	pauses := 0
	tok.AppendEncode(nil, text, EncodeOptions{Pause: func() bool { pauses++; return pauses < 3 }})
	if pauses != 3 {
		t.Errorf("%d pauses after the caller ended the call", pauses)
	}
}

// No text takes longer than in proportion to its length: neither one without a place to cut nor one of long entries.
func TestUnigramIsLinear(t *testing.T) {
	reference.Slow(t)
	f := emptyFields(kindUnigram)
	f.add("<unk>", int32(typeUnknown), 0)
	f.add("</s>", int32(typeControl), 0)
	for n := 1; n <= 64; n++ {
		f.add(strings.Repeat("a", n), int32(typeNormal), -float32(n))
	}
	f["unknown_token_id"] = uint32(0)
	tok := mustBuild(t, f)
	measure := func(n, times int) time.Duration {
		best := time.Hour
		for range 3 {
			begin := time.Now()
			for range times {
				tok.AppendEncode(nil, strings.Repeat("a", n), EncodeOptions{})
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	if short, long := measure(10_000, 10), measure(100_000, 1); long > 4*short {
		t.Errorf("ten texts take %v, and one of ten times their length %v", short, long)
	}
}

// Damaged rules are refused, or do what they can within their bounds.
func TestCharsmapRefusals(t *testing.T) {
	g := readUnigramGoldens(t)
	f := g.fields(&g.Models[0])
	long := append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, make([]byte, maxRuleBytes+2)...)
	for i := range maxRuleBytes + 1 {
		long[8+i] = 'x'
	}
	for _, c := range []struct {
		name string
		blob any
		want string
	}{
		{"short", []byte{1, 2}, "2 bytes, which are too few"},
		{"trie beyond the end", []byte{8, 0, 0, 0, 1, 2, 3, 4}, "a trie of 8 bytes in 8"},
		{"odd trie", []byte{3, 0, 0, 0, 1, 2, 3, 4}, "a trie of 3 bytes"},
		{"no end", []byte{4, 0, 0, 0, 1, 2, 3, 4, 'a'}, "its last text has no end"},
		{"long text", long, "a rule writes 1025 bytes, limit 1024"},
		{"wrong type", "abc", "value has type string, want an array of bytes"},
	} {
		if _, err := New(f.with("precompiled_charsmap", c.blob).lookup); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	signed := make([]int8, len(g.Maps[g.Models[0].Map]))
	for i, b := range g.Maps[g.Models[0].Map] {
		signed[i] = int8(b)
	}
	tok := mustBuild(t, f.with("precompiled_charsmap", signed))
	if got := texts(tok, tok.AppendEncode(nil, "ｔｈｅ", EncodeOptions{})); !slices.Equal(got, []string{"▁", "the"}) {
		t.Errorf("signed bytes: %q", got)
	}
}

// FuzzUnigram gives rules and texts of any kind to a small vocabulary.
func FuzzUnigram(f *testing.F) {
	g := readUnigramGoldens(f)
	small := g.Maps[g.Models[4].Map]
	for i, text := range g.Texts {
		if i%16 == 0 {
			f.Add(small, text, uint8(i))
		}
	}
	m := &g.Models[0]
	f.Fuzz(func(t *testing.T, rules, text []byte, flags uint8) {
		v := g.fields(m).with("precompiled_charsmap", rules).with("add_space_prefix", flags&1 > 0)
		v = v.with("remove_extra_whitespaces", flags&2 > 0)
		v["tokens"], v["scores"], v["token_type"] = m.Tokens[:300:300], m.Scores[:300:300], slices.Clone(m.Types[:300])
		tok, err := New(v.lookup)
		if err != nil {
			return
		}
		ids := tok.AppendEncode(nil, string(text), EncodeOptions{})
		checkIDs(t, tok, ids)
		checkClientText(t, tok, string(text))
		if limited := tok.AppendEncode(nil, string(text), EncodeOptions{Limit: 3}); !slices.Equal(limited, ids[:len(limited)]) ||
			len(limited) <= 3 && len(ids) > len(limited) {
			t.Fatalf("limit: %v of %v", limited, ids)
		}
	})
}
