// Package llm is a loaded language model and the one loop that steps it.
//
// Engine is the narrow door: Load a GGUF file, Submit requests, read their
// streams, Close. Inside, one goroutine owns the scheduler, the block pool and
// the tensors. Each turn of its loop is: take submits and cancels, Plan, one
// forward pass over every planned row (prefill chunks and decodes in the same
// matrix products), sample, Commit, push events. Callers never see a tensor
// and the engine never sees text.
//
// A model is a shared set of layers (layer.go) that an architecture (one file
// each: arch_llama.go, arch_qwen2.go, arch_qwen3.go) switches by a handful of
// flags. Three doors are left open on purpose and not built: a layer's
// attention window (kvcache.Slide and a lower bound in kernel.Attention),
// mixtures of experts (layer.feed is one method), and per-sequence recurrent
// state (scheduler chunks name the sequence's slab slot, which can index it).
package llm
