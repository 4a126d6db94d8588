package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/gguf"
	"weir/engine/kernel/vector"
)

// Decode writes the len(dst) values stored in src, whole blocks of type t, to
// dst as float32. len(dst) must be a multiple of the type's block and src must
// hold exactly its bytes: the loader checks sizes once, see [MatrixBytes].
// Shorter input leaves the rest of dst alone, and a type that is not
// [gguf.Type.Supported] fills dst with NaN, so that a caller's mistake shows in
// the result instead of ending the process.
//
// It is the reference that faster kernels are compared with, and the portable
// hot path itself. Every product and sum is rounded to float32 on its own, in
// the order of ggml's reference code, hence the explicit conversions: without
// them the compiler may fuse multiply and add where the processor can.
func Decode(t gguf.Type, dst []float32, src []byte) {
	if !decodeBlocks(t, dst, src) {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
	}
}

func decodeF32(dst []float32, src []byte) {
	dst = dst[:min(len(dst), len(src)/4)]
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i : 4*i+4]))
	}
}

// scaleAt reads a block's float16 scale, the two bytes from b[i] on.
func scaleAt(b []byte, i int) float32 {
	return vector.F16ToF32(binary.LittleEndian.Uint16(b[i:]))
}

func decodeF16(dst []float32, src []byte)  { vector.DecodeF16(dst, src) }
func decodeBF16(dst []float32, src []byte) { vector.DecodeBF16(dst, src) }
