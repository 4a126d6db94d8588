package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/reference"

	"github.com/spf13/pflag"
)

// Each command that --help lists has a page with all flags that its help shows; mandoc, where it is installed, finds
// nothing wrong with any.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795737600")
	var out, errs strings.Builder
	dir := filepath.Join(t.TempDir(), "man1")
	if status := execute([]string{"man", dir}, &out, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	written, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for c := range manual(newRoot()) {
		pages++
		page, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(page), `"2026-11-27"`) {
			t.Errorf("%s: no day of SOURCE_DATE_EPOCH", c.CommandPath())
		}
		c.InitDefaultHelpFlag()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if want := `\fB` + roff(manFlagName(f)) + `\fR`; f.Hidden == strings.Contains(string(page), want) {
				t.Errorf("%s: %s hidden %v, in the page %v", c.CommandPath(), want, f.Hidden, !f.Hidden)
			}
		})
	}
	if pages != len(written) || pages < 40 {
		t.Errorf("%d pages of %d commands", len(written), pages)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("without mandoc, which checks the pages")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	if said, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// Help and manual say the same each time: no command registers its flags in an order by chance.
func TestHelpHasOneOrder(t *testing.T) {
	reference.Slow(t)
	first := map[string]string{}
	for c := range manual(newRoot()) {
		first[manName(c)] = manPage(c)
	}
	for range 8 {
		for c := range manual(newRoot()) {
			if page := manPage(c); page != first[manName(c)] {
				t.Fatalf("%s has another page at another time:\n%s", c.CommandPath(), page)
			}
		}
	}
}

func manFlagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// What roff would take as a command of its own is text.
func TestRoffEscapes(t *testing.T) {
	for text, want := range map[string]string{
		".hidden\n'quoted'": "\\&.hidden\n\\&'quoted'",
		`a\b --flag`:        `a\eb \-\-flag`,
		"a.b 'c'":           "a.b 'c'",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}
