package envelope

import (
	"errors"
	"io"

	"filippo.io/age"
)

// Files are in age's format (age-encryption.org/v1): authenticated pieces of 64 KiB under a key of the file's own,
// which one stanza holds, sealed with a data key.

// stanzaType tells the stanza; its argument is the id of the data key.
const stanzaType = "weir"

// Writer encrypts a file into w. Close ends it, and does not close w: without Close it cannot be read.
func (k *DataKey) Writer(l Label, w io.Writer) (io.WriteCloser, error) {
	return age.Encrypt(w, recipient{k, l})
}

// Reader decrypts a file of the label as it is read. find gives a data key by its id. A piece that was altered, and an
// end that was cut off, are errors of Read.
func Reader(l Label, r io.Reader, find func(id string) (*DataKey, error)) (io.Reader, error) {
	return age.Decrypt(r, identity{l, find})
}

type recipient struct {
	key   *DataKey
	label Label
}

// Wrap implements age.Recipient.
func (r recipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanzaType, Args: []string{r.key.ID}, Body: r.key.Seal(r.label, fileKey)}}, nil
}

type identity struct {
	label Label
	find  func(id string) (*DataKey, error)
}

var errStanza = errors.New("the encrypted file is none of weir's")

// Unwrap implements age.Identity.
func (i identity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if len(stanzas) != 1 || stanzas[0].Type != stanzaType || len(stanzas[0].Args) != 1 {
		return nil, errStanza
	}
	key, err := i.find(stanzas[0].Args[0])
	if err != nil {
		return nil, err
	}
	fileKey, err := key.Open(i.label, stanzas[0].Body)
	if err == nil && len(fileKey) != 16 {
		err = ErrSealed
	}
	return fileKey, err
}
