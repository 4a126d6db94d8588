package edge

import (
	"crypto/rand"
	"encoding/hex"
)

// IDs makes ids for requests. Tests replace its bytes.
type IDs struct {
	Random func() []byte // nil: 12 bytes of the system's
}

// Next is an id that no other request has.
func (s *IDs) Next() string {
	if s.Random != nil {
		return hex.EncodeToString(s.Random())
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// MaxRequestIDBytes bounds the ids that clients give their requests.
const MaxRequestIDBytes = 128

// IsPlain tells ids that may be sent back: short and of visible ASCII.
func IsPlain(id []byte) bool {
	for _, b := range id {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= MaxRequestIDBytes
}
