package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/internal/outfile"
	"weir/internal/prose"
	"weir/tokenizer"
)

// cacheCosts keeps what a q8_0 cache costs models in files of a folder, by digest and by the instruction level that they are computed
// with: machines of several kinds may share the folder, and their sums differ in the last bits. Without a folder nothing is kept. What cannot be
// read or written is measured again at the next load.
type cacheCosts struct {
	folder string
	level  isa.Level
}

// CostsFolder is where measured costs are kept: weir/kv-cache-costs in the user's cache folder.
var CostsFolder = func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "weir", "kv-cache-costs")
}

// keptCost is the content of a file. A cost counts for the layout that it was measured with.
type keptCost struct {
	Layout string   `json:"layout"`
	Nats   *float64 `json:"nats"`
}

func (c cacheCosts) path(digest string) string {
	return filepath.Join(c.folder, digest+"."+c.level.String()+".json")
}

// Cost is what was measured for a model.
func (c cacheCosts) Cost(digest string) (nats float64, known bool) {
	if c.folder == "" {
		return 0, false
	}
	raw, err := os.ReadFile(c.path(digest))
	if err != nil {
		return 0, false
	}
	var kept keptCost
	if json.Unmarshal(raw, &kept) != nil || kept.Layout != attend.KVQ8.Layout() || kept.Nats == nil || !(*kept.Nats >= 0) {
		return 0, false
	}
	return *kept.Nats, true
}

// Keep writes what was measured.
func (c cacheCosts) Keep(digest string, nats float64) {
	raw, err := json.Marshal(keptCost{attend.KVQ8.Layout(), &nats})
	if err != nil || c.folder == "" || os.MkdirAll(c.folder, 0o700) != nil {
		return
	}
	_ = outfile.WriteBytes(c.path(digest), outfile.Private, raw) // else it is measured again
}

// sampleBytes of text are more tokens than a model is measured on.
const sampleBytes = 2000

// cacheSample is the text on which a cache is measured: weir's English one.
func cacheSample(t *tokenizer.Tokenizer) []inference.TokenID {
	var tokens []inference.TokenID
	if id, ok := t.BOS(); ok && t.AddsBOS() {
		tokens = append(tokens, id)
	}
	return t.AppendEncode(tokens, prose.Text[:sampleBytes], tokenizer.EncodeOptions{})
}

// SampleOf is the same for a file; nil where its tokenizer is none of weir's.
func SampleOf(f *gguf.File) []inference.TokenID {
	t, err := tokenizer.New(f.Value)
	if err != nil {
		return nil
	}
	return cacheSample(t)
}

// ShowCacheCost says what a q8_0 cache costs a model.
func ShowCacheCost(nats *float64) string {
	if nats == nil {
		return fmt.Sprintf("not measured; with --kv-cache-dtype auto the first load does, and takes f16 above %g nats", llm.MostCacheCost)
	}
	return fmt.Sprintf("%.2g nats from answers with f16; auto takes f16 above %g", *nats, llm.MostCacheCost)
}
