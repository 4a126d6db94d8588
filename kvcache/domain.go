package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Field is one more thing on which KV depends beside the model and the token
// ids: an adapter's digest, a picture's digest. Key and value are hashed with
// their lengths, so one field can never pass for another.
type Field struct {
	Key   string
	Value []byte
}

// Domain is a prefix-cache isolation domain: sequences share blocks only
// within one. It is the root of the hash chain and a plain comparable value,
// usable in any goroutine and for every pool of the same configuration.
type Domain struct {
	root [sha256.Size]byte
	bits uint8 // Config.HashBits
	fine bool  // its rows take more room: blocks have Config.FineTokens of them
}

// rootFormat changes whenever the meaning of a root or block hash changes.
const rootFormat = "1"

// Domain derives the domain of a tenant (or of a shared prompt that tenants
// opted in to) from everything that decides what KV a token gets. The order of
// extra fields matters.
func (c Config) Domain(name string, extra ...Field) Domain { return c.domain(name, false, extra) }

// FineDomain is Domain for sequences whose keys and values are stored more finely, so that blocks have Config.FineTokens rows. It shares
// no block with the domain of the same name.
func (c Config) FineDomain(name string, extra ...Field) Domain { return c.domain(name, true, extra) }

func (c Config) domain(name string, fine bool, extra []Field) Domain {
	h := sha256.New()
	builtin := func(key, value string) { writeField(h, 0, key, []byte(value)) }
	builtin("format", rootFormat)
	builtin("secret", string(c.Secret))
	builtin("model", c.ModelDigest)
	builtin("kv", c.KVType)
	writeField(h, 0, "block", binary.LittleEndian.AppendUint32(nil, uint32(c.blockTokens())))
	if fine {
		writeField(h, 0, "fine", binary.LittleEndian.AppendUint32(nil, uint32(c.fineTokens())))
	}
	builtin("domain", name)
	for _, f := range extra {
		writeField(h, 1, f.Key, f.Value)
	}
	d := Domain{bits: uint8(c.HashBits), fine: fine}
	h.Sum(d.root[:0])
	return d
}

// writeField feeds one field as space, key length, key, value length, value.
// The space tells the pool's own fields (0) from a caller's (1).
func writeField(h hash.Hash, space byte, key string, value []byte) {
	buf := append(make([]byte, 0, 9+len(key)+len(value)), space)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(key)))
	buf = append(buf, key...)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(value)))
	h.Write(append(buf, value...)) // a hash never fails to write
}

// Chain appends to dst the hash of every full block of tokens and returns it.
// A router keys its index by these; MatchChain takes them so that a waiting
// request is hashed once. blockTokens must be that of the domain's Shape and at most
// 256; otherwise nothing is appended.
func (d Domain) Chain(dst []Hash, tokens []int32, blockTokens int) []Hash {
	return d.Extend(dst, Hash{}, tokens, blockTokens)
}

// Extend is Chain for tokens that follow the block parent; the zero Hash is none.
func (d Domain) Extend(dst []Hash, parent Hash, tokens []int32, blockTokens int) []Hash {
	if blockTokens < 1 || blockTokens > maxBlockTokens {
		return dst
	}
	var buf preimage
	first := parent == Hash{}
	for i := range len(tokens) / blockTokens {
		parent = d.hashBlock(&buf, first && i == 0, parent, tokens[i*blockTokens:(i+1)*blockTokens])
		dst = append(dst, parent)
	}
	return dst
}

// domain is the pool's account of one Domain; it exists while the domain has
// live tables or resident blocks.
type domain struct {
	key      Domain
	tables   int // begun, not released
	resident int // blocks held or cached
	cached   int // idle and published

	protected bool  // listed in domainTable.protected
	until     int64 // when that ends
	leaving   int   // blocks that Without counts as cached
}
