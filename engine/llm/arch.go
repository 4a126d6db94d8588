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
}

// architectures in the order that messages list them.
var architectures = []architecture{llama, qwen2, qwen3, smollm3, mistral3, bert, nomicBERT, nomicBERTMoE, jinaBERT2, modernBERT, gemmaEmbedding}

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
