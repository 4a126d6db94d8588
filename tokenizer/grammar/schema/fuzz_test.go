package schema_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

// FuzzAdd compiles any bytes as a schema: an error of the schema, a limit, or a grammar from which a text can be drawn.
func FuzzAdd(f *testing.F) {
	for _, text := range usual {
		f.Add([]byte(text), true)
	}
	for _, text := range []string{
		`{"$ref":"#/properties/a","properties":{"a":{"$anchor":"x"},"b":{"$dynamicRef":"#x"}}}`,
		`{"$id":"http://a.b/c","$defs":{"d":{"$id":"d?e#f"}},"$ref":"//a.b/./d?e"}`,
		`{"type":["integer","null"],"minimum":-1e300,"exclusiveMaximum":1e-300,"multipleOf":1e-9}`,
		`{"items":[true,false],"additionalItems":{"pattern":"\\p{L}+"},"dependencies":{"a":["b"],"c":{}}}`,
		`{"not":{"anyOf":[{"not":{"const":"a"}},{"minLength":3}]},"nullable":true}`,
	} {
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, strict bool) {
		if len(data) > 2_000 {
			return
		}
		b := grammar.NewBuilder(grammar.Limits{})
		start, report, err := schema.Add(b, data, schema.Options{Strict: strict, AnyOrder: len(data)%2 == 0, Limits: schema.Limits{Work: 5_000, Shapes: 500}})
		if err != nil {
			var e *schema.Error
			if !errors.As(err, &e) && !errors.Is(err, grammar.ErrLimit) {
				t.Fatalf("an error that is not the schema's: %v", err)
			}
			return
		}
		if strict && len(report.Ignored) > 0 {
			t.Fatalf("strict, and ignored: %v", report.Ignored)
		}
		g, err := b.Compile(start)
		if err != nil {
			if errors.Is(err, regex.ErrSize) || errors.Is(err, grammar.ErrLimit) {
				return
			}
			t.Fatalf("the rules of a schema do not compile: %v", err)
		}
		s := sampler{random: rand.New(rand.NewPCG(1, 2)), vocab: octets, pieces: pairs[:256], mask: make([]uint64, octets.Words())}
		if text, _, err := s.sample(g); err != nil && !errors.Is(err, grammar.ErrLimit) && !errors.Is(err, regex.ErrSize) {
			t.Fatalf("after %q: %v", text, err)
		}
	})
}

// BenchmarkAdd compiles what requests bring.
func BenchmarkAdd(b *testing.B) {
	for range b.N {
		for _, text := range usual {
			if _, _, err := compile(text, schema.Options{Strict: true}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(usual)), "µs/schema")
}
