package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/gguf"
	"weir/engine/kernel/vector"
)

// Values per block of the two families of weight formats.
const (
	blockValues      = 32
	superBlockValues = 256
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
	switch t {
	case gguf.TypeF32:
		decodeF32(dst, src)
	case gguf.TypeF16:
		vector.DecodeF16(dst, src)
	case gguf.TypeBF16:
		vector.DecodeBF16(dst, src)
	case gguf.TypeQ8_0:
		decodeQ80(dst, src)
	case gguf.TypeQ4_0:
		decodeQ40(dst, src)
	case gguf.TypeQ4_1:
		decodeQ41(dst, src)
	case gguf.TypeQ5_0:
		decodeQ50(dst, src)
	case gguf.TypeQ5_1:
		decodeQ51(dst, src)
	case gguf.TypeQ2K:
		decodeQ2K(dst, src)
	case gguf.TypeQ3K:
		decodeQ3K(dst, src)
	case gguf.TypeQ4K:
		decodeQ4K(dst, src)
	case gguf.TypeQ5K:
		decodeQ5K(dst, src)
	case gguf.TypeQ6K:
		decodeQ6K(dst, src)
	case gguf.TypeIQ4NL:
		decodeIQ4NL(dst, src)
	case gguf.TypeIQ4XS:
		decodeIQ4XS(dst, src)
	case gguf.TypeMXFP4:
		decodeMXFP4(dst, src)
	default:
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
