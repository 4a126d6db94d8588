package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/api"
)

// foreign are flags of other programs that the documents name: of the scripts in bench/clients, of the servers that
// weir is compared with, of Prometheus, AIPerf, Kubernetes and numactl.
var foreign = strings.Fields(`--help --version
	--endpoint-type --streaming --use-server-token-count --request-count --isl --osl --extra-inputs --random-seed
	--all --embeddings --tools --weir --onnx --out --seconds --schemas --limit
	--repack --no-repack --kl-divergence --enable-prefix-caching
	--enable-prompt-tokens-details --kv-events-config --page-size --prefix-caching-hash-algo --data-parallel-external-lb
	--web --enable-feature --ignore-missing --from-literal --cpunodebind --membind --latency --shapes --roles --cores --every --set --set-file`)

// documentPages are the pages for readers.
func documentPages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	return append(files, "../../README.md", "../../bench/README.md")
}

// mostCellWords is how many words stand in a cell of a table; more is a list, or a sentence below the table.
const mostCellWords = 25

// Cells of tables are short in every document of the repository, notes on designs included.
func TestDocumentsHaveShortCells(t *testing.T) {
	pages := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "shared" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		pages++
		for _, long := range longCells(string(text)) {
			t.Errorf("%s: a cell of %d words, limit %d: %.100s", path, len(strings.Fields(long)), mostCellWords, long)
		}
		return err
	})
	if err != nil || pages < 40 {
		t.Errorf("%d documents: %v", pages, err)
	}
	if got := longCells("| a | " + strings.Repeat("word ", 26) + "|\n```\n| " + strings.Repeat("word ", 26) + "|\n```\n"); len(got) != 1 {
		t.Errorf("of a table and a block of code %d cells are long, not 1", len(got))
	}
}

// longCells are the cells of a page's tables that have too many words.
func longCells(page string) (list []string) {
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || !strings.HasPrefix(line, "|") {
			continue
		}
		for c := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, ""), "|") {
			if len(strings.Fields(c)) > mostCellWords {
				list = append(list, strings.TrimSpace(c))
			}
		}
	}
	return list
}

// What the documents tell readers to type exists: every verb of weir and every flag.
func TestDocumentsNameVerbsAndFlagsThatExist(t *testing.T) {
	flags, verbs := map[string]bool{}, map[string]*cobra.Command{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		verbs[c.CommandPath()] = c
		for line := range strings.SplitSeq(c.Flags().FlagUsages()+c.PersistentFlags().FlagUsages(), "\n") {
			if m := regexp.MustCompile(`--[a-z][a-z0-9-]*`).FindString(line); m != "" {
				flags[m] = true
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for _, name := range foreign {
		flags[name] = true
	}
	flag := regexp.MustCompile(`(?:^|[\s` + "`" + `(])(--[a-z][a-z0-9-]*)`)
	verb := regexp.MustCompile("(?:^|`|\\./)weir ((?:[a-z]+(?:-[a-z]+)* ?)+)")
	code := regexp.MustCompile("`[^`]*`")
	for _, file := range documentPages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		block := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				block = !block
			}
			if filepath.Base(file) == "migrate.md" && strings.HasPrefix(line, "|") {
				_, line, _ = strings.Cut(line[1:], "|") // its first column is of other servers
			}
			for _, m := range flag.FindAllStringSubmatch(line, -1) {
				if !flags[strings.TrimSuffix(m[1], "-")] {
					t.Errorf("%s:%d: no verb has the flag %s", filepath.Base(file), i+1, m[1])
				}
			}
			pieces := code.FindAllString(line, -1)
			if block {
				pieces = []string{line}
			}
			for _, piece := range pieces {
				for _, m := range verb.FindAllStringSubmatch(piece, -1) {
					words := strings.Fields(m[1])
					c := verbs["weir "+words[0]]
					if c == nil || len(words) > 1 && c.HasSubCommands() && !slices.ContainsFunc(c.Commands(), func(s *cobra.Command) bool { return s.Name() == words[1] }) {
						t.Errorf("%s:%d: there is no verb %q", filepath.Base(file), i+1, "weir "+m[1])
					}
				}
			}
		}
	}
}

// Codes of errors that a page tells readers to look for are those of refusals.
func TestTroubleshootingNamesCodesThatExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	n, codes := 0, regexp.MustCompile("`([a-z_]+)`")
	for line := range strings.Lines(string(text)) {
		if !regexp.MustCompile(`^\| [45]\d\d `).MatchString(line) {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, m := range codes.FindAllStringSubmatch(first, -1) {
			if _, known := api.Refusals[m[1]]; !known {
				t.Errorf("no refusal has the code %s", m[1])
			}
			n++
		}
	}
	if n < 8 {
		t.Errorf("the page names %d codes", n)
	}
}

// The index leads to every page.
func TestDocumentsIndexHasEveryPage(t *testing.T) {
	index, err := os.ReadFile("../../docs/index.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "index.md" && !strings.Contains(string(index), "]("+name) {
			t.Errorf("docs/index.md does not lead to %s", name)
		}
	}
}

// Every link of a page to another one leads to a file.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	rfcs, err := filepath.Glob("../../docs/rfcs/*.md")
	if err != nil || len(rfcs) == 0 {
		t.Fatal(rfcs, err)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for _, file := range slices.Concat(pages, rfcs, []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../bench/README.md"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(file), m[1])
			} else if m[2] != "" && filepath.Ext(to) == ".md" && !hasHeading(t, to, m[2]) {
				t.Errorf("%s links to %s#%s, and that page has no such heading", filepath.Base(file), m[1], m[2])
			}
		}
	}
}

// hasHeading reports whether a page has a heading with an anchor as GitHub makes it.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(kept, " ", "-") == anchor {
			return true
		}
	}
	return false
}
