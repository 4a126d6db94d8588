package catalog_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/router/registry/catalog"
	"weir/router/registry/hub"
)

// What fits into 4 GB with a context of 8,192 tokens, and how it is served.
func ExampleModel() {
	for _, m := range catalog.All() {
		if m.Use == catalog.Code && m.NeedsBytes(8192) < 4e9 {
			fmt.Println(m.Title, "-", m.Command())
		}
	}
	// Output:
	// Qwen2.5 Coder 1.5B - weir pull qwen2.5-coder:1.5b && weir serve qwen2.5-coder:1.5b
}

// Each name is one that can be pulled, and models are in order.
func TestAll(t *testing.T) {
	h := hub.New(func(string) string { return "" })
	seen := map[string]bool{}
	for _, m := range catalog.All() {
		if s, err := h.Parse(m.Name); err != nil || s.Kind == hub.URL || seen[m.Name] {
			t.Errorf("%s: %+v %v", m.Name, s, err)
		}
		seen[m.Name] = true
		if m.NeedsBytes(0) <= m.Bytes || m.NeedsBytes(4096) < m.NeedsBytes(0) {
			t.Errorf("%s needs %d bytes, and %d with a context", m.Name, m.NeedsBytes(0), m.NeedsBytes(4096))
		}
	}
	chats := slices.DeleteFunc(catalog.All(), func(m catalog.Model) bool { return m.Use == catalog.Embeddings })
	if !slices.IsSortedFunc(chats, func(a, b catalog.Model) int { return int(a.Bytes - b.Bytes) }) {
		t.Error("the models are not in order of size")
	}
}
