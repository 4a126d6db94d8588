package tokenizer

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram is SentencePiece's unigram scheme (Kudo 2018), that of T5, XLM-RoBERTa and the encoders made of it: text is
// normalised, and of all ways to cut it into entries the one of the best sum of scores is taken. Sums are float32
// and entries are tried in the library's order, so that near ties are broken as there.
type unigram struct {
	entries  entryTrie
	scores   []float32 // of entries, by id
	unknown  int32
	penalty  float32        // the score of a character that is no entry
	bytes    [256]int32     // byte fallback; none without
	fallback bool           // characters that are no entry are spelt in byte tokens
	rules    *charsmap      // of the normaliser
	symbols  specialMatcher // user-defined entries, which no rule changes
	prefix   bool           // a text starts as if with a space
	collapse bool           // spaces at both ends go, and of several one stays
}

const (
	// unknownPenalty is what SentencePiece takes off the lowest score for a character that is no entry.
	unknownPenalty = 10
	// symbolBonus is the score of a user-defined entry for each of its bytes but the first: other scores are below 0.
	symbolBonus = 0.1
	// farScore is where sums start over, so that those of a long text keep their precision.
	farScore = 100_000
)

func newUnigram(v *vocabulary, m metadata) (u *unigram, err error) {
	u = &unigram{unknown: v.unknown, scores: make([]float32, len(v.texts))}
	if u.prefix, _, err = m.flag("tokenizer.ggml.add_space_prefix", false); err != nil {
		return nil, err
	}
	if u.collapse, _, err = m.flag("tokenizer.ggml.remove_extra_whitespaces", false); err != nil {
		return nil, err
	}
	blob, err := m.bytes("tokenizer.ggml.precompiled_charsmap")
	if err != nil {
		return nil, err
	}
	if u.rules, err = newCharsmap(blob); err != nil {
		return nil, err
	}
	u.findBytes(v)
	if u.unknown == none && !u.fallback {
		return nil, errors.New("read vocabulary: no unknown token and no byte tokens, so that some texts have no tokens")
	}
	u.score(v)
	var ids []int32
	for i := range v.texts {
		if id := int32(i); v.types[i] != typeUnused && v.mergeable(id) {
			ids = append(ids, id)
		}
	}
	u.entries.build(v.texts, ids)
	return u, nil
}

// findBytes finds the byte tokens; where one is missing there is no fallback.
func (u *unigram) findBytes(v *vocabulary) {
	found := 0
	for i, text := range v.texts {
		if b, ok := byteOf(text); ok && v.types[i] == typeByte {
			u.bytes[b] = int32(i)
			found++
		}
	}
	u.fallback = found == len(u.bytes)
}

// score gives each entry its score: user-defined ones one that always wins.
func (u *unigram) score(v *vocabulary) {
	low := float32(math.MaxFloat32)
	for i, t := range v.types {
		score := float32(0)
		if v.scores != nil {
			score = v.scores[i]
		}
		if t == typeNormal {
			low = min(low, score)
		}
		u.scores[i] = score
	}
	if low == math.MaxFloat32 {
		low = 0
	}
	u.penalty = low - unknownPenalty
	for i, t := range v.types {
		if t == typeUserDefined && v.mergeable(int32(i)) {
			u.scores[i] = float32(symbolBonus * float64(len(v.texts[i])-1))
			u.symbols.add(v.texts[i], int32(i))
		}
	}
}

// appendText encodes a stretch of ordinary text; each begins as a text of its own.
func (u *unigram) appendText(dst []int32, text string, _ bool, s *scratch) []int32 {
	s.word = u.normalize(s.word[:0], text, s)
	if s.stopped {
		return dst
	}
	return u.cut(dst, s.word, s)
}

// normalize appends text as entries are spelt, as SentencePiece's normaliser does it.
func (u *unigram) normalize(dst []byte, text string, s *scratch) []byte {
	for u.collapse && text != "" {
		to, n := u.next(text)
		if string(to) != " " {
			break
		}
		text = text[n:]
	}
	if text == "" {
		return dst
	}
	if u.prefix {
		dst = append(dst, wordMark...)
	}
	afterSpace := u.collapse
	for text != "" && s.spend(1) {
		to, n := u.next(text)
		text = text[n:]
		for afterSpace && len(to) > 0 && to[0] == ' ' {
			to = to[1:]
		}
		if len(to) > 0 {
			afterSpace = u.collapse && to[len(to)-1] == ' '
		}
		for _, b := range to {
			if b == ' ' {
				dst = append(dst, wordMark...)
			} else {
				dst = append(dst, b)
			}
		}
	}
	for u.collapse && bytes.HasSuffix(dst, []byte(wordMark)) {
		dst = dst[:len(dst)-len(wordMark)]
	}
	return dst
}

