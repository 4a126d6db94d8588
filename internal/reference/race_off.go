//go:build !race

package reference

const raced = false
