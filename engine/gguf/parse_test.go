package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// raw assembles headers that a Builder refuses to write.
type raw struct{ b []byte }

func header(version uint32, tensors, kv uint64) *raw {
	r := &raw{b: []byte(magic)}
	return r.u32(version).u64(tensors).u64(kv)
}

func (r *raw) u8(v uint8) *raw   { r.b = append(r.b, v); return r }
func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.b = appendString(r.b, s); return r }
func (r *raw) kv(key string, t valueType) *raw {
	return r.str(key).u32(uint32(t))
}

func (r *raw) tensor(name string, t Type, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// data pads the header and appends n bytes.
func (r *raw) data(n int) *raw {
	r.b = append(r.b, make([]byte, int(padded(uint64(len(r.b)), 32))-len(r.b)+n)...)
	return r
}

func parseBytes(b []byte) (*File, error) { return Parse(bytes.NewReader(b), int64(len(b))) }

// small is a valid model with a value of every metadata type.
func small() *Builder {
	b := &Builder{}
	b.Set("general.architecture", "llama")
	b.Set("u8", uint8(200))
	b.Set("i8", int8(-3))
	b.Set("u16", uint16(60000))
	b.Set("i16", int16(-30000))
	b.Set("u32", uint32(4e9))
	b.Set("i32", int32(-2e9))
	b.Set("u64", uint64(math.MaxUint64))
	b.Set("i64", int64(math.MinInt64))
	b.Set("f32", float32(1.5))
	b.Set("f64", 2.25)
	b.Set("yes", true)
	b.Set("no", false)
	b.Set("empty", "")
	b.Set("u8s", []uint8{1, 2})
	b.Set("i8s", []int8{-1, 2})
	b.Set("u16s", []uint16{1, 65535})
	b.Set("i16s", []int16{-1, 2})
	b.Set("u32s", []uint32{1, 2, 3})
	b.Set("i32s", []int32{-1, 2, 3})
	b.Set("u64s", []uint64{1, 2})
	b.Set("i64s", []int64{-1, 2})
	b.Set("f32s", []float32{0.5, -0.25})
	b.Set("f64s", []float64{0.5, -0.25})
	b.Set("bools", []bool{true, false, true})
	b.Set("strings", []string{"a", "", "Grüße", strings.Repeat("x", 300)})
	b.Set("none", []string{})
	b.TensorF32("token_embd.weight", []uint64{3, 2}, []float32{1, 2, 3, 4, 5, 6})
	b.Tensor("blk.0.attn_q.weight", []uint64{64, 2}, TypeQ8_0, bytes.Repeat([]byte{7}, 4*34))
	b.Tensor("blk.0.ffn_up.weight", []uint64{256, 1, 1, 1}, TypeQ4K, bytes.Repeat([]byte{9}, 144))
	return b
}

func built(t testing.TB, b *Builder) []byte {
	t.Helper()
	data, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseReadsWhatBuilderWrote(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		for _, align := range []uint32{1, 8, 32, 4096} {
			b := small()
			b.Version = version
			b.Set(alignmentKey, align)
			data := built(t, b)
			f, err := parseBytes(data)
			if err != nil {
				t.Fatalf("version %d, alignment %d: %v", version, align, err)
			}
			if f.Version != version || f.Alignment != align || f.FileBytes() != int64(len(data)) {
				t.Errorf("version %d, alignment %d, %d bytes", f.Version, f.Alignment, f.FileBytes())
			}
			if !reflect.DeepEqual(f.KV, b.kv) {
				t.Errorf("metadata\n%v\nwant\n%v", f.KV, b.kv)
			}
			checkTensors(t, f, b)
		}
	}
}

func checkTensors(t *testing.T, f *File, b *Builder) {
	t.Helper()
	if len(f.Tensors) != len(b.tensors) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors), len(b.tensors))
	}
	for i := range b.tensors {
		want := &b.tensors[i]
		have, ok := f.Tensor(want.Name)
		if !ok || !reflect.DeepEqual(have.Dims, want.Dims) || have.Type != want.Type {
			t.Fatalf("tensor %q is %+v", want.Name, have)
		}
		if have.Offset%int64(f.Alignment) != 0 {
			t.Errorf("tensor %q begins at %d, alignment %d", have.Name, have.Offset, f.Alignment)
		}
		data := make([]byte, have.Bytes)
		if err := f.ReadTensor(have, data); err != nil || !bytes.Equal(data, want.data) {
			t.Errorf("tensor %q: %v, data %v", have.Name, err, data)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const huge = uint64(1) << 62
	one := func() *raw { return header(3, 1, 0) }
	kv := func() *raw { return header(3, 0, 1) }
	for _, c := range []struct {
		name string
		data *raw
		want error
		says string // the error must name it
	}{
		{"no bytes", &raw{}, ErrTruncated, "magic"},
		{"three bytes", &raw{b: []byte("GGU")}, ErrTruncated, "magic"},
		{"magic alone (CVE-2024-39720)", &raw{b: []byte("GGUF")}, ErrTruncated, "version"},
		{"cut counts", &raw{b: header(3, 0, 0).b[:23]}, ErrTruncated, "metadata count"},
		{"foreign magic", &raw{b: []byte("ELF\x7f and more bytes than a header")}, ErrFormat, `"ELF\x7f"`},
		{"Git LFS pointer", &raw{b: []byte("version https://git-lfs.github.com/spec/v1\n")}, ErrFormat, "git lfs pull"},
		{"old GGML file", &raw{b: []byte("lmgg, and then some")}, ErrFormat, "convert it to GGUF"},
		{"version 0", header(0, 0, 0), ErrVersion, "version 0"},
		{"version 1", header(1, 0, 0), ErrVersion, "version 1"},
		{"version 4", header(4, 0, 0), ErrVersion, "version 4"},
		{"big endian", header(0x03000000, 0, 0), ErrByteOrder, "0x03000000"},

		{"more tensors than bytes", header(3, 1000, 0), ErrTruncated, "tensor count 1000"},
		{"2^62 tensors", header(3, huge, 0), ErrTruncated, "tensor count"},
		{"negative tensor count", header(3, 1<<63, 0), ErrFormat, "tensor count is -"},
		{"more metadata than bytes", header(3, 0, 1000), ErrTruncated, "metadata count 1000"},
		{"2^62 metadata entries", header(3, 0, huge), ErrTruncated, "metadata count"},
		{"negative metadata count", header(3, 0, math.MaxUint64), ErrFormat, "metadata count is -1"},

		{"empty key", kv().kv("", valueUint8).u8(1).u64(0), ErrFormat, "empty key"},
		{"key longer than the file", kv().u64(huge).u64(0), ErrTruncated, "metadata entry 0"},
		{"key of 2^64-1 bytes", kv().u64(math.MaxUint64).u64(0), ErrTruncated, "metadata key"},
		{"key above 64 KiB", kv().kv(strings.Repeat("k", 65536), valueUint8).u8(1), ErrFormat, "65536 bytes"},
		{"duplicate key", header(3, 0, 2).kv("k", valueUint8).u8(1).kv("k", valueUint8).u8(2), ErrFormat, `"k" occurs twice`},
		{"value type 13", kv().kv("k", 13).u64(0), ErrFormat, `"k": malformed GGUF file: value type 13`},
		{"value type 2^32-1", kv().kv("k", math.MaxUint32).u64(0), ErrFormat, "value type 4294967295"},
		{"bool of 2", kv().kv("k", valueBool).u8(2), ErrFormat, "bool is 2"},
		{"cut value", kv().kv("k", valueUint64).u32(1), ErrTruncated, `"k"`},
		{"string longer than the file (ollama 17042)", kv().kv("k", valueString).u64(1 << 40), ErrTruncated, "1099511627776 bytes"},
		{"string of 2^64-1 bytes", kv().kv("k", valueString).u64(math.MaxUint64), ErrTruncated, `"k"`},
		{"array of 2^62 bytes", kv().kv("k", valueArray).u32(uint32(valueUint8)).u64(huge), ErrTruncated, "array of"},
		{"array size overflow", kv().kv("k", valueArray).u32(uint32(valueUint64)).u64(1 << 61), ErrTruncated, "array of"},
		{"array size wraps to 8", kv().kv("k", valueArray).u32(uint32(valueUint64)).u64(1<<61 + 1).u64(0), ErrTruncated, "array of"},
		{"string array of 2^61", kv().kv("k", valueArray).u32(uint32(valueString)).u64(1<<61 + 1).u64(0), ErrTruncated, "array of"},
		{"string array longer than the file", kv().kv("k", valueArray).u32(uint32(valueString)).u64(3).str("").str(""), ErrTruncated,
			"array of 3 strings"},
		{"cut string in an array", kv().kv("k", valueArray).u32(uint32(valueString)).u64(2).str("a").u64(9), ErrTruncated,
			"string 1 of 2"},
		{"array of arrays", kv().kv("k", valueArray).u32(uint32(valueArray)).u64(1).u64(0), ErrFormat, "array of arrays"},
		{"array of value type 13", kv().kv("k", valueArray).u32(13).u64(1).u64(0), ErrFormat, "array of value type 13"},
		{"array with a bool of 3", kv().kv("k", valueArray).u32(uint32(valueBool)).u64(2).u8(1).u8(3), ErrFormat,
			"bool 1 of the array is 3"},

		{"alignment 0 (CVE-2025-0317)", kv().kv(alignmentKey, valueUint32).u32(0), ErrFormat, "general.alignment is 0"},
		{"alignment 3", kv().kv(alignmentKey, valueUint32).u32(3), ErrFormat, "general.alignment is 3"},
		{"alignment of another type", kv().kv(alignmentKey, valueUint64).u64(32), ErrFormat, "type uint64"},

		{"empty tensor name", one().tensor("", TypeF32, 0, 1).data(32), ErrFormat, "tensor 0 has an empty name"},
		{"tensor name of 64 bytes", one().tensor(strings.Repeat("n", 64), TypeF32, 0, 1).data(32), ErrFormat, "64 bytes"},
		{"tensor name longer than the file (CVE-2024-12055)", one().u64(huge).u64(0).u64(0).u64(0), ErrTruncated, "tensor name"},
		{"duplicate tensor", header(3, 2, 0).tensor("t", TypeF32, 0, 8).tensor("t", TypeF32, 32, 8).data(64), ErrFormat,
			`"t" occurs twice`},
		{"five dimensions", one().tensor("t", TypeF32, 0, 1, 1, 1, 1, 1).data(32), ErrFormat, "5 dimensions"},
		{"2^32-1 dimensions", one().str("t").u32(math.MaxUint32).u64(1).u64(1), ErrFormat, "4294967295 dimensions"},
		{"dimension 0 (llama.cpp 18586)", one().tensor("t", TypeF32, 0, 4, 0).data(32), ErrFormat, "dimension 1 is 0"},
		{"row of 0", one().tensor("t", TypeQ4K, 0, 0).data(32), ErrFormat, "dimension 0 is 0"},
		{"negative dimension", one().tensor("t", TypeF32, 0, 4, math.MaxUint64).data(32), ErrFormat, "dimension 1 is -1"},
		{"elements wrap to 0 (CVE-2026-33298)", one().tensor("t", TypeF32, 0, 1<<32, 1<<32).data(32), ErrFormat, "2^63 elements"},
		{"elements wrap to 8 (CVE-2025-53630)", one().tensor("t", TypeF32, 0, 1<<62+2, 4).data(32), ErrFormat, "2^63 elements"},
		{"bytes wrap to 16 (CVE-2026-27940)", one().tensor("t", TypeF32, 0, 1<<62+4).data(32), ErrFormat, "2^63 bytes"},
		{"bytes above 2^63", one().tensor("t", TypeF32, 0, 1<<61).data(32), ErrFormat, "2^63 bytes"},
		{"bytes near 2^63", one().tensor("t", TypeF32, 0, 1<<61-1).data(32), ErrTruncated, `"t" needs bytes`},
		{"row is not whole blocks", one().tensor("t", TypeQ4K, 0, 255).data(4096), ErrFormat,
			"255 elements are not whole blocks of Q4_K (256)"},
		{"negative tensor type", one().tensor("t", Type(math.MaxUint32), 0, 1).data(32), ErrFormat, "negative type id -1"},
		{"cut tensor", &raw{b: one().tensor("tensor", TypeF32, 0, 1, 2).b[:56]}, ErrTruncated, `tensor "tensor"`},

		{"first offset not 0", one().tensor("t", TypeF32, 32, 8).data(64), ErrFormat, "begins at byte 32"},
		{"offset not aligned", one().tensor("t", TypeF32, 4, 1).data(64), ErrFormat, "begins at byte 4"},
		{"offset above 2^63", one().tensor("t", TypeF32, 1<<63, 1).data(64), ErrFormat, "above 2^63"},
		{"overlap", header(3, 2, 0).tensor("a", TypeF32, 0, 16).tensor("b", TypeF32, 32, 8).data(128), ErrFormat,
			`"b" begins at byte 32 of the data, expected 64`},
		{"hole", header(3, 2, 0).tensor("a", TypeF32, 0, 8).tensor("b", TypeF32, 64, 8).data(128), ErrFormat,
			`"b" begins at byte 64 of the data, expected 32`},
		{"padding of another alignment", header(3, 2, 1).kv(alignmentKey, valueUint32).u32(64).tensor("a", TypeF32, 0, 8).
			tensor("b", TypeF32, 32, 8).data(128), ErrFormat, "alignment 64"},
		{"overlap after a type of unknown size",
			header(3, 3, 0).tensor("a", TypeF32, 0, 16).tensor("b", 97, 64, 8).tensor("c", TypeF32, 32, 8).data(256), ErrFormat,
			`"c" begins at byte 32`},
		{"data beyond the file (CVE-2026-7482)", one().tensor("t", TypeF32, 0, 1024).data(4095), ErrTruncated, `"t" needs bytes`},
		{"no data at all", &raw{b: one().tensor("t", TypeF32, 0, 1).b}, ErrTruncated, `"t" needs bytes`},
		{"part of a split model", header(3, 0, 2).kv(splitCountKey, valueUint16).u8(3).u8(0).kv(splitNoKey, valueUint16).u8(1).u8(0),
			ErrSplit, "file 2 of 3"},
		{"split number beyond the count", header(3, 0, 2).kv(splitCountKey, valueUint16).u8(3).u8(0).
			kv(splitNoKey, valueUint16).u8(3).u8(0), ErrSplit, "split.no is 3"},
		{"split count of another type", kv().kv(splitCountKey, valueString).str("two"), ErrValue, "split.count is of type string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			allocated := bytesAllocated(func() { _, err = parseBytes(c.data.b) })
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v\nwant %v that says %q", err, c.want, c.says)
			}
			if limit := memoryLimit(len(c.data.b)); allocated > limit {
				t.Errorf("%d bytes allocated for a file of %d", allocated, len(c.data.b))
			}
		})
	}
}

