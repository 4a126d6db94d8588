package table

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	maxPageBytes  = 128 << 20 // of a page, decompressed
	maxPageValues = 1 << 21
	maxHeader     = 16 << 20 // of a page: statistics hold two of its values
)

// pages reads the pages of one column in one row group. The library decodes values; headers, compression and levels are read
// here, because it takes memory for what a header promises, and reads some pages wrongly: runs of truth values, and pages of
// LZ4 that are compressed to more than a third.
type pages struct {
	from     io.ReaderAt
	at, end  int64
	codec    format.CompressionCodec
	kind     parquet.Type
	optional bool // levels stand before the values

	buf        []byte // of headers
	dictionary parquet.Dictionary
	held       int64 // bytes of the dictionary
}

// newPages are those of a column chunk in a file of so many bytes.
func newPages(from io.ReaderAt, size int64, m *format.ColumnMetaData, node parquet.Node) (*pages, error) {
	p := &pages{from: from, at: m.DataPageOffset, codec: m.Codec, kind: node.Type(), optional: node.Optional()}
	if m.DictionaryPageOffset != 0 {
		p.at = m.DictionaryPageOffset
	}
	p.end = p.at + m.TotalCompressedSize
	if p.at < 0 || m.TotalCompressedSize < 0 || p.end > size || p.end < p.at {
		return nil, fmt.Errorf("its pages stand at bytes %d to %d of a file of %d", p.at, p.end, size)
	}
	if slices.Contains([]format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Zstd, format.Lz4Raw}, p.codec) {
		return p, nil
	}
	return nil, fmt.Errorf("it is compressed with %v; write it with snappy, gzip, zstd, lz4 or none", p.codec)
}

// errHeld says that the pages of all columns take too much memory together.
var errHeld = fmt.Errorf("the pages of all columns that must be in memory together have more than %d bytes; write smaller pages, or --keep fewer columns", maxHeld)

// next is the values of the next page, and about how many bytes they and the dictionary take, at most so many; io.EOF after the last
// page.
func (p *pages) next(most int64) (values []Value, held int64, err error) {
	for p.at < p.end {
		h, err := p.header()
		if err != nil {
			return nil, 0, err
		}
		uncompressed := int64(h.UncompressedPageSize)
		if held = p.held + uncompressed + valueBytes*countOf(h); held > most {
			return nil, 0, errHeld
		}
		body, err := p.body(h)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
			if err := p.define(&h.DictionaryPageHeader.V, body); err != nil {
				return nil, 0, err
			}
			p.held = uncompressed
		case h.Type == format.DataPage && h.DataPageHeader.Valid:
			values, err = p.dataV1(&h.DataPageHeader.V, body)
			return values, held, err
		case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
			values, err = p.dataV2(&h.DataPageHeaderV2.V, body, uncompressed)
			return values, held, err
		case h.Type == format.IndexPage:
		default:
			return nil, 0, fmt.Errorf("a page is of the type %v, and its header of another", h.Type)
		}
	}
	return nil, 0, io.EOF
}

// valueBytes is the size of a Value.
const valueBytes = 24

// countOf is how many values a page of data says that it has.
func countOf(h *format.PageHeader) int64 {
	switch h.Type {
	case format.DataPage:
		return int64(h.DataPageHeader.V.NumValues)
	case format.DataPageV2:
		return int64(h.DataPageHeaderV2.V.NumValues)
	default:
		return 0
	}
}

// header reads the header of the page at p.at, and goes behind it.
func (p *pages) header() (*format.PageHeader, error) {
	for size := int64(1 << 10); ; size *= 16 {
		size = min(size, p.end-p.at)
		if int64(cap(p.buf)) < size {
			p.buf = make([]byte, size)
		}
		p.buf = p.buf[:size]
		if err := p.read(p.buf, p.at); err != nil {
			return nil, err
		}
		n, err := skimStruct(p.buf)
		if errors.Is(err, errCut) && size < min(p.end-p.at, maxHeader) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the header of a page: %w", err)
		}
		h := new(format.PageHeader)
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), p.buf[:n], h); err != nil {
			return nil, fmt.Errorf("the header of a page: %w", err)
		}
		p.at += int64(n)
		return h, nil
	}
}

