package constraint

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/api/openai/format"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/internal/work"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// hostilePattern's derivatives grow with every byte of the text.
const hostilePattern = `(\p{L}{1,500}|[^a-z]{3,700}){2,60}`

// hostileFormats are the forms in which a client may write it.
func hostileFormats() map[string]*format.Format {
	text := func(v any) []byte { b, _ := json.Marshal(v); return b }
	return map[string]*format.Format{
		"regex": {Kind: format.Regex, Field: "structured_outputs.regex", Text: []byte(hostilePattern)},
		"gbnf": {Kind: format.Grammar, Field: "structured_outputs.grammar",
			Text: []byte(`root ::= part{2,60}` + "\n" + `part ::= [a-zA-Zß-ɏ]{1,500} | [^a-z]{3,700}`)},
		"lark":    {Kind: format.Grammar, Field: "structured_outputs.grammar", Text: []byte("start: /" + hostilePattern + "/")},
		"pattern": {Kind: format.Schema, Field: "structured_outputs.json", Text: text(map[string]any{"type": "string", "pattern": "^" + hostilePattern + "$"}), Options: schema.Options{Closed: true}},
		"tag": {Kind: format.Tag, Field: "structured_outputs.structural_tag",
			Text: text(map[string]any{"type": "structural_tag", "format": map[string]any{"type": "regex", "pattern": hostilePattern}})},
	}
}

// TestS1HostileFormatsAreBounded: whatever the form, an answer of a hostile pattern ends with format_too_complex within its limits of work
// and of memory, or stays within them.
func TestS1HostileFormatsAreBounded(t *testing.T) {
	tok := byteTokenizer(t)
	v := models.NewVocabulary(tok).Build()
	limits := grammar.Limits{Work: 2_000_000, Answer: 10_000_000, Bytes: 8 << 20}
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc) //nolint:gosec // below 2^63
	}
	ended := 0
	for name, f := range hostileFormats() {
		before := live()
		limits.Account = work.NewAccount(0, nil)
		limits.Meter = &work.Meter{Limit: compileUnits}
		c, fault := (&AnswerRules{Format: f, Model: &models.Model{Tokenizer: tok}}).Compile(limits)
		if fault != nil {
			if fault.Code != "format_too_complex" {
				t.Errorf("%s: %v", name, fault)
			}
			ended++
			continue
		}
		m, err := c.Grammar.MatcherUnder(v, &work.Meter{Limit: compileUnits})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = hostileAnswer(matcher{m}, v)
		switch {
		case errors.Is(err, inference.ErrFormatTooComplex):
			ended++
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
		if took := live() - before; took > 3*int64(limits.Bytes) || limits.Account.Bytes() > 2*int64(limits.Bytes) {
			t.Errorf("%s: %d bytes are live, %d are said, the limit is %d", name, took, limits.Account.Bytes(), limits.Bytes)
		}
		if most := int64(limits.Answer + 3*limits.Work + 200*limits.Work/10); m.Taken() > most {
			t.Errorf("%s: the answer took %d units", name, m.Taken())
		}
		runtime.KeepAlive(c)
	}
	if ended < 3 {
		t.Errorf("%d forms exceeded a limit: too few to show anything", ended)
	}
}

// hostileAnswer takes tokens from the middle of the masks, 200 at most.
func hostileAnswer(m matcher, v *grammar.Vocabulary) error {
	mask := make([]uint64, v.Words())
	for i := range 200 {
		if _, err := m.Mask(mask); err != nil {
			return err
		}
		id := -1
		for k := range v.Size() {
			if at := (k + 977*i) % v.Size(); mask[at>>6]>>(at&63)&1 != 0 {
				id = at
				break
			}
		}
		if id < 0 {
			return nil
		}
		if err := m.Accept(inference.TokenID(id)); err != nil { //nolint:gosec // an id of the vocabulary
			return err
		}
	}
	return nil
}

// wideSchema is a schema of objects whose properties meet many patterns, as dofigen's and flatpak's.
func wideSchema(names, patterns int) []byte {
	var p, q strings.Builder
	for i := range names {
		fmt.Fprintf(&p, `%q:{"type":"string"},`, fmt.Sprintf("name_%d_of_many", i))
	}
	for i := range patterns {
		fmt.Fprintf(&q, `"^[a-z_]{%d,%d}(%d|_[0-9]{1,%d})+[a-z]*$":{"type":["string","integer"],"minLength":%d},`, 1+i%7, 20+i, i, 3+i, i%5)
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"patternProperties":{%s}}`,
		strings.TrimSuffix(p.String(), ","), strings.TrimSuffix(q.String(), ","))
}

// TestG12CompilingIsChargedWhereTheWorkIs: a small schema that takes long to compile ends at the meter's limit, and the meter has counted what it did:
// the memory that was allocated meanwhile is bounded, too.
func TestG12CompilingIsChargedWhereTheWorkIs(t *testing.T) {
	for _, closed := range []bool{false, true} {
		f := &format.Format{Kind: format.Schema, Field: "json", Text: wideSchema(150, 60), Options: schema.Options{Closed: closed}}
		if len(f.Text) > 24<<10 {
			t.Fatalf("%d bytes of schema", len(f.Text))
		}
		const limit = 4_000_000
		meter := &work.Meter{Limit: limit}
		var a, z runtime.MemStats
		runtime.ReadMemStats(&a)
		_, fault := (&AnswerRules{Format: f}).Compile(grammar.Limits{Meter: meter})
		runtime.ReadMemStats(&z)
		if fault == nil || fault.Code != "format_too_complex" {
			t.Errorf("closed %v: %v after %d units", closed, fault, meter.Spent())
		}
		if spent := meter.Spent(); spent > 2*limit {
			t.Errorf("closed %v: %d units, the limit is %d", closed, spent, limit)
		}
		if allocated := z.TotalAlloc - a.TotalAlloc; allocated > 200<<20 {
			t.Errorf("closed %v: %d MB were allocated", closed, allocated>>20)
		}
	}
}