// memoryLimit is the most that the package promises to allocate: a small multiple
// of the bytes of the file, and a constant for buffers and errors.
func memoryLimit(fileBytes int) uint64 { return 64<<10 + 24*uint64(fileBytes) }

func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The smallest records cost the most memory per byte of the file.
func TestParseOfManySmallRecordsIsBounded(t *testing.T) {
	const n = 50000
	keys, tensors, empty := header(3, 0, n), header(3, n, 0), header(3, 0, 1).kv("k", valueArray).u32(uint32(valueString)).u64(n)
	for i := range n {
		name := strconv.FormatInt(int64(i), 36)
		keys.kv(name, valueUint8).u8(1)
		tensors.tensor(name, 4, uint64(i)*32)
		empty.str("")
	}
	for what, data := range map[string][]byte{"keys": keys.b, "tensors": tensors.data(32 * n).b, "strings": empty.b} {
		var err error
		allocated := bytesAllocated(func() { _, err = parseBytes(data) })
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if limit := memoryLimit(len(data)); allocated > limit {
			t.Errorf("%s: %d bytes allocated for a file of %d, limit %d", what, allocated, len(data), limit)
		}
		t.Logf("%s: %.1f bytes allocated per byte of the file", what, float64(allocated)/float64(len(data)))
	}
}

