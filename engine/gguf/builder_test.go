package gguf

import "testing"

func TestBuilderRefuses(t *testing.T) {
	for name, build := range map[string]func(b *Builder){
		"empty key":           func(b *Builder) { b.Set("", uint8(1)) },
		"int":                 func(b *Builder) { b.Set("k", 1) },
		"nil":                 func(b *Builder) { b.Set("k", nil) },
		"slices of slices":    func(b *Builder) { b.Set("k", [][]uint8{{1}}) },
		"alignment of 12":     func(b *Builder) { b.Set(alignmentKey, uint32(12)) },
		"alignment as uint64": func(b *Builder) { b.Set(alignmentKey, uint64(32)) },
		"too little data":     func(b *Builder) { b.Tensor("t", []uint64{2}, TypeF32, make([]byte, 4)) },
		"partial block":       func(b *Builder) { b.Tensor("t", []uint64{31}, TypeQ8_0, make([]byte, 34)) },
		"nameless tensor":     func(b *Builder) { b.Tensor("", []uint64{1}, TypeF32, make([]byte, 4)) },
		"tensor twice":        func(b *Builder) { b.TensorF32("t", []uint64{1}, []float32{1}); b.TensorF32("t", nil, []float32{1}) },
	} {
		var b Builder
		build(&b)
		if data, err := b.Bytes(); err == nil {
			if _, err = parseBytes(data); err == nil {
				t.Errorf("%s: built a file that parses", name)
			} else {
				t.Errorf("%s: built a file that does not parse: %v", name, err)
			}
		}
	}
}
