// Package vector computes on rows of floats, at each level of instructions:
// norms, gated activations, rotary embeddings, softmaxes, the reductions of a row
// of logits that sampling needs, and conversions from and to half precision.
package vector
