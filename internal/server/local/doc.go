// Package local opens language models and text encoders that this process computes: a GGUF file becomes an engine with its
// tokenizer and its chat template. The serving process uses it, and the verbs that run a model without serving it.
package local
