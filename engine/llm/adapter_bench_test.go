package llm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/kvcache"
)

// BenchmarkAdapters times steps of sixteen sequences without adapters and with eight, by turns, on the file named by WEIR_BENCH_MODEL;
// none/eight is the share of the speed that is left.
//
//	WEIR_BENCH_MODEL=model.gguf go test ./engine/llm -run - -bench Adapters -benchtime 40x
func BenchmarkAdapters(b *testing.B) {
	f := benchFile(b)
	m := loadBenchModel(b, f)
	c := kernel.NewCPU((&Options{}).threads(), isa.Best())
	defer c.Close()
	kv, err := attend.NewPages(m.cacheShape.sized(attend.KVF16, 16, 1025).Tables)
	if err != nil {
		b.Fatal(err)
	}
	defer kv.Close()
	for _, with := range []struct {
		name    string
		typ     gguf.Type
		tensors []string
	}{
		{"F16/all", gguf.TypeF16, nil},
		{"F16/qv", gguf.TypeF16, []string{"attn_q", "attn_v"}},
		{"F32/all", gguf.TypeF32, nil},
	} {
		b.Run(with.name, func(b *testing.B) {
			var eight []*adapter
			for i := range 8 {
				eight = append(eight, randomAdapter(b, m, f, with.typ, 16, uint64(i), with.tensors))
			}
			for _, rows := range []int{1, 16} {
				b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchAdapters(b, m, c, kv, eight, rows) })
			}
		})
	}
}

// randomAdapter is an adapter of random values.
func randomAdapter(b *testing.B, m *model, f *gguf.File, typ gguf.Type, rank int, seed uint64, tensors []string) *adapter {
	file, r := &gguf.Builder{}, rand.New(rand.NewPCG(seed, 1))
	file.Set("general.type", "adapter")
	file.Set("general.architecture", m.arch.name)
	file.Set("adapter.type", "lora")
	add := func(name string, cols, rows int) {
		data := make([]byte, 0, 4*rows*cols)
		for range rows * cols {
			v := (r.Float32() - 0.5) / 16
			if typ == gguf.TypeF16 {
				data = binary.LittleEndian.AppendUint16(data, vector.F32ToF16(v))
			} else {
				data = append(data, vector.Bytes([]float32{v})...)
			}
		}
		file.Tensor(name, []uint64{uint64(cols), uint64(rows)}, typ, data)
	}
	for _, name := range slices.Sorted(maps.Keys((&adapterFile{model: m}).adaptable())) {
		if len(tensors) > 0 && !slices.ContainsFunc(tensors, func(part string) bool { return strings.Contains(name, part) }) {
			continue
		}
		base, _ := f.Tensor(name + ".weight")
		add(name+".weight"+lowA, int(base.Dims[0]), rank)
		add(name+".weight"+lowB, rank, int(base.Dims[1]))
	}
	data, err := file.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	a, err := readAdapter(m, parse(b, data), AdapterOptions{Name: "a"}, 0)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// benchAdapters times steps of rows that are one each of a sequence.
func benchAdapters(b *testing.B, m *model, c *kernel.CPU, kv *attend.Pages, eight []*adapter, rows int) {
	var plain, with batch
	for s := range rows {
		blocks := make([]kvcache.BlockID, 8)
		for i := range blocks {
			blocks[i] = kvcache.BlockID(8*s + i + 1)
		}
		for _, t := range []*batch{&plain, &with} {
			row := t.add([]int32{int32(1000 + 29*s)}, 127, 16, blocks)
			t.output = append(t.output, row)
		}
		with.adapted = with.adapted.add(s, s+1, eight[s*len(eight)/rows])
	}
	out := make([]float32, rows*m.vocab)
	step := func(t *batch, spent *time.Duration) time.Duration {
		begin, used := time.Now(), cpuTime()
		m.forward(c, kv, t)
		m.logits(c, out, t.hidden, rows)
		*spent += cpuTime() - used
		return time.Since(begin)
	}
	var none, all []time.Duration
	var noneCPU, allCPU time.Duration
	for b.Loop() {
		none, all = append(none, step(&plain, &noneCPU)), append(all, step(&with, &allCPU))
	}
	slices.Sort(none)
	slices.Sort(all)
	x, y := none[len(none)/2], all[len(all)/2]
	b.ReportMetric(float64(x.Microseconds())/1e3, "none-ms")
	b.ReportMetric(float64(y.Microseconds())/1e3, "eight-ms")
	b.ReportMetric(float64(x)/float64(y), "none/eight")
	b.ReportMetric(float64(noneCPU)/float64(allCPU), "none/eight-cpu")
}

// cpuTime is what the process has computed: on a machine with other work it tells more than the clock does, where one thread computes.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano())
}
