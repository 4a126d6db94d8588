package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/memory"
	"weir/router"
)

const (
	maxAnswerBytes = 64 << 20 // of an answer that is no stream
	maxErrorBytes  = 1 << 20  // of a refusal; what is longer is no error that a client could read
	nameRoom       = 256      // behind an answer, so that the model's name can become a longer one where it stands
)

// byteOrderMark may stand before JSON that some servers write, and clients do not read it (RFC 8259, 8.1).
const byteOrderMark = "\uFEFF"

// memoryPatience is how long an answer that was computed may wait for memory.
const memoryPatience = 2 * time.Second

// noMemory is a fault of this server: whose answer it is has nothing to do with it.
func noMemory() error {
	return &faultError{fault: NoMemory, err: fmt.Errorf("%w (--http-body-memory-bytes): %w", router.ErrNoMemory, errNotJudged)}
}

// oversized is the fault of an answer that is not read however often it comes.
func oversized(format string, args ...any) error {
	return &faultError{fault: Oversized, err: fmt.Errorf("%w: %w: %w", router.ErrOversized, fmt.Errorf(format, args...), errNotJudged)}
}

// read reads a whole answer within the memory that all bodies share. plausible is the most that the request can have asked for; 0: not known.
func (f *Fleet) read(a *router.Answer, body io.Reader, declared int64, plausible int) (err error) {
	a.Memory = f.config.Bodies.Share()
	a.Memory.Patience = memoryPatience
	most := 0 // not known
	if declared >= 0 {
		most = int(min(declared, maxAnswerBytes)) + nameRoom
	}
	if faultOf(a.Status) != NoFault {
		a.Whole, err = a.Memory.Read(io.LimitReader(body, maxErrorBytes), most, maxErrorBytes)
	} else {
		a.Whole, err = a.Memory.Read(body, most, maxAnswerBytes)
	}
	size := len(a.Whole)
	switch {
	case err == nil:
		a.Whole = bytes.TrimPrefix(a.Whole, []byte(byteOrderMark))
		return nil
	case plausible > 0 && size > plausible && (errors.Is(err, memory.ErrNeverFits) || errors.Is(err, memory.ErrTooLarge)):
		err = BadAnswer.because("the answer goes on behind %d bytes, and has %d at most by what was asked for: %w", size, plausible, err)
	case errors.Is(err, memory.ErrNoRoom):
		err = noMemory()
	case errors.Is(err, memory.ErrNeverFits):
		err = oversized("%w (--http-body-memory-bytes)", err)
	case errors.Is(err, memory.ErrTooLarge):
		err = oversized("it is above %d bytes", maxAnswerBytes)
	}
	a.Release()
	return err
}

// count counts what was made of a whole answer.
func count(a *router.Answer) error {
	size := len(a.Whole) + nameRoom
	p, ok := a.Memory.Buffer(size)
	if !ok {
		err := noMemory()
		if a.Memory.NeverFits(size) {
			err = oversized("it has %d bytes, and room for %d is needed (--http-body-memory-bytes)", len(a.Whole), size)
		}
		a.Release()
		return err
	}
	a.Whole = p[:copy(p, a.Whole)]
	return nil
}
