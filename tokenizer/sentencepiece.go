package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// wordMark is the rune that SentencePiece writes for a space.
const wordMark = "▁"

// sentencePiece is SentencePiece's BPE (Kudo and Richardson 2018): text starts
// as its characters, and the neighbours whose join is the entry of the best
// score join, until none do. Symbols that are then no entry are spelt in byte tokens.
type sentencePiece struct {
	ascii       [utf8.RuneSelf]int32
	characters  map[uint32]int32 // symbols of longer characters, by their bytes
	pairs       *pairTable
	size        int32 // symbols from here on are characters that are no token
	bytes       [256]int32
	spacePrefix bool    // a text, and a text after a special token, starts as if with a space
	breaks      []int32 // tokens of line breaks in a row, by how many, in vocabularies that cut text there; nil: text is not cut
	markLines   bool    // each line starts as if with a space, unless it does
	// wordBound: no entry has a space after another character. Nothing then
	// merges across the beginning of a word, and words can be cached.
	wordBound bool
	cache     *pieceCache
}

func newSentencePiece(v *vocabulary, m metadata) (*sentencePiece, error) {
	prefix, _, err := m.flag("tokenizer.ggml.add_space_prefix", true)
	if err != nil {
		return nil, err
	}
	p := newPieceModel(v)
	p.spacePrefix = prefix
	if err := p.findBytes(v); err != nil {
		return nil, err
	}
	p.addCharacters(v)
	p.addPairs(v)
	return p, nil
}

// newPieceModel knows nothing of the vocabulary but its size.
func newPieceModel(v *vocabulary) *sentencePiece {
	return &sentencePiece{characters: map[uint32]int32{}, size: int32(len(v.texts)), wordBound: true, cache: newPieceCache()}
}

// findBytes finds the token of each byte: "<0x0A>", else the byte itself, else
// the unknown token. A control token never stands for a byte.
func (p *sentencePiece) findBytes(v *vocabulary) error {
	for i := range p.bytes {
		id, ok := v.ids[fmt.Sprintf("<0x%02X>", i)]
		if !ok || v.hidden(id) {
			id, ok = v.ids[string([]byte{byte(i)})]
		}
		if !ok || v.hidden(id) {
			id = v.unknown
		}
		if id == none {
			return fmt.Errorf("read vocabulary: no token for byte 0x%02X, and no unknown token", i)
		}
		p.bytes[i] = id
	}
	return nil
}

// addCharacters numbers every character of every entry, and returns the next number.
func (p *sentencePiece) addCharacters(v *vocabulary) int32 {
	for i := range p.ascii {
		p.ascii[i] = noSymbol
	}
	next := p.size
	for i, text := range v.texts {
		if !v.mergeable(int32(i)) {
			continue
		}
		for rest := text; rest != ""; {
			n := characterLen(rest)
			character := rest[:n]
			rest = rest[n:]
			if p.characterSymbol(character) != noSymbol {
				continue
			}
			id, ok := v.ids[character]
			if !ok || !v.mergeable(id) {
				id, next = next, next+1
			}
			p.setCharacter(character, id)
		}
	}
	p.ascii[' '] = p.characterSymbol(wordMark)
	return next
}

// characterLen is the length that the first byte announces, cut at the end:
// as in llama.cpp there is no check that the bytes are valid UTF-8.
func characterLen(text string) int {
	n := 1
	switch b := text[0]; {
	case b >= 0xF0:
		n = 4
	case b >= 0xE0:
		n = 3
	case b >= 0xC0:
		n = 2
	}
	return min(n, len(text))
}

func packCharacter(c string) uint32 {
	var packed uint32
	for i := range len(c) {
		packed = packed<<8 | uint32(c[i])
	}
	return packed
}

func (p *sentencePiece) characterSymbol(c string) int32 {
	if len(c) == 1 && c[0] < utf8.RuneSelf {
		return p.ascii[c[0]]
	}
	if id, ok := p.characters[packCharacter(c)]; ok {
		return id
	}
	return noSymbol
}

func (p *sentencePiece) setCharacter(c string, id int32) {
	if len(c) == 1 && c[0] < utf8.RuneSelf {
		p.ascii[c[0]] = id
		return
	}
	p.characters[packCharacter(c)] = id
}

