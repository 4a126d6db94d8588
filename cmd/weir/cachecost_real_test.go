package main

import (
	"testing"

	"weir/configs"
	"weir/engine/llm"
	"weir/internal/server/local"
)

// The default cache of each real model costs less than auto allows, as is measured at the first load.
func TestRealModelsCacheCost(t *testing.T) {
	overRealModels(t, func(t *testing.T, m realModel) {
		folder := t.TempDir()
		before := local.CostsFolder
		local.CostsFolder = func() string { return folder }
		t.Cleanup(func() { local.CostsFolder = before })
		c := configs.Default()
		m.configure(t)(&c)
		f, err := local.Open(c.Model.Path)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := local.Load(c, f, local.Hooks{Progress: func(int64, int64) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Engine.Close(t.Context())
		info := loaded.Engine.Info()
		if info.KVCost == nil || *info.KVCost > llm.MostCacheCost || *info.KVCost < 1e-5 || info.KVType != "q8_0" {
			t.Errorf("cache %s, %s", info.KVType, local.ShowCacheCost(info.KVCost))
		}
		options, err := local.EngineOptions(c)
		if err != nil {
			t.Fatal(err)
		}
		told, err := llm.Describe(f, options)
		if err != nil || told.KVCost == nil || *told.KVCost != *info.KVCost {
			t.Errorf("inspect would show %s, %v", local.ShowCacheCost(told.KVCost), err)
		}
	})
}
