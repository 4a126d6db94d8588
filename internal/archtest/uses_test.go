package archtest

import (
	"go/ast"
	"go/doc/comment"
	"slices"
	"strings"
	"testing"
)

// packageUse is what a package shows of how it is used.
type packageUse struct {
	isMain     bool // a command: what it does on the command line is its use
	hasCode    bool // the package's comment has lines of code
	hasExample bool
}

// TestPackagesShowAUse demands of each package an Example, or lines of code in its comment: what a name promises is seen by what goes in and
// comes out. There are no exceptions.
func TestPackagesShowAUse(t *testing.T) {
	packages := make(map[string]*packageUse)
	for _, s := range withTests(t) {
		u := packages[s.dir]
		if u == nil {
			u = &packageUse{isMain: s.file.Name.Name == "main"}
			packages[s.dir] = u
		}
		if strings.HasSuffix(s.name, "_test.go") {
			u.hasExample = u.hasExample || slices.ContainsFunc(s.file.Decls, isExample)
		} else {
			u.hasCode = u.hasCode || hasCode(s.file.Doc)
		}
	}
	for dir, u := range packages {
		if !u.isMain && !u.hasCode && !u.hasExample {
			t.Errorf("%s shows no use of itself: write an Example of 5 to 25 lines in example_test.go, or lines of code in the package's comment", dir)
		}
	}
}

// isExample reports whether go doc shows a declaration as an example.
func isExample(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") && len(f.Type.Params.List) == 0
}

// hasCode reports whether a comment has an indented block of code.
func hasCode(c *ast.CommentGroup) bool {
	text := new(comment.Parser).Parse(c.Text())
	return slices.ContainsFunc(text.Content, func(b comment.Block) bool {
		_, code := b.(*comment.Code)
		return code
	})
}
