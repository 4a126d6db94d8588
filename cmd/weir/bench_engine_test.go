package main

import (
	"strings"
	"testing"
)

// A model whose layers have several block tables gets a cache for what is measured, in each of them.
func TestBenchesHaveRoomInEachBlockTable(t *testing.T) {
	const model = "../../engine/llm/testdata/decoders/gemma4-small.gguf"
	for _, args := range [][]string{
		{"bench", "engine", "-m", model, "-p", "100", "-n", "2", "-r", "1", "--threads", "1"},
		{"bench", "batched", "-m", model, "--npp", "60", "--ntg", "4", "--npl", "1,3", "--threads", "1"},
	} {
		var out, errs strings.Builder
		if status := execute(args, &out, &errs); status != 0 {
			t.Errorf("weir %s: exit status %d\n%s", strings.Join(args, " "), status, errs.String())
		}
	}
}
