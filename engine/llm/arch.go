package llm

import (
	"fmt"
	"strings"

	"weir/engine/kernel"
)

// architecture is what tells one supported family from another: pre-norm
// decoder layers with grouped-query attention, rotary positions and a SwiGLU
// feed-forward are common to all.
type architecture struct {
	name     string
	style    kernel.RopeStyle
	qkvBias  presence // attn_{q,k,v}.bias
	oBias    presence // attn_output.bias
	ffnBias  presence // ffn_{gate,up,down}.bias
	headNorm bool     // RMSNorm of each query and key head before rotation
}

// presence says whether a tensor is expected.
type presence uint8

const (
	absent presence = iota
	optional
	required
)

// architectures in the order that messages list them.
var architectures = []architecture{llama, qwen2, qwen3}

func architectureNamed(name string) (architecture, error) {
	known := make([]string, len(architectures))
	for i, a := range architectures {
		if a.name == name {
			return a, nil
		}
		known[i] = a.name
	}
	return architecture{}, fmt.Errorf("%w: architecture %q is not supported; the native engine runs %s", ErrModel, name, strings.Join(known, ", "))
}
