package archtest

import (
	"go/ast"
	"go/parser"
	"strings"
	"testing"
)

// TestStructsHideForeignInstances: the compiler compiles all methods of each generic instance that it meets in a struct, in every
// package that imports the struct, however far it is behind others. An instance of another module's type that a struct holds is
// an interface of the methods that are called, so that only the package that makes it compiles them.
func TestStructsHideForeignInstances(t *testing.T) {
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		for _, i := range foreignInstances(s.file) {
			t.Errorf("%s:%d: a struct, or a name for one, holds an instance of %s: declare an interface of the methods that are called, "+
				"as recent in api/tenant", s.name, lineOf(i.Pos()), i.Sel.Name)
		}
	}
}

// foreignInstances are the generic types of other modules whose instances types of a file hold: in fields of structs, or by another name.
func foreignInstances(file *ast.File) (found []*ast.SelectorExpr) {
	foreign := make(map[string]bool)
	for _, spec := range file.Imports {
		if p := strings.Trim(spec.Path.Value, `"`); isThirdParty(p) {
			parts := strings.Split(p, "/")
			name := parts[len(parts)-1]
			if len(parts) > 1 && len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
				name = parts[len(parts)-2] // the package before its major version
			}
			if spec.Name != nil {
				name = spec.Name.Name
			}
			foreign[name] = true
			foreign[strings.TrimSuffix(name, "-go")] = true
		}
	}
	instance := func(n ast.Node) bool {
		var generic ast.Expr
		switch n := n.(type) {
		case *ast.IndexExpr:
			generic = n.X
		case *ast.IndexListExpr:
			generic = n.X
		}
		if of, ok := generic.(*ast.SelectorExpr); ok {
			if pkg, ok := of.X.(*ast.Ident); ok && foreign[pkg.Name] {
				found = append(found, of)
			}
		}
		return true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			ast.Inspect(spec.Type, instance)
			return false
		}
		return true
	})
	return found
}

func TestForeignInstancesAreFound(t *testing.T) {
	const text = `package p
import (
	"sync/atomic"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/sony/gobreaker/v2"
	"github.com/parquet-go/parquet-go"
	"weir/internal/heap"
)
type a struct {
	one    *lru.Cache[string, int]
	listed []map[string]*gobreaker.TwoStepCircuitBreaker[struct{}]
	own    heap.Heap[int]
	std    atomic.Pointer[int]
	hidden interface{ Get(string) int }
}
type b = parquet.GenericWriter[any]
func f() { var _ lru.Cache[string, int] }`
	file, err := parser.ParseFile(fileSet, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range foreignInstances(file) {
		got = append(got, i.Sel.Name)
	}
	if all := strings.Join(got, " "); all != "Cache TwoStepCircuitBreaker GenericWriter" {
		t.Errorf("found %q", all)
	}
}
