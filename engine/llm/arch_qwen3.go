package llm

import "weir/engine/kernel"

// qwen3 covers the dense Qwen 3 models: no biases, each query and key head
// normalised before rotation, head size independent of the width.
var qwen3 = architecture{
	name:     "qwen3",
	style:    kernel.RopeNeox,
	headNorm: true,
}
