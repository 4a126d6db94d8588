package prefix

import (
	"crypto/sha256"
	"encoding/binary"

	"weir/kvcache"
)

// Key names a prompt's prefix that ends with a block of tokens or a piece of text.
type Key = kvcache.Hash

const (
	// PieceBytes is the length of the pieces that a text is hashed in.
	PieceBytes = 256
	// MaxDepth bounds the keys of a text: what follows does not help to tell replicas apart.
	MaxDepth = 512
)

// Root is where the chains of one model and one cache domain begin. Keys of different roots never meet. It is a plain
// comparable value.
type Root struct{ sum [sha256.Size]byte }

// rootFormat changes whenever the meaning of a key of text changes.
const rootFormat = "weir text keys 1"

// NewRoot derives the root of a model (the name or digest of its version) and a cache domain (of a tenant, or of what tenants
// share).
func NewRoot(model, domain string) Root {
	h := sha256.New()
	for _, field := range []string{rootFormat, model, domain} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(field)))) // a hash never fails to write
		h.Write([]byte(field))
	}
	var r Root
	h.Sum(r.sum[:0])
	return r
}

// Chain makes the keys of a text that is given in parts. Parts are ended by bytes that JSON strings hold only escaped, and not
// by their lengths: a text and its continuation begin with the same keys. Texts that are made to look alike across parts share
// keys, and gain nothing but a wrong hint within their own cache domain.
//
// The zero Chain is not usable; Root.Begin makes one. A copy is a branch of its own as long as dst has no room left.
type Chain struct {
	keys  []Key
	most  int
	n     int // bytes of the piece that is being filled
	head  int // bytes before the piece in buf: the root or the key before
	buf   [sha256.Size + PieceBytes]byte
	ended bool
}

// Begin starts a chain whose keys are appended to dst.
func (r Root) Begin(dst []Key) Chain {
	c := Chain{keys: dst, most: len(dst) + MaxDepth}
	c.head = copy(c.buf[:], r.sum[:])
	return c
}

// Marks that end a kind and a content.
const (
	endOfKind    = 0x1f
	endOfContent = 0x1e
)

// Part adds a message or another closed part: its kind (a role, "tools") and its content.
func (c *Chain) Part(kind, content string) {
	c.Open(kind, content)
	c.add("", endOfContent)
}

// Open adds a last part that its continuation may extend, such as the prompt of a completion.
func (c *Chain) Open(kind, content string) {
	c.add(kind, endOfKind)
	c.add(content, 0)
}

// add adds a text and, unless it is 0, a mark.
func (c *Chain) add(text string, mark byte) {
	for len(text) > 0 && !c.ended {
		n := copy(c.buf[c.head+c.n:c.head+PieceBytes], text)
		text = text[n:]
		c.fill(n)
	}
	if mark != 0 && !c.ended {
		c.buf[c.head+c.n] = mark
		c.fill(1)
	}
}

// fill notes n more bytes of the piece; a full one becomes a key.
func (c *Chain) fill(n int) {
	if c.n += n; c.n < PieceBytes {
		return
	}
	sum := sha256.Sum256(c.buf[:c.head+PieceBytes])
	key := Key(sum[:len(Key{})])
	c.keys = append(c.keys, key)
	c.head, c.n = copy(c.buf[:], key[:]), 0
	c.ended = len(c.keys) == c.most
}

// Keys are those of the full pieces so far.
func (c *Chain) Keys() []Key { return c.keys }
