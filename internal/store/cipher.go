package store

import (
	"context"
	"errors"
	"io"
	"strconv"

	"weir/api/batch"
	"weir/internal/envelope"
)

var _ batch.Cipher = (*Store)(nil)

// What the folder of files has of a tenant, as labels say.
const (
	kindFile = "file"
	kindLine = "batch line"

	keyIDBytes = 16 // of a line, before what is sealed
)

// EncryptFile implements batch.Cipher.
func (s *Store) EncryptFile(ctx context.Context, tenant, id, key string, w io.Writer) (out io.WriteCloser, used string, err error) {
	k, err := s.keyFor(ctx, tenant, key)
	if key == "" {
		k, err = s.keyOf(ctx, tenant)
	}
	switch {
	case errors.Is(err, envelope.ErrNoKey):
		return nil, "", batch.ErrUnknown
	case err != nil:
		return nil, "", err
	case k == nil:
		return nil, "", ErrInClear
	}
	out, err = k.Writer(envelope.Label{Tenant: tenant, Kind: kindFile, ID: id}, w)
	return out, k.ID, err
}

// DecryptFile implements batch.Cipher.
func (s *Store) DecryptFile(ctx context.Context, tenant, id string, r io.Reader) (io.Reader, error) {
	text, err := envelope.Reader(envelope.Label{Tenant: tenant, Kind: kindFile, ID: id}, r, func(key string) (*envelope.DataKey, error) {
		return s.keyFor(ctx, tenant, key)
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
func (s *Store) EncryptLine(ctx context.Context, tenant, of string, index int, text []byte) ([]byte, error) {
	key, err := s.keyOf(ctx, tenant)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, ErrInClear
	}
	return append([]byte(key.ID), key.Seal(lineLabel(tenant, of, index), text)...), nil
}

// DecryptLine implements batch.Cipher.
func (s *Store) DecryptLine(ctx context.Context, tenant, of string, index int, sealed []byte) ([]byte, error) {
	if len(sealed) < keyIDBytes {
		return nil, envelope.ErrSealed
	}
	key, err := s.keyFor(ctx, tenant, string(sealed[:keyIDBytes]))
	switch {
	case errors.Is(err, envelope.ErrNoKey):
		return nil, batch.ErrUnknown
	case err != nil:
		return nil, err
	case key == nil:
		return nil, envelope.ErrSealed
	}
	return key.Open(lineLabel(tenant, of, index), sealed[keyIDBytes:])
}
