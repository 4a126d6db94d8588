package weight

import (
	"errors"
	"fmt"
	"math/bits"

	"weir/engine/gguf"
)

// ErrShape is wrapped by errors about sizes that do not fit a weight's type.
var ErrShape = errors.New("bad weight shape")

// Matrix is a weight matrix of Rows outputs by Cols inputs, held at its file's
// own bit width in memory the garbage collector does not see, in tiles of
// interleaved rows. The loader owns the matrix's memory.
type Matrix struct {
	Type gguf.Type
	Rows int
	Cols int

	format   *format
	rowBytes int // in the file
	data     []byte
}

// fileRowBytes is the size of a row in the file, or an error naming the type or
// size that cannot be held.
func fileRowBytes(t gguf.Type, rows, cols int) (int, error) {
	if !t.Supported() {
		return 0, fmt.Errorf("%w: weight type %v", gguf.ErrUnsupportedType, t)
	}
	elems, size, _ := t.Block()
	if rows <= 0 || cols <= 0 || cols%elems != 0 {
		return 0, fmt.Errorf("%w: %d x %d of type %v, whose rows come in blocks of %d", ErrShape, rows, cols, t, elems)
	}
	hi, n := bits.Mul64(uint64(cols/elems*size), uint64(rows))
	if hi != 0 || n > 1<<46 {
		return 0, fmt.Errorf("%w: %d x %d of type %v is too large", ErrShape, rows, cols, t)
	}
	return cols / elems * size, nil
}

// MatrixBytes is the memory that a Packer fills, or an error naming the type or
// size it cannot hold.
func MatrixBytes(t gguf.Type, rows, cols int) (int, error) {
	if _, err := fileRowBytes(t, rows, cols); err != nil {
		return 0, err
	}
	f := formats[t]
	return (rows + tileLanes - 1) / tileLanes * (cols / f.values * f.tileBytes), nil
}

// Packer lays a matrix out as its rows arrive from the file.
type Packer struct {
	m    *Matrix
	done int // rows
	last []byte
}

// NewPacker begins a matrix in data, MatrixBytes long and 64-byte aligned,
// which the caller keeps alive and unchanged as long as the matrix is used.
func NewPacker(t gguf.Type, rows, cols int, data []byte) (*Packer, error) {
	want, err := MatrixBytes(t, rows, cols)
	if err != nil {
		return nil, err
	}
	if len(data) != want {
		return nil, fmt.Errorf("%w: %d x %d of type %v needs %d bytes, have %d", ErrShape, rows, cols, t, want, len(data))
	}
	n, err := fileRowBytes(t, rows, cols)
	if err != nil {
		return nil, err
	}
	return &Packer{m: &Matrix{Type: t, Rows: rows, Cols: cols, format: formats[t], rowBytes: n, data: data}}, nil
}

// RowBytes is the size of a row in the file.
func (p *Packer) RowBytes() int { return p.m.rowBytes }

// PackRows is the number of rows of which every call of Add but the last must
// bring a multiple.
const PackRows = tileLanes

// Add lays out the next rows, whole rows as in the file. Only the last call may
// bring a number of rows that is not a multiple of PackRows.
func (p *Packer) Add(src []byte) error {
	m := p.m
	n := len(src) / m.rowBytes
	if n*m.rowBytes != len(src) || n > m.Rows-p.done || (n%PackRows != 0 && n != m.Rows-p.done) {
		return fmt.Errorf("%w: %d bytes are not the next rows of %d bytes, %d of %d rows done",
			ErrShape, len(src), m.rowBytes, p.done, m.Rows)
	}
	for r := 0; r < n; r += tileLanes {
		rows := src[r*m.rowBytes:]
		if n-r < tileLanes {
			p.last = make([]byte, tileLanes*m.rowBytes)
			copy(p.last, rows)
			rows = p.last
		}
		m.packTile((p.done+r)/tileLanes, rows)
	}
	p.done += n
	return nil
}

// Matrix returns the matrix once every row has been added.
func (p *Packer) Matrix() (*Matrix, error) {
	if p.done != p.m.Rows {
		return nil, fmt.Errorf("%w: %d of %d rows were added", ErrShape, p.done, p.m.Rows)
	}
	return p.m, nil
}

// NewMatrix lays out a whole matrix from rows as in the file, in memory of its
// own.
func NewMatrix(t gguf.Type, rows, cols int, src []byte) (*Matrix, error) {
	n, err := MatrixBytes(t, rows, cols)
	if err != nil {
		return nil, err
	}
	p, err := NewPacker(t, rows, cols, make([]byte, n))
	if err != nil {
		return nil, err
	}
	if err := p.Add(src); err != nil {
		return nil, err
	}
	return p.Matrix()
}

// Bytes is the memory that the matrix takes.
func (m *Matrix) Bytes() int { return len(m.data) }

// tiles is the number of tiles; the last one may have lanes without a row.
func (m *Matrix) tiles() int { return (m.Rows + tileLanes - 1) / tileLanes }

// tile returns tile i.
func (m *Matrix) tile(i int) []byte {
	n := m.tileBytes()
	return m.data[i*n : (i+1)*n]
}

func (m *Matrix) tileBytes() int { return m.Cols / m.format.values * m.format.tileBytes }

func (m *Matrix) packTile(i int, rows []byte) {
	f, tile := m.format, m.tile(i)
	for b := range m.Cols / f.values {
		f.pack(tile[b*f.tileBytes:(b+1)*f.tileBytes], rows[b*f.rowBytes:], m.rowBytes)
	}
}

// DecodeRow writes row r, Cols values, to dst.
func (m *Matrix) DecodeRow(dst []float32, r int) {
	f := m.format
	tile := m.tile(r / tileLanes)
	switch f.kind {
	case kindFloat:
		m.decodeFloats(dst, tile, r%tileLanes)
		return
	case kindPair:
		decodePairs(dst[:m.Cols], tile, r%tileLanes)
		return
	default:
	}
	var block [superBlockValues]byte // holds the block of any format
	for b := range m.Cols / f.values {
		unpackBlock(m.Type, block[:f.rowBytes], tile[b*f.tileBytes:(b+1)*f.tileBytes], r%tileLanes)
		Decode(m.Type, dst[b*f.values:(b+1)*f.values], block[:f.rowBytes])
	}
}

// decodeFloats writes a lane of a tile of floats to dst, several columns at a time.
func (m *Matrix) decodeFloats(dst []float32, tile []byte, lane int) {
	const columns = 32
	var block [4 * columns]byte
	size := m.format.rowBytes
	for c := 0; c < m.Cols; c += columns {
		n := min(columns, m.Cols-c)
		from := tile[(c*tileLanes+lane)*size:]
		if size == 4 {
			for i := range n {
				*(*[4]byte)(block[4*i:]) = [4]byte(from[4*tileLanes*i:])
			}
		} else {
			for i := range n {
				*(*[2]byte)(block[2*i:]) = [2]byte(from[2*tileLanes*i:])
			}
		}
		Decode(m.Type, dst[c:c+n], block[:n*size])
	}
}
