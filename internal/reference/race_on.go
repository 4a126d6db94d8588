//go:build race

package reference

const raced = true
