// Package coding undoes the content codings of HTTP (RFC 9110, 8.4.1; RFC 8878): gzip, deflate and zstd. It is pure. The one who reads bounds what
// is read, since a few bytes may decode to very many.
package coding

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Known lists the codings that are undone, for people.
const Known = "gzip, deflate and zstd"

// maxWindowBytes bounds what a decoder of zstd keeps (RFC 8878, 3.1.1.1.2, recommends to take 8 MiB).
const maxWindowBytes = 8 << 20

// Parse is the coding that the values of a Content-Encoding field name, in lower case, "" where the bytes are as they are. known: it is one that
// Open undoes. Several codings, one over the other, are none.
func Parse(values ...string) (name string, known bool) {
	name = strings.ToLower(strings.TrimSpace(strings.Join(values, ", ")))
	if name == "" || name == "identity" {
		return "", true
	}
	_, known = decoders[name]
	return name, known
}

// Open reads from as it was before it was coded; name is one that Parse knows. The first bytes of from are read here already, and an error is
// theirs. The reader is to be closed; from stays open.
func Open(name string, from io.Reader) (io.ReadCloser, error) { return decoders[name](from) }

// decoders by the names of RFC 9110, 8.4.1, and RFC 8878.
var decoders = map[string]func(io.Reader) (io.ReadCloser, error){
	"gzip":    unzip,
	"x-gzip":  unzip,
	"deflate": inflate,
	"zstd": func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

func unzip(r io.Reader) (io.ReadCloser, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return z, nil
}

// inflate takes the zlib form, which the standard names deflate, and the bare one, which some programs send by that name.
func inflate(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err == nil && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

// Corrupt reports whether an error of Open, or of its reader, says that the bytes are not of their coding, rather than that they did not come.
func Corrupt(err error) bool {
	for _, of := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zlib.ErrDictionary, zstd.ErrMagicMismatch,
		zstd.ErrWindowSizeExceeded, zstd.ErrCRCMismatch} {
		if errors.Is(err, of) {
			return true
		}
	}
	_, damaged := errors.AsType[flate.CorruptInputError](err)
	return damaged
}
