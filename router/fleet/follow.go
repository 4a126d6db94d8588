package fleet

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptrace"
	"slices"

	"weir/internal/socket"
	"weir/router"
)

// A stream that has content, of a replica that is spoken to by plain HTTP/1.1, can be read below net/http: a piece that is nothing but whole
// chunks is taken off the connection, and net/http never hears of it. All else is left to net/http, first of all the end.

// directConn is the connection that a stream comes on.
type directConn struct {
	conn   socket.Follower // nil: none that can be followed
	wanted bool            // somebody follows the stream
	inStep bool            // net/http has read all that came, up to the end of a chunk
}

// traced notes the connection that a request gets.
func (d *directConn) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { d.conn, _ = got.Conn.(socket.Follower) }})
}

// of takes the connection only for an answer that comes in chunks by HTTP/1.1.
func (d *directConn) of(res *http.Response) {
	if res.ProtoMajor != 1 || !slices.Equal(res.TransferEncoding, []string{"chunked"}) {
		d.conn = nil
	}
}

// after notes what a read of the answer has returned: with its end, the connection is net/http's again, which gives it to the next request.
func (d *directConn) after(err error) {
	if err != nil {
		d.conn, d.inStep = nil, false
	}
}

// reads is how often the connection was read.
func (d *directConn) reads() (n int) {
	if d.wanted && d.conn != nil {
		_, n = d.conn.Latest()
	}
	return n
}

// judge finds out whether net/http is in step. It is where the connection was read once for a piece, that read brought nothing but whole
// chunks, and the piece is their data, and begins as an event does. Had net/http been within a chunk, the piece would begin with the length
// of the next one, or with less of it than there is; and what follows that would be taken for a length, which no event begins with.
func (d *directConn) judge(readsBefore int, piece []byte) {
	if d.inStep = false; !d.wanted || d.conn == nil || !beginsEvent(piece) {
		return
	}
	raw, reads := d.conn.Latest()
	if reads != readsBefore+1 {
		return
	}
	for len(raw) > 0 {
		data, n, _ := wholeChunk(raw)
		rest, ok := bytes.CutPrefix(piece, data)
		if n == 0 || !ok {
			return
		}
		raw, piece = raw[n:], rest
	}
	d.inStep = len(piece) == 0
}

// beginsEvent reports whether a piece begins with a field of an event or with a comment, none of which is a chunk's length.
func beginsEvent(piece []byte) bool {
	return bytes.HasPrefix(piece, []byte("data:")) || bytes.HasPrefix(piece, []byte("event:")) || bytes.HasPrefix(piece, []byte(":"))
}

const (
	maxLengthDigits = 7        // of a chunk that is read here
	maxChunkBytes   = 64 << 10 // as above, with its frame; a longer one is net/http's
)

// wholeChunk gives the data of the chunk that b begins with, and how many bytes that is with its frame (RFC 9112, 7.1). n is 0 where that is
// not there: more tells whether it may come. The last chunk, and one that is more than a length and data, are never taken.
func wholeChunk(b []byte) (data []byte, n int, more bool) {
	i, length := 0, 0
	for ; i < len(b) && i < maxLengthDigits; i++ {
		digit := hexDigit(b[i])
		if digit < 0 {
			break
		}
		length = length<<4 | digit
	}
	from, to := i+2, i+2+length
	switch {
	case length == 0 && len(b) > 0, to+2 > maxChunkBytes, !startsAt(b, i, "\r\n"), !startsAt(b, to, "\r\n"):
		return nil, 0, false
	case len(b) < to+2:
		return nil, 0, true
	}
	return b[from:to], to + 2, true
}

// startsAt reports whether b goes on with text at i, as far as it is there.
func startsAt(b []byte, i int, text string) bool {
	if i >= len(b) {
		return true
	}
	n := min(len(text), len(b)-i)
	return string(b[i:i+n]) == text[:n]
}

// hexDigit is the value of a digit, and -1 of another character.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unchunk gives the data of the whole chunks that b begins with, how many bytes they are, and whether what follows may become one. It moves
// the data together, within b.
func unchunk(b []byte) (data []byte, used int, more bool) {
	for {
		next, n, more := wholeChunk(b[used:])
		switch {
		case n == 0:
			return data, used, more
		case used == 0:
			data = next
		default:
			data = append(data, next...) // over the frame between the two
		}
		used += n
	}
}

// Follow implements router.Follower.
func (s *stream) Follow(take func(piece []byte) bool) {
	d := &s.direct
	d.wanted = true
	if !d.inStep || !s.content || s.over || s.wrong != nil || s.flight.resume != nil || len(s.out) > 0 {
		return
	}
	d.conn.Follow(func(b []byte) (used int, more bool) {
		data, used, more := unchunk(b)
		if used > 0 {
			pass := s.watch(data)
			more = (len(pass) == 0 || take(pass)) && more && s.wrong == nil
		}
		return used, more
	})
}

var _ router.Follower = (*stream)(nil)
