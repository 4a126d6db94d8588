//go:build amd64 && !purego && !noasm

package isa

// built tells that this build has assembly.
const built = true
