package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// codesInCode are the codes that the code of this folder and those below refuses with,
// and the places.
func codesInCode(t *testing.T) map[string]string {
	t.Helper()
	codes := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if code, ok := codeOf(n); ok {
				codes[code] = files.Position(n.Pos()).String()
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return codes
}

// codeOf finds Refuse("code", …), badRequest("code", …), Error{Code: "code"} and the
// rows of the table of sentinels.
func codeOf(n ast.Node) (code string, ok bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if (name == "Refuse" || name == "badRequest") && len(n.Args) > 1 {
			return text(n.Args[0])
		}
	case *ast.KeyValueExpr:
		if k, isName := n.Key.(*ast.Ident); isName && k.Name == "Code" {
			return text(n.Value)
		}
	case *ast.CompositeLit:
		if n.Type == nil && len(n.Elts) == 2 {
			if s, isSelector := n.Elts[0].(*ast.SelectorExpr); isSelector && strings.HasPrefix(s.Sel.Name, "Err") {
				return text(n.Elts[1])
			}
		}
	}
	return "", false
}

func text(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil && s != ""
}

// Whatever the code refuses with is in the table, so that no refusal lacks a status or
// advice.
func TestEveryCodeIsInTheTable(t *testing.T) {
	codes := codesInCode(t)
	if len(codes) < 35 {
		t.Errorf("only %d codes were found in the code: %v", len(codes), codes)
	}
	for code, where := range codes {
		if _, ok := Refusals[code]; !ok {
			t.Errorf("%s: the code %q is not in Refusals", where, code)
		}
	}
	for code, r := range Refusals {
		if r.Status < 400 || r.Status > 599 || r.Type == "" {
			t.Errorf("%s is %+v", code, r)
		}
		if r.Status == 503 && r.Wait == 0 {
			t.Errorf("%s: a 503 must say when to try again", code)
		}
	}
}

// Every code's header fields agree with each other and with the documentation.
func TestEveryRefusalCarriesAdvice(t *testing.T) {
	documented := documentedRefusals(t)
	for code, r := range Refusals {
		h := make(map[string]string)
		Refuse(code, "").Headers(func(name, value string) { h[name] = value })
		_, waits := h["Retry-After-Ms"]
		if h["X-Weir-Reason"] != code || h["X-Should-Retry"] != strconv.FormatBool(r.Wait > 0) || waits != (r.Wait > 0) {
			t.Errorf("%s: %v", code, h)
		}
		want := fmt.Sprint(r.Status, " ", "")
		if r.Wait > 0 {
			want = fmt.Sprintf("%d %g s", r.Status, r.Wait.Seconds())
		}
		if documented[code] != want {
			t.Errorf("docs/errors.md says %q of %s, want %q", documented[code], code, want)
		}
		delete(documented, code)
	}
	for code := range documented {
		t.Errorf("docs/errors.md has %s, which does not exist", code)
	}
}

// documentedRefusals maps codes to "status wait".
func documentedRefusals(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\| (\\d+) \\| ?(.*?) ?\\| .*\\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		for code := range strings.SplitSeq(m[1], ", ") {
			list[strings.Trim(code, "`")] = m[2] + " " + m[3]
		}
	}
	return list
}

func TestAdviceOfAnError(t *testing.T) {
	for _, c := range []struct {
		e                Error
		retry, after, ms string
	}{
		{Error{Code: "server_is_overloaded"}, "true", "1", "1000"},
		{Error{Code: "server_is_overloaded", RetryAfter: 1100 * time.Microsecond}, "true", "1", "2"},
		{Error{Code: "server_is_overloaded", RetryAfter: time.Minute}, "true", "60", "60000"},
		{Error{Code: "server_is_overloaded", RetryAfter: time.Minute + time.Millisecond}, "false", "61", "60001"},
		{Error{Code: "server_is_overloaded", NoRetry: true}, "false", "", ""},
		{Error{Code: "rate_limit_exceeded", RetryAfter: time.Minute, NoRetry: true}, "false", "60", "60000"},
		{Error{Code: "insufficient_quota", RetryAfter: time.Second}, "false", "1", "1000"},
		{Error{Code: "deadline_unreachable", RetryAfter: 2 * time.Second}, "false", "2", "2000"},
		{Error{Code: "of_an_upstream", RetryAfter: time.Second}, "true", "1", "1000"},
		{Error{Code: "of_an_upstream"}, "false", "", ""},
	} {
		h := make(map[string]string)
		c.e.Headers(func(name, value string) { h[name] = value })
		if h["X-Should-Retry"] != c.retry || h["Retry-After"] != c.after || h["Retry-After-Ms"] != c.ms || h["X-Weir-Reason"] != c.e.Code {
			t.Errorf("%+v: %v", c.e, h)
		}
	}
}
