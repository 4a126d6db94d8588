package llm

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/vector"
)

var shapes = flag.String("shapes", "", "a folder of models that bench/peers/shapes.py made, with llama.cpp's logits beside them")

// Shapes that no reference has give llama.cpp's logits, whole and in chunks: the median of rows, since llama.cpp's GELU is a table in halves, which
// sends a row to another expert now and then.
func TestShapesMatchLlamaCpp(t *testing.T) {
	if *shapes == "" {
		t.Skip("-shapes names no folder")
	}
	paths, err := filepath.Glob(filepath.Join(*shapes, "*.gguf"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	tokens := readTokens(t, *shapes)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m := load(t, f)
			theirs := readFloats(t, strings.TrimSuffix(path, ".gguf")+".logits")
			n := len(theirs) / m.vocab
			limit := 1e-5
			if m.layers[0].feed.act == vector.GELU {
				limit = 3e-3
			}
			for _, chunk := range []int{n, 7} {
				ours := allLogits(t, m, levels()[len(levels())-1], tokens[:n], attend.KVF32, 16, chunk, 2)
				rows := make([]float64, n)
				for r := range rows {
					rows[r] = relativeL2(ours[r*m.vocab:(r+1)*m.vocab], theirs[r*m.vocab:(r+1)*m.vocab])
				}
				slices.Sort(rows)
				if d := rows[n/2]; !(d <= limit) {
					t.Errorf("chunks of %d: relative L2 %.1e, above %.0e", chunk, d, limit)
				} else {
					t.Logf("chunks of %d: relative L2 %.1e", chunk, d)
				}
			}
		})
	}
}
