// Package invariants says at compile time whether broken contracts should
// stop the program where they happen. Enabled is a constant, so the checks
// behind it cost nothing in a release build.
package invariants
