package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"weir/internal/sse"
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

var done = []byte("[DONE]")

// eventReader reads events. What a stream's end cuts off is dropped, except for a last [DONE], which some servers leave without its blank line.
type eventReader struct{ events *sse.Reader }

func newEventReader(from io.Reader) eventReader {
	return eventReader{sse.NewReader(from, sse.Limits{Event: maxEventBytes, Stream: maxStreamBytes})}
}

// next returns the next event's data, valid until the next call; io.EOF at the
// stream's end.
func (r eventReader) next() ([]byte, error) {
	data, err := r.events.Next()
	switch {
	case errors.Is(err, io.EOF):
		if rest, _ := r.events.Rest(); bytes.Equal(rest, done) {
			return rest, nil
		}
	case errors.Is(err, sse.ErrLine), errors.Is(err, sse.ErrEvent):
		return nil, errEventSize
	case errors.Is(err, sse.ErrStream):
		return nil, errStreamSize
	}
	return data, err
}
