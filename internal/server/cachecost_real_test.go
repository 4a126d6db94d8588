package server_test

import (
	"testing"

	"weir/configs"
	"weir/engine/llm"
	"weir/internal/server/local"
	"weir/internal/server/servertest"
)

// The default cache of each real model costs less than auto allows, as was measured when the server loaded it.
func testRealModelsCacheCost(t *testing.T, m realModel, _ *servertest.Server) {
	c := configs.Default()
	m.configure(t)(&c)
	f, err := local.Open(c.Model.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := local.EngineOptions(c)
	if err != nil {
		t.Fatal(err)
	}
	info, err := llm.Describe(f, options)
	if err != nil {
		t.Fatal(err)
	}
	if info.KVCost == nil || *info.KVCost > llm.MostCacheCost || *info.KVCost < 1e-5 || info.KVType != "q8_0" {
		t.Errorf("cache %s, %s", info.KVType, local.ShowCacheCost(info.KVCost))
	}
}