// A sparse file takes no space on disk, whatever its size.
func TestParseBoundsTheHeaderOfSparseFiles(t *testing.T) {
	for name, data := range map[string]*raw{
		"string":           header(3, 0, 1).kv("k", valueString).u64(1 << 38),
		"array of numbers": header(3, 0, 1).kv("k", valueArray).u32(uint32(valueUint32)).u64(1 << 36),
		"array of strings": header(3, 0, 1).kv("k", valueArray).u32(uint32(valueString)).u64(1 << 35),
		"metadata count":   header(3, 0, 1<<33),
		"tensor count":     header(3, 1<<33, 0),
	} {
		var err error
		allocated := bytesAllocated(func() { _, err = Parse(sparse{data.b}, 1<<40) })
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "128 MiB") {
			t.Errorf("%s: error %v, want one that names the limit", name, err)
		}
		if allocated > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, allocated)
		}
	}
}

// sparse is a file that continues with zeros without end.
type sparse struct{ head []byte }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	return len(p), nil
}

func TestParseReportsReadErrors(t *testing.T) {
	data := built(t, small())
	broken := errors.New("input/output error")
	for n := range int64(len(data)) {
		if n%97 != 0 {
			continue
		}
		if _, err := Parse(failing{bytes.NewReader(data), n, broken}, int64(len(data))); n < 1000 && !errors.Is(err, broken) {
			t.Fatalf("reading fails at byte %d: %v", n, err)
		}
		if _, err := Parse(failing{bytes.NewReader(data), n, io.EOF}, int64(len(data))); n < 1000 && !errors.Is(err, ErrTruncated) {
			t.Fatalf("the file shrinks to %d bytes: %v", n, err)
		}
	}
}

