// Package console writes for people at a terminal: names without control characters, sizes and counts, progress, and errors with
// the way out as a line of its own.
package console
