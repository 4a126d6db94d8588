package llm

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"weir/engine/kernel/attend"
	"weir/engine/kernel/recurrence"
)

// familyRun is docs/runs/families.json, whose rows are the families of docs/families.md.
type familyRun struct {
	Commands []string    `json:"commands"`
	Commit   string      `json:"commit"`
	Date     string      `json:"date"`
	Machine  string      `json:"machine"`
	Model    string      `json:"model"`
	Columns  []string    `json:"columns"`
	Rows     []familyRow `json:"rows"`
}

// familyRow has the distances of a family's file; 0 is one that was not compared.
type familyRow struct {
	Name    string       `json:"name"` // the architecture in files
	Unit    string       `json:"unit"`
	Values  []float64    `json:"values"` // from the definition, from llama.cpp: the largest of all its files
	Models  string       `json:"models"`
	Refuses string       `json:"refuses,omitempty"` // what is not built of them
	Quality *runRef      `json:"quality,omitempty"` // nil: no file of the family was measured
	Speed   *runRef      `json:"speed,omitempty"`   // as above
	Memory  familyMemory `json:"memory"`
}

// runRef is a stored run, and its row where it is one of several models.
type runRef struct {
	Run string `json:"run"`
	Row string `json:"row,omitempty"`
}

// familyMemory is what the KV cache keeps of a sequence, in bytes, of the type that it has by itself where rounding costs little.
type familyMemory struct {
	Of       string `json:"of"` // a model
	Token    int    `json:"token"`
	Sequence int64  `json:"sequence"` // of 32,768 tokens
}

const familiesPath = "../../docs/runs/families.json"

// readFamilies reads the families' run.
func readFamilies(t *testing.T) (run familyRun) {
	t.Helper()
	raw, err := os.ReadFile(familiesPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		t.Fatalf("%s: %v", familiesPath, err)
	}
	return run
}

// writeFamilies writes it.
func writeFamilies(t *testing.T, run *familyRun) {
	t.Helper()
	raw, err := json.MarshalIndent(run, "", "  ")
	if err == nil {
		err = os.WriteFile(familiesPath, append(raw, '\n'), 0o644) //nolint:gosec // a page of the tree
	}
	if err != nil {
		t.Fatal(err)
	}
}

// known is a family of blocktables_test.go.
func known(name string) family {
	return windowedFamilies[slices.IndexFunc(windowedFamilies, func(f family) bool { return f.name == name })]
}

// whole is a model whose layers all see everything.
func whole(name string, layers, kvHeads, headDim int) family {
	return family{name: name, layers: layers, period: 1, local: [2]int{kvHeads, headDim}}
}

// with is a model with recurrent layers beside those that have attention.
func (f family) with(layers int, s recurrence.Shape) family {
	f.state = layers * s.StateValues()
	return f
}

// deltaNet is Qwen3.5's recurrent layer, with 16 heads of keys.
func deltaNet(heads int) recurrence.Shape {
	return recurrence.Shape{Kind: recurrence.Delta, Taps: 4, Channels: (2*16 + heads) * 128, Heads: heads, Groups: 16, KeyDim: 128, ValueDim: 128}
}

// shortConvolution is LFM2's.
func shortConvolution(width int) recurrence.Shape {
	return recurrence.Shape{Kind: recurrence.Convolution, Taps: 3, Channels: width}
}

// mamba is Granite 4's.
func mamba(heads int) recurrence.Shape { return mambaOf(heads, 64, 1, 128) }

// mambaOf has heads of so many values, and groups of keys.
func mambaOf(heads, value, groups, key int) recurrence.Shape {
	return recurrence.Shape{Kind: recurrence.Scan, Taps: 4, Channels: heads*value + 2*groups*key, Heads: heads, Groups: groups, KeyDim: key, ValueDim: value}
}