// failing serves the first n bytes, then err.
type failing struct {
	r   io.ReaderAt
	n   int64
	err error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= f.n {
		return f.r.ReadAt(p, off)
	}
	if off >= f.n {
		return 0, f.err
	}
	n, err := f.r.ReadAt(p[:f.n-off], off)
	return n, errors.Join(err, f.err)
}

func TestParseRefusesEveryPrefix(t *testing.T) {
	data := built(t, small())
	for n := range data {
		_, err := parseBytes(data[:n])
		if err == nil {
			// What may be missing is the padding after the last tensor.
			if n < len(data)-16 {
				t.Fatalf("first %d of %d bytes parse", n, len(data))
			}
		} else if !errors.Is(err, ErrTruncated) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
}

func TestParseKeepsTypesThatCannotBeLoaded(t *testing.T) {
	b := header(3, 3, 0).tensor("known", 16, 0, 256).tensor("unknown", 97, 96, 8).tensor("last", TypeF32, 160, 8).data(192)
	f, err := parseBytes(b.b)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		bytes int64
		says  string
	}{{66, "IQ2_XXS (id 16)"}, {0, "type 97 (id 97)"}} {
		tensor := &f.Tensors[i]
		if tensor.Bytes != want.bytes {
			t.Errorf("%s: %d bytes, want %d", tensor.Name, tensor.Bytes, want.bytes)
		}
		err := f.ReadTensor(tensor, make([]byte, tensor.Bytes))
		if !errors.Is(err, ErrUnsupportedType) || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), "MXFP4") {
			t.Errorf("%s: error %v, want one that names %s and the supported types", tensor.Name, err, want.says)
		}
	}
	last, _ := f.Tensor("last")
	if err := f.ReadTensor(last, make([]byte, 32)); err != nil {
		t.Error(err)
	}
}

