// Package guard is for tests of code that knows no lengths: memory behind which nothing can be touched, and what happened to a call.
//
//	guard.Check(t, "sum of 100", func(m *guard.Margins) {
//		sum(guard.Sized[float32](m, "results", 1), guard.Whole[float32](m, 100))
//	})
//
// fails where sum touches a 101st value, or takes an empty list of results without a panic.
package guard

import (
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

// Outcome is how a call ended.
type Outcome string

// Outcomes. Faulted: it touched memory that is not there; Refused: it panicked before that.
const (
	Returned Outcome = "returned"
	Refused  Outcome = "refused"
	Faulted  Outcome = "faulted"
)

// Run calls f on this goroutine.
func Run(f func()) (o Outcome) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch recover().(type) {
		case nil:
			o = Returned
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			o = Faulted
		default:
			o = Refused
		}
	}()
	f()
	return
}

// Make is n elements without pointers, one or more. Where the system can, the byte behind the last one is on a page that faults.
func Make[T any](t testing.TB, n int) []T {
	var element T
	size := n * int(unsafe.Sizeof(element))
	memory := guarded(t, size)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory[len(memory)-size:]))), n)
}
