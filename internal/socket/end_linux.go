package socket

import (
	"sync"
	"syscall"
)

// ends tells of connections that their peers have ended. It lasts as long as the process.
type ends struct {
	poll

	mu   sync.Mutex
	last uint64            // number that was given out; none is given twice, since events may come late
	tell map[uint64]func() // by number
}

// allEnds is nil where the system has no descriptor for it.
var allEnds = sync.OnceValue(func() *ends {
	e := &ends{tell: make(map[uint64]func())}
	e.ready = func(event *syscall.EpollEvent) {
		if f := e.take(numberOf(event)); f != nil {
			f()
		}
	}
	if !e.start() {
		return nil
	}
	return e
})

// add gives f a number.
func (e *ends) add(f func()) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.tell[e.last] = f
	return e.last
}

// take gives what is to be called, once; nil where it was, or it is not wanted any more.
func (e *ends) take(number uint64) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.tell[number]
	delete(e.tell, number)
	return f
}

// event is reported at the end of a socket alone, whatever there is to be read before it.
func (e *ends) event(number uint64) syscall.EpollEvent {
	return syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edge, Fd: int32(uint32(number)), Pad: int32(uint32(number >> 32))} //nolint:gosec // both halves
}

func numberOf(e *syscall.EpollEvent) uint64 { return uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)) } //nolint:gosec // both halves

// noEnd is the number of a connection that is closed.
const noEnd = ^uint64(0)

// OnEnd implements EndNotifier.
func (w *writer) OnEnd(f func()) bool {
	e := allEnds()
	if e == nil {
		return false
	}
	number := e.add(f)
	if !w.end.CompareAndSwap(0, number) {
		e.take(number)
		return false
	}
	added := false
	err := w.out.raw.Control(func(fd uintptr) {
		event := e.event(number)
		added = syscall.EpollCtl(e.epoll, syscall.EPOLL_CTL_ADD, int(fd), &event) == nil
	})
	if err != nil || !added {
		e.take(number)
		return false
	}
	return true
}

// Close ends OnEnd, too. With its descriptor a socket leaves the epoll.
func (w *writer) Close() error {
	if number := w.end.Swap(noEnd); number != 0 && number != noEnd {
		allEnds().take(number)
	}
	return w.TCPConn.Close()
}
