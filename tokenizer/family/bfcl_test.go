package family

import (
	"encoding/json"
	"os"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// bfclCase is a case of testdata/bfcl.json: tools and expected calls of the Berkeley Function-Calling Leaderboard (Apache-2.0), as
// testdata/bfcl.py records them.
type bfclCase struct {
	ID    string
	Tools []struct {
		Name       string
		Parameters json.RawMessage
	}
	Calls []struct {
		Name      string
		Arguments json.RawMessage
	}
}

func bfcl(t *testing.T) []bfclCase {
	t.Helper()
	data, err := os.ReadFile("testdata/bfcl.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []bfclCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (c *bfclCase) tools() []Tool {
	list := make([]Tool, len(c.Tools))
	for i, t := range c.Tools {
		list[i] = Tool{Name: t.Name, Parameters: t.Parameters}
	}
	return list
}

// TestBFCLCallsComeBack writes the expected calls as the models of every family write them, and parses them back.
func TestBFCLCallsComeBack(t *testing.T) {
	reference.Slow(t)
	cases := bfcl(t)
	read := 0
	for _, f := range every() {
		for i := range cases {
			c := &cases[i]
			var calls []Call
			for _, call := range c.Calls {
				calls = append(calls, Call{call.Name, call.Arguments})
			}
			if f.layout.single {
				calls = calls[:1]
			}
			text := f.CallText("", calls)
			at, n := 0, 0
			for _, p := range parse(f, Options{Tools: c.tools(), Choice: Choice{Mode: Auto, Parallel: true}}, cutUp(text, 5)...) {
				switch p.Kind {
				case CallStart:
					if at = n; at >= len(calls) || p.Name != calls[at].Name {
						t.Fatalf("%s, %s: call %d of %q is %s", f.Name, c.ID, at, text, p.Name)
					}
					n++
				case CallArguments:
					if !sameJSON(p.Text, string(calls[at].Arguments)) {
						t.Errorf("%s, %s: %q gives %s", f.Name, c.ID, text, p.Text)
					}
				case Content:
					t.Errorf("%s, %s: %q has content %q", f.Name, c.ID, text, p.Text)
				default:
				}
			}
			if n != len(calls) {
				t.Errorf("%s, %s: %d calls of %d in %q", f.Name, c.ID, n, len(calls), text)
			}
			read += n
		}
	}
	t.Logf("%d calls of %d cases", read, len(cases))
}

// TestBFCLToolsAreConstrained draws calls of the recorded tools with the real compiler of schemas.
func TestBFCLToolsAreConstrained(t *testing.T) {
	reference.Slow(t)
	cases := bfcl(t)
	for i, f := range every() {
		for j := range cases {
			if (i+j)%24 != 0 || len(cases[j].Tools[0].Parameters) == 0 {
				continue
			}
			tools := cases[j].tools()
			b := grammar.NewBuilder(grammar.Limits{})
			start, err := f.Grammar(b, Rules{
				Tools: tools, Choice: Choice{Mode: Required, Parallel: true}, Opening: openingsOf(f)[0],
				Schema: func(b *grammar.Builder, document []byte, strict bool) (grammar.Symbol, error) {
					s, _, err := schema.Add(b, document, schema.Options{Strict: strict, Closed: true, Compact: true})
					return s, err
				},
			})
			if err != nil {
				t.Fatalf("%s, %s: %v", f.Name, cases[j].ID, err)
			}
			g, err := b.Compile(start)
			if err != nil {
				t.Fatalf("%s, %s: %v", f.Name, cases[j].ID, err)
			}
			o := Options{Tools: tools, Choice: Choice{Mode: Auto, Parallel: true}, Opening: openingsOf(f)[0]}
			var keys []string
			for _, tool := range tools {
				for _, p := range properties(tool.Parameters) {
					keys = append(keys, p.name)
				}
			}
			checkTypes(t, f, tools, newSampler(f, false, uint64(j), keys...), g, o)
		}
	}
}

// checkTypes draws an answer and demands required arguments and types as the schemas say.
func checkTypes(t *testing.T, f *Family, tools []Tool, s *sampler, g *grammar.Grammar, o Options) {
	t.Helper()
	text, parts := s.draw(t, g, f.NewParser(o))
	var list []property
	calls := 0
	for _, p := range parts {
		switch p.Kind {
		case CallStart:
			calls++
			list = nil
			for _, tool := range tools {
				if tool.Name == p.Name {
					list = properties(tool.Parameters)
				}
			}
		case CallArguments:
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(p.Text), &got); err != nil {
				t.Fatalf("%s: %q gives %s: %v", f.Name, text, p.Text, err)
			}
			for _, want := range list {
				if v, ok := got[want.name]; ok && typeOfJSON(v)&want.types == 0 || !ok && want.required {
					t.Errorf("%s: %q gives %s: %s", f.Name, text, p.Text, want.name)
				}
			}
		default:
		}
	}
	if calls == 0 {
		t.Errorf("%s: no call in %q", f.Name, text)
	}
}
