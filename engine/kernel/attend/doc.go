// Package attend holds the keys and values of the KV blocks and computes
// attention over them.
package attend
