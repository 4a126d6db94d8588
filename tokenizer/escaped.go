package tokenizer

import (
	"fmt"
	"strings"
)

// Gemma 4's vocabularies ("gemma4") have SentencePiece's spelling, spaces as word marks and byte tokens for characters that are
// no entries, and a list of merges instead of scores. Nothing merges across line breaks, and line breaks in a row that are an
// entry are that entry. So llama.cpp reads them; Hugging Face's tokenizers, with a normaliser that writes word marks.

// mmBERT's vocabularies ("gpt2" with the pre-tokenizer mmbert) are such, too, and cut texts into words: a word mark begins each line that has
// none, and each word mark begins a word, across whose beginning nothing merges. Spaces in a row are a word each, as in llama.cpp.

// newEscaped is a sentencePiece whose pairs join in the order of a list.
func newEscaped(v *vocabulary, m metadata) (*sentencePiece, error) { return newListed(v, m, false) }

// newListed is newEscaped, or with words the form of mmBERT.
func newListed(v *vocabulary, m metadata, words bool) (*sentencePiece, error) {
	merges, err := readMerges(m)
	if err != nil {
		return nil, err
	}
	p := newPieceModel(v)
	if err := p.findBytes(v); err != nil {
		return nil, err
	}
	s := symbols{vocabulary: v, steps: map[string]int32{}}
	s.next = p.addCharacters(v)
	p.pairs = newPairTable(len(merges))
	for i, merge := range merges {
		left, right, err := splitMerge(i, merge)
		if err != nil {
			return nil, err
		}
		if words && strings.LastIndex(left+right, wordMark) > 0 {
			continue
		}
		p.boundBy(left + right)
		p.pairs.add(p.mergeSymbol(&s, left), p.mergeSymbol(&s, right), uint32(i), p.mergeSymbol(&s, left+right))
	}
	p.breaks, p.markLines = lineBreaks(v), words
	return p, nil
}

// mergeSymbol is the symbol of a text that takes part in merges. A character that is no entry gets one that text finds.
func (p *sentencePiece) mergeSymbol(s *symbols, text string) int32 {
	if id, ok := s.ids[text]; ok && s.mergeable(id) {
		return id
	}
	if characterLen(text) != len(text) {
		return s.of(text)
	}
	if id := p.characterSymbol(text); id != noSymbol {
		return id
	}
	id := s.of(text)
	p.setCharacter(text, id)
	return id
}

// lineBreaks are the entries of line breaks in a row, by how many; no entry is none. Not nil.
func lineBreaks(v *vocabulary) []int32 {
	breaks := []int32{none}
	for n := 1; n <= maxLineBreaks; n++ {
		id, ok := v.ids[strings.Repeat("\n", n)]
		if !ok || !v.mergeable(id) {
			id = none
		}
		breaks = append(breaks, id)
	}
	return breaks
}

// maxLineBreaks is above the longest such entry of published vocabularies, 31.
const maxLineBreaks = 64

// appendLines encodes lines and the line breaks between them, each for itself.
func (p *sentencePiece) appendLines(dst []int32, text string, s *scratch) []int32 {
	for text != "" && s.more(dst) {
		n := strings.IndexByte(text, '\n')
		if n < 0 {
			n = len(text)
		}
		if line := text[:n]; n > 0 {
			if p.markLines && startsSpace(line) == 0 {
				end := p.wordEnd(line)
				dst = p.appendPiece(dst, " "+line[:end], s)
				line = line[end:]
			}
			dst = p.appendWords(dst, line, s)
			text = text[n:]
			continue
		}
		n = len(text) - len(strings.TrimLeft(text, "\n"))
		if n < len(p.breaks) && p.breaks[n] != none {
			dst = append(dst, p.breaks[n])
		} else {
			dst = p.appendPiece(dst, text[:n], s)
		}
		text = text[n:]
	}
	return dst
}

// readMerges reads the list of merges, which a vocabulary of this kind has.
func readMerges(m metadata) ([]string, error) {
	const key = "tokenizer.ggml.merges"
	merges, err := m.texts(key)
	if err == nil && merges == nil {
		err = fmt.Errorf("read merges: %s is missing", key)
	}
	return merges, err
}

// splitMerge gives the two parts of a merge. The left one may itself begin with a space.
func splitMerge(i int, merge string) (left, right string, err error) {
	cut := -1
	if len(merge) > 1 {
		cut = strings.IndexByte(merge[1:], ' ') + 1
	}
	if cut <= 0 || cut == len(merge)-1 {
		return "", "", fmt.Errorf("read merges: entry %d is %q, want two parts with a space between", i, merge)
	}
	return merge[:cut], merge[cut+1:], nil
}
