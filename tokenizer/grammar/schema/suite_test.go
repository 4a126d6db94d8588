package schema_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// octets is a vocabulary of the 256 single bytes.
var octets = func() *grammar.Vocabulary {
	pieces := make([][]byte, 256)
	for b := range pieces {
		pieces[b] = []byte{byte(b)}
	}
	return grammar.NewVocabulary(pieces, nil)
}()

func compile(text string, o schema.Options) (*grammar.Grammar, schema.Report, error) {
	b := grammar.NewBuilder(grammar.Limits{})
	start, report, err := schema.Add(b, []byte(text), o)
	if err != nil {
		return nil, report, err
	}
	g, err := b.Compile(start)
	return g, report, err
}

// accepts reports whether a grammar lets a whole text through.
func accepts(t *testing.T, g *grammar.Grammar, text string) bool {
	t.Helper()
	accepted, err := g.Accepts(text)
	if err != nil {
		t.Errorf("%.200s: %v", text, err)
	}
	return accepted
}

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// text is the group's schema; one of draft 7 says so.
func (g *suiteGroup) text(draft string) string {
	text := string(g.Schema)
	if draft != "draft7" || text[0] != '{' || strings.Contains(text, `"$schema"`) {
		return text
	}
	head := `{"$schema":"http://json-schema.org/draft-07/schema#"`
	if text == "{}" {
		return head + "}"
	}
	return head + "," + text[1:]
}

func readSuite(t *testing.T) map[string]map[string][]suiteGroup {
	t.Helper()
	file, err := os.Open("testdata/suite.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var suite map[string]map[string][]suiteGroup
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	return suite
}

// spellings gives the texts of an instance that a grammar may take: with its properties in every order, and its numbers plain where they are
// not. An instance counts as accepted when one of them is, as a grammar has one order of properties and one spelling of numbers.
func spellings(t *testing.T, data json.RawMessage) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	const most = 5_000
	var write func(v any) []string
	sequence := func(open, last string, parts [][]string) []string {
		texts := []string{open}
		for i, p := range parts {
			var next []string
			for _, head := range texts {
				for _, tail := range p {
					if i > 0 {
						tail = "," + tail
					}
					if len(next) < most {
						next = append(next, head+tail)
					}
				}
			}
			texts = next
		}
		for i := range texts {
			texts[i] += last
		}
		return texts
	}
	text := func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
	}
	write = func(v any) []string {
		switch v := v.(type) {
		case string:
			return []string{text(v)}
		case json.Number:
			texts := []string{v.String()}
			if r, ok := new(big.Rat).SetString(v.String()); ok && r.IsInt() && r.Num().String() != v.String() {
				texts = append(texts, r.Num().String())
			}
			return texts
		case []any:
			var parts [][]string
			for _, item := range v {
				parts = append(parts, write(item))
			}
			return sequence("[", "]", parts)
		case map[string]any:
			var parts [][]string
			for _, key := range slices.Sorted(maps.Keys(v)) {
				var entries []string
				for _, value := range write(v[key]) {
					entries = append(entries, text(key)+":"+value)
				}
				parts = append(parts, entries)
			}
			var texts []string
			for _, order := range permutations(len(parts)) {
				var ordered [][]string
				for _, i := range order {
					ordered = append(ordered, parts[i])
				}
				texts = append(texts, sequence("{", "}", ordered)...)
			}
			return texts
		default:
			return []string{fmt.Sprint(map[any]any{nil: "null", true: "true", false: "false"}[v])}
		}
	}
	return write(v)
}

// permutations of 0 to n-1; of more than six the first order alone.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), n-1-at, n-1))
			if n > 6 {
				break
			}
		}
	}
	return all
}

type tally struct{ groups, refused, right, accepted, rejected int }

// TestSuite holds the grammars against JSON-Schema-Test-Suite, in strict mode: what each file's schemas come to is in the golden file. No
// instance that is not valid may be let through, except those where the suite takes format as a remark.
func TestSuite(t *testing.T) {
	reference.Slow(t)
	suite := readSuite(t)
	var golden strings.Builder
	total := map[string]*tally{}
	for _, draft := range []string{"draft2020-12", "draft7"} {
		for _, file := range slices.Sorted(maps.Keys(suite[draft])) {
			sum := &tally{}
			var notes strings.Builder
			for _, group := range suite[draft][file] {
				suiteOne(t, draft, group, sum, &notes)
			}
			fmt.Fprintf(&golden, "%s %s: groups %d, refused %d; instances right %d, wrongly accepted %d, wrongly rejected %d\n%s",
				draft, file, sum.groups, sum.refused, sum.right, sum.accepted, sum.rejected, notes.String())
			kind := draft
			if strings.HasPrefix(file, "optional/") {
				kind += " optional"
			}
			if total[kind] == nil {
				total[kind] = &tally{}
			}
			all := total[kind]
			all.groups, all.refused, all.right = all.groups+sum.groups, all.refused+sum.refused, all.right+sum.right
			all.accepted, all.rejected = all.accepted+sum.accepted, all.rejected+sum.rejected
			if sum.accepted > 0 && file != "optional/content" { // contentEncoding and contentMediaType are remarks since 2019-09
				t.Errorf("%s %s: %d instances wrongly accepted\n%s", draft, file, sum.accepted, notes.String())
			}
		}
	}
	for _, kind := range []string{"draft2020-12", "draft2020-12 optional", "draft7", "draft7 optional"} {
		fmt.Fprintf(&golden, "total %s: %+v\n", kind, *total[kind])
		t.Logf("%s: %+v", kind, *total[kind])
	}
	compareGolden(t, "testdata/suite.golden", golden.String(), 1)
}

// compareGolden holds what was found against a golden file: its lines, or one in so many of them.
func compareGolden(t *testing.T, path, got string, every int) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		if at := i * every; at >= len(wantLines) || line != wantLines[at] {
			t.Fatalf("the results differ from %s at line %d:\n%s\nRun with -rewrite and read the difference.", path, at+1, line)
		}
	}
}

func suiteOne(t *testing.T, draft string, group suiteGroup, sum *tally, notes *strings.Builder) {
	t.Helper()
	text := group.text(draft)
	sum.groups++
	g, _, err := compile(text, schema.Served(true))
	if err != nil {
		var e *schema.Error
		switch {
		case errors.As(err, &e):
			fmt.Fprintf(notes, "\trefused %q: %s\n", group.Description, strings.TrimPrefix(err.Error(), "json schema: "))
		case errors.Is(err, regex.ErrUnsupported):
		default:
			t.Errorf("%s, %s: %v", draft, group.Description, err)
		}
		if !slices.ContainsFunc(group.Tests, func(c struct {
			Description string
			Data        json.RawMessage
			Valid       bool
		}) bool {
			return c.Valid
		}) { // a schema without values is refused by right
			sum.right += len(group.Tests)
			return
		}
		sum.refused++
		return
	}
	for _, c := range group.Tests {
		got := slices.ContainsFunc(spellings(t, c.Data), func(s string) bool { return accepts(t, g, s) })
		switch {
		case got == c.Valid:
			sum.right++
		case got:
			sum.accepted++
			fmt.Fprintf(notes, "\tWRONGLY ACCEPTED %q, %q: %s\n", group.Description, c.Description, c.Data)
		default:
			sum.rejected++
			fmt.Fprintf(notes, "\twrongly rejected %q, %q: %.100s\n", group.Description, c.Description, c.Data)
		}
	}
}
