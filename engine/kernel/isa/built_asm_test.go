//go:build amd64 && !purego && !noasm

package isa

// built reports that this build has assembly.
const built = true
