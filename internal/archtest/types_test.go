package archtest

import (
	"cmp"
	"go/ast"
	"slices"
	"testing"
)

// Past these a type is looked at again: its methods may be about several things, each with data of its own.
const (
	methodsLimit     = 40
	methodFilesLimit = 6
)

// narrowFolders keep to the limits. The others are printed (-v); a folder joins the list when its types are within them.
var narrowFolders = []string{"cmd", "internal/console", "internal/server", "internal/store", "kvcache", "scheduler"}

// typeWidth is how many methods a type has, and over which files they lie.
type typeWidth struct {
	dir     string
	name    string // folder and type
	methods int
	files   map[string]bool
}

// TestTypes keeps types at a size that one can hold in the head: files divide lines, and only another type divides data.
func TestTypes(t *testing.T) {
	var all []*typeWidth
	byName := make(map[string]*typeWidth)
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := s.dir + "." + receiverOf(f)
			w := byName[name]
			if w == nil {
				w = &typeWidth{dir: s.dir, name: name, files: make(map[string]bool)}
				byName[name], all = w, append(all, w)
			}
			w.methods++
			w.files[s.name] = true
		}
	}
	slices.SortFunc(all, func(a, b *typeWidth) int {
		return cmp.Or(cmp.Compare(b.methods, a.methods), cmp.Compare(a.name, b.name))
	})
	for i, w := range all {
		if i < 12 {
			t.Logf("%4d methods in %2d files  %s", w.methods, len(w.files), w.name)
		}
		if anyBelow(w.dir, narrowFolders) && (w.methods > methodsLimit || len(w.files) > methodFilesLimit) {
			t.Errorf("%s has %d methods in %d files, limits %d and %d: which of its data could be a type of its own?",
				w.name, w.methods, len(w.files), methodsLimit, methodFilesLimit)
		}
	}
}

// receiverOf is the name of a method's type.
func receiverOf(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}
