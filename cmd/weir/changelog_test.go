package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The changelog is in the form of Keep a Changelog: what is unreleased first, then releases with their days, the newest first, and known headings
// under them; its lines are short enough to be read.
func TestChangelogIsInItsForm(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$`)
	under := []string{"### Added", "### Changed", "### Deprecated", "### Removed", "### Fixed", "### Security", "### Known limits"}
	var days []string
	for i, line := range strings.Split(string(text), "\n") {
		switch m := release.FindStringSubmatch(line); {
		case m != nil:
			if _, err := time.Parse(time.DateOnly, m[2]); err != nil {
				t.Errorf("line %d: %v", i+1, err)
			}
			days = append(days, m[2])
		case line == "## [Unreleased]":
			if len(days) > 0 {
				t.Errorf("line %d: what is unreleased stands behind releases", i+1)
			}
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "###") && !slices.Contains(under, line):
			t.Errorf("line %d: %q is neither a release, as ## [0.1.0] - 2026-11-27, nor one of %q", i+1, line, under)
		case len(strings.Fields(line)) > 60:
			t.Errorf("line %d has %d words: what does a user gain or have to do?", i+1, len(strings.Fields(line)))
		}
	}
	if len(days) == 0 || !slices.IsSortedFunc(days, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("releases of %v; the newest stands first", days)
	}
}
