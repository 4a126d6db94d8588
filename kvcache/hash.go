package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Hash names the token prefix that ends with a block: the first 128 bits of
// SHA-256 over the previous block's hash and this block's token ids.
type Hash [16]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func (h Hash) prefix() uint64 { return binary.LittleEndian.Uint64(h[:8]) }

// truncate clears all but the first n bits.
func (h Hash) truncate(n uint8) Hash {
	for i := range h {
		keep := max(0, min(8, int(n)-8*i))
		h[i] &= byte(uint16(0xff00) >> keep)
	}
	return h
}

// maxBlockTokens bounds the block size, and with it the stack buffer of a hash.
const maxBlockTokens = 256

// preimage is the input of one block's hash: parent or root, then the ids as
// little-endian 32-bit words.
type preimage [sha256.Size + 4*maxBlockTokens]byte

// hashBlock hashes one block of at most maxBlockTokens tokens. first says that
// it starts a sequence, so that the domain's root stands for the parent. buf
// is scratch space of the caller.
func (d *Domain) hashBlock(buf *preimage, first bool, parent Hash, tokens []int32) Hash {
	n := len(d.root)
	if first {
		copy(buf[:], d.root[:])
	} else {
		n = copy(buf[:], parent[:])
	}
	for _, id := range tokens {
		binary.LittleEndian.PutUint32(buf[n:], uint32(id))
		n += 4
	}
	sum := sha256.Sum256(buf[:n])
	h := Hash(sum[:16])
	if d.bits != 0 {
		h = h.truncate(d.bits)
	}
	return h
}
