package jsonbody

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"weir/api"
)

// What OpenAI documents of metadata: 16 pairs, names of 64 characters, values of 512.
const (
	maxMetadataPairs = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
)

// Metadata takes the field metadata, an object of texts that is kept with what a request makes; {} where it has none.
func (o *Object) Metadata(fault **api.Error) []byte {
	raw, ok := o.Take("metadata")
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return []byte("{}")
	}
	var m map[string]string
	if err := json.Unmarshal(raw, &m); err != nil {
		Keep(fault, api.RefuseParam("invalid_value", "metadata", "metadata must be an object of texts"))
	}
	Keep(fault, CheckMetadata(raw))
	return bytes.Clone(raw)
}

// CheckMetadata refuses an object of texts that is above the limits. What is no such object is not its matter.
func CheckMetadata(raw []byte) *api.Error {
	var m map[string]string
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil //nolint:nilerr // the limits are of texts
	}
	if len(m) > maxMetadataPairs {
		return api.RefuseParam("invalid_value", "metadata", "metadata has %d pairs; it may have %d", len(m), maxMetadataPairs)
	}
	for name, value := range m {
		switch n, v := utf8.RuneCountInString(name), utf8.RuneCountInString(value); {
		case n > maxMetadataName:
			return api.RefuseParam("invalid_value", "metadata", "a name in metadata has %d characters, %.80q; it may have %d", n, name, maxMetadataName)
		case v > maxMetadataValue:
			return api.RefuseParam("invalid_value", "metadata", "metadata[%q] has %d characters; it may have %d", name, v, maxMetadataValue)
		}
	}
	return nil
}
