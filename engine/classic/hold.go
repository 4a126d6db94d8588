package classic

import "sync/atomic"

// memoryRef keeps the memory of a model that lies outside of Go's, such as ONNX Runtime's: as
// long as the version is published, a request has it, or rows are computed with it. Who
// releases it last closes the model. A nil hold is that of a model in Go's own memory.
type memoryRef struct {
	users atomic.Int64 // 0: closed
	close func()
}

// native is a model that may have memory outside of Go's.
type native interface {
	native() bool
	close()
}

// newHold is taken once, by the goroutine that loads the model.
func newHold(m model) *memoryRef {
	n, is := m.(native)
	if !is || !n.native() {
		return nil
	}
	h := &memoryRef{close: n.close}
	h.users.Store(1)
	return h
}

// take is false where the model is closed.
func (h *memoryRef) take() bool {
	if h == nil {
		return true
	}
	for {
		n := h.users.Load()
		if n == 0 {
			return false
		}
		if h.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *memoryRef) release() {
	if h != nil && h.users.Add(-1) == 0 {
		h.close()
	}
}
