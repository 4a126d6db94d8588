// Package envelope encrypts what is kept of tenants. Each tenant has data keys of its own, which encrypt its records
// (DataKey) and files (age's format), and a master key encrypts the data keys: a secret, or a command that asks a key
// management service. Where a tenant's data keys are destroyed, what they encrypted is unreadable wherever it is.
package envelope

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

// ErrSealed says that something cannot be decrypted: it was altered, or moved from another tenant or record, or it was
// encrypted with another key.
var ErrSealed = errors.New("what is encrypted was altered, moved, or encrypted with another key")

// ErrNoKey says that there is no data key of that id: the tenant was forgotten.
var ErrNoKey = errors.New("the data key was destroyed")

// Label is what a ciphertext is bound to: it can be read as this record of this tenant, and as nothing else.
type Label struct {
	Tenant string
	Kind   string // "weir_responses.input"
	ID     string // of the record
}

// bytes are no two labels' the same.
func (l Label) bytes() []byte {
	b := []byte("weir envelope 1\x00")
	for _, text := range []string{l.Tenant, l.Kind, l.ID} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// DataKey encrypts records and files of one tenant. It is safe for use by several goroutines.
type DataKey struct {
	ID   string // 16 hexadecimal digits
	aead cipher.AEAD
}

// newDataKey takes 32 bytes.
func newDataKey(id string, secret []byte) (*DataKey, error) {
	aead, err := chacha20poly1305.NewX(secret)
	if err != nil {
		return nil, fmt.Errorf("the data key %s: %w", id, err)
	}
	return &DataKey{id, aead}, nil
}

// SealedBytes is how much longer a record is when it is sealed.
const SealedBytes = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// Seal encrypts a record with XChaCha20-Poly1305 under a random nonce, which stands before the ciphertext.
func (k *DataKey) Seal(l Label, plain []byte) []byte {
	sealed := make([]byte, chacha20poly1305.NonceSizeX, SealedBytes+len(plain))
	_, _ = rand.Read(sealed) // it never fails
	return k.aead.Seal(sealed, sealed, plain, l.bytes())
}

// Open decrypts what Seal made under the same label. The error is ErrSealed.
func (k *DataKey) Open(l Label, sealed []byte) ([]byte, error) {
	if len(sealed) < SealedBytes {
		return nil, ErrSealed
	}
	plain, err := k.aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], l.bytes())
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// newID is the id of a new data key.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
