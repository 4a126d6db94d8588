package grammar

import (
	"errors"
	"sync"
)

// octets are the 256 single bytes.
var octets = sync.OnceValue(func() *Vocabulary {
	pieces := make([][]byte, 256)
	for b := range pieces {
		pieces[b] = []byte{byte(b)}
	}
	return NewVocabulary(pieces, nil)
})

// Accepts reports whether a whole text is one of the grammar's. The text has no control tokens: a grammar with some is an
// ErrNoToken. Other errors are an ErrLimit.
func (g *Grammar) Accepts(text string) (bool, error) {
	m, err := g.Matcher(octets())
	if err != nil {
		return false, err
	}
	for _, b := range []byte(text) {
		if err := m.Accept(int32(b)); errors.Is(err, ErrRefused) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return m.Mask(make([]uint64, octets().Words()))
}
