package tokenizer

import "unicode/utf8"

// pieces holds the bytes of every token, end to end.
type pieces struct {
	bytes []byte
	ends  []uint32 // token i is bytes[ends[i-1]:ends[i]]
}

func newPieces(v *vocabulary) *pieces {
	p := &pieces{ends: make([]uint32, len(v.texts))}
	for i, text := range v.texts {
		p.bytes = v.appendText(p.bytes, int32(i), text)
		p.ends[i] = uint32(len(p.bytes))
	}
	return p
}

// appendText appends the text that an entry stands for. Added tokens are stored as
// text; the entries of the trained vocabulary are stored in its own spelling.
func (v *vocabulary) appendText(dst []byte, id int32, text string) []byte {
	switch {
	case v.types[id] == typeByte:
		if b, ok := byteOf(text); ok {
			return append(dst, b)
		}
		return append(dst, text...)
	case v.hidden(id) || v.types[id] == typeUserDefined:
		return append(dst, text...)
	case v.kind == kindBytePair:
		return appendBytesOf(dst, text)
	}
	return append(dst, wordPieceText(text)...)
}

func (p *pieces) of(id int32) []byte {
	start := uint32(0)
	if id > 0 {
		start = p.ends[id-1]
	}
	return p.bytes[start:p.ends[id]]
}

// AppendPiece appends the bytes of one token, which need not be whole runes.
// Control and unknown tokens give nothing unless special is set; neither does
// an id outside the vocabulary.
func (t *Tokenizer) AppendPiece(dst []byte, id int32, special bool) []byte {
	if !t.vocabulary.has(id) || !special && t.vocabulary.hidden(id) {
		return dst
	}
	return append(dst, t.pieces.of(id)...)
}

// Decode gives the text of ids as a text of its own: the space that the scheme
// puts before the first word is removed. Invalid UTF-8 becomes U+FFFD. For ids
// that continue an earlier text use a Decoder.
func (t *Tokenizer) Decode(ids []int32, special bool) string {
	d := t.NewDecoder(special)
	d.dropSpace = t.leadingSpace
	var text []byte
	for _, id := range ids {
		text = d.Append(text, id)
	}
	return string(d.Flush(text))
}

// Decoder turns a stream of ids into a stream of whole UTF-8 runes. It is for
// one stream and one goroutine. The stream is taken as the continuation of
// earlier text, so a first word keeps its space.
type Decoder struct {
	tokenizer *Tokenizer
	special   bool
	dropSpace bool // the next byte is dropped if it is a space
	held      [utf8.UTFMax - 1]byte
	heldBytes int
	piece     []byte // scratch
}

// NewDecoder returns a decoder; special makes control tokens visible.
func (t *Tokenizer) NewDecoder(special bool) *Decoder {
	return &Decoder{tokenizer: t, special: special}
}

// Append appends the text that id completes. Bytes that may yet become a rune,
// at most 3, are held back; bytes that no longer can are U+FFFD, one for each
// longest prefix of a valid sequence (Unicode 15, section 3.9).
func (d *Decoder) Append(dst []byte, id int32) []byte {
	d.piece = append(d.piece[:0], d.held[:d.heldBytes]...)
	d.piece = d.tokenizer.AppendPiece(d.piece, id, d.special)
	rest := d.piece
	if d.dropSpace && len(rest) > 0 {
		d.dropSpace = false
		if rest[0] == ' ' && !d.tokenizer.vocabulary.hidden(id) {
			rest = rest[1:]
		}
	}
	for len(rest) > 0 && utf8.FullRune(rest) {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			n = invalidLen(rest)
		}
		dst = utf8.AppendRune(dst, r)
		rest = rest[n:]
	}
	d.heldBytes = copy(d.held[:], rest)
	return dst
}

// invalidLen is the length of the longest prefix of b that begins a valid
// sequence, or 1. b starts with a complete but invalid sequence.
func invalidLen(b []byte) int {
	n := 1
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}

// Flush appends U+FFFD for the bytes that are held back, if there are any. The
// decoder is then as new.
func (d *Decoder) Flush(dst []byte) []byte {
	if d.heldBytes > 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	d.heldBytes = 0
	return dst
}
