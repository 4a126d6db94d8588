package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestStructureNamesFilesThatExist: the page for those who change the code names files, folders and packages that are there.
func TestStructureNamesFilesThatExist(t *testing.T) {
	const page = "docs/structure.md"
	top := root(t)
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z.][a-z_/0-9-]*(?:/[A-Za-z_0-9.-]+|\\.go))`")
	member := regexp.MustCompile(`\.[A-Z]\w*$`) // of a package
	found := 0
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		name := member.ReplaceAllString(m[1], "")
		if strings.Contains(name, "NAME") {
			continue
		}
		found++
		// The parts of the scheduler are files of the folder that their section names.
		if !exists(top, name) && !exists(filepath.Join(top, "scheduler"), name) {
			t.Errorf("%s names %s, which is not there", page, name)
		}
	}
	if found < 100 {
		t.Errorf("%s names %d files; the test no longer reads it", page, found)
	}
}

func exists(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}
