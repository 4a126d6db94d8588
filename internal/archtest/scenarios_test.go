package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	scenarioRow  = regexp.MustCompile(`(?m)^\| ([TJSK])(\d+) \|.*$`)
	citedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// TestScenariosAreCovered demands that docs/scenarios.md has every number of its lists once, and that the tests that it cites exist.
func TestScenariosAreCovered(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range declaredTest.FindAllSubmatch(source, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{"T": 1, "J": 1, "S": 1, "K": 1}
	for _, row := range scenarioRow.FindAllSubmatch(page, -1) {
		list := string(row[1])
		if n, _ := strconv.Atoi(string(row[2])); n != next[list] {
			t.Errorf("%s%d stands where %s%d is due", list, n, list, next[list])
		}
		next[list]++
	}
	for list, rows := range map[string]int{"T": 43, "J": 40, "S": 12, "K": 19} {
		if next[list] != rows+1 {
			t.Errorf("list %s has %d rows, want %d", list, next[list]-1, rows)
		}
	}
	for _, m := range citedTest.FindAllSubmatch(page, -1) {
		if !declared[string(m[1])] {
			t.Errorf("no test is called %s", m[1])
		}
	}
}
