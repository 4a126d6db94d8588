package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "weir"

// source is one parsed Go file. Files behind build tags
// count: the table holds for every build.
type source struct {
	name string // path below the root, slash separated
	dir  string
	file *ast.File
}

var fileSet = token.NewFileSet()

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// sources are the files of the module, without those of tests.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, s := range withTests(t) {
		if !strings.HasSuffix(s.name, "_test.go") {
			all = append(all, s)
		}
	}
	return all
}

// parsed are all files of the module; the tests here share them.
var parsed []source

// withTests parses the module, once. Folders that begin with "_" or "." and nested
// modules (generators with their own go.mod) are not part of it.
func withTests(t *testing.T) []source {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	top := root(t)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipForeign(top, p, d)
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fileSet, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		parsed = append(parsed, source{name, path.Dir(name), file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed) < 10 {
		t.Fatalf("found %d files only; the walk is broken", len(parsed))
	}
	return parsed
}

// lineOf is the line of a position in the files of withTests.
func lineOf(at token.Pos) int { return fileSet.PositionFor(at, false).Line }

func skipForeign(top, p string, d fs.DirEntry) error {
	if p == top {
		return nil
	}
	if strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// below reports whether p is dir or lies under it.
func below(p, dir string) bool {
	return dir == "" || p == dir || strings.HasPrefix(p, dir+"/")
}

func anyBelow(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(p, dir) })
}

// rowOf is the row that rules a folder.
func rowOf(dir string) (folder, bool) {
	var best folder
	found := false
	for _, row := range table {
		if below(dir, row.path) && len(row.path) >= len(best.path) {
			best, found = row, true
		}
	}
	return best, found
}

// objection says why dir may not import p; "" if it may.
func objection(dir, p string) string {
	own, isOwn := strings.CutPrefix(p, module+"/")
	target := p
	if isOwn {
		target = own
	}
	for _, b := range bans {
		if below(dir, b.from) && below(target, b.to) && !below(dir, b.to) {
			return b.why
		}
	}
	row, found := rowOf(dir)
	switch {
	case !found:
		return "the folder has no row in the table; add one with what it may import"
	case isOwn && !below(own, row.path) && !anyBelow(own, row.own):
		return "the row " + row.path + " does not list it; arrows point down the table only"
	case !isOwn && isThirdParty(p) && !anyBelow(p, row.third):
		return "the row " + row.path + " does not list this third party"
	}
	return ""
}

// isThirdParty: paths of the standard library have no dot in their first part.
func isThirdParty(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.Contains(first, ".")
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := objection(s.dir, p); why != "" {
				t.Errorf("%s imports %s: %s", fileSet.Position(spec.Pos()), p, why)
			}
		}
	}
}

