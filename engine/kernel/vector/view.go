package vector

import "unsafe"

// Floats views 4-byte aligned little-endian memory as float32 values.
func Floats(data []byte) []float32 {
	if len(data) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)
}

// Bytes views floats as memory.
func Bytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
