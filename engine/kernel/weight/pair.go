package weight

import (
	"fmt"
	"math"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

// Encoders may hold matrices as bfloat16 for products of bfloat16: weights and activations are rounded to eight bits of
// precision, their products are exact, and sums are floats. Such products take half the time of products of floats. Two
// neighbouring values of a row lie together, as the instruction wants them; with m rows a panel is [pair of columns][m][2].
// They exist where the processor has AVX512_BF16 only: elsewhere they would be slower than those of floats.

// pairColumns is of what number of columns a matrix in pairs has a multiple.
const pairColumns = 16

var pairFormat = format{kind: kindPair, values: 2, rowBytes: 4, tileBytes: 4 * tileLanes, pack: packF32}

// HasPairs reports whether products of bfloat16 exist at a level.
func HasPairs(level isa.Level) bool { return level == isa.AVX512 && isa.HasBF16() }

// PairBytes is the memory that a Packer of pairs fills; an error names the size that it cannot hold.
func PairBytes(rows, cols int) (int, error) {
	if _, err := fileRowBytes(gguf.TypeBF16, rows, cols); err != nil {
		return 0, err
	}
	if cols%pairColumns != 0 {
		return 0, fmt.Errorf("%w: %d columns, which is no multiple of %d, in pairs", ErrShape, cols, pairColumns)
	}
	return (rows + tileLanes - 1) / tileLanes * tileLanes * 2 * cols, nil
}

// NewPairPacker begins a matrix in pairs in data, PairBytes long and otherwise as for NewPacker; the rows that it is given are bfloat16.
func NewPairPacker(rows, cols int, data []byte) (*Packer, error) {
	want, err := PairBytes(rows, cols)
	if err != nil {
		return nil, err
	}
	if len(data) != want {
		return nil, fmt.Errorf("%w: %d x %d in pairs needs %d bytes, have %d", ErrShape, rows, cols, want, len(data))
	}
	return &Packer{m: &Matrix{Type: gguf.TypeBF16, Rows: rows, Cols: cols, format: &pairFormat, rowBytes: 2 * cols, data: data}}, nil
}

// AppendBF16 rounds values to the nearest bfloat16, ties to even, and appends them to dst.
func AppendBF16(dst []byte, values []float32) []byte {
	for _, v := range values {
		b := roundBF16(v)
		dst = append(dst, byte(b), byte(b>>8))
	}
	return dst
}

func roundBF16(v float32) uint16 {
	if v != v {
		return 0x7fc0
	}
	b := math.Float32bits(v)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// decodePairs writes a lane of a tile of pairs to dst.
func decodePairs(dst []float32, tile []byte, lane int) {
	var pair [4]byte
	for c := 0; c < len(dst); c += 2 {
		unpackF32(pair[:], tile[2*c*tileLanes:], lane)
		Decode(gguf.TypeBF16, dst[c:c+2], pair[:])
	}
}
