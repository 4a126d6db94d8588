package tensor

import "fmt"

// Type is the type of a tensor's elements.
type Type uint8

// The types of the Open Inference Protocol, by its names.
const (
	Invalid Type = iota
	Bool         // one byte, 0 or 1
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	Float16
	BFloat16
	Float32
	Float64
	Bytes // byte strings of any length
)

// types holds the protocol's name and the size in bytes of each; byte strings have none.
var types = [...]struct {
	name string
	size int
}{
	Invalid: {"INVALID", 0}, Bool: {"BOOL", 1},
	Uint8: {"UINT8", 1}, Uint16: {"UINT16", 2}, Uint32: {"UINT32", 4}, Uint64: {"UINT64", 8},
	Int8: {"INT8", 1}, Int16: {"INT16", 2}, Int32: {"INT32", 4}, Int64: {"INT64", 8},
	Float16: {"FP16", 2}, BFloat16: {"BF16", 2}, Float32: {"FP32", 4}, Float64: {"FP64", 8},
	Bytes: {"BYTES", 0},
}

// String is the protocol's name, as "FP32".
func (t Type) String() string {
	if int(t) >= len(types) {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return types[t].name
}

// Size is the number of bytes of an element; 0 for byte strings.
func (t Type) Size() int { return types[t].size }

// ParseType finds a type by the protocol's name.
func ParseType(name string) (Type, error) {
	for t := Bool; int(t) < len(types); t++ {
		if types[t].name == name {
			return t, nil
		}
	}
	return Invalid, fmt.Errorf("datatype %q is unknown; known are BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32, FP64 and BYTES", name)
}
