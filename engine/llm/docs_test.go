package llm

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
)

// TestDocsListArchitecturesAndTypes: the pages that say which models run name all that the engine knows, and no others.
func TestDocsListArchitecturesAndTypes(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	_, section, _ := strings.Cut(string(page), "## Which models run")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		switch what := strings.TrimSpace(cells[1]); what {
		case "text encoders", "weight types", "tokenizers":
			rows[what] = cells[2]
		default: // who made them
			rows["language models"] += cells[2]
		}
	}
	quoted := func(text string) []string {
		var names []string
		for _, m := range regexp.MustCompile("`([a-z0-9_-]+)`").FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	var models, encoders, types []string
	for _, a := range architectures {
		if a.encoder {
			encoders = append(encoders, a.name)
		} else {
			models = append(models, a.name)
		}
	}
	for _, typ := range gguf.SupportedTypes() {
		types = append(types, typ.String())
	}
	same := func(what string, listed, built []string) {
		listed, built = slices.Clone(listed), slices.Clone(built)
		slices.Sort(listed)
		slices.Sort(built)
		if !slices.Equal(listed, built) {
			t.Errorf("docs/quickstart.md lists as %s %v; there are %v", what, listed, built)
		}
	}
	same("language models", quoted(rows["language models"]), models)
	named, _, _ := strings.Cut(rows["text encoders"], ", and `qwen3` files")
	same("text encoders", quoted(named), encoders)
	same("weight types", strings.Fields(rows["weight types"]), types)

	if page, err = os.ReadFile("../../docs/refusals.md"); err != nil {
		t.Fatal(err)
	}
	if len(types) != 16 || !strings.Contains(string(page), "sixteen weight types") {
		t.Errorf("docs/refusals.md says how many weight types there are: %d", len(types))
	}
}
