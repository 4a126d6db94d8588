// Command types type-checks every package of this module, and its tests, for other systems and other build tags than this build's:
//
//	types linux/arm64 darwin/arm64 linux/amd64,llamacpp
//
// With a tag, cgo is on. Nothing is compiled, so it takes seconds instead of minutes. The packages of other modules are checked by their
// declarations only, and what comes from C counts as right.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is a package as go list tells of it, in an order in which imports stand before those that import them.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	SFiles            []string
	ImportMap         map[string]string
	Module            *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

func (p *listed) ours() bool { return p.Module != nil && p.Module.Main }

func main() {
	failed := len(os.Args) < 2
	for _, platform := range os.Args[1:] {
		n, err := check(platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "types: %s: %v\n", platform, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %d packages and tests of this module have the right types\n", platform, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check returns how many packages of this module it has checked, those with test files counted again.
func check(platform string) (n int, err error) {
	platform, tags, tagged := strings.Cut(platform, ",")
	system, arch, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return 0, errors.New("name a system and an architecture that Go has, as linux/arm64")
	}
	list := exec.Command("go", "list", "-e", "-deps", "-test", "-tags="+tags,
		"-json=ImportPath,Dir,GoFiles,CgoFiles,SFiles,ImportMap,Module,Error", "./...")
	cgo := "CGO_ENABLED=0"
	if tagged {
		cgo = "CGO_ENABLED=1"
	}
	list.Env = append(os.Environ(), cgo, "GOOS="+system, "GOARCH="+arch)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := list.Start(); err != nil {
		return 0, err
	}
	c := checker{sizes: sizes, done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for in := json.NewDecoder(out); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return n, err
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the latter is the main function that go test writes
			continue
		}
		if p.Error != nil {
			c.errs = append(c.errs, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err))
		}
		c.check(&p)
		if p.ours() {
			n++
		}
	}
	return n, errors.Join(append(c.errs, list.Wait())...)
}

type checker struct {
	sizes types.Sizes
	done  map[string]*types.Package
	errs  []error
}

func (c *checker) check(p *listed) {
	fset := token.NewFileSet()
	files := make([]*ast.File, 0, len(p.GoFiles)+len(p.CgoFiles))
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		files = append(files, f)
	}
	config := types.Config{
		IgnoreFuncBodies: !p.ours(), FakeImportC: true, Sizes: c.sizes,
		Error: func(err error) { c.errs = append(c.errs, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if found := c.done[path]; found != nil {
				return found, nil
			}
			return nil, fmt.Errorf("%s is not among the packages that go list names", path)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.done[p.ImportPath], _ = config.Check(path, fset, files, nil) // Error has the errors
	if p.ours() && len(p.SFiles) == 0 {
		c.bodies(fset, files)
	}
}

// bodies finds functions that assembly should have, where there is none. The compiler does so, the type checker does not.
func (c *checker) bodies(fset *token.FileSet, files []*ast.File) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body == nil {
				c.errs = append(c.errs, fmt.Errorf("%s: %s has no body, and its package no assembly", fset.Position(fn.Pos()), fn.Name.Name))
			}
		}
	}
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