func (p *pages) read(into []byte, at int64) error {
	if n, err := p.from.ReadAt(into, at); n < len(into) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

// body reads what follows a header, and goes behind it.
func (p *pages) body(h *format.PageHeader) ([]byte, error) {
	size := int64(h.CompressedPageSize)
	switch {
	case size < 0 || size > p.end-p.at:
		return nil, fmt.Errorf("a page has %d bytes, and its column chunk %d more", size, p.end-p.at)
	case max(h.UncompressedPageSize, h.CompressedPageSize) > maxPageBytes || h.UncompressedPageSize < 0:
		return nil, fmt.Errorf("a page has %d bytes, and at most %d are read; write smaller pages", h.UncompressedPageSize, maxPageBytes)
	}
	body := make([]byte, size)
	if err := p.read(body, p.at); err != nil {
		return nil, err
	}
	p.at += size
	if sum := crc32.ChecksumIEEE(body); h.CRC != 0 && uint32(h.CRC) != sum { //nolint:gosec // the same bits
		return nil, errors.New("a page's checksum is wrong: the file is damaged")
	}
	if h.Type == format.DataPageV2 { // its levels are not compressed
		return body, nil
	}
	return p.decompress(body, int64(h.UncompressedPageSize))
}

// decompress undoes a page's compression, whose result has so many bytes by its header.
func (p *pages) decompress(b []byte, want int64) ([]byte, error) {
	if p.codec == format.Uncompressed || len(b) == 0 {
		return b, nil
	}
	if p.codec == format.Lz4Raw {
		return lz4(make([]byte, 0, want), b)
	}
	n, err := decompressedSize(p.codec, b)
	switch {
	case err != nil:
		return nil, err
	case n > maxPageBytes+maxBlock:
		return nil, errLargePage
	}
	return parquet.LookupCompressionCodec(p.codec).Decode(make([]byte, want), b)
}

// define makes the dictionary.
func (p *pages) define(h *format.DictionaryPageHeader, body []byte) error {
	values, err := p.plain(int(h.NumValues), body, format.Plain)
	if err != nil {
		return fmt.Errorf("its dictionary: %w", err)
	}
	p.dictionary = p.kind.NewDictionary(0, int(h.NumValues), values)
	return nil
}

func (p *pages) dataV1(h *format.DataPageHeader, body []byte) ([]Value, error) {
	defined, n, err := []int32(nil), int(h.NumValues), checkCount(h.NumValues)
	if err == nil && p.optional {
		if h.DefinitionLevelEncoding != format.RLE {
			return nil, fmt.Errorf("its levels have the old encoding %v; write the file again", h.DefinitionLevelEncoding)
		}
		var levels []byte
		if levels, body, err = prefixed(body); err == nil {
			defined, err = runs(levels, 1, n)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.values(n, defined, body, h.Encoding)
}

func (p *pages) dataV2(h *format.DataPageHeaderV2, body []byte, uncompressed int64) ([]Value, error) {
	levels := int64(h.RepetitionLevelsByteLength) + int64(h.DefinitionLevelsByteLength)
	if h.RepetitionLevelsByteLength < 0 || h.DefinitionLevelsByteLength < 0 || levels > int64(len(body)) {
		return nil, io.ErrUnexpectedEOF
	}
	defined, n, err := []int32(nil), int(h.NumValues), checkCount(h.NumValues)
	if err == nil && p.optional && h.DefinitionLevelsByteLength > 0 {
		defined, err = runs(body[h.RepetitionLevelsByteLength:levels], 1, n)
	}
	if body = body[levels:]; err == nil && (!h.IsCompressed.Valid || h.IsCompressed.V) {
		body, err = p.decompress(body, max(uncompressed-levels, 0))
	}
	if err != nil {
		return nil, err
	}
	return p.values(n, defined, body, h.Encoding)
}

func checkCount(n int32) error {
	if n < 0 || n > maxPageValues {
		return fmt.Errorf("a page has %d values, and at most %d are read; write smaller pages", n, maxPageValues)
	}
	return nil
}

// values decodes n values, of which those are missing whose level in defined is 0; nil: none is.
func (p *pages) values(n int, defined []int32, body []byte, e format.Encoding) ([]Value, error) {
	have := n
	for _, level := range defined {
		if level == 0 {
			have--
		}
	}
	values := make([]Value, n)
	if err := p.decode(values[:have], body, e); err != nil || have == n {
		return values, err
	}
	for i, from := n-1, have-1; i >= 0; i-- { // from the end: a value never goes to an earlier place
		if defined[i] == 0 {
			values[i] = Value{}
		} else {
			values[i] = values[from]
			from--
		}
	}
	return values, nil
}

// decode fills dst with the values of a page.
func (p *pages) decode(dst []Value, body []byte, e format.Encoding) error {
	switch {
	case len(dst) == 0:
		return nil
	case e == format.PlainDictionary || e == format.RLEDictionary: //nolint:staticcheck // older writers have it
		return p.look(dst, body)
	case e == format.RLE && p.kind.Kind() == parquet.Boolean:
		text, _, err := prefixed(body)
		if err != nil {
			return err
		}
		truths, err := runs(text, 1, len(dst))
		for i := range truths {
			dst[i] = parquet.BooleanValue(truths[i] != 0)
		}
		return err
	}
	if e == format.DeltaBinaryPacked && p.kind.Kind() == parquet.Int32 {
		return decodeDelta32(dst, body)
	}
	values, err := p.plain(len(dst), body, e)
	if err != nil {
		return err
	}
	n, err := p.kind.NewPage(0, len(dst), values).Values().ReadValues(dst)
	if n == len(dst) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("a page has %d of %d values", n, len(dst)))
}
