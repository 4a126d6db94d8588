package schema_test

import (
	"fmt"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/schema"
)

// TestConditionsOfOneProperty: schemas whose many conditions ask for values of one property compile, since two values of it never hold at once, and
// hold for what they say.
func TestConditionsOfOneProperty(t *testing.T) {
	reference.Slow(t)
	const kinds, few = 80, 30
	word := func(i int) string { return fmt.Sprintf(`"k%d"`, i) }
	rule := func(i int) string {
		return fmt.Sprintf(`{"if":{"properties":{"kind":{"const":"k%d"}}},"then":{"properties":{"p%d":{"type":"integer"}},"required":["p%d"]}}`, i, i, i)
	}
	one := func(i int) string { // without additionalProperties and required, {} fits all of them
		return fmt.Sprintf(`{"type":"object","properties":{"p%d":{"type":"integer"}},"additionalProperties":false}`, i)
	}
	integer := func(i int) string { return fmt.Sprintf(`"p%d":{"type":"integer"}`, i) }
	for name, c := range map[string]struct {
		schema         string
		taken, refused []string
	}{
		"if of constants, required": {`{"type":"object","properties":{"kind":{"enum":[` + list(kinds, word) + `,"other"]}},"required":["kind"],"allOf":[` + list(kinds, rule) + `]}`,
			[]string{`{"kind":"k7","p7":1}`, `{"kind":"other"}`}, []string{`{"kind":"k7"}`, `{"kind":"k7","p8":1}`, `{"p7":1}`, `{"kind":"else"}`}},
		"if of constants of any text": {`{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"],"allOf":[` + list(kinds, rule) + `]}`,
			[]string{`{"kind":"k79","p79":1}`, `{"kind":"k"}`, `{"kind":"k80"}`}, []string{`{"kind":"k79"}`, `{"kind":"k79","p78":1}`}},
		"if of constants, by reference": {`{"$defs":{"kind":{"enum":[` + list(kinds, word) + `]}},"type":"object","properties":{"kind":{"$ref":"#/$defs/kind"}},"allOf":[` +
			list(kinds, rule) + `,{"required":["kind"]}]}`, []string{`{"kind":"k0","p0":1}`}, []string{`{"kind":"k0"}`, `{"kind":"k80"}`}},
		"oneOf of closed objects": {`{"oneOf":[` + list(23, one) + `]}`, []string{`{"p3":1}`}, []string{`{}`, `{"p3":null}`, `{"p2":1,"p3":1}`}},
		"oneOf of objects that extend one": {`{"$defs":{"base":{"type":"object","properties":{"a":{"type":"string","minLength":1},"b":{"type":"integer","minimum":3}},"required":["a"]}},
			"oneOf":[` + list(16, func(i int) string {
			return fmt.Sprintf(`{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"p%d":{"type":"integer"}},"required":["p%d"]}]}`, i, i)
		}) + `]}`, []string{`{"a":"x","p3":1}`, `{"a":"x","b":4,"p15":1}`}, []string{`{"a":"x"}`, `{"a":"x","p1":1,"p2":1}`, `{"a":"","p3":1}`, `{"p3":1}`}},
		"dependencies on values": {`{"type":"object","properties":{"kind":{"enum":[` + list(few, word) + `]},` + list(few, integer) + `},"required":["kind"],
			"dependencies":{` + list(few-1, func(i int) string {
			return fmt.Sprintf(`"p%d":{"properties":{"kind":{"enum":["k%d","k%d"]}}}`, i, i, i+1)
		}) + `}}`, []string{`{"kind":"k5"}`, `{"kind":"k5","p4":1,"p5":1}`, `{"kind":"k5","p5":1}`}, []string{`{"kind":"k5","p6":1}`, `{"kind":"k5","p3":1,"p5":1}`}},
		"dependencies on what is not there": {`{"type":"object","properties":{"dynamic":{"type":"null"},` + list(few, integer) + `},"dependencies":{` +
			list(few, func(i int) string { return fmt.Sprintf(`"p%d":{"not":{"required":["dynamic"]}}`, i) }) + `}}`,
			[]string{`{}`, `{"dynamic":null}`, `{"p3":1,"p7":1}`}, []string{`{"dynamic":null,"p29":1}`}},
	} {
		g, _, err := compile(c.schema, schema.Served(true))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range c.taken {
			if !accepts(t, g, text) {
				t.Errorf("%s: %s is not taken", name, text)
			}
		}
		for _, text := range c.refused {
			if accepts(t, g, text) {
				t.Errorf("%s: %s is taken", name, text)
			}
		}
	}
}
