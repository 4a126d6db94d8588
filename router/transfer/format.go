// Package transfer brings KV blocks from one weir to another: the format of an answer, the handler of the weir that has blocks
// and the client of the weir that lacks them. The engine decides which blocks are worth fetching, and enters them into its cache.
package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"weir/kvcache"
)

// An answer is, with numbers in little-endian order:
//
//	magic     8 bytes, "weirkv", the version as two bytes
//	identity  SHA-256 of the kvcache.Identity as JSON
//	frames    one byte each that says what follows:
//	  1       a block: its hash, its token ids as 32-bit words, its bytes, CRC-32C of these three
//	  0       the end: how many blocks came before, as a 32-bit word
//
// A connection that breaks off is no end, so an answer that is cut is not taken for a short one.
const (
	magic      = "weirkv\x01\x00"
	frameEnd   = 0
	frameBlock = 1

	// MostBlocks are in one answer.
	MostBlocks = 16384

	// The sizes that a reader believes in an identity.
	mostBlockTokens = 256
	mostBlockBytes  = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest names an identity in an answer.
func digest(id kvcache.Identity) [sha256.Size]byte {
	text, _ := json.Marshal(id) //nolint:errchkjson // strings and numbers
	return sha256.Sum256(text)
}

// Writer writes an answer. Its errors are those of the writer below.
type Writer struct {
	to     io.Writer
	head   []byte
	blocks uint32
}

// NewWriter begins an answer.
func NewWriter(to io.Writer, id kvcache.Identity) (*Writer, error) {
	sum := digest(id)
	_, err := to.Write(append([]byte(magic), sum[:]...))
	return &Writer{to: to}, err
}

// Block writes a block.
func (w *Writer) Block(h kvcache.Hash, ids []int32, data []byte) error {
	w.head = append(append(w.head[:0], frameBlock), h[:]...)
	for _, id := range ids {
		w.head = binary.LittleEndian.AppendUint32(w.head, uint32(id)) //nolint:gosec // bits
	}
	sum := crc32.Update(crc32.Update(0, castagnoli, w.head[1:]), castagnoli, data)
	if _, err := w.to.Write(w.head); err != nil {
		return err
	}
	if _, err := w.to.Write(data); err != nil {
		return err
	}
	w.blocks++
	_, err := w.to.Write(binary.LittleEndian.AppendUint32(w.head[:0], sum))
	return err
}

// End writes the end.
func (w *Writer) End() error {
	_, err := w.to.Write(binary.LittleEndian.AppendUint32([]byte{frameEnd}, w.blocks))
	return err
}

// Reader reads an answer. What is wrong with it is a *kvcache.TransferFault: corrupt, mismatch or truncated.
type Reader struct {
	from   *bufio.Reader
	id     kvcache.Identity
	head   []byte // hash and ids of a block
	ids    []int32
	blocks uint32
}

// NewReader reads how an answer begins.
func NewReader(from io.Reader, id kvcache.Identity) (*Reader, error) {
	if id.BlockTokens < 1 || id.BlockTokens > mostBlockTokens || id.BlockBytes < 1 || id.BlockBytes > mostBlockBytes {
		return nil, corrupt("blocks of %d tokens and %d bytes", id.BlockTokens, id.BlockBytes)
	}
	r := &Reader{
		from: bufio.NewReaderSize(from, 64<<10), id: id,
		head: make([]byte, len(kvcache.Hash{})+4*id.BlockTokens), ids: make([]int32, id.BlockTokens),
	}
	var begin [len(magic) + sha256.Size]byte
	if err := r.read(begin[:]); err != nil {
		return nil, err
	}
	switch sum := digest(id); {
	case string(begin[:len(magic)]) != magic:
		return nil, corrupt("it begins with %q, not as an answer of this version", begin[:len(magic)])
	case string(begin[len(magic):]) != string(sum[:]):
		return nil, &kvcache.TransferFault{Reason: kvcache.TransferMismatch, Err: errors.New("the answer is of another identity")}
	}
	return r, nil
}

// Next reads a block with the hash that comes next into room, which is as large as a block, and returns its ids, valid until
// the next call; nil at the end.
func (r *Reader) Next(want kvcache.Hash, room []byte) (ids []int32, err error) {
	end, err := r.frame()
	if err != nil || end {
		return nil, err
	}
	if err := r.read(r.head); err != nil {
		return nil, err
	}
	if err := r.read(room[:r.id.BlockBytes]); err != nil {
		return nil, err
	}
	var sum [4]byte
	if err := r.read(sum[:]); err != nil {
		return nil, err
	}
	if crc32.Update(crc32.Update(0, castagnoli, r.head), castagnoli, room[:r.id.BlockBytes]) != binary.LittleEndian.Uint32(sum[:]) {
		return nil, corrupt("the checksum of block %d is wrong", r.blocks)
	}
	if h := kvcache.Hash(r.head); h != want {
		return nil, corrupt("block %d is %v, and %v was asked for", r.blocks, h, want)
	}
	for i := range r.ids {
		r.ids[i] = int32(binary.LittleEndian.Uint32(r.head[len(want)+4*i:])) //nolint:gosec // bits
	}
	r.blocks++
	return r.ids, nil
}

// End reads the end where all blocks that were asked for have come.
func (r *Reader) End() error {
	end, err := r.frame()
	if err == nil && !end {
		err = corrupt("more blocks came than were asked for")
	}
	return err
}

// frame reads what follows, and the end's count.
func (r *Reader) frame() (end bool, err error) {
	var kind [1]byte
	if err := r.read(kind[:]); err != nil {
		return false, err
	}
	switch kind[0] {
	case frameBlock:
		return false, nil
	case frameEnd:
	default:
		return false, corrupt("a frame of kind %d", kind[0])
	}
	var count [4]byte
	if err := r.read(count[:]); err != nil {
		return false, err
	}
	if n := binary.LittleEndian.Uint32(count[:]); n != r.blocks {
		return false, corrupt("%d blocks have come, and the end says %d", r.blocks, n)
	}
	return true, nil
}

func (r *Reader) read(p []byte) error {
	if _, err := io.ReadFull(r.from, p); err != nil {
		return &kvcache.TransferFault{Reason: kvcache.TransferTruncated, Err: fmt.Errorf("after %d blocks: %w", r.blocks, err)}
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return &kvcache.TransferFault{Reason: kvcache.TransferCorrupt, Err: fmt.Errorf(format, args...)}
}