// publishedSizes are models that many run, by architecture.
var publishedSizes = map[string]family{
	"llama":          whole("Llama 3.1 8B", 32, 8, 128),
	"qwen2":          whole("Qwen2.5 7B", 28, 4, 128),
	"qwen3":          whole("Qwen3 8B", 36, 8, 128),
	"smollm3":        whole("SmolLM3 3B", 36, 4, 128),
	"mistral3":       whole("Ministral 3 8B", 34, 8, 128),
	"phi3":           whole("Phi-4", 40, 10, 128),
	"granite":        whole("Granite 3.3 8B", 40, 8, 128),
	"gemma":          whole("Gemma 7B", 28, 16, 256),
	"gemma2":         known("Gemma 2 2B"),
	"gemma3":         known("Gemma 3 4B"),
	"gemma4":         known("Gemma 4 E2B"),
	"qwen2vl":        whole("Qwen2.5-VL 7B", 28, 4, 128),
	"qwen3vl":        whole("Qwen3-VL 8B", 36, 8, 128),
	"olmo2":          known("OLMo 3 7B"),
	"exaone4":        known("EXAONE 4 32B"),
	"apertus":        whole("Apertus 8B", 32, 8, 128),
	"glm4":           whole("GLM-4-9B-0414", 40, 2, 128),
	"seed_oss":       whole("Seed-OSS 36B", 64, 8, 128),
	"ernie4_5":       whole("ERNIE 4.5 0.3B", 18, 2, 128),
	"internlm2":      whole("InternLM2.5 7B", 32, 8, 128),
	"hunyuan-dense":  whole("Hunyuan 7B", 32, 8, 128),
	"arcee":          whole("AFM 4.5B", 36, 4, 128),
	"starcoder2":     {name: "StarCoder2 7B", layers: 32, period: 33, window: 4096, local: [2]int{4, 128}},
	"stablelm":       whole("StableLM 2 1.6B", 24, 32, 64),
	"command-r":      whole("Command R 08-2024", 40, 8, 128),
	"cohere2":        known("Command R7B"),
	"qwen3moe":       whole("Qwen3 30B-A3B", 48, 4, 128),
	"gpt-oss":        known("gpt-oss 20B"),
	"qwen2moe":       whole("Qwen1.5-MoE-A2.7B", 24, 16, 128),
	"glm4moe":        whole("GLM-4.5-Air", 46, 8, 128),
	"olmoe":          whole("OLMoE 1B-7B", 16, 16, 128),
	"granitemoe":     whole("Granite 3.1 3B-A800M", 32, 8, 64),
	"ernie4_5-moe":   whole("ERNIE 4.5 21B-A3B", 28, 4, 128),
	"hunyuan-moe":    whole("Hunyuan A13B", 32, 8, 128),
	"bailingmoe2":    whole("Ling-mini 2.0", 20, 4, 128),
	"qwen3vlmoe":     whole("Qwen3-VL 30B-A3B", 48, 4, 128),
	"qwen35":         whole("Qwen3.5 4B", 8, 4, 256).with(24, deltaNet(32)),
	"qwen35moe":      whole("Qwen3.6 35B-A3B", 10, 2, 256).with(30, deltaNet(32)),
	"lfm2":           whole("LFM2 1.2B", 6, 8, 64).with(10, shortConvolution(2048)),
	"lfm2moe":        whole("LFM2 8B-A1B", 6, 8, 64).with(18, shortConvolution(2048)),
	"granitehybrid":  whole("Granite 4.0 H Micro", 4, 8, 64).with(36, mamba(64)),
	"qwen3next":      whole("Qwen3-Next 80B-A3B", 12, 2, 256).with(36, deltaNet(32)),
	"nemotron_h":     whole("Nemotron Nano 9B v2", 4, 8, 128).with(27, mambaOf(128, 80, 8, 128)),
	"nemotron_h_moe": whole("Nemotron 3 Nano 30B-A3B", 6, 2, 128).with(23, mambaOf(64, 64, 8, 128)),
	"falcon-h1":      whole("Falcon H1 1.5B", 24, 2, 128).with(24, mambaOf(48, 64, 1, 256)),
}

// kept is what a sequence of the model keeps.
func (f *family) kept() familyMemory {
	const length, step = 1 << 15, 512
	p := f.plan()
	p.deal(2 * length)
	s := p.cacheShape().sized(attend.KVAuto.For(p.leastHeadDim()), 16, 2)
	return familyMemory{Of: f.name, Token: s.TokenBytes(), Sequence: s.sequenceBytes(length, step) + 4*int64(f.state)}
}

// Every family of decoders has a row that tells what a sequence keeps in memory, as the engine deals its layers. -rewrite-distances writes it.
func TestFamiliesTellTheirMemory(t *testing.T) {
	run := readFamilies(t)
	for _, a := range architectures {
		f, listed := publishedSizes[a.name]
		if a.encoder {
			continue
		}
		at := slices.IndexFunc(run.Rows, func(r familyRow) bool { return r.Name == a.name })
		switch {
		case !listed:
			t.Errorf("%s: publishedSizes has no model", a.name)
		case at < 0:
			t.Errorf("%s has no row in %s", a.name, familiesPath)
		case *rewriteDistances:
			run.Rows[at].Memory = f.kept()
		case run.Rows[at].Memory != f.kept():
			t.Errorf("%s: %s says %+v; the engine keeps %+v, which -rewrite-distances writes", a.name, familiesPath, run.Rows[at].Memory, f.kept())
		}
	}
	if *rewriteDistances {
		writeFamilies(t, &run)
	}
}

// What the run of Gemma 3 270M says that a token takes is what its size gives.
func TestSizesOfFamiliesAreThoseOfFiles(t *testing.T) {
	if f := known("Gemma 3 270M"); f.kept().Token != 9792 {
		t.Errorf("a token of %s takes %d bytes, and docs/runs/real-gemma3.json says 9792", f.name, f.kept().Token)
	}
}
