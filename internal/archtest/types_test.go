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

// wideTypes are past the limits, with the bounds that each keeps and the reason why it is not divided, or not yet.
var wideTypes = map[string]struct {
	methods, files int
	reason         string
}{
	"api/admin.Config":    {28, 12, "what the admin listener is given; each endpoint is one method and one file, and reads few fields"},
	"api/openai.Server":   {25, 10, "what the server is asked by the process stands beside what it is about"},
	"api/predict.Server":  {26, 9, "one method per route of the protocols; it has no data that only some of them use"},
	"bench.Result":        {20, 11, "a data record: its methods print one table each, beside what the table measures"},
	"configs.Config":      {24, 8, "the data of all settings; a method derives one subject's options, beside that subject's settings"},
	"configs.Sources":     {18, 9, "where settings come from: one file for each kind of source"},
	"configs.fileDecoder": {20, 7, "one method for each section of the file, beside that section's settings"},
}

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
		methods, files := methodsLimit, methodFilesLimit
		if wide, ok := wideTypes[w.name]; ok {
			if w.methods <= methods && len(w.files) <= files {
				t.Errorf("%s is within the limits: strike it from wideTypes", w.name)
			}
			methods, files = max(methods, wide.methods), max(files, wide.files)
		}
		if w.methods > methods || len(w.files) > files {
			t.Errorf("%s has %d methods in %d files, limits %d and %d: which of its data could be a type of its own?",
				w.name, w.methods, len(w.files), methods, files)
		}
	}
	for name, wide := range wideTypes {
		if byName[name] == nil {
			t.Errorf("wideTypes has %s, which is no type any more: strike it", name)
		}
		if wide.reason == "" {
			t.Errorf("wideTypes has %s without a reason", name)
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
