package llm

import (
	"fmt"
	"strings"

	"weir/engine/kernel/recurrence"
)

// architecture is one supported family: its name in files, and what its models
// compute.
type architecture struct {
	name string
	plan func(h *hparams) plan

	encoder   bool     // a text encoder: rows see the whole text, and nothing is generated
	modern    bool     // ModernBERT's family: its files tell windows and activation, see hparams.readModern, and may have a decision head, see decision.go
	layerNorm bool     // its norms subtract the mean
	experts   presence // whether networks of its models are mixtures of experts
	drafts    bool     // the last layers of its files may be such that draft tokens, see hparams.drafts
	mtp       bool     // it is known what these compute, see mtp.go
	longRope  bool     // its files may have frequencies of their own for long texts, see loader.divisors
	trained   int      // the window that its models were trained with, where files do not tell it; 0 is none
	period    int      // every period-th layer of its models has no window, where files do not tell it
	factors   bool     // its files have factors, see hparams.readFactors
	curves    bool     // its networks have an activation with parameters of their own, see curve.go
	sections  bool     // rope.dimension_sections are of images, and one rotation for texts
	layered   bool     // layers of its models differ in sizes, see layered

	recurrent recurrence.Kind // of the layers of its models that keep a state; None: there are none
	joined    bool            // all of its layers keep a state, and have attention beside
	sole      bool            // each of its layers is attention, recurrence or a network alone, see singlepart.go
	neighbour bool            // heads of the delta rule that share keys lie beside each other, see recurrence.Shape.Beside
}

// architectures in the order that messages list them.
var architectures = []architecture{
	llama, qwen2, qwen3, qwen2moe, qwen3moe, gptOSS, glm4moe, olmoe, graniteMoE, ernie45MoE, hunyuanMoE, bailingMoE2, qwen3vlmoe,
	smollm3, mistral3, phi3, granite, gemma, gemma2, gemma3, gemma4, qwen2vl, qwen3vl, olmo2, exaone4, apertus, glm4,
	seedOSS, ernie45, internLM2, hunyuanDense, arcee, starcoder2, stableLM, commandR, cohere2,
	qwen35, qwen35moe, qwen3next, lfm2, lfm2moe, graniteHybrid, nemotronH, nemotronHMoE, falconH1,
	bert, nomicBERT, nomicBERTMoE, jinaBERT2, modernBERT, gemmaEmbedding, gemmaEmbedding2,
}

func architectureNamed(name string) (architecture, error) {
	known := make([]string, len(architectures))
	for i, a := range architectures {
		if a.name == name {
			return a, nil
		}
		known[i] = a.name
	}
	switch name {
	case "gptoss":
		return architecture{}, fmt.Errorf("%w: architecture %q is that of Ollama's early files of gpt-oss, whose tensors have other names and types; "+
			"use a file whose architecture is gpt-oss", ErrModel, name)
	case "phimoe":
		return architecture{}, fmt.Errorf("%w: architecture %q is not supported: its models were trained with layer norms and SparseMixer, and the runtimes of "+
			"such files compute root-mean-square norms and a softmax; use a Phi-4 or another mixture of experts", ErrModel, name)
	}
	return architecture{}, fmt.Errorf("%w: architecture %q is not supported; the native engine runs %s",
		ErrModel, name, strings.Join(known, ", "))
}
