package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measure is a thing and its length in lines.
type measure struct {
	name  string
	lines int
}

func longestFirst(a, b measure) int {
	return cmp.Or(cmp.Compare(b.lines, a.lines), strings.Compare(a.name, b.name))
}

// Past these a file or a function is looked at again: it may hold two ideas.
// They are far above what is normal here, so that only growth trips them.
const (
	fileLinesLimit     = 600
	functionLinesLimit = 120
)

// TestSizes prints, with -v, the lines per package and the longest files and
// functions. Tests and generated files are left out.
func TestSizes(t *testing.T) {
	packages := make(map[string]int)
	var files, functions []measure
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		lines := lineCount(t, s.name)
		packages[s.dir] += lines
		files = append(files, measure{s.name, lines})
		functions = append(functions, functionsOf(s)...)
	}
	slices.SortFunc(files, longestFirst)
	slices.SortFunc(functions, longestFirst)
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		t.Logf("%6d  %s", packages[dir], dir)
	}
	report(t, "longest files", files, fileLinesLimit)
	report(t, "longest functions", functions, functionLinesLimit)
}

func lineCount(t *testing.T, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte{'\n'})
}

func functionsOf(s source) []measure {
	var found []measure
	for _, decl := range s.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			lines := fileSet.Position(f.End()).Line - fileSet.Position(f.Pos()).Line + 1
			found = append(found, measure{fmt.Sprintf("%s %s", s.name, f.Name.Name), lines})
		}
	}
	return found
}

func report(t *testing.T, title string, sorted []measure, limit int) {
	t.Helper()
	t.Logf("%s: median %d, p90 %d", title, sorted[len(sorted)/2].lines, sorted[len(sorted)/10].lines)
	for _, m := range sorted[:min(10, len(sorted))] {
		t.Logf("%6d  %s", m.lines, m.name)
	}
	for _, m := range sorted {
		if m.lines > limit {
			t.Errorf("%s has %d lines, limit %d: is it still one idea?", m.name, m.lines, limit)
		}
	}
}
