//go:build invariants || race

package invariants

// Enabled is true under the build tag invariants and under the race detector.
const Enabled = true
