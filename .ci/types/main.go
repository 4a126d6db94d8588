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
	"sync"
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
	platforms := os.Args[min(1, len(os.Args)):]
	said, files := make([]string, len(platforms)), newSources()
	var all sync.WaitGroup
	for i, platform := range platforms {
		all.Go(func() {
			n, err := check(files, platform)
			said[i] = fmt.Sprintf("%s: %d packages and tests of this module have the right types", platform, n)
			if err != nil {
				said[i] = fmt.Sprintf("types: %s: %v", platform, err)
			}
		})
	}
	all.Wait()
	for _, line := range said {
		fmt.Println(line)
		failed = failed || strings.HasPrefix(line, "types: ")
	}
	if failed {
		os.Exit(1)
	}
}

// sources are files that were read, each once for all platforms that it belongs to.
type sources struct {
	set   *token.FileSet
	mu    sync.Mutex
	files map[string]func() (*ast.File, error)
}

func newSources() *sources {
	return &sources{set: token.NewFileSet(), files: map[string]func() (*ast.File, error){}}
}

// read gives a file, of another module without what its functions do.
func (s *sources) read(path string, ours bool) (*ast.File, error) {
	s.mu.Lock()
	read := s.files[path]
	if read == nil {
		read = sync.OnceValues(func() (*ast.File, error) {
			f, err := parser.ParseFile(s.set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
			for i := 0; !ours && err == nil && i < len(f.Decls); i++ {
				if fn, ok := f.Decls[i].(*ast.FuncDecl); ok && fn.Body != nil {
					fn.Body.List = nil
				}
			}
			return f, err
		})
		s.files[path] = read
	}
	s.mu.Unlock()
	return read()
}

// check returns how many packages of this module it has checked, those with test files counted again.
func check(files *sources, platform string) (n int, err error) {
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
	c := checker{sources: files, sizes: sizes, done: map[string]*types.Package{"unsafe": types.Unsafe}}
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
	sources *sources
	sizes   types.Sizes
	done    map[string]*types.Package
	errs    []error
}

func (c *checker) check(p *listed) {
	files := make([]*ast.File, 0, len(p.GoFiles)+len(p.CgoFiles))
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := c.sources.read(name, p.ours())
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
	c.done[p.ImportPath], _ = config.Check(path, c.sources.set, files, nil) // Error has the errors
	if p.ours() && len(p.SFiles) == 0 {
		c.bodies(files)
	}
}

// bodies finds functions that assembly should have, where there is none. The compiler does so, the type checker does not.
func (c *checker) bodies(files []*ast.File) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body == nil {
				c.errs = append(c.errs, fmt.Errorf("%s: %s has no body, and its package no assembly", c.sources.set.Position(fn.Pos()), fn.Name.Name))
			}
		}
	}
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
