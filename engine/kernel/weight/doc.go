// Package weight holds quantised weight matrices and multiplies them: the types'
// formats, their layout as tiles of interleaved rows, activations as panels, and
// the products of the two.
package weight
