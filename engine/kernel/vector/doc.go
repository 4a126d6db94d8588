// Package vector is what is done to rows of floats, at each level of
// instructions: norms, gates, rotations, softmaxes, what sampling asks of a row
// of logits, and conversions from and to half precision.
package vector
