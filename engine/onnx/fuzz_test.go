package onnx

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/tensor"
)

// memoryLimit is what loading and running a file of size bytes may allocate: what its
// content takes, and the tensors of the trials.
func memoryLimit(size int) uint64 { return 8*maxTrialBytes + 400*uint64(size) }

// heapAllocated is cheaper than runtime.ReadMemStats, which stops the world.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// exercise loads a file, whatever it is, and runs it on one row and on none. Nothing
// panics; time and memory are bounded.
func exercise(t *testing.T, data []byte) (loaded bool) {
	t.Helper()
	before, began := heapAllocated(), time.Now()
	m, err := Load(data)
	if took := time.Since(began); took > 20*time.Second {
		t.Fatalf("loading %d bytes takes %v", len(data), took)
	}
	if grown := heapAllocated() - before; grown > memoryLimit(len(data)) {
		t.Fatalf("%d bytes allocated for a file of %d", grown, len(data))
	}
	if err != nil {
		return false
	}
	for _, rows := range []int64{0, 1} {
		in := make([]tensor.Tensor, len(m.Inputs()))
		for i, spec := range m.Inputs() {
			in[i] = tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: slices.Clone(spec.Shape)}
			for j, size := range spec.Shape {
				if size == tensor.Any {
					in[i].Shape[j] = rows
				}
			}
			n, err := tensor.Elements(in[i].Shape, 1<<16)
			if err != nil {
				return true
			}
			if spec.Type == tensor.Bytes {
				in[i].Strings = make([][]byte, n)
			} else {
				in[i].Data = aligned(int(n) * spec.Type.Size())
			}
		}
		// A mutant may multiply what it has: the budget of a trial holds it.
		f := m.newFrame()
		f.budget, f.work = maxTrialBytes, maxTrialWork
		if err := m.bind(f, in); err != nil {
			t.Fatal(err)
		}
		out, err := m.run(f)
		if err != nil {
			continue
		}
		for i := range out {
			if n, err := tensor.Elements(out[i].Shape, 1<<40); err != nil || int(n) != elements(&out[i]) {
				t.Fatalf("output of shape %v has %d elements", out[i].Shape, elements(&out[i]))
			}
		}
	}
	return true
}

func FuzzLoad(f *testing.F) {
	reference.Slow(f)
	for _, name := range testModels(f) {
		if data := readModel(f, name); len(data) < 12<<10 {
			f.Add(data)
		}
	}
	for _, data := range operatorModels(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { exercise(t, data) })
}

// TestMutantsOfModels changes models at random places: bits, bytes, lengths, parts cut
// out, doubled or taken from another model. WEIR_MUTANTS sets how many.
func TestMutantsOfModels(t *testing.T) {
	count := 1000
	if s := os.Getenv("WEIR_MUTANTS"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var sources [][]byte
	for _, name := range testModels(t) {
		sources = append(sources, readModel(t, name))
	}
	models := len(sources)
	sources = append(sources, operatorModels(t)...)
	loaded := 0
	for i := range count {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		data := sources[r.IntN(models)]
		if i%2 == 1 {
			data = sources[models+r.IntN(len(sources)-models)]
		}
		other := sources[r.IntN(len(sources))]
		for range 1 + r.IntN(2) {
			data = mutated(r, data, other)
		}
		if exercise(t, data) {
			loaded++
		}
		if i%100 == 99 {
			runtime.GC()
		}
	}
	t.Logf("%d mutants, of which %d load", count, loaded)
	if loaded == 0 || loaded == count {
		t.Errorf("%d of %d mutants load: they change too much or nothing", loaded, count)
	}
}

func mutated(r *rand.Rand, data, other []byte) []byte {
	if len(data) < 2 {
		return data
	}
	data = bytes.Clone(data)
	at := r.IntN(len(data))
	switch r.IntN(12) {
	case 0:
		data[at] ^= 1 << r.IntN(8)
	case 1:
		data[at] = byte(r.Uint32())
	case 2:
		data[at] = []byte{0, 0x7f, 0x80, 0xff}[r.IntN(4)]
	case 3:
		return data[:at]
	case 4:
		end := at + r.IntN(min(64, len(data)-at))
		return slices.Delete(data, at, end)
	case 5:
		end := at + r.IntN(min(64, len(data)-at))
		return slices.Insert(data, at, slices.Clone(data[at:end])...)
	default:
		from := r.IntN(len(other))
		n := min(1+r.IntN(64), len(other)-from, len(data)-at)
		copy(data[at:at+n], other[from:from+n])
	}
	return data
}