// addPairs lists every way in which an entry is the join of two symbols.
func (p *sentencePiece) addPairs(v *vocabulary) {
	ranks := scoreRanks(v)
	p.pairs = newPairTable(2 * len(v.texts))
	for i, text := range v.texts {
		if !v.mergeable(int32(i)) {
			continue
		}
		p.boundBy(text)
		for cut := characterLen(text); cut < len(text); cut += characterLen(text[cut:]) {
			left, right := p.symbol(v, text[:cut]), p.symbol(v, text[cut:])
			if left != noSymbol && right != noSymbol {
				p.pairs.add(left, right, ranks[i], int32(i))
			}
		}
	}
}

// boundBy notes a text that characters may join to.
func (p *sentencePiece) boundBy(text string) {
	p.wordBound = p.wordBound && !strings.Contains(strings.TrimLeft(text, wordMark), wordMark)
}

func (p *sentencePiece) symbol(v *vocabulary, text string) int32 {
	if id, ok := v.ids[text]; ok && v.mergeable(id) {
		return id
	}
	if characterLen(text) == len(text) {
		return p.characterSymbol(text)
	}
	return noSymbol
}

// scoreRanks orders entries by falling score; equal scores share a rank, so
// that the leftmost of them merges first.
func scoreRanks(v *vocabulary) []uint32 {
	ranks := make([]uint32, len(v.texts))
	if v.scores == nil {
		return ranks
	}
	order := make([]int32, len(v.texts))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(v.scores[b], v.scores[a]) })
	for i := 1; i < len(order); i++ {
		ranks[order[i]] = ranks[order[i-1]]
		if v.scores[order[i]] != v.scores[order[i-1]] {
			ranks[order[i]]++
		}
	}
	return ranks
}

// appendText encodes a stretch of ordinary text; first tells that it begins
// the text or follows a special token.
func (p *sentencePiece) appendText(dst []int32, text string, first bool, s *scratch) []int32 {
	if first && p.spacePrefix {
		n := p.wordEnd(text)
		dst = p.appendPiece(dst, " "+text[:n], s)
		text = text[n:]
	}
	if p.breaks != nil {
		return p.appendLines(dst, text, s)
	}
	return p.appendWords(dst, text, s)
}

// appendWords encodes the stretches of a text that merge by themselves.
func (p *sentencePiece) appendWords(dst []int32, text string, s *scratch) []int32 {
	for text != "" && s.more(dst) {
		n := p.wordEnd(text)
		dst = p.appendPiece(dst, text[:n], s)
		text = text[n:]
	}
	return dst
}

// wordEnd finds the end of the first stretch of text that can be merged by
// itself: the place where a space follows something else.
func (p *sentencePiece) wordEnd(text string) int {
	if !p.wordBound {
		return len(text)
	}
	i := skipSpaces(text, 0)
	for i < len(text) {
		if startsSpace(text[i:]) > 0 {
			return i
		}
		i += characterLen(text[i:])
	}
	return i
}

func skipSpaces(text string, i int) int {
	for {
		n := startsSpace(text[i:])
		if n == 0 {
			return i
		}
		i += n
	}
}

// startsSpace gives the length of the space or word mark at the start of text.
func startsSpace(text string) int {
	if text == "" {
		return 0
	}
	if text[0] == ' ' {
		return 1
	}
	if text[0] == wordMark[0] && strings.HasPrefix(text, wordMark) {
		return len(wordMark)
	}
	return 0
}

func (p *sentencePiece) appendPiece(dst []int32, piece string, s *scratch) []int32 {
	slot := p.cache.slot(piece)
	if ids, ok := lookup(slot, piece); ok {
		return append(dst, ids...)
	}
	start := len(dst)
	if dst = p.appendMerged(dst, piece, s); s.more(dst) {
		store(slot, piece, dst[start:])
	}
	return dst
}

func (p *sentencePiece) appendMerged(dst []int32, piece string, s *scratch) []int32 {
	m := &s.merger
	m.reset(len(piece))
	for rest := piece; rest != ""; {
		n := characterLen(rest)
		m.push(p.characterSymbol(rest[:n]))
		rest = rest[n:]
	}
	m.run(p.pairs, &s.pace)
	for i, rest := 0, piece; rest != "" && s.fits(dst); {
		symbol, end, n := m.symbols[i], m.end(i), 0
		for ; i < end; i++ {
			n += characterLen(rest[n:])
		}
		if symbol >= 0 && symbol < p.size {
			dst = append(dst, symbol)
		} else {
			dst = p.appendBytes(dst, rest[:n])
		}
		rest = rest[n:]
	}
	return dst
}

func (p *sentencePiece) appendBytes(dst []int32, text string) []int32 {
	if text == " " {
		text = wordMark
	}
	for i := range len(text) {
		dst = append(dst, p.bytes[text[i]])
	}
	return dst
}
