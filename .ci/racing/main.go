// Command racing tells what the race detector has to run:
//
//	racing packages    the packages of which a file, or a test, starts goroutines
//	racing quiet       the tests of these packages during which one goroutine runs
//
// What starts goroutines for other packages, as the pool of kernels does, is raced where it starts them and in the engine's own tests. The
// tests of a package are told apart only where neither its code nor that of a package of this module below it starts a goroutine: then a
// test is quiet that neither starts one nor mentions a function of its package that does. internal/archtest runs nothing of the product: it
// reads its source.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package as go list tells of it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Deps, TestImports, XTestImports    []string

	code, tests map[string]*function
}

// function is what the functions and methods of one name do in a package.
type function struct {
	starts   bool
	mentions map[string]bool
}

func main() {
	packages, err := list()
	if err != nil || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: racing packages | quiet", err)
		os.Exit(2)
	}
	loud, quiet := map[string]bool{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		p := packages[path]
		if path == "weir/internal/archtest" || !p.starts() {
			continue
		}
		if os.Args[1] == "packages" {
			fmt.Println(path)
		}
		all := everything(p.code, p.tests)
		alone := p.alone(packages)
		for name := range p.tests {
			if isTest(name) {
				quiet[name] = true
				loud[name] = loud[name] || !alone || all[name].starts
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(quiet)) {
		if os.Args[1] == "quiet" && !loud[name] {
			fmt.Println(name)
		}
	}
}

func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Example"}, func(kind string) bool { return strings.HasPrefix(name, kind) }) && name != "TestMain"
}

// list reads the packages of this module.
func list() (map[string]*listed, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Deps,TestImports,XTestImports", "./...").Output()
	if err != nil {
		return nil, err
	}
	packages := map[string]*listed{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if p.code, err = p.read(p.GoFiles); err == nil {
			p.tests, err = p.read(append(p.TestGoFiles, p.XTestGoFiles...))
		}
		if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = p
	}
}

func (p *listed) read(files []string) (map[string]*function, error) {
	functions := map[string]*function{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				note(functions, fn.Name.Name, fn)
			} else {
				note(functions, "", d) // what variables hold
			}
		}
	}
	return functions, nil
}

func note(functions map[string]*function, name string, of ast.Node) {
	f := functions[name]
	if f == nil {
		f = &function{mentions: map[string]bool{}}
		functions[name] = f
	}
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			f.starts = true
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok {
				f.starts = f.starts || slices.Contains([]string{"Go", "AfterFunc", "Parallel", "RunParallel"}, called.Sel.Name)
			}
		case *ast.Ident:
			f.starts = f.starts || n.Name == "httptest"
			f.mentions[n.Name] = true
		}
		return true
	})
}

func (p *listed) starts() bool { return startsAny(p.code) || startsAny(p.tests) }

func startsAny(functions map[string]*function) bool {
	for _, f := range functions {
		if f.starts {
			return true
		}
	}
	return false
}

// alone tells that no code which the tests of a package may run, other than theirs, starts a goroutine.
func (p *listed) alone(packages map[string]*listed) bool {
	below := append([]string{p.ImportPath}, p.Deps...)
	for _, path := range append(p.TestImports, p.XTestImports...) {
		below = append(below, path)
		if q := packages[path]; q != nil {
			below = append(below, q.Deps...)
		}
	}
	return !slices.ContainsFunc(below, func(path string) bool { return packages[path] != nil && startsAny(packages[path].code) })
}

// everything puts the functions of a package together; what mentions one that starts goroutines starts them, too.
func everything(parts ...map[string]*function) map[string]*function {
	all := map[string]*function{}
	for _, part := range parts {
		for name, f := range part {
			if all[name] == nil {
				all[name] = &function{mentions: map[string]bool{}}
			}
			all[name].starts = all[name].starts || f.starts
			maps.Copy(all[name].mentions, f.mentions)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range all {
			for name := range f.mentions {
				if g := all[name]; !f.starts && g != nil && g.starts {
					f.starts, changed = true, true
				}
			}
		}
	}
	return all
}
