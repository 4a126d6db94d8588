package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsListEveryOperator compares docs/onnx.md with what is built.
func TestDocsListEveryOperator(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "onnx.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, lists, _ := strings.Cut(string(data), "## Operators")
	lists, _, _ = strings.Cut(lists, "`ZipMap`'s list")
	listed := make(map[string]bool)
	for i, word := range strings.Split(lists, "`") {
		if i%2 == 1 && !strings.Contains(word, ".") {
			listed[word] = true
		}
	}
	built := make(map[string]bool) // two domains may have an operator of one name
	for _, domain := range operators {
		for name := range domain {
			built[name] = true
			if !listed[name] {
				t.Errorf("docs/onnx.md does not list %s", name)
			}
		}
	}
	if len(listed) != len(built) {
		t.Errorf("docs/onnx.md lists %d operators; %d are built", len(listed), len(built))
	}
}
