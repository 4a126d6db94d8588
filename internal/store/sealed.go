package store

import (
	"context"
	"encoding/base64"

	"weir/internal/envelope"
)

// sealing encrypts what the tables hold of tenants.
type sealing struct {
	*database
	keys *dataKeys // nil: nothing is encrypted
}

// KeyOf is the key that encrypts what a tenant brings; nil where nothing is encrypted. It asks the database of keys,
// so it is called before a transaction begins.
func (s *sealing) KeyOf(ctx context.Context, tenant string) (*envelope.DataKey, error) {
	if s.keys == nil {
		return nil, nil
	}
	return s.keys.current(ctx, tenant)
}

// KeyFor is the key of a row's data_key; nil for ”, which stands for texts in clear. envelope.ErrNoKey: the tenant was
// forgotten, and the row cannot be read by anybody.
func (s *sealing) KeyFor(ctx context.Context, tenant, id string) (*envelope.DataKey, error) {
	switch {
	case id == "":
		return nil, nil
	case s.keys == nil:
		return nil, ErrKeys
	}
	return s.keys.find(ctx, tenant, id)
}

// KeyID is what stands in data_key.
func KeyID(key *envelope.DataKey) string {
	if key == nil {
		return ""
	}
	return key.ID
}

// KeyIDBytes is the length of what KeyID returns for a key.
const KeyIDBytes = 16

// Field is a column that holds a text of a tenant.
type Field string

// The columns that are encrypted.
const (
	FieldReplayAnswer   Field = "weir_replay.answer"
	FieldResponseInput  Field = "weir_responses.input"
	FieldResponseObject Field = "weir_responses.object"
	FieldPrompts        Field = "weir_transcripts.prompts"
	FieldAnswers        Field = "weir_transcripts.answers"
	FieldFileName       Field = "weir_files.name"
	FieldBatchRecord    Field = "weir_batches.record"
)

func (f Field) label(tenant, id string) envelope.Label {
	return envelope.Label{Tenant: tenant, Kind: string(f), ID: id}
}

// Seal encrypts bytes of a record.
func (f Field) Seal(key *envelope.DataKey, tenant, id string, plain []byte) []byte {
	if key == nil {
		if plain == nil {
			return []byte{} // the tables do not take null
		}
		return plain
	}
	return key.Seal(f.label(tenant, id), plain)
}

// Open decrypts what Seal made.
func (f Field) Open(key *envelope.DataKey, tenant, id string, stored []byte) ([]byte, error) {
	if key == nil {
		return stored, nil
	}
	return key.Open(f.label(tenant, id), stored)
}

// SealText is Seal for a column of text.
func (f Field) SealText(key *envelope.DataKey, tenant, id, plain string) string {
	if key == nil {
		return plain
	}
	return base64.StdEncoding.EncodeToString(f.Seal(key, tenant, id, []byte(plain)))
}

// OpenText is Open for a column of text.
func (f Field) OpenText(key *envelope.DataKey, tenant, id, stored string) (string, error) {
	if key == nil {
		return stored, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(stored)
	if err != nil {
		return "", envelope.ErrSealed
	}
	plain, err := f.Open(key, tenant, id, sealed)
	return string(plain), err
}
