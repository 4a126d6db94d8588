package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/schema"
)

// list joins n texts by commas.
func list(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text(i))
	}
	return b.String()
}

// hostile are schemas that cost much for their size. Each is refused or compiles within the limits, which count work and no time.
var hostile = map[string]string{
	"depth 1,000":      strings.Repeat(`{"properties":{"a":`, 1_000) + "{}" + strings.Repeat("}}", 1_000),
	"brackets":         strings.Repeat("[", 1<<19),
	"1 MiB of names":   `{"properties":{` + list(20_000, func(i int) string { return fmt.Sprintf(`"%040d":{}`, i) }) + `}}`,
	"a count of items": `{"type":"array","items":{"type":"array","minItems":1000000000,"items":{"minItems":1000000000}},"minItems":1000000000}`,
	"a long text":      `{"type":"string","minLength":1000000000,"maxLength":1000000000}`,
	"counts in counts": `{"type":"string","pattern":"^((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}$","maxLength":100000}`,
	"patterns against each other": `{"type":"string","allOf":[` +
		list(30, func(i int) string { return fmt.Sprintf(`{"pattern":"a.{%d}b"}`, i+10) }) + `],"maxLength":50}`,
	"a pattern for every subset": `{"patternProperties":{` + list(20, func(i int) string { return fmt.Sprintf(`"a%db":{"minLength":%d}`, i, i) }) + `}}`,
	"anyOf of anyOf": `{"allOf":[` +
		list(40, func(i int) string { return fmt.Sprintf(`{"anyOf":[{"minLength":%d},{"maxLength":%d}]}`, i, 1000-i) }) + `]}`,
	"not of not": strings.Repeat(`{"not":`, 60) + `{"type":"string"}` + strings.Repeat("}", 60),
	"conditions": `{"allOf":[` + list(40, func(i int) string {
		return fmt.Sprintf(`{"if":{"required":["a%d"]},"then":{"required":["b%d"]}}`, i, i)
	}) + `]}`,
	"a oneOf of many":   `{"oneOf":[` + list(300, func(i int) string { return fmt.Sprintf(`{"properties":{"p%d":{"type":"integer"}}}`, i) }) + `]}`,
	"references":        `{"$ref":"#/$defs/a0","$defs":{` + list(5_000, func(i int) string { return fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"}`, i, i+1) }) + `,"a5000":{}}}`,
	"references around": `{"$ref":"#/$defs/a0","$defs":{` + list(500, func(i int) string { return fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"}`, i, (i+1)%500) }) + `}}`,
	"doubled references": `{"$ref":"#/$defs/a0","$defs":{` + list(60, func(i int) string {
		return fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"properties":{"x":{"$ref":"#/$defs/a%d"}}}]}`, i, i+1, i+1)
	}) + `,"a60":{}}}`,
	"optional properties that are counted": `{"properties":{` + list(2_000, func(i int) string { return fmt.Sprintf(`"a%d":{}`, i) }) +
		`},"additionalProperties":false,"minProperties":1000}`,
	"divisors": `{"type":"number","multipleOf":0.0001234567891234}`,
}

func TestHostile(t *testing.T) {
	reference.Slow(t)
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, o := range []schema.Options{{Strict: true}, {}} {
				_, _, err := compile(text, o)
				t.Logf("strict %v: %.150v", o.Strict, err)
			}
		})
	}
}

// TestManyProperties: as many optional properties as compile can also be written, counted or not; more are refused by name, not while an
// answer is written.
func TestManyProperties(t *testing.T) {
	optional := func(n int, more string) string {
		return `{"type":"object","properties":{` + list(n, func(i int) string { return fmt.Sprintf(`"p%d":{"const":1}`, i) }) + `},"additionalProperties":false` + more + `}`
	}
	for _, c := range []struct {
		schema, good string
	}{
		{optional(6_000, ""), `{"p0":1,"p5999":1}`},
		{optional(100, `,"minProperties":60`), "{" + list(60, func(i int) string { return fmt.Sprintf(`"p%d":1`, i+40) }) + "}"},
	} {
		g, _, err := compile(c.schema, schema.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if !accepts(t, g, c.good) || accepts(t, g, `{"p7":1,"p0":1}`) {
			t.Errorf("%.60s: the grammar is not the schema's", c.schema)
		}
	}
	for _, o := range []schema.Options{{Strict: true}, {}} {
		_, _, err := compile(optional(6_001, ""), o)
		var wrong *schema.Error
		if !errors.As(err, &wrong) || wrong.Pointer != "/properties" {
			t.Errorf("6,001 optional properties, strict %v: %v", o.Strict, err)
		}
	}
}

// TestLarge wants answers, not refusals.
func TestLarge(t *testing.T) {
	reference.Slow(t)
	for _, c := range []struct{ name, schema, good, bad string }{
		{"10,000 values", `{"enum":[` + list(10_000, func(i int) string { return fmt.Sprintf(`"value %d"`, i) }) + `]}`, `"value 9999"`, `"value 10000"`},
		{"5,000 optional properties", `{"type":"object","properties":{` + list(5_000, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"integer"}`, i) }) +
			`},"additionalProperties":false}`, `{"p7":1,"p4999":2}`, `{"p4999":1,"p7":2}`},
		{"2,000 required properties", `{"type":"object","properties":{` + list(2_000, func(i int) string { return fmt.Sprintf(`"p%d":{"const":1}`, i) }) +
			`},"required":[` + list(2_000, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `],"additionalProperties":false}`,
			`{` + list(2_000, func(i int) string { return fmt.Sprintf(`"p%d":1`, i) }) + `}`, `{"p0":1}`},
		{"an answer of 5,000 objects", `{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}}`,
			"[" + list(5_000, func(i int) string { return fmt.Sprintf(`{"a": %d, "b": "text %d"}`, i, i) }) + "]", "["},
		{"200 discriminated objects", `{"oneOf":[` + list(200, func(i int) string {
			return fmt.Sprintf(`{"type":"object","properties":{"k":{"const":"k%d"},"v":{"type":"integer","minimum":%d}},"required":["k","v"]}`, i, i)
		}) + `]}`, `{"k":"k150","v":150}`, `{"k":"k150","v":149}`},
		{"300 anyOf of references", `{"anyOf":[` + list(300, func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i) }) + `],"$defs":{` +
			list(300, func(i int) string { return fmt.Sprintf(`"d%d":{"const":%d}`, i, i) }) + `}}`, `299`, `300`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _, err := compile(c.schema, schema.Options{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if !accepts(t, g, c.good) || accepts(t, g, c.bad) {
				t.Error("the grammar is not the schema's")
			}
		})
	}
}
