package edge

import "runtime/debug"

// Guarded runs one part of what ends a request. A bug in it is told, and the other parts run all the same.
func (h *Hooks) Guarded(boundary string, part func()) {
	defer func() {
		if v := recover(); v != nil && h.OnPanic != nil {
			h.OnPanic(boundary, v, debug.Stack())
		}
	}()
	part()
}
