package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// bytePair is byte-level BPE (Sennrich et al. 2016; GPT-2's byte alphabet):
// text is cut into pieces, a piece starts as its bytes, and the pairs of the
// merge list join in the order of that list.
type bytePair struct {
	preTokenizer
	classes *classTable
	bytes   [256]int32 // symbol of each byte; noSymbol where the vocabulary has none
	pairs   *pairTable
	size    int32            // symbols from here on are no tokens, only steps of merges
	whole   map[string]int32 // entries by their bytes, for wholePieces
	unknown int32
	cache   *pieceCache
}

// byteRunes is GPT-2's alphabet: a printable rune for every byte.
var byteRunes = makeByteRunes()

func makeByteRunes() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		printable := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE
		if printable {
			runes[b] = rune(b)
			continue
		}
		runes[b] = next
		next++
	}
	return runes
}

// lastByteRune is the highest rune of the alphabet.
const lastByteRune = 256 + 67

// runeBytes is the inverse of byteRunes; -1 for runes outside the alphabet.
var runeBytes = makeRuneBytes()

func makeRuneBytes() (bytes [lastByteRune + 1]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range byteRunes {
		bytes[r] = int16(b)
	}
	return bytes
}

// appendBytesOf appends the bytes that an entry of a byte-level vocabulary
// stands for. Runes outside the alphabet, which only added tokens have, stand
// for themselves.
func appendBytesOf(dst []byte, entry string) []byte {
	for _, r := range entry {
		if r <= lastByteRune && runeBytes[r] >= 0 {
			dst = append(dst, byte(runeBytes[r]))
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func newBytePair(v *vocabulary, m metadata, pre preTokenizer) (*bytePair, error) {
	merges, err := readMerges(m)
	if err != nil {
		return nil, err
	}
	b := &bytePair{
		preTokenizer: pre, classes: runeClasses(), size: int32(len(v.texts)),
		pairs: newPairTable(len(merges)), unknown: v.unknown, cache: newPieceCache(),
	}
	s := symbols{vocabulary: v, steps: map[string]int32{}, next: b.size}
	for i, r := range byteRunes {
		b.bytes[i] = s.of(string(r))
	}
	if err := b.addMerges(&s, merges); err != nil {
		return nil, err
	}
	if pre.wholePieces {
		b.whole = entriesByBytes(v)
	}
	return b, nil
}

// symbols numbers the strings that take part in merges. Entries keep their
// ids; a string that is no entry, or an entry that text must not become, gets a
// number past the last id.
type symbols struct {
	*vocabulary
	steps map[string]int32
	next  int32
}

func (s *symbols) of(text string) int32 {
	if id, ok := s.ids[text]; ok && s.mergeable(id) {
		return id
	}
	id, ok := s.steps[text]
	if !ok {
		id = s.next
		s.steps[text], s.next = id, id+1
	}
	return id
}

// mergeable reports whether plain text may become this token.
func (v *vocabulary) mergeable(id int32) bool {
	t := v.types[id]
	return !v.hidden(id) && t != typeByte && (t != typeUserDefined || !looksLikeControl(v.texts[id]))
}

func (b *bytePair) addMerges(s *symbols, merges []string) error {
	for i, merge := range merges {
		left, right, err := splitMerge(i, merge)
		if err != nil {
			return err
		}
		b.pairs.add(s.of(left), s.of(right), uint32(i), s.of(left+right))
	}
	return nil
}

func entriesByBytes(v *vocabulary) map[string]int32 {
	whole := make(map[string]int32, len(v.texts))
	var buffer []byte
	for i, text := range v.texts {
		if !v.mergeable(int32(i)) {
			continue
		}
		buffer = appendBytesOf(buffer[:0], text)
		if _, ok := whole[string(buffer)]; !ok {
			whole[string(buffer)] = int32(i)
		}
	}
	return whole
}

// appendText encodes a stretch of ordinary text. Each byte that is not part of
// valid UTF-8 counts as U+FFFD, as in llama.cpp.
func (b *bytePair) appendText(dst []int32, text string, _ bool, s *scratch) []int32 {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	cursor := pieceCursor{text: text}
	for s.more(dst) {
		piece := cursor.next(b.classes, b.stages)
		if piece == "" {
			break
		}
		dst = b.appendPiece(dst, piece, s)
	}
	return dst
}

// replaceInvalid puts one U+FFFD for each invalid byte; strings.ToValidUTF8
// would put one for a run.
func replaceInvalid(text string) string {
	size := 0
	for _, r := range text {
		size += utf8.RuneLen(r)
	}
	var fixed strings.Builder
	fixed.Grow(size)
	for _, r := range text {
		fixed.WriteRune(r)
	}
	return fixed.String()
}

func (b *bytePair) appendPiece(dst []int32, piece string, s *scratch) []int32 {
	slot := b.cache.slot(piece)
	if ids, ok := lookup(slot, piece); ok {
		return append(dst, ids...)
	}
	if id, ok := b.whole[piece]; ok {
		dst = append(dst, id)
		store(slot, piece, dst[len(dst)-1:])
		return dst
	}
	start := len(dst)
	if dst = b.appendMerged(dst, piece, s); s.more(dst) {
		store(slot, piece, dst[start:])
	}
	return dst
}

func (b *bytePair) appendMerged(dst []int32, piece string, s *scratch) []int32 {
	m := &s.merger
	m.reset(len(piece))
	for i := range len(piece) {
		m.push(b.bytes[piece[i]])
	}
	m.run(b.pairs, &s.pace)
	for i := 0; i < len(piece) && s.fits(dst); {
		end := m.end(i)
		if symbol := m.symbols[i]; symbol < b.size {
			dst = append(dst, symbol)
		} else {
			dst = b.appendBytes(dst, piece[i:end])
		}
		i = end
	}
	return dst
}

// appendBytes spells a symbol that is no token byte by byte. A byte without an
// entry is the unknown token, or nothing where the vocabulary has no such token.
func (b *bytePair) appendBytes(dst []int32, text string) []int32 {
	for i := range len(text) {
		switch id := b.bytes[text[i]]; {
		case id < b.size:
			dst = append(dst, id)
		case b.unknown != none:
			dst = append(dst, b.unknown)
		}
	}
	return dst
}
