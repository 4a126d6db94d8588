package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// charsmap is SentencePiece's compiled normaliser: which stretches of text become which. Its rules lie in a
// double-array trie (darts-clone): units of 32 bits, in each a label, an offset to its children, and whether a value
// is among them.
type charsmap struct {
	units []uint32
	texts []byte // what rules write, each text up to a zero byte
}

const (
	// maxRuleBytes bounds a rule's text; the longest of the published rules write 33 bytes.
	maxRuleBytes = 1 << 10
	// maxRuleDepth bounds how far a rule reads; the longest of the published rules read 15 bytes.
	maxRuleDepth = 1 << 8
)

// newCharsmap reads tokenizer.ggml.precompiled_charsmap: the size of the trie in four bytes, the trie, the texts.
func newCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) == 0 {
		return &charsmap{}, nil
	}
	const key = "tokenizer.ggml.precompiled_charsmap"
	if len(blob) < 4 {
		return nil, fmt.Errorf("read %s: %d bytes, which are too few", key, len(blob))
	}
	size := int(binary.LittleEndian.Uint32(blob))
	if size > len(blob)-4 || size%4 != 0 || size == 0 {
		return nil, fmt.Errorf("read %s: a trie of %d bytes in %d", key, size, len(blob))
	}
	c := &charsmap{units: make([]uint32, size/4), texts: blob[4+size:]}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	for rest := c.texts; len(rest) > 0; {
		n := bytes.IndexByte(rest, 0)
		if n < 0 {
			return nil, fmt.Errorf("read %s: its last text has no end", key)
		}
		if n > maxRuleBytes {
			return nil, fmt.Errorf("read %s: a rule writes %d bytes, limit %d", key, n, maxRuleBytes)
		}
		rest = rest[n+1:]
	}
	return c, nil
}

// The parts of a unit:

func unitLabel(u uint32) uint32  { return u & (1<<31 | 0xFF) }
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
func unitHasValue(u uint32) bool { return u>>8&1 == 1 }
func unitValue(u uint32) uint32  { return u & (1<<31 - 1) }

// longest finds the rule that reads most at the start of text: how many bytes, and what it writes. It is 0 of none.
func (c *charsmap) longest(text string) (n int, to []byte) {
	if len(c.units) == 0 {
		return 0, nil
	}
	at := unitOffset(c.units[0])
	for i := range min(len(text), maxRuleDepth) {
		at ^= uint32(text[i])
		if int64(at) >= int64(len(c.units)) {
			break
		}
		u := c.units[at]
		if unitLabel(u) != uint32(text[i]) {
			break
		}
		at ^= unitOffset(u)
		if unitHasValue(u) && int64(at) < int64(len(c.units)) {
			if v := unitValue(c.units[at]); int64(v) < int64(len(c.texts)) {
				n, to = i+1, c.texts[v:]
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, to[:bytes.IndexByte(to, 0)]
}
