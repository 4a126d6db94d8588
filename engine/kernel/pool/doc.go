// Package pool shares the process's compute threads: persistent workers that
// take the items of a job together, and turns by which several engines use the
// same workers, one step at a time. It knows nothing of what is computed.
package pool
