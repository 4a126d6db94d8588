package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// strip says which white space next to a special token belongs to it.
type strip uint8

const (
	stripLeft  strip = 1 << iota // before it
	stripRight                   // after it
)

// specialMatcher finds special tokens in text: the leftmost, and of those
// that start there the longest. It is a trie over bytes; a search reads each
// byte of the text at most once per byte of the longest special token.
type specialMatcher struct {
	root  [256]int32 // first node by first byte; 0 is none
	nodes []specialNode
}

type specialNode struct {
	child   int32 // first child; 0 is none
	sibling int32 // next node of the same parent; 0 is none
	id      int32 // token that ends here, or none
	symbol  byte
}

func (s *specialMatcher) add(text string, id int32) {
	at := s.root[text[0]]
	if at == 0 {
		at = s.grow(text[0])
		s.root[text[0]] = at
	}
	for i := 1; i < len(text); i++ {
		next := s.child(at, text[i])
		if next == 0 {
			next = s.grow(text[i])
			s.nodes[next].sibling = s.nodes[at].child
			s.nodes[at].child = next
		}
		at = next
	}
	s.nodes[at].id = id
}

func (s *specialMatcher) grow(b byte) int32 {
	if len(s.nodes) == 0 {
		s.nodes = append(s.nodes, specialNode{id: none}) // index 0 means "no node"
	}
	s.nodes = append(s.nodes, specialNode{id: none, symbol: b})
	return int32(len(s.nodes) - 1)
}

// find returns the first special token that lies within text[from:to].
func (s *specialMatcher) find(text string, from, to int) (id int32, start, end int, ok bool) {
	for i := from; i < to; i++ {
		if id, n := s.longest(text[i:to]); n > 0 {
			return id, i, i + n, true
		}
	}
	return none, to, to, false
}

// longest is the longest special token at the start of text, which is not empty, and its length; 0 of none.
func (s *specialMatcher) longest(text string) (id int32, n int) {
	id = none
	at := s.root[text[0]]
	for i := 1; at != 0; i++ {
		if s.nodes[at].id != none {
			id, n = s.nodes[at].id, i
		}
		if i == len(text) {
			break
		}
		at = s.child(at, text[i])
	}
	return id, n
}

func (s *specialMatcher) child(at int32, b byte) int32 {
	for c := s.nodes[at].child; c != 0; c = s.nodes[c].sibling {
		if s.nodes[c].symbol == b {
			return c
		}
	}
	return 0
}

// specials holds the two matchers, and for each token the white space that it
// swallows.
type specials struct {
	trusted specialMatcher // control, unknown and user-defined tokens
	client  specialMatcher // user-defined tokens that do not look like control
	strips  map[int32]strip
}

func newSpecials(v *vocabulary, modelName string) (*specials, error) {
	s := &specials{strips: specialStrips(v, modelName)}
	for i, text := range v.texts {
		id, kind := int32(i), v.types[i]
		if kind != typeControl && kind != typeUnknown && kind != typeUserDefined {
			continue
		}
		if len(text) > maxSpecialBytes {
			return nil, fmt.Errorf("read vocabulary: special token %d has %d bytes, limit %d", i, len(text), maxSpecialBytes)
		}
		ordinary := kind == typeUserDefined && !looksLikeControl(text)
		if ordinary && v.kind == kindUnigram {
			continue // its model finds them itself, and does not begin a new text behind them
		}
		s.trusted.add(text, id)
		if ordinary {
			s.client.add(text, id)
		}
	}
	return s, nil
}

// FindControl finds the first token in text that is recognised in Control spans
// or with ParseSpecial only.
func (t *Tokenizer) FindControl(text string) (int32, bool) {
	for at := 0; ; {
		id, start, end, ok := t.specials.trusted.find(text, at, len(text))
		if !ok {
			return none, false
		}
		if _, _, _, client := t.specials.client.find(text, start, end); !client {
			return id, true
		}
		at = end
	}
}

// specialStrips knows the vocabularies whose special tokens swallow white
// space. GGUF files do not say so; as in llama.cpp the names of the model and of
// its pre-tokenizer decide.
func specialStrips(v *vocabulary, modelName string) map[int32]strip {
	strips := map[int32]strip{}
	name := strings.ToLower(modelName)
	switch {
	case slices.Contains([]string{"jina-v2-de", "jina-v2-es", "jina-v2-code", preWords}, v.pre):
		if id, ok := v.ids["<mask>"]; ok {
			strips[id] = stripLeft
		}
	case strings.Contains(name, "phi-3") || strings.Contains(name, "phi3"):
		for i, kind := range v.types {
			if kind == typeControl || kind == typeUnknown || kind == typeUserDefined {
				strips[int32(i)] = stripRight
			}
		}
		for _, text := range []string{"<unk>", "<s>", "<|endoftext|>"} {
			if id, ok := v.ids[text]; ok {
				delete(strips, id)
			}
		}
	case strings.Contains(name, "modern-bert"):
		if id, ok := v.ids["[MASK]"]; ok {
			strips[id] = stripLeft
		}
	}
	return strips
}

// isASCIISpace is C's isspace, which is what stripping goes by.
func isASCIISpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }
