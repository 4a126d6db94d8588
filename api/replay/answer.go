package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Answer is a response as it is kept: what a client would have read of it.
type Answer struct {
	Status      int
	ContentType string
	Warnings    string   // x-weir-warnings; "" is none
	Stream      bool     // Body is the bytes of an event stream
	Withheld    bool     // the answer was given once and is not kept: there is no body
	Headers     []string // further header fields, "Name: value"
	Body        []byte
}

// The stored form: one byte that names the form, the status (2 bytes, little-endian),
// a byte of flags, content type, warnings and, where the flag says so, further header fields by lines, each after its
// length (2 bytes), then the body, compressed where the flag says so.
const (
	formOne = 1

	flagStream     = 1 << 0
	flagCompressed = 1 << 1
	flagHeaders    = 1 << 2
	flagWithheld   = 1 << 3

	headBytes = 4
)

// compressFrom is the smallest body that is compressed. Events repeat most of
// their bytes: a stream shrinks to a tenth.
const compressFrom = 512

var errStored = errors.New("the stored answer is damaged")

// Encode returns the stored form.
func (a *Answer) Encode() ([]byte, error) {
	const most = 1<<16 - 1
	headers := strings.Join(a.Headers, "\n")
	if a.Status < 100 || a.Status > 999 || len(a.ContentType) > most || len(a.Warnings) > most || len(headers) > most {
		return nil, fmt.Errorf("an answer with status %d and %d bytes of header is not kept", a.Status,
			len(a.ContentType)+len(a.Warnings)+len(headers))
	}
	var flags byte
	if a.Stream {
		flags |= flagStream
	}
	if a.Withheld {
		flags |= flagWithheld
	}
	body := a.Body
	if c := coder(); len(body) >= compressFrom && c != nil {
		if small := c.encoder.EncodeAll(body, nil); len(small) < len(body) {
			body, flags = small, flags|flagCompressed
		}
	}
	if headers != "" {
		flags |= flagHeaders
	}
	dst := make([]byte, 0, headBytes+6+len(a.ContentType)+len(a.Warnings)+len(headers)+len(body))
	dst = append(dst, formOne)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(a.Status)) //nolint:gosec // checked above
	dst = append(dst, flags)
	dst = appendText(dst, a.ContentType)
	dst = appendText(dst, a.Warnings)
	if headers != "" {
		dst = appendText(dst, headers)
	}
	return append(dst, body...), nil
}

func appendText(dst []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint16(dst, uint16(len(text))), text...) //nolint:gosec // Encode checks the length
}

// Decode reads the stored form. The body has at most MaxAnswerBytes.
func Decode(stored []byte) (*Answer, error) {
	if len(stored) < headBytes || stored[0] != formOne || stored[3]&^(flagStream|flagCompressed|flagHeaders|flagWithheld) != 0 {
		return nil, errStored
	}
	a := &Answer{Status: int(binary.LittleEndian.Uint16(stored[1:])), Stream: stored[3]&flagStream != 0,
		Withheld: stored[3]&flagWithheld != 0}
	rest := stored[headBytes:]
	var okType, okWarnings bool
	a.ContentType, rest, okType = takeText(rest)
	a.Warnings, rest, okWarnings = takeText(rest)
	if !okType || !okWarnings || a.Status < 100 || a.Status > 999 {
		return nil, errStored
	}
	if stored[3]&flagHeaders != 0 {
		headers, after, ok := takeText(rest)
		if !ok || headers == "" {
			return nil, errStored
		}
		a.Headers, rest = strings.Split(headers, "\n"), after
	}
	a.Body = rest
	if stored[3]&flagCompressed != 0 {
		c := coder()
		if c == nil || len(rest) == 0 {
			return nil, errStored
		}
		var err error
		if a.Body, err = c.decoder.DecodeAll(rest, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", errStored, err)
		}
	}
	if len(a.Body) > MaxAnswerBytes {
		return nil, errStored
	}
	return a, nil
}

func takeText(src []byte) (text string, rest []byte, ok bool) {
	if len(src) < 2 {
		return "", nil, false
	}
	n := int(binary.LittleEndian.Uint16(src))
	if src = src[2:]; len(src) < n {
		return "", nil, false
	}
	return string(src[:n]), src[n:], true
}

// codec compresses bodies; both halves may be used by several goroutines.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// coder is nil if zstd refuses its options, which are constant.
var coder = sync.OnceValue(func() *codec {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxAnswerBytes))
	if err != nil {
		return nil
	}
	return &codec{encoder: e, decoder: d}
})
