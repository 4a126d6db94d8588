package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
)

// entryTrie finds the entries that text begins with, byte by byte. Its nodes lie in order of depth, so that the
// children of a node are neighbours.
type entryTrie struct {
	labels []byte  // the byte that leads to a node
	first  []int32 // a node's children are first[node] to first[node+1]-1
	ids    []int32 // of the entry that ends at a node, or none
}

// entryRoot is where a search begins; no child is 0.
const entryRoot = 0

// build makes the trie of the entries with these ids, all different.
func (t *entryTrie) build(texts []string, ids []int32) {
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(texts[a], texts[b]) })
	// Node i covers the sorted entries from spans[i].lo to spans[i].hi, which share depth bytes.
	type span struct{ lo, hi, depth int }
	spans := []span{{0, len(ids), 0}}
	t.labels, t.ids = append(t.labels, 0), append(t.ids, none)
	for i := 0; i < len(spans); i++ {
		s := spans[i]
		t.first = append(t.first, int32(len(spans)))
		if s.lo < s.hi && len(texts[ids[s.lo]]) == s.depth {
			t.ids[i] = ids[s.lo]
			s.lo++
		}
		for lo := s.lo; lo < s.hi; {
			b, hi := texts[ids[lo]][s.depth], lo+1
			for hi < s.hi && texts[ids[hi]][s.depth] == b {
				hi++
			}
			spans = append(spans, span{lo, hi, s.depth + 1})
			t.labels, t.ids = append(t.labels, b), append(t.ids, none)
			lo = hi
		}
	}
	t.first = append(t.first, int32(len(spans)))
}

// child is the node that b leads to, 0 of none.
func (t *entryTrie) child(node int32, b byte) int32 {
	lo, hi := t.first[node], t.first[node+1]
	if n := bytes.IndexByte(t.labels[lo:hi], b); n >= 0 {
		return lo + int32(n)
	}
	return 0
}
