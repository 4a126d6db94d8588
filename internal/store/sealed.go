package store

import (
	"context"
	"encoding/base64"

	"weir/internal/envelope"
)

// keyOf is the key that encrypts what a tenant brings; nil where nothing is encrypted. It asks the database of keys,
// so it is called before a transaction begins.
func (s *Store) keyOf(ctx context.Context, tenant string) (*envelope.DataKey, error) {
	if s.keys == nil {
		return nil, nil
	}
	return s.keys.current(ctx, tenant)
}

// keyFor is the key of a row's data_key; nil for ”, which stands for texts in clear. envelope.ErrNoKey: the tenant was
// forgotten, and the row cannot be read by anybody.
func (s *Store) keyFor(ctx context.Context, tenant, id string) (*envelope.DataKey, error) {
	switch {
	case id == "":
		return nil, nil
	case s.keys == nil:
		return nil, ErrKeys
	}
	return s.keys.find(ctx, tenant, id)
}

// keyID is what stands in data_key.
func keyID(key *envelope.DataKey) string {
	if key == nil {
		return ""
	}
	return key.ID
}

// field is a column that holds a text of a tenant.
type field string

// The columns that are encrypted.
const (
	fieldReplayAnswer   field = "weir_replay.answer"
	fieldResponseInput  field = "weir_responses.input"
	fieldResponseObject field = "weir_responses.object"
	fieldPrompts        field = "weir_transcripts.prompts"
	fieldAnswers        field = "weir_transcripts.answers"
	fieldFileName       field = "weir_files.name"
	fieldBatchRecord    field = "weir_batches.record"
)

func (f field) label(tenant, id string) envelope.Label {
	return envelope.Label{Tenant: tenant, Kind: string(f), ID: id}
}

// seal encrypts bytes of a record.
func (f field) seal(key *envelope.DataKey, tenant, id string, plain []byte) []byte {
	if key == nil {
		return filled(plain)
	}
	return key.Seal(f.label(tenant, id), plain)
}

// open decrypts what seal made.
func (f field) open(key *envelope.DataKey, tenant, id string, stored []byte) ([]byte, error) {
	if key == nil {
		return stored, nil
	}
	return key.Open(f.label(tenant, id), stored)
}

// sealText and openText are for columns of text.
func (f field) sealText(key *envelope.DataKey, tenant, id, plain string) string {
	if key == nil {
		return plain
	}
	return base64.StdEncoding.EncodeToString(f.seal(key, tenant, id, []byte(plain)))
}

func (f field) openText(key *envelope.DataKey, tenant, id, stored string) (string, error) {
	if key == nil {
		return stored, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(stored)
	if err != nil {
		return "", envelope.ErrSealed
	}
	plain, err := f.open(key, tenant, id, sealed)
	return string(plain), err
}
