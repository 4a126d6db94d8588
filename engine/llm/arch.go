package llm

import (
	"fmt"
	"strings"
)

// architecture is one supported family: its name in files, and what its models
// compute.
type architecture struct {
	name string
	plan func(h *hparams) plan

	encoder   bool // a text encoder: rows see the whole text, and nothing is generated
	layerNorm bool // its norms subtract the mean
	experts   bool // some networks of its models may be mixtures of experts
	longRope  bool // its files may have frequencies of their own for long texts, see loader.divisors
	window    windowRule
}

// windowRule is what attention.sliding_window means in the files of a family that generates.
type windowRule uint8

const (
	ignored windowRule = iota // the family has no windows
	refused                   // some layers have one, which is not built yet
	bounds                    // all layers have it: texts that fit into it are computed, longer ones are refused
)

// architectures in the order that messages list them.
var architectures = []architecture{llama, qwen2, qwen3, smollm3, mistral3, phi3, gemma2, gemma3, bert, nomicBERT, nomicBERTMoE, jinaBERT2, modernBERT, gemmaEmbedding}

func architectureNamed(name string) (architecture, error) {
	known := make([]string, len(architectures))
	for i, a := range architectures {
		if a.name == name {
			return a, nil
		}
		known[i] = a.name
	}
	return architecture{}, fmt.Errorf("%w: architecture %q is not supported; the native engine runs %s",
		ErrModel, name, strings.Join(known, ", "))
}
