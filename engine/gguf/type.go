package gguf

import (
	"fmt"
	"math/bits"
	"strings"
)

// Type is ggml's tensor type id, as stored in the file. The ids, block lengths
// and block sizes are those of ggml.h and of the GGUF specification.
type Type uint32

// Tensor types that the engine computes with.
const (
	TypeF32   Type = 0
	TypeF16   Type = 1
	TypeQ4_0  Type = 2
	TypeQ4_1  Type = 3
	TypeQ5_0  Type = 6
	TypeQ5_1  Type = 7
	TypeQ8_0  Type = 8
	TypeQ2K   Type = 10
	TypeQ3K   Type = 11
	TypeQ4K   Type = 12
	TypeQ5K   Type = 13
	TypeQ6K   Type = 14
	TypeIQ4NL Type = 20
	TypeIQ4XS Type = 23
	TypeBF16  Type = 30
	TypeMXFP4 Type = 39
)

// layout describes one type: elems values are stored in bytes bytes. A layout
// without bytes is a type that ggml has removed: its name is known, and
// nothing needs its size.
type layout struct {
	name         string
	elems, bytes int
	supported    bool
}

var layouts = [...]layout{
	0:  {"F32", 1, 4, true},
	1:  {"F16", 1, 2, true},
	2:  {"Q4_0", 32, 18, true},
	3:  {"Q4_1", 32, 20, true},
	4:  {name: "Q4_2"},
	5:  {name: "Q4_3"},
	6:  {"Q5_0", 32, 22, true},
	7:  {"Q5_1", 32, 24, true},
	8:  {"Q8_0", 32, 34, true},
	9:  {"Q8_1", 32, 36, false},
	10: {"Q2_K", 256, 84, true},
	11: {"Q3_K", 256, 110, true},
	12: {"Q4_K", 256, 144, true},
	13: {"Q5_K", 256, 176, true},
	14: {"Q6_K", 256, 210, true},
	15: {"Q8_K", 256, 292, false},
	16: {"IQ2_XXS", 256, 66, false},
	17: {"IQ2_XS", 256, 74, false},
	18: {"IQ3_XXS", 256, 98, false},
	19: {"IQ1_S", 256, 50, false},
	20: {"IQ4_NL", 32, 18, true},
	21: {"IQ3_S", 256, 110, false},
	22: {"IQ2_S", 256, 82, false},
	23: {"IQ4_XS", 256, 136, true},
	24: {"I8", 1, 1, false},
	25: {"I16", 1, 2, false},
	26: {"I32", 1, 4, false},
	27: {"I64", 1, 8, false},
	28: {"F64", 1, 8, false},
	29: {"IQ1_M", 256, 56, false},
	30: {"BF16", 1, 2, true},
	31: {name: "Q4_0_4_4"},
	32: {name: "Q4_0_4_8"},
	33: {name: "Q4_0_8_8"},
	34: {"TQ1_0", 256, 54, false},
	35: {"TQ2_0", 256, 66, false},
	36: {name: "IQ4_NL_4_4"},
	37: {name: "IQ4_NL_4_8"},
	38: {name: "IQ4_NL_8_8"},
	39: {"MXFP4", 32, 17, true},
	40: {"NVFP4", 64, 36, false},
	41: {"Q1_0", 128, 18, false},
}

func (t Type) layout() layout {
	if uint64(t) < uint64(len(layouts)) {
		return layouts[t]
	}
	return layout{}
}

// String is the type's name in ggml, or "type 97" for an id without a name.
func (t Type) String() string {
	if n := t.layout().name; n != "" {
		return n
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block reports how many values one block holds and how many bytes it takes;
// ok is false for types of unknown or removed layout.
func (t Type) Block() (elems, bytes int, ok bool) {
	l := t.layout()
	return l.elems, l.bytes, l.bytes > 0
}

// Supported reports whether the engine can compute with weights of this type.
func (t Type) Supported() bool { return t.layout().supported }

// RowBytes is the size of a row of elems values; ok is false when the type's
// layout is unknown, the row is not whole blocks or the size overflows.
func (t Type) RowBytes(elems uint64) (rowBytes uint64, ok bool) {
	l := t.layout()
	if l.bytes == 0 || elems%uint64(l.elems) != 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(elems/uint64(l.elems), uint64(l.bytes))
	return lo, hi == 0
}

// SupportedTypes lists the types that the engine computes with, in id order.
func SupportedTypes() []Type {
	var ts []Type
	for id, l := range layouts {
		if l.supported {
			ts = append(ts, Type(id))
		}
	}
	return ts
}

func supportedNames() string {
	var names []string
	for _, t := range SupportedTypes() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}
