package schema_test

import (
	"errors"
	"fmt"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// TestBranchesThatShareProperties: a oneOf of objects that have most properties in common compiles, however many there are, since the branch
// that is chosen says most of what the others' contraries ask for.
func TestBranchesThatShareProperties(t *testing.T) {
	reference.Slow(t)
	const kinds = 24
	shared := `"name":{"type":"string"},"args":{"type":"string"},"replicas":{"type":"integer"},"env":{"type":"array","items":{"$ref":"#/$defs/env"}}`
	defs := `"$defs":{"env":{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}}`
	service := func(i int) string {
		return fmt.Sprintf(`{"type":"object","properties":{%s,"k%d":{"type":"string"},"own%d":{"type":"boolean"}},"required":["name","k%d"]}`, shared, i, i, i)
	}
	byKind := func(i int) string { // the kind is not required, so that all fit an object without it
		return fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":"k%d"},"options":{"type":"object","properties":{"all":{"type":"integer"},"o%d":{"type":"string"}},
			"additionalProperties":false},"more":{"type":"object","properties":{"m%d":{"type":"integer"}},"additionalProperties":false}}}`, i, i, i)
	}
	pair := func(i int) string {
		return fmt.Sprintf(`{"properties":{"p%d":{"type":"string"},"connection":{"type":"string"}},"oneOf":[{"properties":{"type":{"enum":["in%d"]},"direction":{"enum":["in"]}}},
			{"properties":{"type":{"enum":["out%d"]}}}]}`, i, i, i)
	}
	for name, c := range map[string]struct {
		schema         string
		taken, refused []string
	}{
		"one property tells them apart": {`{` + defs + `,"oneOf":[` + list(kinds, service) + `]}`,
			[]string{`{"name":"a","k3":"x"}`, `{"name":"a","args":"","replicas":1,"env":[{"n":"e"}],"k23":"x","own23":true}`},
			[]string{`{"name":"a"}`, `{"name":"a","k3":"x","k4":"y"}`, `{"name":"a","k3":1}`, `{"name":"a","k3":"x","k4":1}`, `{"name":1,"k3":"x"}`}},
		"a property that none requires": {`{"oneOf":[` + list(9, byKind) + `]}`,
			[]string{`{"kind":"k4"}`, `{"kind":"k8","options":{"all":1,"o8":"x"},"more":{"m8":1}}`},
			[]string{`{}`, `{"kind":"k4","options":{"o5":"x"}}`, `{"options":{"all":1}}`, `{"kind":"k9"}`}},
		"branches of branches": {`{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"direction":{"enum":["in","out"]}},"required":["type","direction"],
			"oneOf":[{"properties":{"type":{"not":{"enum":[` + list(8, func(i int) string { return fmt.Sprintf(`"in%d","out%d"`, i, i) }) + `]}}}},{"oneOf":[` + list(8, pair) + `]}]}`,
			[]string{`{"type":"in3","direction":"in","p3":"x"}`, `{"name":"n","type":"out7","direction":"out","connection":"c"}`, `{"type":"else","direction":"in"}`},
			[]string{`{"type":"in3","direction":"out"}`, `{"type":"in3","direction":"in","p3":1}`, `{"type":"in3"}`}},
		"constants in many places": {`{"$defs":{"all":{"anyOf":[` + list(200, func(i int) string { return fmt.Sprintf(`{"enum":["k%d"],"title":"The %dth"}`, i, i) }) + `]}},"type":"object","properties":{` +
			list(200, func(i int) string {
				return fmt.Sprintf(`"p%d":{"allOf":[{"$ref":"#/$defs/all"},{"pattern":"^k%d$"}]}`, i, i)
			}) + `}}`, []string{`{"p7":"k7"}`}, []string{`{"p7":"k8"}`, `{"p7":"k200"}`}},
		"a oneOf of constants": {`{"oneOf":[{"const":"a"},{"const":1},{"enum":["b","a"]},{"const":1.0},{"const":null}]}`,
			[]string{`"b"`, `null`}, []string{`"a"`, `1`, `"c"`}},
	} {
		for order, o := range map[string]schema.Options{"": schema.Served(true), ", any order": {Strict: true, Closed: true, AnyOrder: true}} {
			g, _, err := compile(c.schema, o)
			if err != nil {
				t.Errorf("%s%s: %v", name, order, err)
				continue
			}
			for _, text := range c.taken {
				if !accepts(t, g, text) {
					t.Errorf("%s%s: %s is not taken", name, order, text)
				}
			}
			for _, text := range c.refused {
				if accepts(t, g, text) {
					t.Errorf("%s%s: %s is taken", name, order, text)
				}
			}
		}
	}
}

// TestFewerWaysOfContraries: where all ways to miss the other branches of a oneOf take too many steps, some are left out; what is left is taken
// of each branch, and nothing that the schema refuses.
func TestFewerWaysOfContraries(t *testing.T) {
	const branches = 6
	branch := func(i int) string {
		return fmt.Sprintf(`{"properties":{"a":{"type":"integer","minimum":%d,"maximum":%d},"b":{"type":"string","minLength":%d},"c":{"type":"integer","maximum":%d}}}`,
			3*i, 3*i+4, i, 9-i)
	}
	text := `{"type":"object","required":["a","b","c"],"oneOf":[` + list(branches, branch) + `]}`
	holds := func(a int, b string, c int) bool {
		held := 0
		for i := range branches {
			if a >= 3*i && a <= 3*i+4 && len(b) >= i && c <= 9-i {
				held++
			}
		}
		return held == 1
	}
	narrower := 0
	for _, steps := range []int{0, 4_000, 2_000, 1_000, 500, 250} {
		g, _, err := compile(text, schema.Options{Strict: true, Closed: true, Limits: schema.Limits{Work: steps}})
		if err != nil {
			if !errors.Is(err, grammar.ErrLimit) {
				t.Errorf("%d steps: %v", steps, err)
			}
			t.Logf("%d steps: %v", steps, err)
			continue
		}
		taken, left := 0, 0
		for a := range 21 {
			for _, b := range []string{"", "a", "abc", "abcdef"} {
				for c := 3; c < 11; c += 2 {
					instance := fmt.Sprintf(`{"a":%d,"b":%q,"c":%d}`, a, b, c)
					switch {
					case accepts(t, g, instance):
						taken++
						if !holds(a, b, c) {
							t.Fatalf("%d steps: %s is taken", steps, instance)
						}
					case holds(a, b, c):
						left++
					}
				}
			}
		}
		t.Logf("%d steps: %d taken, %d left out", steps, taken, left)
		if taken == 0 || steps == 0 && left > 0 {
			t.Errorf("%d steps: %d taken, %d left out", steps, taken, left)
		}
		if left > 0 {
			narrower++
		}
	}
	if narrower == 0 {
		t.Error("no limit leaves anything out")
	}
}
