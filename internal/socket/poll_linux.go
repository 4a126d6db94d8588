package socket

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const pollEvents = 64 // sockets that are served between two looks at what else is ready

// poll waits for what happens on many sockets in one goroutine. It has an epoll of its own, which Go's network poller watches as if it were a
// socket, so that the goroutine is woken once for all that have become ready. It lasts as long as the process.
type poll struct {
	epoll  int
	events [pollEvents]syscall.EpollEvent // of the last look
	ready  func(e *syscall.EpollEvent)    // called for each
}

// start is false where the system has no descriptor for the epoll.
func (p *poll) start() bool {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	_ = syscall.SetNonblock(fd, true) // for the network poller; one that does not take the file gives it no deadlines, either
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil {
		_ = file.Close()
		return false
	}
	p.epoll = fd
	go func() {
		_ = raw.Read(p.serve) // one call for all time: what becomes ready while serve runs ends the next wait at once
	}()
	return true
}

// serve serves all that is ready. It returns false: to be called again once something is.
func (p *poll) serve(uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events)), pollEvents, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			n = 0
		}
		for i := range p.events[:n] {
			p.ready(&p.events[i])
		}
		if n < pollEvents {
			return false
		}
	}
}