// The table itself must refuse what the design forbids: a slip in it would
// otherwise go unseen for as long as the rule is not broken.
func TestTableRefusesWhatTheDesignForbids(t *testing.T) {
	for _, c := range []struct {
		dir, imports string
		allowed      bool
	}{
		{"api/openai", "weir/engine/llm", false},
		{"api/openai", "weir/kvcache", false},
		{"api/openai", "weir/tokenizer/chat", true},
		{"api", "github.com/valyala/fasthttp/fasthttputil", true},
		{"router/remote", "github.com/valyala/fasthttp", false},
		{"router", "weir/api", false},
		{"engine/llm", "weir/scheduler", true},
		{"engine/llm", "weir/tokenizer", false},
		{"engine/llm", "weir/router", false},
		{"engine/llm", "net/http", false},
		{"engine/kernel", "weir/engine/llm", false},
		{"engine/kernel", "weir/engine/kernel/weight", true},
		{"engine/kernel/weight", "weir/engine/kernel/attend", false},
		{"engine/kernel/attend", "weir/engine/gguf", false},
		{"engine/kernel/vector", "weir/engine/kernel/pool", false},
		{"engine/gguf", "weir/engine/kernel", false},
		{"scheduler", "weir/scheduler/admission", true},
		{"scheduler/admission", "weir/scheduler", false},
		{"scheduler", "math/rand/v2", false},
		{"kvcache", "weir/internal/inference", false},
		{"kvcache", "time", false},
		{"kvcache", "crypto/sha256", true},
		{"tokenizer", "weir/tokenizer/chat", true},
		{"tokenizer", "net/http", false},
		{"telemetry", "weir/scheduler", false},
		{"telemetry", "go.uber.org/zap/zapcore", true},
		{"engine/sample", "go.uber.org/zap", false},
		{"configs", "weir/cmd/weir", false},
		{"cmd/weir", "weir/internal/store", true},
		{"cmd/weir", "weir/internal/server", true},
		{"cmd/weir", "weir/api/openai", false},
		{"cmd/weir", "weir/router", false},
		{"internal/server", "weir/api/openai", true},
		{"internal/server/state", "weir/internal/server", false},
		{"engine/llm", "weir/internal/server", false},
		{"api/tenant", "weir/internal/store", false},
		{"engine/llm", "weir/internal/store", false},
		{"bench", "weir/internal/store", false},
		{"internal/store", "weir/api/openai", false},
		{"internal/store", "modernc.org/sqlite", true},
		{"api/usage", "github.com/jackc/pgx/v5", false},
		{"cmd/weir", "github.com/jackc/pgx/v5/stdlib", false},
		{"cmd/weir", "github.com/valyala/fasthttp", false},
		{"somewhere/new", "fmt", false},
	} {
		if why := objection(c.dir, c.imports); (why == "") != c.allowed {
			t.Errorf("%s importing %s: allowed is %v (%s)", c.dir, c.imports, why == "", why)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		begin := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			begin = "Command " + path.Base(s.dir) + " "
		}
		has := s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), begin)
		documented[s.dir] = documented[s.dir] || has
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment that begins with the package's name", dir)
		}
	}
}

func TestPackageNamesSayWhatTheyHold(t *testing.T) {
	for _, s := range sources(t) {
		for _, empty := range []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "base", "shared"} {
			if s.file.Name.Name == empty {
				t.Errorf("%s: package %s is named after nothing", s.name, empty)
			}
		}
	}
}

func TestDeterministicFoldersStayPure(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		if !anyBelow(s.dir, deterministic) {
			continue
		}
		checked++
		for _, found := range impurities(s.file) {
			t.Error(found)
		}
	}
	if checked == 0 {
		t.Error("none of the deterministic folders has a file")
	}
}

// impurities lists goroutines, panics and clocks of a file.
func impurities(file *ast.File) []string {
	var found []string
	report := func(n ast.Node, what string) {
		found = append(found, fileSet.Position(n.Pos()).String()+": "+what)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			return !isInvariantGuard(n)
		case *ast.GoStmt:
			report(n, "go statement: the caller's goroutine is the only one")
		case *ast.SelectStmt:
			report(n, "select statement: nothing here waits")
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "panic" {
				report(n, "panic: report the broken invariant as an error")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockFuncs, n.Sel.Name) {
				report(n, "time."+n.Sel.Name+": time enters as an argument")
			}
		}
		return true
	})
	return found
}

// isInvariantGuard: "if invariants.Enabled { … }" is dead code in a release, so
// tests may stop where a contract breaks.
func isInvariantGuard(n *ast.IfStmt) bool {
	x, ok := n.Cond.(*ast.SelectorExpr)
	if !ok || x.Sel.Name != "Enabled" || n.Else != nil {
		return false
	}
	pkg, ok := x.X.(*ast.Ident)
	return ok && pkg.Name == "invariants"
}

func TestImpuritiesAreFound(t *testing.T) {
	const text = `package p
import "time"
func f(c chan int) {
	go f(nil)
	panic("x")
	if invariants.Enabled { panic("only in tests") }
	if c != nil { panic("y") }
	_ = time.Now()
	_ = 3 * time.Second
	select { case <-c: }
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := impurities(file); len(found) != 5 {
		t.Errorf("found %d of 5: %v", len(found), found)
	}
}
