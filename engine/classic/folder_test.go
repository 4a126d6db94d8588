package classic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder in a model's place is refused with what is in it and the way out: repositories of Triton and KServe are folders.
func TestFoldersAreRefusedWithAWayOut(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"empty":  {nil, "is a folder, and it is empty; a classical model is one file"},
		"other":  {[]string{"readme.md", "a/b/c/d/deep.onnx"}, "and in it is no file that looks like a model"},
		"triton": {[]string{"churn/config.pbtxt", "churn/1/model.onnx", "churn/1/model.golden.json"}, "with " + filepath.Join("churn", "1", "model.onnx") + "; "},
		"many":   {[]string{"a.ubj", "b.ubj", "c.JSON", "d.txt", "e.onnx"}, "with a.ubj, b.ubj, c.JSON and 2 more files"},
	} {
		folder := t.TempDir()
		for _, f := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, f)), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, f), "x")
		}
		s := Source{Name: "m", Path: folder}
		_, err := s.Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "give --classic NAME=FILE") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
