package openai

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/reasoning"
)

// docs/api.md lists the fields of requests that the code reads, and no others.
func TestPageListsTheParameters(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Parameters\n")
	if !found {
		t.Fatal("docs/api.md has no section Parameters")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	elsewhere := []string{"echo", "prompt", "suffix", "messages", "reasoning_effort", "documents", "truncation_side", "audio", // read by some endpoints
		"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "include_reasoning", "store", "verbosity",
		"thinking_token_budget", "thinking_budget_tokens", "cache_salt", "n_probs"}
	section += "`audio`" // a message's, which must be empty
	var listed []string
	for _, m := range regexp.MustCompile("`([a-z][a-z0-9_.]*)`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, strings.Split(m[1], ".")...)
	}
	read := namesRead(t)
	if len(read) < 50 {
		t.Fatalf("only %d names found in the code: %v", len(read), read)
	}
	for _, name := range read {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is read and not in docs/api.md", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(read, name) {
			t.Errorf("docs/api.md lists %s, which nothing reads", name)
		}
		if _, refused := params.Unsupported[name]; refused && !slices.Contains(elsewhere, name) {
			t.Errorf("docs/api.md lists %s, which is refused", name)
		}
	}
}

// readers are the methods of jsonbody.Object that read one field, by the name that is
// their first argument.
var readers = []string{"Take", "Bool", "Flag", "Text", "Integer", "Count", "Number", "Need", "Inner"}

// namesRead finds the names in the calls, in this package and those below it, of readers, and in calls
// of functions that take an object and a name.
func namesRead(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	parts, _ := filepath.Glob("*/*.go")
	if files = append(files, parts...); err != nil || len(parts) == 0 {
		t.Fatal(len(parts), err)
	}
	names := slices.Concat(params.Labels, models.LengthNames, params.BothReasoningNames, reasoning.Names, []string{"tool_choice", "function_call"})
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if name, ok := nameRead(c); ok {
					names = append(names, name)
				}
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func nameRead(c *ast.CallExpr) (string, bool) {
	at := -1
	switch fun := c.Fun.(type) {
	case *ast.SelectorExpr:
		if slices.Contains(readers, fun.Sel.Name) {
			at = 0
		}
	case *ast.Ident:
		if strings.HasPrefix(fun.Name, "read") {
			at = 1
		}
	}
	if at < 0 || len(c.Args) <= at {
		return "", false
	}
	lit, ok := c.Args[at].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}
