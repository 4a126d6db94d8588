package servertest

import (
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/gguf"
)

// AdapterFile makes the file of an adapter that changes the networks of a model, the more the larger by is.
func AdapterFile(t testing.TB, model, name string, rank int, by float32) string {
	t.Helper()
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	arch, _, _ := f.String("general.architecture")
	b := &gguf.Builder{}
	b.Set("general.type", "adapter")
	b.Set("general.architecture", arch)
	b.Set("adapter.type", "lora")
	b.Set("adapter.lora.alpha", float32(rank))
	for i := range f.Tensors {
		x := &f.Tensors[i]
		if !strings.HasSuffix(x.Name, "ffn_down.weight") {
			continue
		}
		low, high := make([]float32, x.Dims[0]*uint64(rank)), make([]float32, uint64(rank)*x.Dims[1])
		for k := range low {
			low[k] = by * float32(k%7-3)
		}
		for k := range high {
			high[k] = by * float32(k%5-2)
		}
		b.TensorF32(x.Name+".lora_a", []uint64{x.Dims[0], uint64(rank)}, low)
		b.TensorF32(x.Name+".lora_b", []uint64{uint64(rank), x.Dims[1]}, high)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}
