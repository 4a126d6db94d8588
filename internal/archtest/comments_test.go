package archtest

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// beginsWithOf finds sentences that begin with "Of": they have no subject, or have it late.
var beginsWithOf = regexp.MustCompile(`(?:^|[.:;] )Of [a-z]`)

// TestCommentsHaveASubject: the comment of a function, of a type and of a variable that is declared alone begins with its
// name, as go doc shows it; and no sentence of a comment begins with "Of". What a comment says of several declarations is
// divided from the first by an empty line.
func TestCommentsHaveASubject(t *testing.T) {
	checked := 0
	for _, source := range withTests(t) {
		name, file := source.name, source.file
		if ast.IsGenerated(file) {
			continue
		}
		if !strings.HasSuffix(name, "_test.go") {
			for _, named := range documented(file) {
				checked++
				if !beginsWith(named.doc, named.name) {
					t.Errorf("%s:%d: the comment of %s does not begin with its name: %.60q", name, lineOf(named.doc.Pos()), named.name, named.doc.Text())
				}
			}
		}
		for _, group := range file.Comments {
			text := strings.ReplaceAll(group.Text(), "\n", " ")
			for _, at := range beginsWithOf.FindAllStringIndex(text, -1) {
				if at[0] == 0 && isOf(file, group) {
					continue
				}
				t.Errorf("%s:%d: a sentence without a subject, or with a late one: say who does what: %.60q", name, lineOf(group.Pos()), text[at[0]:])
			}
		}
	}
	if checked < 5000 {
		t.Errorf("%d comments were checked; the walk is broken", checked)
	}
}

// namedDoc is a declaration with its comment.
type namedDoc struct {
	name string
	doc  *ast.CommentGroup
}

// documented gives the declarations of a file that have comments of their own, and one name.
func documented(file *ast.File) []namedDoc {
	var list []namedDoc
	add := func(name string, doc *ast.CommentGroup) {
		if doc != nil && strings.TrimSpace(doc.Text()) != "" { // directives alone are no text
			list = append(list, namedDoc{name, doc})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name.Name, d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s.Doc)
					if !d.Lparen.IsValid() {
						add(s.Name.Name, d.Doc)
					}
				case *ast.ValueSpec:
					if !d.Lparen.IsValid() && len(s.Names) == 1 {
						add(s.Names[0].Name, d.Doc)
					}
				}
			}
		}
	}
	return list
}

// beginsWith reports whether a comment's first word is a name, an article aside.
func beginsWith(doc *ast.CommentGroup, name string) bool {
	words := strings.Fields(doc.Text())
	if len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
		words = words[1:]
	}
	return len(words) > 0 && strings.TrimSuffix(strings.TrimRight(words[0], ",.:;"), "'s") == name
}

// isOf reports whether a comment is that of a function with the name Of.
func isOf(file *ast.File, group *ast.CommentGroup) bool {
	for _, named := range documented(file) {
		if named.doc == group {
			return named.name == "Of"
		}
	}
	// Methods of interfaces.
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Doc == group && len(f.Names) == 1 {
			found = f.Names[0].Name == "Of"
		}
		return true
	})
	return found
}
