package table

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// maxBlock is the size of a block of zstd.
const maxBlock = 128 << 10

var (
	errCompressed = errors.New("a page's compressed bytes are damaged")
	errLargePage  = fmt.Errorf("a page has more than %d bytes when it is decompressed; write smaller pages", maxPageBytes)
)

// decompressedSize is about how many bytes a compressed page becomes, at least those, found without decompressing it where the
// codec allows that. What is above maxPageBytes need not be exact.
func decompressedSize(codec format.CompressionCodec, b []byte) (int64, error) {
	switch codec {
	case format.Snappy:
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<32 {
			return 0, errCompressed
		}
		return int64(n), nil
	case format.Zstd:
		return zstdSize(b)
	default:
		const most = 1032 // bytes of deflate from one
		if int64(len(b))*most < maxPageBytes {
			return int64(len(b)) * most, nil
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return 0, err
		}
		n, err := io.CopyN(io.Discard, z, maxPageBytes+maxBlock+1)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
}

// zstdSize adds up the blocks of all frames.
func zstdSize(b []byte) (total int64, err error) {
	for len(b) > 0 {
		var h zstd.Header
		if err := h.Decode(b); err != nil {
			return 0, err
		}
		if h.Skippable {
			skip := h.HeaderSize + int(h.SkippableSize)
			if skip < 8 || skip > len(b) {
				return 0, errCompressed
			}
			b = b[skip:]
			continue
		}
		if h.WindowSize > maxWindow {
			return 0, errors.New("a page's zstd window is too large")
		}
		b = b[h.HeaderSize:]
		for last := false; !last; {
			if len(b) < 3 {
				return 0, errCompressed
			}
			head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
			size, stored := int64(head>>3), int64(head>>3)
			last = head&1 == 1
			switch head >> 1 & 3 {
			case 1: // one byte, repeated
				stored = 1
			case 2:
				size = maxBlock
			}
			total += size
			if b = b[3:]; stored > int64(len(b)) {
				return 0, errCompressed
			}
			b = b[stored:]
		}
		if h.HasCheckSum {
			if len(b) < 4 {
				return 0, errCompressed
			}
			b = b[4:]
		}
	}
	return total, nil
}

// lz4 appends what a block becomes. The library tries a larger buffer again and again where a block is damaged.
func lz4(dst, b []byte) ([]byte, error) {
	length := func(n int) (int, bool) {
		for more := n == 15; more; {
			if len(b) == 0 || n > maxPageBytes {
				return 0, false
			}
			n += int(b[0])
			more = b[0] == 255
			b = b[1:]
		}
		return n, true
	}
	for len(b) > 0 {
		token := b[0]
		b = b[1:]
		literals, ok := length(int(token >> 4))
		if !ok || literals > len(b) {
			return nil, errCompressed
		}
		dst = append(dst, b[:literals]...)
		if b = b[literals:]; len(b) == 0 {
			return dst, nil
		}
		if len(b) < 2 {
			return nil, errCompressed
		}
		offset := int(binary.LittleEndian.Uint16(b))
		b = b[2:]
		match, ok := length(int(token & 15))
		switch match += 4; {
		case !ok || offset == 0 || offset > len(dst):
			return nil, errCompressed
		case len(dst)+match > maxPageBytes:
			return nil, errLargePage
		}
		for match > 0 { // what is copied may overlap what it is copied to
			n := min(match, offset)
			dst = append(dst, dst[len(dst)-offset:len(dst)-offset+n]...)
			match -= n
		}
	}
	return dst, nil
}
