package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/router"
	"weir/router/chunk"
)

// maxHeldBytes bounds what is held back of a stream that has no content yet; beyond it the
// stream passes as it is.
const maxHeldBytes = 256 << 10

// stream is the answer of a replica as server-sent events. What comes before content is
// held back, so that another replica can still answer instead. After it the bytes pass as
// they come.
type stream struct {
	flight  *flight
	attempt *attempt
	body    io.ReadCloser // of the replica's answer

	held    []byte     // read, and not passed on
	line    int        // where the line in held begins that is not complete
	out     []byte     // may be passed on
	content bool       // the replica has sent some
	over    bool       // the stream has ended
	failed  error      // how, where it was not well; to be read behind out
	wrong   error      // what the guard has found in what was read last
	direct  directConn // what it comes on
	lines   chunk.Lines
	guard   streamChecker
}

// open reads up to the first content, or to a sign of life that may be passed on.
func (s *stream) open() error {
	for !s.content && len(s.out) == 0 {
		if err := s.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads a piece of a stream without content.
func (s *stream) fill() error {
	if s.held == nil {
		first, _ := heldBuffers.Get().(*[firstHeldBytes]byte)
		s.held = first[:0]
	}
	s.held = slices.Grow(s.held, firstHeldBytes/4)
	n, err := s.body.Read(s.held[len(s.held):cap(s.held)])
	s.held = append(s.held, s.lines.Add(s.held[len(s.held):len(s.held)+n])...)
	if err != nil {
		s.held = append(s.held, s.lines.End()...)
	}
	s.direct.after(err)
	s.attempt.replica.heard.Add(1)
	for !s.content {
		i := bytes.IndexByte(s.held[s.line:], '\n')
		if i < 0 {
			break
		}
		if err := s.look(s.line, s.line+i+1); err != nil {
			return err
		}
	}
	switch {
	case s.content, len(s.held) > maxHeldBytes:
		s.pass()
		return nil
	case errors.Is(err, io.EOF):
		return EmptyAnswer.because("the stream ended before it had content: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// look judges the line held[from:to].
func (s *stream) look(from, to int) error {
	line := s.held[from:to]
	what, err := s.guard.dialect.judge(line)
	switch {
	case err != nil:
		return err
	case what == begun:
		s.content = true
	case line[0] == ':' || what == beat: // says that the replica lives, and nothing else
		if time.Since(s.flight.began) > s.flight.fleet.config.HoldTime {
			s.out = append(append(s.out, line...), '\n')
		}
		s.held = slices.Delete(s.held, from, to)
		return nil
	}
	s.line = to
	return nil
}

// pass lets everything through that was held back.
func (s *stream) pass() {
	s.content, s.flight.content = true, true
	s.attempt.begun()
	pass := s.judge(s.held)
	if r := s.flight.resume; r != nil {
		s.out, s.held = r.cut(s.out, bytes.Clone(pass))
		return
	}
	s.out = append(s.out, pass...)
	if cap(s.held) == firstHeldBytes {
		heldBuffers.Put((*[firstHeldBytes]byte)(s.held[:firstHeldBytes]))
	}
	s.held = nil
}

// firstHeldBytes has room for the events before content of most streams.
const firstHeldBytes = 4 << 10

// heldBuffers are such as no stream needs any more.
var heldBuffers = sync.Pool{New: func() any { return new([firstHeldBytes]byte) }}

// watch gives what passes of a piece that has come.
func (s *stream) watch(piece []byte) (pass []byte) { return s.judge(s.lines.Add(piece)) }

// judge is watch of a piece in the form of chunk.Lines.
func (s *stream) judge(piece []byte) (pass []byte) {
	s.attempt.replica.heard.Add(1)
	s.attempt.timer.Reset(s.flight.fleet.config.StallTimeout)
	pass, s.wrong = s.guard.add(piece)
	return pass
}

// Read passes the stream on. Before content another replica may take over; after it only
// where the client asked for that.
func (s *stream) Read(buf []byte) (int, error) {
	for {
		if len(s.out) > 0 {
			n := copy(buf, s.out)
			if s.out = s.out[n:]; len(s.out) == 0 {
				s.out = nil
			}
			return n, nil
		}
		if s.over {
			return 0, cmp.Or(s.failed, io.EOF)
		}
		var err error
		switch {
		case s.content && s.flight.resume == nil:
			s.relay(buf)
		case s.content:
			err = s.follow(buf)
		default:
			err = s.fill()
		}
		if err != nil {
			if err := s.replace(err); err != nil {
				return 0, err
			}
		}
	}
}

// follow reads the rest of a stream that may have to go on elsewhere: by whole events.
func (s *stream) follow(buf []byte) error {
	err := s.wrong
	if err == nil {
		var n int
		n, err = s.body.Read(buf)
		s.held = append(s.held, s.watch(buf[:n])...)
	}
	r := s.flight.resume
	s.out, s.held = r.cut(s.out, s.held)
	switch {
	case s.wrong != nil && !isOverrun(s.wrong):
		return s.wrong
	case s.wrong != nil:
		err = s.wrong
	case err == nil && len(s.held) > maxHeldBytes:
		return fmt.Errorf("an event is above %d bytes", maxHeldBytes)
	case err == nil:
		return nil
	}
	rest, whole := s.rest(err)
	if whole && s.flight.ctx.Err() == nil {
		s.ends()
		s.out, s.held = r.cut(s.out, append(s.held, rest...))
		return nil
	}
	return torn(err)
}

// relay reads the rest of a stream that has content. It allocates nothing, but at the end.
func (s *stream) relay(buf []byte) {
	err := s.wrong
	if err == nil {
		before := s.direct.reads()
		var n int
		n, err = s.body.Read(buf)
		s.out = s.watch(buf[:n]) // what lies in buf is taken from there at once
		s.direct.after(err)
		s.direct.judge(before, buf[:n])
	}
	switch {
	case s.wrong != nil && !isOverrun(s.wrong):
		err = s.wrong
	case s.wrong == nil && err == nil:
		return
	default:
		before := bytes.Clone(s.out)
		rest, whole := s.rest(err)
		if s.out = append(before, rest...); whole && s.flight.ctx.Err() == nil {
			s.ends()
			return
		}
	}
	s.over, s.failed = true, s.flight.breaks(s.attempt, torn(err))
}

// ends is the end of a whole answer. The caller has heard of a fault that a last event told of, and of what followed it nothing.
func (s *stream) ends() {
	s.over = true
	if e, ok := errors.AsType[*faultError](s.guard.said); ok {
		s.attempt.replica.counts.add(e.fault)
	}
	s.attempt.end(s.guard.said)
}

// rest gives what passes at the end of the stream, which err tells, and whether the answer is whole.
func (s *stream) rest(err error) (rest []byte, whole bool) {
	if s.wrong == nil {
		var pass []byte
		pass, s.wrong = s.guard.add(s.lines.End())
		if rest = bytes.Clone(pass); s.wrong != nil && !isOverrun(s.wrong) {
			return rest, false
		}
	}
	end, whole := s.guard.end(err)
	return append(rest, end...), whole
}

// torn is the end of a stream that is not whole: a connection that is closed in between looks like one that ended well.
func torn(err error) error {
	if errors.Is(err, io.EOF) {
		return BrokenStream.because("the stream ended without [DONE] and without the finish reason of a choice: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// replace asks other replicas after the one of this stream has failed without content.
func (s *stream) replace(err error) error {
	_ = s.body.Close() // it failed already
	s.over = true
	fl, r := s.flight, s.flight.resume
	switch {
	case s.content:
		err = fl.breaks(s.attempt, err)
	default:
		if _, failed := fl.refused(s.attempt, &router.Answer{Header: make(http.Header)}, err); failed != nil {
			err = failed
		}
	}
	if s.content && (r == nil || !r.can()) || !fl.again() {
		fl.settle(false)
		return err
	}
	if s.content {
		r.again++
		s.flight.fleet.counts.resumed.Add(1)
	}
	answer, err := s.flight.begin()
	if errors.Is(err, errNothingLeft) {
		s.out = append(s.out, r.ending()...)
		return nil
	}
	if err != nil {
		return err
	}
	next, ok := answer.Events.(*stream)
	if !ok {
		defer answer.Release()
		return fmt.Errorf("status %d: %.200q", answer.Status, answer.Whole)
	}
	next.out = append(s.out, next.out...)
	*s = *next
	return nil
}

// Close ends the request at the replica where it has not ended.
func (s *stream) Close() error {
	if !s.over {
		s.over = true
		s.attempt.end(errNotJudged)
	}
	return s.body.Close()
}
