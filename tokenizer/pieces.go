package tokenizer

import "slices"

// Pieces lists the bytes of every token by id, nil for those that have no text, as control tokens; and the ids of tokens
// that were added to the trained vocabulary, control tokens among them, by their text. The bytes are the tokenizer's own
// memory: they must not be changed.
func (t *Tokenizer) Pieces() (pieces [][]byte, added map[string]int32) {
	v := t.vocabulary
	pieces, added = make([][]byte, len(v.texts)), map[string]int32{}
	for i := range pieces {
		id := int32(i) //nolint:gosec // vocabularies are far smaller
		hidden := v.hidden(id)
		if !hidden {
			pieces[i] = slices.Clip(t.pieces.of(id))
		}
		if hidden || v.types[i] == typeUserDefined {
			added[v.texts[i]] = id
		}
	}
	return pieces, added
}
