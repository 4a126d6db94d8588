package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const glossaryPage = "docs/glossary.md"

// Sections of the glossary that list what is not said. All others define terms.
const (
	unusedWords = "Words that are not used"
	unusedNames = "Names that are not used"
)

// wordsKept are texts that are data, licences or history.
var wordsKept = []string{"CHANGELOG.md", "NOTICE", "docs/rfcs", "internal/defaultmodel/train", "internal/prose/prose.txt"}

// glossaryRow is a row of one of the glossary's tables.
type glossaryRow struct {
	section string
	cells   []string
}

// glossary reads the tables of the page.
func glossary(t *testing.T) []glossaryRow {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), glossaryPage))
	if err != nil {
		t.Fatal(err)
	}
	var rows []glossaryRow
	section := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
		}
		inner, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(inner, " |"), " | ")
		if cells[0] == "word" || cells[0] == "not" {
			continue
		}
		rows = append(rows, glossaryRow{section, cells})
	}
	if len(rows) < 50 {
		t.Fatalf("%s has %d rows; the reading is broken", glossaryPage, len(rows))
	}
	return rows
}

// TestGlossaryGivesEachWordOneMeaning: a term stands once. One that needs two meanings says of what it is: "row (of a predict
// request)".
func TestGlossaryGivesEachWordOneMeaning(t *testing.T) {
	seen := make(map[string]string)
	for _, row := range glossary(t) {
		if row.section == unusedWords || row.section == unusedNames {
			continue
		}
		for term := range strings.SplitSeq(row.cells[0], ", ") {
			if before, twice := seen[term]; twice {
				t.Errorf("%s defines %q in %q and in %q: one word, one meaning", glossaryPage, term, before, row.section)
			}
			seen[term] = row.section
		}
		if len(row.cells) != 2 || row.cells[1] == "" {
			t.Errorf("%s: the row of %q has %d cells, want a term and its meaning", glossaryPage, row.cells[0], len(row.cells))
		}
	}
}

// unused is a word that the glossary says not to use.
type unused struct {
	word    string
	instead string
	texts   *regexp.Regexp // nil: only names are checked
	name    []string       // the word as parts of an identifier
	homes   []string       // folders that have it all the same
	count   int
}

func unusedOf(t *testing.T) []*unused {
	t.Helper()
	var list []*unused
	for _, row := range glossary(t) {
		texts := row.section == unusedWords
		if !texts && row.section != unusedNames {
			continue
		}
		for word := range strings.SplitSeq(row.cells[0], ", ") {
			u := &unused{word: word, instead: row.cells[1], name: strings.Fields(strings.ToLower(word))}
			if texts {
				u.texts = regexp.MustCompile(`(?i)\b` + strings.Join(u.name, `[\s/]+`) + `\b`)
			}
			if len(row.cells) > 2 && row.cells[2] != "" {
				u.homes = strings.Split(row.cells[2], ", ")
			}
			list = append(list, u)
		}
	}
	if len(list) < 6 {
		t.Fatalf("the glossary lists %d words that are not used; the reading is broken", len(list))
	}
	return list
}

// TestWordsAreTheGlossarys holds comments, names, documents and all that weir says to the words of the glossary. With -v it
// prints how often each word occurs that is not used.
func TestWordsAreTheGlossarys(t *testing.T) {
	list := unusedOf(t)
	w := &wordCheck{t: t, list: list}
	top := root(t)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipForeign(top, p, d)
		}
		relative, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if anyBelow(name, wordsKept) {
			return nil
		}
		switch path.Ext(name) {
		case ".md", ".yml", ".yaml", ".py", ".tmpl", ".proto", ".sql", ".lua":
			return w.document(name, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range withTests(t) {
		if !anyBelow(s.name, wordsKept) {
			w.goFile(s.name, s.file)
		}
	}
	for _, u := range list {
		t.Logf("%5d  %s", u.count, u.word)
	}
}

// wordCheck is one walk over the module.
type wordCheck struct {
	t    *testing.T
	list []*unused
}

func (w *wordCheck) document(name, p string) error {
	data, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	text := string(data)
	if name == glossaryPage {
		text, _, _ = strings.Cut(text, "## "+unusedWords)
	}
	w.text(name, 1, text)
	return nil
}

func (w *wordCheck) goFile(name string, file *ast.File) {
	for _, group := range file.Comments {
		var text []string
		for _, c := range group.List {
			text = append(text, c.Text)
		}
		w.text(name, lineOf(group.Pos()), strings.Join(text, "\n"))
	}
	isTest := strings.HasSuffix(name, "_test.go")
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && !isTest {
				if said, err := strconv.Unquote(n.Value); err == nil {
					w.text(name, lineOf(n.Pos()), said)
				}
			}
		case *ast.SelectorExpr: // what is selected was declared elsewhere
			ast.Inspect(n.X, func(m ast.Node) bool { w.identifier(name, m); return true })
			return false
		default:
			w.identifier(name, n)
		}
		return true
	})
}

func (w *wordCheck) text(name string, line int, text string) {
	lower := strings.ToLower(text)
	for _, u := range w.list {
		if u.texts == nil || !strings.Contains(lower, u.name[0]) {
			continue
		}
		for _, at := range u.texts.FindAllStringIndex(text, -1) {
			before := strings.LastIndexByte(text[:at[0]], '\n') + 1
			around, _, _ := strings.Cut(text[before:], "\n")
			w.found(u, name, line+strings.Count(text[:at[0]], "\n"), around)
		}
	}
}

func (w *wordCheck) identifier(name string, n ast.Node) {
	id, ok := n.(*ast.Ident)
	if !ok {
		return
	}
	parts := partsOf(id.Name)
	for _, u := range w.list {
		if hasRun(parts, u.name) {
			w.found(u, name, lineOf(id.Pos()), id.Name)
		}
	}
}

func (w *wordCheck) found(u *unused, name string, line int, text string) {
	if anyBelow(name, u.homes) {
		return
	}
	u.count++
	w.t.Errorf("%s:%d: %q is not used here, says %s; instead: %s\n\t%s", name, line, u.word, glossaryPage, u.instead, strings.TrimSpace(text))
}

// partsOf splits a name at its capitals: "lineTooLong" is line, too, long.
func partsOf(name string) []string {
	var parts []string
	begin := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			parts = append(parts, strings.ToLower(strings.Trim(string(runes[begin:i]), "_")))
			begin = i
		}
	}
	return parts
}

func hasRun(parts, run []string) bool {
	for i := 0; i+len(run) <= len(parts); i++ {
		if slices.Equal(parts[i:i+len(run)], run) {
			return true
		}
	}
	return false
}