func TestParseGivesScalarsOneDimension(t *testing.T) {
	f, err := parseBytes(header(3, 1, 0).tensor("s", TypeF32, 0).data(4).b)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Tensors[0]; len(s.Dims) != 1 || s.Dims[0] != 1 || s.Bytes != 4 || s.Rows() != 1 {
		t.Errorf("scalar is %+v", s)
	}
}

func TestReadTensorChecksItsBuffer(t *testing.T) {
	f, err := parseBytes(built(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	tensor, _ := f.Tensor("token_embd.weight")
	if err := f.ReadTensor(tensor, make([]byte, 23)); !errors.Is(err, ErrValue) {
		t.Errorf("short buffer: %v", err)
	}
	for _, c := range []struct {
		n   int
		off int64
	}{{1, 24}, {25, 0}, {1, -1}, {0, 25}, {1, math.MaxInt64}} {
		if err := f.ReadTensorAt(tensor, make([]byte, c.n), c.off); !errors.Is(err, ErrValue) {
			t.Errorf("%d bytes at %d: %v", c.n, c.off, err)
		}
	}
	row := make([]byte, tensor.RowBytes())
	if err := f.ReadTensorAt(tensor, row, tensor.RowBytes()); err != nil ||
		math.Float32frombits(binary.LittleEndian.Uint32(row)) != 4 {
		t.Errorf("second row: %v, %v", row, err)
	}
	foreign := *tensor
	foreign.Split = 5
	if err := f.ReadTensor(&foreign, make([]byte, 24)); !errors.Is(err, ErrValue) {
		t.Errorf("tensor of another file: %v", err)
	}
}

func TestFileThatShrinksAfterOpenIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := small().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	last := &f.Tensors[len(f.Tensors)-1]
	if err := os.Truncate(path, last.Offset+3); err != nil {
		t.Fatal(err)
	}
	if err := f.ReadTensor(last, make([]byte, last.Bytes)); !errors.Is(err, ErrTruncated) {
		t.Errorf("read of a cut tensor: %v", err)
	}
	if _, err := f.Digest(); !errors.Is(err, ErrTruncated) {
		t.Errorf("digest of a cut file: %v", err)
	}
}

func TestCounts(t *testing.T) {
	f, err := parseBytes(built(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	if n := f.ParamCount(); n != 6+128+256 {
		t.Errorf("%d parameters", n)
	}
	q, _ := f.Tensor("blk.0.attn_q.weight")
	if q.Elements() != 128 || q.Rows() != 2 || q.RowBytes() != 68 || q.Bytes != 136 {
		t.Errorf("%d elements, %d rows of %d bytes, %d bytes", q.Elements(), q.Rows(), q.RowBytes(), q.Bytes)
	}
	if _, ok := f.Tensor("blk.1.attn_q.weight"); ok {
		t.Error("found a tensor that is not there")
	}
}

// The vocabulary of a large model is parsed in one pass with few allocations.
func BenchmarkParseVocabulary(b *testing.B) {
	tokens, merges := make([]string, 128<<10), make([]string, 280<<10)
	for i := range tokens {
		tokens[i] = strings.Repeat("t", 1+i%12)
	}
	for i := range merges {
		merges[i] = strings.Repeat("m", 3+i%9)
	}
	var model Builder
	model.Set("tokenizer.ggml.tokens", tokens)
	model.Set("tokenizer.ggml.merges", merges)
	model.Set("tokenizer.ggml.token_type", make([]int32, len(tokens)))
	data := built(b, &model)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseBytes(data); err != nil {
			b.Fatal(err)
		}
	}
}
