package archtest

import (
	"go/ast"
	"go/doc/comment"
	"path"
	"slices"
	"strings"
	"testing"
)

// packageUse is what a package shows of how it is used.
type packageUse struct {
	isMain  bool // a command: what it does on the command line is its use
	hasCode bool // the package's comment has lines of code
}

// TestPackagesShowAUse demands of each package an Example, or lines of code in its comment: what a name promises is seen by what goes in and
// comes out. There are no exceptions. The Example of a package ollama may stand in its parent's tests, as Example_ollama: where a package has no
// other test, it is not worth a binary of its own, which takes a third of a second to link.
func TestPackagesShowAUse(t *testing.T) {
	packages := make(map[string]*packageUse)
	hasExample := make(map[string]bool) // by folder
	for _, s := range withTests(t) {
		u := packages[s.dir]
		if u == nil {
			u = &packageUse{isMain: s.file.Name.Name == "main"}
			packages[s.dir] = u
		}
		if strings.HasSuffix(s.name, "_test.go") {
			for _, d := range s.file.Decls {
				if name, is := exampleName(d); is {
					_, child, _ := strings.Cut(name, "_")
					hasExample[s.dir], hasExample[path.Join(s.dir, child)] = true, true
				}
			}
		} else {
			u.hasCode = u.hasCode || hasCode(s.file.Doc)
		}
	}
	for dir, u := range packages {
		if !u.isMain && !u.hasCode && !hasExample[dir] {
			t.Errorf("%s shows no use of itself: write an Example of 5 to 25 lines in example_test.go, or lines of code in the package's comment", dir)
		}
	}
}

// exampleName returns the name of a function that go doc shows as an example.
func exampleName(d ast.Decl) (name string, is bool) {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Example") || len(f.Type.Params.List) > 0 {
		return "", false
	}
	return f.Name.Name, true
}

// hasCode reports whether a comment has an indented block of code.
func hasCode(c *ast.CommentGroup) bool {
	text := new(comment.Parser).Parse(c.Text())
	return slices.ContainsFunc(text.Content, func(b comment.Block) bool {
		_, code := b.(*comment.Code)
		return code
	})
}
