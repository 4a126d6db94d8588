package schema_test

import (
	"fmt"
	"testing"

	"weir/tokenizer/grammar/schema"
)

// TestConditionsOfOneProperty: schemas whose many conditions ask for values of one property compile, since two values of it never hold at once, and
// hold for what they say.
func TestConditionsOfOneProperty(t *testing.T) {
	const kinds = 80
	word := func(i int) string { return fmt.Sprintf(`"k%d"`, i) }
	rule := func(i int) string {
		return fmt.Sprintf(`{"if":{"properties":{"kind":{"const":"k%d"}}},"then":{"properties":{"p%d":{"type":"integer"}},"required":["p%d"]}}`, i, i, i)
	}
	one := func(i int) string { // without additionalProperties and required, {} fits all of them
		return fmt.Sprintf(`{"type":"object","properties":{"p%d":{"type":"integer"}},"additionalProperties":false}`, i)
	}
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
