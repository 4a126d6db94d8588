package gguf_test

import (
	"bytes"
	"fmt"

	"weir/engine/gguf"
)

// A small file is written and read: metadata at once, tensors on demand.
func Example() {
	var b gguf.Builder
	b.Set("general.architecture", "llama")
	b.Set("llama.block_count", uint32(2))
	b.TensorF32("output_norm.weight", []uint64{4}, []float32{1, 2, 3, 4})
	data, err := b.Bytes()
	if err != nil {
		fmt.Println(err)
		return
	}

	f, err := gguf.Parse(bytes.NewReader(data), int64(len(data))) // Open, for a path
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.String("general.architecture"))
	fmt.Println(f.Uint("llama.context_length")) // is not in the file
	_, _, err = f.Uint("general.architecture")
	fmt.Println(err)
	t, _ := f.Tensor("output_norm.weight")
	weights := make([]byte, t.Bytes)
	fmt.Println(t.Type, t.Dims, len(weights), f.ReadTensor(t, weights))
	// Output:
	// llama true <nil>
	// 0 false <nil>
	// unusable metadata value: general.architecture is of type string, must be an integer
	// F32 [4] 16 <nil>
}
