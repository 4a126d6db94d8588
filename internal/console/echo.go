//go:build linux || darwin

package console

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Quiet keeps what is typed off the terminal, for the next read of it, until restore is called. Ctrl-C stays a signal.
func Quiet(terminal *os.File) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	quiet := *before
	quiet.Iflag &^= unix.ICRNL
	quiet.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN
	quiet.Cc[unix.VMIN], quiet.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return nil, fmt.Errorf("change the terminal's settings: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil
}
