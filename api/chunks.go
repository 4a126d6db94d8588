package api

import (
	"bufio"
	"errors"
	"io"
	"reflect"

	"github.com/valyala/fasthttp"
)

// errChunk is a chunk-size line that RFC 9112, 7.1, does not know.
var errChunk = errors.New("a chunk's size must be hexadecimal digits, with nothing but an extension behind them")

// mostChunkDigits keeps a chunk's size within 60 bits.
const mostChunkDigits = 15

// bodyStream is the body of a request as its bytes arrive; nil where it has none.
func bodyStream(ctx *fasthttp.RequestCtx) io.Reader {
	stream := ctx.RequestBodyStream()
	if stream == nil || ctx.Request.Header.ContentLength() != chunkedLength {
		return stream
	}
	return &chunks{stream: stream, lines: readerOf(stream)}
}

// readerOf is the connection's reader below fasthttp's body stream, which has no method for it;
// nil where another version of fasthttp keeps it elsewhere (TestSmugglingCorpus fails then).
func readerOf(stream io.Reader) *bufio.Reader {
	if v := reflect.ValueOf(stream); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if f := v.Elem().FieldByName("reader"); f.IsValid() && f.Type() == reflect.TypeFor[*bufio.Reader]() {
			return (*bufio.Reader)(f.UnsafePointer())
		}
	}
	return nil
}

// chunks holds a chunked body's framing to the letter of RFC 9112: fasthttp, which decodes it, takes blanks
// behind a chunk's size, where a proxy in front may read another size, and a body without its last chunk as a whole one.
type chunks struct {
	stream io.Reader
	lines  *bufio.Reader
	left   int // bytes of the chunk that are still to come
	ended  bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF // what follows is the next request's
	}
	if c.left == 0 && c.lines != nil {
		var err error
		if c.left, err = peekChunkSize(c.lines); err != nil {
			return 0, err
		}
	}
	n, err := c.stream.Read(p)
	c.left -= n
	c.ended = errors.Is(err, io.EOF)
	return n, err
}

// peekChunkSize is the size of the chunk that begins at the next byte; 0 is the last one's.
func peekChunkSize(r *bufio.Reader) (size int, err error) {
	for n := 1; n <= mostChunkDigits+1; n++ {
		line, err := r.Peek(n)
		if errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		switch digit, c := hexDigit(line[n-1]), line[n-1]; {
		case digit >= 0 && n <= mostChunkDigits:
			size = size<<4 | digit
		case n > 1 && (c == '\r' || c == ';'):
			return size, nil // the stream reads the rest of the line
		default:
			return 0, errChunk
		}
	}
	return 0, errChunk
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