// replacement is what SentencePiece puts for a byte that is no UTF-8.
var replacement = []byte(string(utf8.RuneError))

// next is what the start of text becomes, and how many bytes of it that is: a user-defined entry, the longest rule,
// or a character.
func (u *unigram) next(text string) (to []byte, n int) {
	if _, n := u.symbols.longest(text); n > 0 {
		return []byte(text[:n]), n
	}
	if n, to := u.rules.longest(text); n > 0 {
		return to, n
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && n == 1 {
		return replacement, 1
	}
	return []byte(text[:n]), n
}

// cutNode is the best way to cut the text up to a place.
type cutNode struct {
	score float32
	size  int32 // bytes of the last entry; 0 is a place that nothing reaches
	id    int32 // of it; unknown for a character that is no entry
}

// cut appends the ids of the best cut of normalised text. Where no entry crosses a place, what comes before is
// decided and appended, so that memory is bounded by the longest stretch without such a place.
func (u *unigram) cut(dst []int32, text []byte, s *scratch) []int32 {
	nodes := append(s.nodes[:0], cutNode{}) // nodes[i]: the place start+i
	start, wasUnknown := 0, false
	for at := 0; at < len(text); {
		if i := at - start; i > 0 && i == len(nodes)-1 {
			dst = u.settle(dst, nodes, text[start:at], &wasUnknown)
			if !s.more(dst) {
				break
			}
			nodes[0] = cutNode{score: nodes[i].score}
			nodes, start = nodes[:1], at
		}
		var n, work int
		nodes, n, work = u.reach(nodes, text[start:], at-start)
		at += n
		if !s.spend(work) {
			break
		}
	}
	if n := len(nodes) - 1; n == len(text)-start && n > 0 && !s.stopped {
		dst = u.settle(dst, nodes, text[start:], &wasUnknown)
	}
	s.nodes = nodes
	return dst
}

// reach tries all entries that begin at text[from:], and returns the length of the character there and the bytes
// that it looked at.
func (u *unigram) reach(nodes []cutNode, text []byte, from int) (all []cutNode, character, looked int) {
	if far := nodes[from].score; far < -farScore || far > farScore {
		for i := range nodes[from:] {
			nodes[from+i].score -= far // of a place that nothing reaches it means nothing
		}
	}
	here, rest := nodes[from].score, text[from:]
	character = characterSize(rest)
	single := false
	offer := func(id int32, size int, score float32) {
		for len(nodes) <= from+size {
			nodes = append(nodes, cutNode{})
		}
		if to := &nodes[from+size]; to.size == 0 || score > to.score {
			*to = cutNode{score, int32(size), id}
		}
	}
	at := int32(entryRoot)
	for i, b := range rest {
		looked++
		if at = u.entries.child(at, b); at == 0 {
			break
		}
		if id := u.entries.ids[at]; id != none {
			offer(id, i+1, u.scores[id]+here)
			single = single || i+1 == character
		}
	}
	if !single {
		offer(u.unknown, character, u.penalty+here)
	}
	return nodes, character, looked
}

// settle appends the best cut of text, whose places are nodes. Neighbouring characters that are no entries make one
// unknown token; wasUnknown carries that from call to call.
func (u *unigram) settle(dst []int32, nodes []cutNode, text []byte, wasUnknown *bool) []int32 {
	first := len(dst)
	for end := len(text); end > 0; {
		n := nodes[end]
		end -= int(n.size)
		switch {
		case n.id != u.unknown:
			dst = append(dst, n.id)
		case u.fallback:
			for i := end + int(n.size) - 1; i >= end; i-- {
				dst = append(dst, u.bytes[text[i]])
			}
		case len(dst) == first || dst[len(dst)-1] != u.unknown:
			dst = append(dst, u.unknown)
		}
	}
	slices.Reverse(dst[first:])
	if *wasUnknown && dst[first] == u.unknown {
		dst = slices.Delete(dst, first, first+1)
	}
	*wasUnknown = !u.fallback && nodes[len(text)].id == u.unknown
	return dst
}

// characterSize is the length that the first byte announces, cut at the end. Normalised text is UTF-8 except for rules
// that write something else.
func characterSize(text []byte) int {
	return min(int("\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x02\x02\x03\x04"[text[0]>>4]), len(text))
}
