// Package sse reads server-sent events as WHATWG defines them: lines end with LF, CRLF or CR, comments and fields other than data are skipped,
// several data lines of one event are joined with LF. What passes streams on keeps their bytes, and reads them by line with package chunk.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits bound what a broken or hostile server may send. Zero is no bound.
type Limits struct {
	Event  int   // bytes of a line, and of an event's data
	Stream int64 // bytes of all
}

// Errors of a server that goes beyond the limits.
var (
	ErrLine   = errors.New("a line is too long")
	ErrEvent  = errors.New("an event is too long")
	ErrStream = errors.New("the stream is too long")
)

// Reader reads the data of events. An event counts when its blank line has arrived.
type Reader struct {
	from   *bufio.Reader
	limits Limits
	line   []byte
	data   []byte
	read   int64 // bytes of the stream so far

	started bool // the first line may begin with a byte order mark
	hasData bool // the event has a data line, possibly empty
	afterCR bool // a LF that comes next belongs to the line before
	ended   bool // all lines of data have their ends
}

// NewReader reads from a stream.
func NewReader(from io.Reader, l Limits) *Reader {
	return &Reader{from: bufio.NewReaderSize(from, 16<<10), limits: l}
}

// Next returns the next event's data, valid until the next call; io.EOF at the stream's end.
func (r *Reader) Next() ([]byte, error) {
	r.data, r.hasData, r.ended = r.data[:0], false, true
	for {
		line, err := r.readLine()
		if errors.Is(err, io.EOF) && len(line) > 0 {
			r.field(line)
			r.ended = false
		}
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			r.field(line)
		} else if r.hasData {
			return r.data, nil
		}
		if r.limits.Event > 0 && len(r.data) > r.limits.Event {
			return nil, ErrEvent
		}
	}
}

// Rest is the data of the event that the stream's end has cut off, after Next has returned io.EOF. whole says that its lines have their ends,
// and that only the blank line is missing.
func (r *Reader) Rest() (data []byte, whole bool) { return r.data, r.ended }

// field takes one line of an event.
func (r *Reader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" {
		return
	}
	if r.hasData {
		r.data = append(r.data, '\n')
	}
	r.hasData = true
	r.data = append(r.data, bytes.TrimPrefix(value, []byte(" "))...)
}

// readLine returns a line without its end. It never waits for the byte after a CR: the event before it would be seen late. At the stream's end
// it returns what there is, with io.EOF.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if _, err := r.from.Peek(1); err != nil {
			return r.trimMark(), err
		}
		buf, _ := r.from.Peek(r.from.Buffered())
		used, piece, end := r.piece(buf)
		_, _ = r.from.Discard(used)
		r.line = append(r.line, piece...)
		switch r.read += int64(used); {
		case r.limits.Stream > 0 && r.read > r.limits.Stream:
			return nil, ErrStream
		case end:
			return r.trimMark(), nil
		case r.limits.Event > 0 && len(r.line) > r.limits.Event:
			return nil, ErrLine
		}
	}
}

// piece takes what a buffer has of one line, whose end it may have.
func (r *Reader) piece(buf []byte) (used int, piece []byte, end bool) {
	if r.afterCR && buf[0] == '\n' {
		r.afterCR = false
		return 1, nil, false
	}
	at := bytes.IndexByte(buf, '\n')
	if at < 0 {
		at = len(buf)
	}
	if cr := bytes.IndexByte(buf[:at], '\r'); cr >= 0 {
		at = cr
	}
	if at == len(buf) {
		r.afterCR = false
		return at, buf, false
	}
	r.afterCR = buf[at] == '\r'
	return at + 1, buf[:at], true
}

// trimMark takes a byte order mark off the stream's first line.
func (r *Reader) trimMark() []byte {
	if r.started {
		return r.line
	}
	r.started = true
	return bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
}
