package telemetry

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameMetricsThatExist: the series that documents tell readers to watch are registered in this package.
func TestDocsNameMetricsThatExist(t *testing.T) {
	series := regexp.MustCompile(`\b(?:weir_|vllm:)[a-z0-9_]*[a-z]`)
	families := metricNames(t)
	exists := func(name string) bool {
		for _, end := range []string{"", "_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && families[base] {
				return true
			}
		}
		for family := range families { // weir_class_* stands for several
			if strings.HasPrefix(family, name+"_") {
				return true
			}
		}
		return false
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	found, code := 0, regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range code.FindAllString(string(text), -1) {
			for _, name := range series.FindAllString(piece, -1) {
				found++
				if !exists(name) {
					t.Errorf("%s names %s, which no metric has", page, name)
				}
			}
		}
	}
	if found < 80 {
		t.Errorf("the documents name %d series; the test no longer reads them", found)
	}
}
