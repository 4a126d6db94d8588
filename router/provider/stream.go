package provider

import (
	"errors"
	"io"

	"weir/internal/sse"
)

// maxEventBytes bounds an event of a provider's stream.
const maxEventBytes = 8 << 20

// frames cuts a stream into events.
type frames interface {
	// next gives an event: its name, where its frame has one, and its data, which count until the next call.
	next() (name string, data []byte, err error)
}

// decoder reads the events of one stream.
type decoder interface {
	// read says in to what an event says. over: nothing follows. The error is a *fault where the provider tells of one.
	read(name string, data []byte, to *chunks) (over bool, err error)
}

// Stream is a provider's stream as that of a chat.
type Stream struct {
	body    io.ReadCloser
	frames  frames
	decoder decoder
	to      chunks
	read    int // of to.out
	err     error
}

// NewStream reads a provider's stream.
func NewStream(api API, body io.ReadCloser, who Identity) *Stream {
	return &Stream{body: body, frames: api.frames(body), decoder: api.decoder(), to: chunks{who: who}}
}

// Read gives what one event says, or several. It ends with io.EOF behind [DONE], or behind an error that the provider has told of.
// What the provider cuts off ends with io.EOF and without either.
func (s *Stream) Read(p []byte) (int, error) {
	for s.read == len(s.to.out) {
		if s.err != nil {
			return 0, s.err
		}
		s.to.out, s.read = s.to.out[:0], 0
		s.err = s.advance()
	}
	n := copy(p, s.to.out[s.read:])
	s.read += n
	return n, nil
}

func (s *Stream) advance() error {
	name, data, err := s.frames.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			s.to.end()
		}
		return err
	}
	over, err := s.decoder.read(name, data, &s.to)
	if f, ok := errors.AsType[*fault](err); ok {
		s.to.fail(f)
		return io.EOF
	}
	if err == nil && over {
		s.to.end()
		return io.EOF
	}
	return err
}

// Close ends the request at the provider where it has not ended.
func (s *Stream) Close() error { return s.body.Close() }

// serverSent are the frames of server-sent events. The last one counts without its blank line.
type serverSent struct {
	events *sse.Reader
	ended  bool
}

func newServerSent(from io.Reader) frames {
	return &serverSent{events: sse.NewReader(from, sse.Limits{Event: maxEventBytes})}
}

func (s *serverSent) next() (string, []byte, error) {
	for !s.ended {
		data, err := s.events.Next()
		if s.ended = errors.Is(err, io.EOF); s.ended {
			var whole bool
			if data, whole = s.events.Rest(); whole && len(data) > 0 {
				return "", data, nil // the next call tells
			}
		}
		switch {
		case errors.Is(err, sse.ErrEvent):
			err = unreadable("an event is above %d bytes", maxEventBytes)
		case errors.Is(err, sse.ErrLine):
			err = unreadable("a line is above %d bytes", maxEventBytes)
		}
		if err != nil {
			return "", nil, err
		}
		if len(data) > 0 {
			return "", data, nil
		}
	}
	return "", nil, io.EOF
}
