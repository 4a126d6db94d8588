package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

func quoted(i int) string { return `"p` + strconv.Itoa(i) + `"` }

// anyOrder are the options of requests that ask for it.
func anyOrder() schema.Options {
	o := schema.Served(true)
	o.AnyOrder = true
	return o
}

// TestAnyOrder: properties come in any order, each once at most, and those that are required all; what else holds for an object holds, too.
func TestAnyOrder(t *testing.T) {
	for _, c := range []struct {
		schema         string
		taken, refused []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"type":"null"}},"required":["a","c"]}`,
			[]string{`{"a":1,"b":true,"c":null}`, `{"c":null,"b":false,"a":1}`, `{"c":null,"a":1}`},
			[]string{`{}`, `{"c":null}`, `{"a":1,"b":true}`, `{"c":null,"a":1,"c":null}`, `{"a":1,"c":null,"d":1}`, `{"a":null,"c":1}`, `{,"a":1,"c":null}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`, []string{`{}`, `{"b":1}`, `{"b":1,"a":2}`}, []string{`{"b":1,"b":1}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":{"type":"null"}}`,
			[]string{`{"x":null,"a":1,"y":null}`, `{"a":1}`, `{"x":null,"y":null,"a":1}`}, []string{`{"x":null}`, `{"a":1,"x":1}`, `{"a":1,"x":null,"a":1}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},"additionalProperties":false}`,
			[]string{`{"xy":5,"a":0,"x":0,"by":true}`}, []string{`{"a":0,"xy":4}`, `{"z":0,"a":1}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"minProperties":2,"maxProperties":2,"required":["a"]}`,
			[]string{`{"c":1,"a":1}`, `{"a":1,"b":1}`}, []string{`{"a":1}`, `{"b":1,"c":1}`, `{"a":1,"b":1,"c":1}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"minProperties":2,"maxProperties":3,"additionalProperties":{"type":"integer"}}`,
			[]string{`{"x":1,"a":1}`, `{"x":1,"a":1,"y":2}`}, []string{`{"a":1}`, `{"x":1,"y":1,"a":1,"z":1}`}},
		{`{"type":"object","dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"properties":{"b":{"minimum":3}}}},
			"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"null"}}}`,
			[]string{`{"b":1,"a":1}`, `{"a":1,"b":1}`, `{"c":null,"b":3}`, `{"b":3,"c":null,"a":0}`},
			[]string{`{"a":1}`, `{"b":2,"c":null}`, `{"c":null,"b":2}`}},
		{`{"type":"object","properties":{"c":{"enum":["US","FR"]},"z":{"type":"string"}},"required":["z","c"],"if":{"properties":{"c":{"const":"US"}}},
			"then":{"properties":{"z":{"pattern":"^[0-9]$"}}},"else":{"properties":{"z":{"pattern":"^[A-Z]$"}}}}`,
			[]string{`{"z":"1","c":"US"}`, `{"c":"FR","z":"A"}`, `{"z":"A","c":"FR"}`}, []string{`{"z":"1","c":"FR"}`, `{"c":"US","z":"A"}`}},
		{`{"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t","v"]},
			{"type":"object","properties":{"t":{"const":"b"},"w":{"type":"null"}},"required":["t"]}]}`,
			[]string{`{"v":1,"t":"a"}`, `{"w":null,"t":"b"}`, `{"t":"b"}`}, []string{`{"v":1,"t":"b"}`, `{"w":null,"t":"a"}`}},
		{`{"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"integer"}}}],"type":"object","required":["a","b"],"unevaluatedProperties":false}`,
			[]string{`{"b":1,"a":1}`}, []string{`{"b":1,"a":1,"c":1}`}},
	} {
		g, _, err := compile(c.schema, anyOrder())
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.taken {
			if !accepts(t, g, text) {
				t.Errorf("%s does not take %s", c.schema, text)
			}
		}
		for _, text := range c.refused {
			if accepts(t, g, text) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

// TestAnyOrderGenerated draws texts of schemas in any order. Python's jsonschema checks them, and each is taken in all orders that are tried.
func TestAnyOrderGenerated(t *testing.T) {
	reference.Slow(t)
	python(t)
	random, moved := rand.New(rand.NewPCG(5, 6)), 0
	d := drawn{options: anyOrder()}
	d.texts = func(g *grammar.Grammar, text string) {
		for range 3 {
			other := shuffled(t, random, text)
			if other != text {
				moved++
			}
			if !accepts(t, g, other) {
				t.Errorf("%s is drawn, and not taken as %s", text, other)
			}
		}
	}
	for _, text := range usual {
		d.add(t, "draft2020-12", text, reference.Repeats(0, 35, 200))
	}
	every, count := reference.Repeats(0, 48, 12), 2
	if os.Getenv("WEIR_SCHEMASTORE") == "all" {
		every, count = 1, 6
	}
	for i, s := range readStore(t) {
		if i%every == 0 {
			d.add(t, "", s.text, count)
		}
	}
	d.check(t, reference.Repeats(0, 200, 1_000))
	t.Logf("%d other orders", moved)
}

// shuffled is a JSON text with the properties of its objects in another order.
func shuffled(t *testing.T, random *rand.Rand, text string) string {
	t.Helper()
	text = strings.TrimSpace(text)
	if text[0] != '{' && text[0] != '[' {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	next := func() {
		if _, err := d.Token(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	next()
	var parts []string
	for d.More() {
		front := ""
		if text[0] == '{' {
			from := d.InputOffset()
			next()
			front = strings.Trim(text[from:d.InputOffset()], ", \t\n") + ": "
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		parts = append(parts, front+shuffled(t, random, string(v)))
	}
	end := "]"
	if text[0] == '{' {
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		end = "}"
	}
	return text[:1] + strings.Join(parts, ",") + end
}

// TestAnyOrderGrowsWithProperties: the rules of an object in any order grow with its properties, not with their orders.
func TestAnyOrderGrowsWithProperties(t *testing.T) {
	object := func(n int) string {
		return `{"type":"object","properties":{` + list(n, func(i int) string { return quoted(i) + `:{"type":"integer"}` }) + `},"required":[` +
			list(n/2, quoted) + `]}`
	}
	var bytes []int64
	for _, n := range []int{50, 500} {
		g, _, err := compile(object(n), anyOrder())
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for i := range n {
			parts = append(parts, quoted(i)+":1")
		}
		slices.Reverse(parts)
		if n == 50 && !accepts(t, g, "{"+strings.Join(parts, ",")+"}") {
			t.Error("properties from the last one to the first are not taken")
		}
		g, _, _ = compile(object(n), anyOrder())
		bytes = append(bytes, g.Bytes())
	}
	if bytes[1] > 12*bytes[0] {
		t.Errorf("500 properties take %d bytes, 50 take %d", bytes[1], bytes[0])
	}
}
