package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// Key makes the hashes of entries: HMAC-SHA-256 under a secret that lies apart from the store. The zero Key
// makes plain SHA-256, as weirs did before there were keys; a Key reads what they left.
type Key struct{ secret []byte }

// NewKey takes a secret of any length; 32 random bytes are enough.
func NewKey(secret []byte) Key { return Key{secret} }

// IsZero reports whether the key has no secret.
func (k Key) IsZero() bool { return len(k.secret) == 0 }

// Next puts a change after the entry that last names.
func (k Key) Next(last Head, c Change) Entry {
	c.Time = c.Time.UTC().Truncate(time.Microsecond)
	e := Entry{Change: c, Sequence: last.Sequence + 1, Previous: last.Hash}
	e.Hash = k.sum(&e)
	return e
}

// Made reports whether an entry has the hash that the key gives it.
func (k Key) Made(e *Entry) bool {
	sum := k.sum(e)
	return hmac.Equal(sum[:], e.Hash[:])
}

// sum hashes all fields, each text after its length, so that no two entries have the
// same bytes.
func (k Key) sum(e *Entry) (sum Hash) {
	var h hash.Hash
	var b []byte
	if k.IsZero() {
		h, b = sha256.New(), append(b, "weir audit 1\x00"...)
	} else {
		h, b = hmac.New(sha256.New, k.secret), append(b, "weir audit 2\x00"...)
	}
	b = append(b, e.Previous[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Sequence))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMicro()))
	for _, text := range []string{e.Actor, e.Action, e.Object, e.Details} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	h.Write(b)
	h.Sum(sum[:0])
	return sum
}
