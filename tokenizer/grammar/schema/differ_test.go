package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// differing are schemas of lists whose items differ, most with so few values that an answer could get stuck.
var differing = []string{
	`{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":4}`,
	`{"type":"array","items":{"type":"string","pattern":"^[ab]{0,2}$"},"uniqueItems":true,"minItems":7}`,
	`{"type":"array","items":{"type":"string","maxLength":1,"pattern":"^[,a]?$"},"uniqueItems":true,"minItems":3}`,
	`{"type":"array","items":{"type":"integer","minimum":0,"maximum":12},"uniqueItems":true,"minItems":13}`,
	`{"type":"array","items":{"type":"number","multipleOf":0.5,"minimum":1,"maximum":4},"uniqueItems":true,"minItems":7}`,
	`{"type":"array","items":{"type":["boolean","null"]},"uniqueItems":true,"minItems":3}`,
	`{"type":"array","items":{"enum":["a","ab","abc","b","","a,","]","a\"",1,10,100,true]},"uniqueItems":true,"minItems":10}`,
	`{"type":"object","properties":{"a":{"type":"array","items":{"enum":[0,1,2,3,4,5,6,7,8]},"uniqueItems":true,"minItems":9},"b":{"type":"array",
		"items":{"type":"array","items":{"type":"integer"},"uniqueItems":true},"minItems":2}},"required":["a","b"],"additionalProperties":false}`,
	`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"array","items":{"enum":[10,11,12,13,14,15,16,17,18,1]},"uniqueItems":true,"minItems":8}]},"minItems":3}`,
}

// TestDifferingItems draws texts of lists whose items differ. They never get stuck, masks and single tokens agree everywhere, what is taken back
// is forgotten, and no list has an item twice.
func TestDifferingItems(t *testing.T) {
	pieces := slices.Clone(pairs)
	for _, p := range []string{`","`, `", "`, `["`, `["a"`, `["a","`, `["a","a"`, `,"a"`, `,"a`, `a","a`, `1,`, `1,1`, `,1`, `, 1`, `[1,1`, `0,1`, `12]`, `"]`, `""`, `"",""`,
		`null,true`, `],[`, `a,a`, `]",`} {
		pieces = append(pieces, []byte(p))
	}
	vocabularies := []*grammar.Vocabulary{octets, grammar.NewVocabulary(pieces, nil)}
	for _, text := range differing {
		g, _, err := compile(text, schema.Served(true))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for seed := range uint64(12) {
			drawDiffering(t, text, g, vocabularies[seed%2], pieces, rand.New(rand.NewPCG(seed, 1)))
		}
	}
}

func drawDiffering(t *testing.T, text string, g *grammar.Grammar, v *grammar.Vocabulary, pieces [][]byte, random *rand.Rand) {
	t.Helper()
	m, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	var answer []byte
	var ids, legal []int32
	mask, again := make([]uint64, v.Words()), make([]uint64, v.Words())
	for range 400 {
		end, err := m.Mask(mask)
		if err != nil {
			t.Fatalf("%s after %q: %v", text, answer, err)
		}
		legal = legal[:0]
		for id := range int32(v.Size()) {
			bit := mask[id>>6]>>(id&63)&1 != 0
			if m.Allows(id) != bit {
				t.Fatalf("%s after %q: the mask says %v of %q", text, answer, bit, pieces[id])
			}
			if bit {
				legal = append(legal, id)
			}
		}
		if end || len(legal) == 0 {
			if !end {
				t.Fatalf("%s: stuck after %q", text, answer)
			}
			break
		}
		id := legal[random.IntN(len(legal))]
		for _, b := range []byte(`",]a01`) { // or the answer takes too long
			if random.IntN(3) == 0 && slices.Contains(legal, int32(b)) {
				id = int32(b)
			}
		}
		fork := m.Fork()
		if err := m.Accept(id); err != nil {
			t.Fatalf("%s after %q: %q: %v", text, answer, pieces[id], err)
		}
		ids, answer = append(ids, id), append(answer, pieces[id]...)
		if back := random.IntN(8); back < len(ids) && back > 0 { // go back and forth
			m.Rollback(back)
			for _, id := range ids[len(ids)-back:] {
				if err := m.Accept(id); err != nil {
					t.Fatalf("%s after %q: %q again: %v", text, answer, pieces[id], err)
				}
			}
		}
		if _, err := fork.Mask(again); err != nil || !slices.Equal(mask, again) {
			t.Fatalf("%s after %q: the fork's mask differs: %v", text, answer, err)
		}
	}
	var got any
	if json.Unmarshal(answer, &got) == nil && !differs(got, text[9:14] == "array" && !slices.Contains([]string{differing[8]}, text)) {
		t.Errorf("%s: %s", text, answer)
	}
}

// differs reports whether no list, the outer one only if it counts, has a scalar twice.
func differs(v any, counts bool) bool {
	switch v := v.(type) {
	case []any:
		seen := map[any]bool{}
		for _, item := range v {
			switch item.(type) {
			case []any, map[string]any:
				if !differs(item, true) {
					return false
				}
				continue
			}
			if counts && seen[item] {
				return false
			}
			seen[item] = true
		}
	case map[string]any:
		for _, item := range v {
			if !differs(item, true) {
				return false
			}
		}
	}
	return true
}
