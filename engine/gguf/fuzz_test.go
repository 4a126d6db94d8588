package gguf

import (
	"bytes"
	"errors"
	"runtime/metrics"
	"testing"
)

// FuzzParse checks on any bytes what the package promises: no panic, memory in
// proportion to the file, errors that wrap a sentinel, tensors that can be read
// in full; and a file that parses can be built again with the same content.
func FuzzParse(f *testing.F) {
	for _, seed := range fuzzSeeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := heapAllocated()
		file, err := parseBytes(data)
		// Other goroutines of the fuzzer allocate too, hence the slack.
		if grown := heapAllocated() - before; grown > 8<<20+memoryLimit(len(data)) {
			t.Fatalf("%d bytes allocated for a file of %d", grown, len(data))
		}
		if err != nil {
			checkSentinel(t, err)
			return
		}
		readEverything(t, file, len(data))
		rebuild(t, file)
	})
}

func fuzzSeeds(f *testing.F) [][]byte {
	whole := built(f, small())
	old := small()
	old.Version = 2
	old.Set(alignmentKey, uint32(64))
	seeds := [][]byte{nil, whole, built(f, old), whole[:len(whole)/2], whole[:100]}
	seeds = append(seeds,
		header(3, 3, 0).tensor("a", 16, 0, 256).tensor("b", 97, 96, 8).tensor("c", TypeF32, 160, 8).data(192).b,
		header(3, 1, 1).kv(alignmentKey, valueUint32).u32(1<<31).tensor("s", TypeF32, 0).data(4).b,
		header(3, 0, 1).kv("k", valueArray).u32(uint32(valueString)).u64(1<<40).str("x").b)
	for at := 4; at < 24; at += 3 { // mutations of the counts
		seed := bytes.Clone(whole)
		seed[at] ^= 0x81
		seeds = append(seeds, seed)
	}
	return seeds
}

// heapAllocated is cheaper than runtime.ReadMemStats, which stops the world.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func checkSentinel(t *testing.T, err error) {
	t.Helper()
	for _, s := range []error{ErrFormat, ErrVersion, ErrByteOrder, ErrTruncated, ErrSplit, ErrValue} {
		if errors.Is(err, s) {
			return
		}
	}
	t.Fatalf("error without a sentinel: %v", err)
}

// readEverything calls what a loader calls.
func readEverything(t *testing.T, file *File, fileBytes int) {
	t.Helper()
	for i := range file.Tensors {
		tensor := &file.Tensors[i]
		if tensor.Bytes < 0 || tensor.Bytes > int64(fileBytes) {
			t.Fatalf("tensor %q of %d bytes in a file of %d", tensor.Name, tensor.Bytes, fileBytes)
		}
		err := file.ReadTensor(tensor, make([]byte, tensor.Bytes))
		if (err == nil) != tensor.Type.Supported() {
			t.Fatalf("read tensor %q of type %v: %v", tensor.Name, tensor.Type, err)
		}
		_, _ = tensor.Rows(), tensor.RowBytes()
	}
	for _, kv := range file.KV {
		_, _, intErr := file.Int(kv.Key)
		_, _, uintErr := file.Uint(kv.Key)
		_, _, listErr := file.Ints(kv.Key)
		_, _, textErr := file.Strings(kv.Key)
		if intErr == nil && listErr == nil || uintErr == nil && textErr == nil {
			t.Fatalf("%s is both a number and an array", kv.Key)
		}
	}
	if _, err := file.Digest(); err != nil {
		t.Fatal(err)
	}
	file.ParamCount()
}

// rebuild writes file again; both must have the same metadata and tensors,
// which is compared on bytes, since NaNs are not equal to themselves.
func rebuild(t *testing.T, file *File) {
	t.Helper()
	first, ok := buildFrom(t, file)
	if !ok {
		return
	}
	again, err := parseBytes(first)
	if err != nil {
		t.Fatalf("a rebuilt file does not parse: %v", err)
	}
	second, _ := buildFrom(t, again)
	if !bytes.Equal(first, second) {
		t.Fatal("a rebuilt file has other content")
	}
}

// buildFrom copies file; ok is false where that would need tensors that cannot
// be read, or huge padding.
func buildFrom(t *testing.T, file *File) (data []byte, ok bool) {
	t.Helper()
	if file.Alignment > 4096 {
		return nil, false
	}
	b := &Builder{Version: file.Version}
	for _, kv := range file.KV {
		b.Set(kv.Key, kv.Value)
	}
	for i := range file.Tensors {
		tensor := &file.Tensors[i]
		if !tensor.Type.Supported() {
			return nil, false
		}
		raw := make([]byte, tensor.Bytes)
		if err := file.ReadTensor(tensor, raw); err != nil {
			t.Fatal(err)
		}
		b.Tensor(tensor.Name, tensor.Dims, tensor.Type, raw)
	}
	return built(t, b), true
}
