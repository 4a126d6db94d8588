// Package trace is a request's place in a distributed trace: W3C Trace Context
// from the request's head, and what an operator sets. Package otlp below it exports the
// spans. Nothing is recorded while a request runs, so that a trace costs
// nothing per token, and whether one is exported can depend on how the request
// went.
package trace

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Context is a request's place in a distributed trace (W3C Trace Context).
type Context struct {
	Trace   [16]byte
	Span    [8]byte // of the request here
	Parent  [8]byte // the caller's span; zero: the trace begins here
	Sampled bool    // the caller or the ratio wants the trace exported
	State   string  // the caller's tracestate; sent on as it is
}

// ID is the trace id as logs and collectors write it.
func (c *Context) ID() string { return hex.EncodeToString(c.Trace[:]) }

// Header is the traceparent that names this request's span: the answer's
// traceresponse, and what an upstream is sent.
func (c *Context) Header() string {
	b := make([]byte, 0, headerBytes)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

const (
	headerBytes   = 55  // of a traceparent of version 00
	maxHeader     = 256 // later versions may be longer
	maxStateBytes = 512 // what the standard asks to pass on at least
)

// Begin gives a request its place: below the span that the head names, or in a
// trace of its own where the head names none or is not valid. The share
// ratio of the traces that begin here is sampled; of others, those that the caller sampled.
func Begin(traceparent, tracestate string, ratio float64) Context {
	c, ok := parse(traceparent)
	if ok && validState(tracestate) {
		c.State = tracestate
	}
	if !ok {
		c = Context{}
		_, _ = rand.Read(c.Trace[:]) // never fails
		c.Sampled = chosen(c.Trace, ratio)
	}
	_, _ = rand.Read(c.Span[:])
	return c
}

// chosen is the choice that OpenTelemetry's ratio sampler makes: a function of
// the id, so that all who see the trace choose alike.
func chosen(id [16]byte, ratio float64) bool {
	return float64(binary.BigEndian.Uint64(id[8:])>>1) < ratio*(1<<63)
}

// parse reads a traceparent: version-trace-span-flags in lower-case hex.
func parse(header string) (c Context, ok bool) {
	if len(header) < headerBytes || len(header) > maxHeader || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return c, false
	}
	version, flags := [1]byte{}, [1]byte{}
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], header[:2]}, {c.Trace[:], header[3:35]}, {c.Parent[:], header[36:52]}, {flags[:], header[53:55]}} {
		if strings.ContainsAny(part.text, "ABCDEF") {
			return c, false
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return c, false
		}
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(header) > headerBytes, len(header) > headerBytes && header[headerBytes] != '-':
		return c, false
	case c.Trace == [16]byte{}, c.Parent == [8]byte{}:
		return c, false
	}
	c.Sampled = flags[0]&1 != 0
	return c, true
}

// validState tells what may be sent on: printable and short.
func validState(state string) bool {
	for i := range len(state) {
		if state[i] < ' ' || state[i] > '~' {
			return false
		}
	}
	return len(state) <= maxStateBytes
}
