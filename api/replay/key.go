package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// MaxKeyBytes bounds a key, quotes left aside; Stripe's limit, too.
const MaxKeyBytes = 255

// ParseKey reads the header field Idempotency-Key: a string of structured fields
// (RFC 9651: "8e03978e", with \" and \\ as escapes), as
// draft-ietf-httpapi-idempotency-key-header has it, or the key as it is, as most
// clients send it. Both forms of a key are the same key. A key has 1 to MaxKeyBytes
// visible ASCII characters; between quotes there may be spaces.
func ParseKey(field string) (string, error) {
	if len(field) > 2*MaxKeyBytes+2 { // each character an escape
		return "", fmt.Errorf("the key has %d bytes; at most %d are read", len(field), MaxKeyBytes)
	}
	key, lowest := strings.Trim(field, " \t"), byte('!')
	if strings.HasPrefix(key, `"`) {
		var err error
		if key, err = unquote(key); err != nil {
			return "", err
		}
		lowest = ' '
	}
	switch {
	case key == "":
		return "", errors.New("the key is empty")
	case len(key) > MaxKeyBytes:
		return "", fmt.Errorf("the key has %d bytes; at most %d are read", len(key), MaxKeyBytes)
	}
	for i := range len(key) {
		if key[i] < lowest || key[i] > '~' {
			return "", fmt.Errorf("byte %d of the key is %q; a key is of visible ASCII characters", i, key[i])
		}
	}
	return key, nil
}

// unquote reads a string of structured fields, without parameters behind it.
func unquote(text string) (string, error) {
	var key strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i != len(text)-1 {
				return "", fmt.Errorf("something follows the quoted key: %.40q", text[i+1:])
			}
			return key.String(), nil
		case '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", errors.New(`in a quoted key \ stands before " or \ only`)
			}
		}
		key.WriteByte(text[i])
	}
	return "", errors.New("the key begins with a quote and does not end with one")
}

// Fingerprint tells requests of one key apart: by where they were sent and by the
// exact bytes of the body. A client that tries again sends the same bytes; a body that
// says the same in other bytes counts as another one, so that no two readings of JSON
// can differ on what is the same.
func Fingerprint(route string, body []byte) [32]byte {
	h := sha256.New()
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(route)))
	h.Write(length[:])
	h.Write([]byte(route))
	h.Write(body)
	return [32]byte(h.Sum(nil))
}
