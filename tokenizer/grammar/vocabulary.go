package grammar

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

// Vocabulary is the trie of a tokenizer's tokens. Build it once per tokenizer; it is safe for concurrent use.
type Vocabulary struct {
	words   int              // of 64 bits in a mask
	size    int              // ids
	control map[string]int32 // control tokens by text
	pieces  [][]byte         // by id
	trie    []node
	many    [][]int32 // ids of texts that have several
	depth   int       // bytes of the longest token
	slices  []*slice
	encode  func(dst []int32, text string) []int32
	cache   cache

	pairsOnce  sync.Once
	pairTokens tokenPairs
}

// node is a prefix of tokens. Nodes lie in depth-first order, so that a subtree is size nodes in a row.
type node struct {
	size  uint32 // of the subtree, the node included
	token int32  // the id of the token that ends here, none, or -2-i for the ids many[i]
	depth uint16 // bytes of the prefix
	byte  byte   // the last of them
}

// wholeTree marks, in the depth of a pruned node, that it stands for a node of the trie it was pruned from and all below that; its token
// is that node's index.
const wholeTree = 1 << 15

// maxPiece is the most bytes of a token; longer ones are left out, as no text needs them.
const maxPiece = wholeTree - 1

// NewVocabulary takes in the bytes of every token by id, nil for tokens that have no text of their own, and the control tokens by their text.
// Several ids may have the same bytes, as byte tokens and letters of SentencePiece do. A token with a text may be a control token, too.
func NewVocabulary(pieces [][]byte, control map[string]int32) *Vocabulary {
	v := &Vocabulary{words: (len(pieces) + 63) / 64, size: len(pieces), control: control, pieces: pieces}
	ids := make([]int32, 0, len(pieces))
	for id, p := range pieces {
		if len(p) > 0 && len(p) <= maxPiece {
			ids = append(ids, int32(id))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		if c := bytes.Compare(pieces[a], pieces[b]); c != 0 {
			return c
		}
		return int(a - b)
	})
	var open []int // the nodes of the current prefix, by depth
	var last []byte
	for i := 0; i < len(ids); {
		p := pieces[ids[i]]
		common := 0
		for common < len(last) && common < len(p) && last[common] == p[common] {
			common++
		}
		v.seal(open[common:])
		open = open[:common]
		for d := common; d < len(p); d++ {
			open = append(open, len(v.trie))
			v.trie = append(v.trie, node{token: none, depth: uint16(d + 1), byte: p[d]})
		}
		j := i + 1
		for j < len(ids) && bytes.Equal(pieces[ids[j]], p) {
			j++
		}
		end := &v.trie[open[len(open)-1]]
		if end.token = ids[i]; j-i > 1 {
			end.token = int32(-2 - len(v.many))
			v.many = append(v.many, slices.Clone(ids[i:j]))
		}
		v.depth = max(v.depth, len(p))
		last, i = p, j
	}
	v.seal(open)
	for _, r := range sliceTexts() {
		if s := newSlice(v, r); s != nil {
			v.slices = append(v.slices, s)
		}
	}
	return v
}

// seal writes the sizes of nodes whose subtrees are done.
func (v *Vocabulary) seal(nodes []int) {
	for _, n := range nodes {
		v.trie[n].size = uint32(len(v.trie) - n)
	}
}

// Words is the number of 64-bit words in a mask: one bit per id.
func (v *Vocabulary) Words() int { return v.words }

// Size is the number of ids.
func (v *Vocabulary) Size() int { return v.size }

func (v *Vocabulary) controlID(t controlToken) (int32, error) {
	id, ok := t.id, t.id >= 0 && int(t.id) < v.size
	if t.id == none {
		id, ok = v.control[t.text]
		ok = ok && id >= 0 && int(id) < v.size
	}
	if !ok && t.id == none {
		return none, fmt.Errorf("%w: %q; use a model that has it, or a grammar without it", ErrNoToken, t.text)
	}
	if !ok {
		return none, fmt.Errorf("%w: id %d, the vocabulary has %d", ErrNoToken, t.id, v.size)
	}
	return id, nil
}

// set sets the bits of a node's tokens.
func (v *Vocabulary) set(dst []uint64, token int32) {
	if token >= 0 {
		dst[token>>6] |= 1 << (token & 63)
		return
	}
	if token < none {
		for _, id := range v.many[-2-token] {
			dst[id>>6] |= 1 << (id & 63)
		}
	}
}

// check refuses a mask that is too short.
func (v *Vocabulary) check(dst []uint64) error {
	if len(dst) < v.words {
		return fmt.Errorf("a mask of %d words; the vocabulary of %d ids needs %d", len(dst), v.size, v.words)
	}
	return nil
}
