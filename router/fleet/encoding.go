package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"weir/internal/coding"
)

// Replicas are asked for answers as they are (Accept-Encoding: identity). A proxy in between may compress all the same.

// decode has an answer's body read as it was before it was compressed. coded: it was.
func decode(res *http.Response) (coded bool, err error) {
	name, known := coding.Parse(res.Header.Values("Content-Encoding")...)
	switch {
	case !known:
		return true, BadAnswer.because("the answer is encoded as %.40q; it was asked for without, and %s are read all the same", name, coding.Known)
	case name == "":
		return false, nil
	}
	res.Body = &decodedBody{name: name, from: res.Body}
	res.ContentLength = -1 // that of what was compressed
	return true, nil
}

// decodedBody is a body that is decoded once it is read: its first bytes may come long after the header.
type decodedBody struct {
	name  string
	from  io.ReadCloser
	plain io.ReadCloser // nil before the first read
}

func (d *decodedBody) Read(p []byte) (n int, err error) {
	if d.plain == nil {
		if d.plain, err = coding.Open(d.name, d.from); err != nil {
			d.plain = nil
			return 0, d.wrong(err)
		}
	}
	n, err = d.plain.Read(p)
	return n, d.wrong(err)
}

// wrong tells what cannot be decoded from a connection that breaks.
func (d *decodedBody) wrong(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case coding.Corrupt(err):
		return BadAnswer.because("the answer cannot be decoded as %s: %w", d.name, err)
	}
	return fmt.Errorf("an answer encoded as %s: %w", d.name, err)
}

// Close ends the request at the server where it has not ended.
func (d *decodedBody) Close() error {
	if d.plain != nil {
		_ = d.plain.Close() // the decoder's memory; what was read is read
	}
	return d.from.Close()
}
