// Package attend is attention: the store of keys and values by block, and what
// is computed over it.
package attend
