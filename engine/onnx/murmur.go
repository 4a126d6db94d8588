package onnx

import (
	"encoding/binary"
	mathbits "math/bits"
)

// murmur3 is MurmurHash3_x86_32.
func murmur3(data []byte, seed uint32) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h, length := seed, uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * c1
		h ^= mathbits.RotateLeft32(k, 15) * c2
		h = mathbits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(data) > 0 {
		var rest [4]byte
		copy(rest[:], data)
		k := binary.LittleEndian.Uint32(rest[:]) * c1
		h ^= mathbits.RotateLeft32(k, 15) * c2
	}
	h ^= length
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
