package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits of a stream of server-sent events; a server that goes beyond is
// broken or hostile.
const (
	maxEventBytes  = 4 << 20
	maxStreamBytes = 1 << 30
)

var (
	errEventSize  = fmt.Errorf("an event is longer than %d MiB", maxEventBytes>>20)
	errStreamSize = fmt.Errorf("the stream is longer than %d MiB", maxStreamBytes>>20)
)

// eventReader reads the data of server-sent events, as WHATWG defines them:
// lines end with LF, CRLF or CR, comments and fields other than data are
// skipped, several data lines of one event are joined with LF. An event counts
// when its blank line has arrived; what a stream's end cuts off is dropped,
// except for a last [DONE], which some servers leave without one.
type eventReader struct {
	from *bufio.Reader
	line []byte
	data []byte
	read int64 // bytes of the stream so far

	started bool // the first line may begin with a byte order mark
	hasData bool // the event has a data line, possibly empty
	afterCR bool // a LF that comes next belongs to the line before
}

func newEventReader(from io.Reader) *eventReader {
	return &eventReader{from: bufio.NewReaderSize(from, 16<<10)}
}

var done = []byte("[DONE]")

// next returns the next event's data, valid until the next call; io.EOF at the
// stream's end.
func (r *eventReader) next() ([]byte, error) {
	r.data, r.hasData = r.data[:0], false
	for {
		line, err := r.readLine()
		if errors.Is(err, io.EOF) {
			r.field(line)
			if bytes.Equal(r.data, done) {
				return r.data, nil
			}
		}
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			r.field(line)
		} else if r.hasData {
			return r.data, nil
		}
		if len(r.data) > maxEventBytes {
			return nil, errEventSize
		}
	}
}

// field takes one line of an event.
func (r *eventReader) field(line []byte) {
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

// readLine returns a line without its end. It never waits for the byte after a
// CR: the event before it would be seen late. At the stream's end it returns
// what there is, with io.EOF.
func (r *eventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		b, err := r.from.ReadByte()
		if err != nil {
			return r.trimMark(), err
		}
		if r.read++; r.read > maxStreamBytes {
			return nil, errStreamSize
		}
		skip := b == '\n' && r.afterCR
		r.afterCR = b == '\r'
		switch {
		case skip:
		case b == '\n' || b == '\r':
			return r.trimMark(), nil
		default:
			if r.line = append(r.line, b); len(r.line) > maxEventBytes {
				return nil, errEventSize
			}
		}
	}
}

// trimMark takes a byte order mark off the stream's first line.
func (r *eventReader) trimMark() []byte {
	if r.started {
		return r.line
	}
	r.started = true
	return bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
}
