package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
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

// The default cache of each real model costs less than auto allows, as is measured at the first load.
func TestRealModelsCacheCost(t *testing.T) {
	overRealModels(t, func(t *testing.T, m realModel) {
		folder := t.TempDir()
		before := costsFolder
		costsFolder = func() string { return folder }
		t.Cleanup(func() { costsFolder = before })
		c := configs.Default()
		m.configure(t)(&c)
		f, err := openModel(c.Model.Path)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := loadModel(c, f, modelHooks{progress: func(int64, int64) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.engine.Close(t.Context())
		info := loaded.engine.Info()
		if info.KVCost == nil || *info.KVCost > llm.MostCacheCost || *info.KVCost < 1e-5 || info.KVType != "q8_0" {
			t.Errorf("cache %s, %s", info.KVType, showCacheCost(info.KVCost))
		}
		options, err := engineOptions(c)
		if err != nil {
			t.Fatal(err)
		}
		told, err := llm.Describe(f, options)
		if err != nil || told.KVCost == nil || *told.KVCost != *info.KVCost {
			t.Errorf("inspect would show %s, %v", showCacheCost(told.KVCost), err)
		}
	})
}

func TestShowCacheCost(t *testing.T) {
	nats := 0.00021
	if got := showCacheCost(&nats); !strings.Contains(got, "0.00021 nats") {
		t.Error(got)
	}
	if got := showCacheCost(nil); !strings.Contains(got, "not measured") {
		t.Error(got)
	}
}
