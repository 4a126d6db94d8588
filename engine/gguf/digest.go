package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
)

const (
	digestDomain  = "weir gguf digest 1\n"
	sampleBytes   = 4 << 10 // of one sample
	sampleCount   = 16      // per tensor
	wholeBytes    = sampleBytes * sampleCount
	headerChunk   = 256 << 10
	digestHeading = 16 // two uint64 per file: its size, its header's size
)

// Digest names the model's content: SHA-256 over, for every file in order, its
// size and all bytes of its header (metadata and tensor descriptions), then
// over data samples of every tensor: the whole tensor up to 64 KiB, else 16
// pieces of 4 KiB at even distances, first and last bytes included.
//
// Two models with equal digests have the same vocabulary, hyper-parameters,
// names, shapes, types and sizes, and agree on all sampled weights; training,
// fine-tuning, merging or another quantisation changes nearly every block and
// hence the digest. It does not notice an edit confined to bytes between the
// samples: it tells models apart, it does not authenticate one. It reads a few
// MB of any model, so that it can be taken at every start.
func (f *File) Digest() ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	h := sha256.New()
	h.Write([]byte(digestDomain))
	for i := range f.parts {
		if err := f.parts[i].digestHeader(h); err != nil {
			return sum, fmt.Errorf("digest header of file %d: %w", i+1, err)
		}
	}
	buf := make([]byte, wholeBytes)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if err := digestSamples(h, f.parts[t.Split].r, t, buf); err != nil {
			return sum, fmt.Errorf("digest tensor %q: %w", t.Name, err)
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}

func (p *part) digestHeader(h hash.Hash) error {
	var head [digestHeading]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(p.sizeBytes))
	binary.LittleEndian.PutUint64(head[8:], uint64(p.headerBytes))
	h.Write(head[:])
	n, err := io.CopyBuffer(h, io.NewSectionReader(p.r, 0, p.headerBytes), make([]byte, min(p.headerBytes, headerChunk)))
	if err == nil && n != p.headerBytes {
		err = fmt.Errorf("%w: file ends at byte %d", ErrTruncated, n)
	}
	return err
}

// digestSamples hashes the samples of one tensor; buf holds wholeBytes.
func digestSamples(h hash.Hash, r io.ReaderAt, t *Tensor, buf []byte) error {
	pieces, pieceBytes := int64(sampleCount), int64(sampleBytes)
	if t.Bytes <= wholeBytes {
		pieces, pieceBytes = 1, t.Bytes
	}
	for i := range pieces {
		off := int64(0)
		if pieces > 1 {
			// Divided first: Bytes times 15 could overflow.
			off = min((t.Bytes-pieceBytes)/(pieces-1)*i, t.Bytes-pieceBytes)
		}
		if i == pieces-1 {
			off = t.Bytes - pieceBytes
		}
		if err := readFull(r, buf[:pieceBytes], t.Offset+off); err != nil {
			return err
		}
		h.Write(buf[:pieceBytes])
	}
	return nil
}
