package table

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// What a few bytes become is found out before they become it.
func TestBombsAreSeenBeforeTheyGoOff(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58} // a frame of zstd without its size
	for range 2000 {
		frame = append(frame, 0x02, 0x00, 0x10, 'x') // 128 KiB of one byte
	}
	frame[len(frame)-4] |= 1 // the last one
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	_, _ = z.Write(make([]byte, 1<<20)) // into memory
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	match := slices.Concat([]byte{0x1f, 'x', 1, 0}, bytes.Repeat([]byte{255}, 600_000), []byte{0, 0x10, 'x'})
	for codec, b := range map[format.CompressionCodec][]byte{
		format.Zstd: frame, format.Gzip: bytes.Repeat(member.Bytes(), 140), format.Snappy: binary.AppendUvarint(nil, 1<<31),
	} {
		if n, err := decompressedSize(codec, b); err != nil || n <= maxPageBytes+maxBlock {
			t.Errorf("%v: %d bytes of %d, %v", codec, n, len(b), err)
		}
	}
	for codec, b := range map[format.CompressionCodec][]byte{
		format.Zstd: frame[:len(frame)-1], format.Snappy: {0xff},
	} {
		if _, err := decompressedSize(codec, b); err == nil {
			t.Errorf("%v: damaged bytes have a size", codec)
		}
	}
	for _, b := range [][]byte{match, {0x1f, 'x', 2, 0, 0}, {0x1f, 'x', 1, 0}, {0xf0}, {0x20, 'x'}} {
		if out, err := lz4(nil, b); err == nil {
			t.Errorf("LZ4: %d bytes of %d", len(out), len(b))
		}
	}
	list := []byte{0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07} // two thousand million structures, of which none is there
	if _, err := skimStruct(list); err == nil {
		t.Error("a list without elements is read")
	}
	if _, err := skimStruct(bytes.Repeat([]byte{0x1c}, 1000)); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Error(err)
	}
	if err := checkDelta(10, binary.AppendUvarint([]byte{128, 1, 4}, 1<<30)); err == nil {
		t.Error("a page of ten values has a thousand million differences")
	}
	if _, err := runs([]byte{3}, 1, 8); err == nil {
		t.Error("eight bits are read of none")
	}
}

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		b        []byte
		width, n int
		want     string
	}{
		{[]byte{10, 1, 5, 0b00000101, 0b11111111, 4, 0}, 1, 23, "[1 1 1 1 1 1 0 1 0 0 0 0 0 1 1 1 1 1 1 1 1 0 0]"},
		{[]byte{3, 0b10001000, 0b11000110, 0b11111010}, 3, 7, "[0 1 2 3 4 5 6]"},
		{[]byte{6, 0x01, 0x02}, 12, 3, "[513 513 513]"},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x0e}, 0, 3, "[0 0 0]"},
		{[]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}, 32, 2, "[67305985 134678021]"},
	} {
		got, err := runs(c.b, c.width, c.n)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%v: %v, %v", c.b, got, err)
		}
	}
}

// FuzzParquet: damaged files are errors, and take little memory and time, whatever they promise.
func FuzzParquet(f *testing.F) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	var small bytes.Buffer
	if err := parquet.Write(&small, []struct {
		ID string `parquet:"id,zstd,dict"`
		X  *float64
		B  bool
	}{{"a", nil, true}, {"b", new(float64), false}}); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	path := filepath.Join(f.TempDir(), "x.parquet")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		withinMemory(t, func() { readSome(path, Options{}) })
	})
}

// FuzzCSV: any bytes are rows or an error.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "a\n\"x\n", "\x1f\x8b", "\x28\xb5\x2f\xfd\x00\x58\x02\x00\x10x", "a;b\r\n1;\r\n", "\xef\xbb\xbfa\n\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		withinMemory(t, func() { readSome(Stdin, Options{Stdin: bytes.NewReader(data)}) })
	})
}

// readSome reads at most so many rows as the file of a test has.
func readSome(path string, o Options) {
	s, err := Open([]string{path}, o)
	if err != nil {
		return
	}
	defer s.Close()
	for range 64 {
		c, err := s.Next()
		if err != nil {
			return
		}
		for i, values := range c.Columns {
			for _, v := range values {
				_, _ = s.Columns()[i].Float(v)
				_, _ = s.Columns()[i].Format(v) // some types have no text
			}
		}
	}
}

// withinMemory fails where a call allocates more than a page and a decoder may take.
func withinMemory(t *testing.T, call func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 2<<30 {
		t.Errorf("%d bytes were allocated", taken)
	}
}
