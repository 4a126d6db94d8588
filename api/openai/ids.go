package openai

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
)

// idSource makes ids for requests. Tests replace its bytes.
type idSource struct {
	random func() []byte // nil: 12 bytes of the system's
}

func (s *idSource) next() string {
	if s.random != nil {
		return hex.EncodeToString(s.random())
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// headerQuote makes a client's text fit for a response header.
func headerQuote(text string) string {
	return strconv.QuoteToASCII(quote([]byte(text)))
}
