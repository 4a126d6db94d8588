package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/kernel/isa"
)

func TestCacheCostsAreKeptByDigest(t *testing.T) {
	c := cacheCosts{filepath.Join(t.TempDir(), "new", "folder"), isa.Portable}
	if nats, known := c.Cost("abc"); known {
		t.Errorf("an empty folder knows %g", nats)
	}
	c.Keep("abc", 0.00025)
	if nats, known := c.Cost("abc"); !known || nats != 0.00025 {
		t.Errorf("kept 0.00025, got %g, %v", nats, known)
	}
	if _, known := c.Cost("abd"); known {
		t.Error("another digest is known")
	}
	for _, level := range isa.Levels() {
		if _, known := (cacheCosts{c.folder, level}).Cost("abc"); known != (level == isa.Portable) {
			t.Errorf("what was measured with %v is known with %v: %v", isa.Portable, level, known)
		}
	}
	for _, damaged := range []string{"", "{", `{"layout":"q8_0","nats":0.1}`, `{"layout":"q8_0/2"}`, `{"layout":"q8_0/2","nats":-1}`} {
		if err := os.WriteFile(c.path("abc"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if nats, known := c.Cost("abc"); known {
			t.Errorf("%q is taken for a cost of %g", damaged, nats)
		}
	}
	var none cacheCosts
	none.Keep("abc", 1)
	if _, known := none.Cost("abc"); known {
		t.Error("without a folder something is known")
	}
}

func TestShowCacheCost(t *testing.T) {
	nats := 0.00021
	if got := ShowCacheCost(&nats); !strings.Contains(got, "0.00021 nats") {
		t.Error(got)
	}
	if got := ShowCacheCost(nil); !strings.Contains(got, "not measured") {
		t.Error(got)
	}
}
