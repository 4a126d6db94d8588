package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/tokenizer"
)

// The ids of a real WordPiece vocabulary are those of its own library: accents,
// scripts, emoji, control characters and words of more than a hundred letters.
func TestWordPieceEqualsItsLibrary(t *testing.T) {
	folder := os.Getenv("WEIR_TEST_MINILM")
	if folder == "" {
		t.Skip("WEIR_TEST_MINILM is not set: engine/llm/testdata/minilm.py writes what it is to name")
	}
	raw, err := os.ReadFile(filepath.Join(folder, "minilm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []struct {
		Text string
		IDs  []int32
	}
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(filepath.Join(folder, "minilm-F32.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range texts {
		got := tok.AppendEncode(nil, x.Text, tokenizer.EncodeOptions{AddSpecial: true})
		if len(x.IDs) == 512 { // the library cut it, before the last id
			got = append(got[:511:511], got[len(got)-1])
		}
		if !slices.Equal(got, x.IDs) {
			t.Errorf("%.60q:\n got %v\nwant %v", x.Text, got, x.IDs)
		}
	}
}
