package batches

import (
	"context"
	"errors"
	"io"
	"strconv"

	"weir/api/batch"
	"weir/internal/envelope"
	"weir/internal/store"
)

var _ batch.Cipher = (*Cipher)(nil)

// Cipher encrypts files and lines of batches with the keys of a store.
type Cipher struct{ db *store.DB }

// NewCipher has the keys of a store.
func NewCipher(db *store.DB) *Cipher { return &Cipher{db} }

// What the folder of files has of a tenant, as labels say.
const (
	kindFile = "file"
	kindLine = "batch line"
)

// EncryptFile implements batch.Cipher.
func (s *Cipher) EncryptFile(ctx context.Context, tenant, id, key string, w io.Writer) (out io.WriteCloser, used string, err error) {
	k, err := s.db.KeyFor(ctx, tenant, key)
	if key == "" {
		k, err = s.db.KeyOf(ctx, tenant)
	}
	switch {
	case errors.Is(err, envelope.ErrNoKey):
		return nil, "", batch.ErrUnknown
	case err != nil:
		return nil, "", err
	case k == nil:
		return nil, "", store.ErrInClear
	}
	out, err = k.Writer(envelope.Label{Tenant: tenant, Kind: kindFile, ID: id}, w)
	return out, k.ID, err
}

// DecryptFile implements batch.Cipher.
func (s *Cipher) DecryptFile(ctx context.Context, tenant, id string, r io.Reader) (io.Reader, error) {
	text, err := envelope.Reader(envelope.Label{Tenant: tenant, Kind: kindFile, ID: id}, r, func(key string) (*envelope.DataKey, error) {
		return s.db.KeyFor(ctx, tenant, key)
	})
	if errors.Is(err, envelope.ErrNoKey) {
		return nil, batch.ErrUnknown
	}
	return text, err
}

func lineLabel(tenant, of string, index int) envelope.Label {
	return envelope.Label{Tenant: tenant, Kind: kindLine, ID: of + "/" + strconv.Itoa(index)}
}

// EncryptLine implements batch.Cipher. The id of the key stands before what is sealed.
func (s *Cipher) EncryptLine(ctx context.Context, tenant, of string, index int, text []byte) ([]byte, error) {
	key, err := s.db.KeyOf(ctx, tenant)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, store.ErrInClear
	}
	return append([]byte(key.ID), key.Seal(lineLabel(tenant, of, index), text)...), nil
}

// DecryptLine implements batch.Cipher.
func (s *Cipher) DecryptLine(ctx context.Context, tenant, of string, index int, sealed []byte) ([]byte, error) {
	if len(sealed) < store.KeyIDBytes {
		return nil, envelope.ErrSealed
	}
	key, err := s.db.KeyFor(ctx, tenant, string(sealed[:store.KeyIDBytes]))
	switch {
	case errors.Is(err, envelope.ErrNoKey):
		return nil, batch.ErrUnknown
	case err != nil:
		return nil, err
	case key == nil:
		return nil, envelope.ErrSealed
	}
	return key.Open(lineLabel(tenant, of, index), sealed[store.KeyIDBytes:])
}
