package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Replicas are asked for answers as they are (Accept-Encoding: identity). A proxy in between may compress all the same.

// maxWindowBytes bounds what a decoder of zstd keeps (RFC 8878, 3.1.1.1.2, recommends to take 8 MiB).
const maxWindowBytes = 8 << 20

// decode has an answer's body read as it was before it was compressed. coded: it was.
func decode(res *http.Response) (coded bool, err error) {
	name := strings.ToLower(strings.TrimSpace(strings.Join(res.Header.Values("Content-Encoding"), ", ")))
	if name == "" || name == "identity" {
		return false, nil
	}
	open, known := decoders[name]
	if !known {
		return true, BadAnswer.because("the answer is encoded as %.40q; it was asked for without, and gzip, deflate and zstd are read all the same", name)
	}
	res.Body = &decodedBody{name: name, open: open, from: res.Body}
	res.ContentLength = -1 // that of what was compressed
	return true, nil
}

// decoders by the names of RFC 9110, 8.4.1, and RFC 8878.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"gzip":   func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"zstd": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	},
	"deflate": func(r io.Reader) (io.Reader, error) {
		b := bufio.NewReader(r)
		head, err := b.Peek(2)
		if err == nil && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(b)
		}
		return flate.NewReader(b), nil // some servers leave the zlib header out
	},
}

// decodedBody is a body that is decoded once it is read: its first bytes may come long after the header.
type decodedBody struct {
	name  string
	open  func(io.Reader) (io.Reader, error)
	from  io.ReadCloser
	plain io.Reader
}

func (d *decodedBody) Read(p []byte) (n int, err error) {
	if d.plain == nil {
		if d.plain, err = d.open(d.from); err != nil {
			d.plain = nil
			return 0, d.wrong(err)
		}
	}
	n, err = d.plain.Read(p)
	return n, d.wrong(err)
}

// wrong tells what cannot be decoded from a connection that breaks.
func (d *decodedBody) wrong(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	for _, corrupt := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zstd.ErrMagicMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrCRCMismatch} {
		if errors.Is(err, corrupt) {
			return BadAnswer.because("the answer cannot be decoded as %s: %w", d.name, err)
		}
	}
	return fmt.Errorf("an answer encoded as %s: %w", d.name, err)
}

// Close ends the request at the server where it has not ended.
func (d *decodedBody) Close() error {
	if z, ok := d.plain.(*zstd.Decoder); ok {
		z.Close()
	}
	return d.from.Close()
}
