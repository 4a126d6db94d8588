package tokenizer

import (
	"runtime"
	"testing"
)

// TestMergingMemoryIsBoundedPerByte: what encoding a hostile piece takes, the
// ids left aside, is a small multiple of its bytes.
func TestMergingMemoryIsBoundedPerByte(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and the race detector, which runs short tests, allocates for itself")
	}
	for _, f := range []fields{bytePairFields("gpt-2"), bytePairFields("llama-bpe"), sentencePieceFields()} {
		tok := mustBuild(t, f)
		for name, text := range hostileTexts(1 << 20) {
			ids := make([]int32, 0, 3*len(text))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tok.AppendEncode(ids, text, EncodeOptions{})
			runtime.ReadMemStats(&after)
			// Up to three symbols of a byte (U+FFFD for an invalid one) of 8 bytes and a 32nd for the tree, the text with
			// U+FFFD, and 1 MiB for cached pieces.
			limit := uint64(len(text)*(3*9+5) + 4<<20)
			if name != "invalid UTF-8" {
				limit = uint64(len(text)*10 + 4<<20)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > limit {
				t.Errorf("%s, %s: %d bytes allocated for %d bytes of text, limit %d", tok.Kind(), name, took, len(text), limit)
			}
		}
	}
}
