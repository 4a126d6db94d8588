package gguf

import (
	"bytes"
	"testing"
)

func TestDigestTellsModelsApart(t *testing.T) {
	big := make([]byte, 1<<20)
	build := func(change func(b *Builder)) [32]byte {
		b := small()
		b.Tensor("big", []uint64{1 << 18}, TypeF32, bytes.Clone(big))
		if change != nil {
			change(b)
		}
		f, err := parseBytes(built(t, b))
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	seen := map[[32]byte]string{build(nil): "unchanged"}
	if len(seen) != 1 || seen[build(nil)] == "" {
		t.Fatal("equal models have different digests")
	}
	for name, change := range map[string]func(b *Builder){
		"metadata":        func(b *Builder) { b.Set("f32", float32(2)) },
		"version":         func(b *Builder) { b.Version = 2 },
		"small tensor":    func(b *Builder) { b.tensors[1].data[100]++ },
		"first byte":      func(b *Builder) { b.tensors[3].data[0]++ },
		"last byte":       func(b *Builder) { b.tensors[3].data[1<<20-1]++ },
		"all of a tensor": func(b *Builder) { b.tensors[3].data = bytes.Repeat([]byte{1}, 1<<20) },
		"tensor name":     func(b *Builder) { b.tensors[3].Name = "bug" },
		"tensor type":     func(b *Builder) { b.tensors[0].Type = 26 },
	} {
		d := build(change)
		if other, dup := seen[d]; dup {
			t.Errorf("a change of %s has the digest of %s", name, other)
		}
		seen[d] = name
	}
}
