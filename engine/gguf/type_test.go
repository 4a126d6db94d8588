package gguf

import (
	"math"
	"testing"
)

func TestSupportedTypesAreThoseOfTheEngine(t *testing.T) {
	const want = "F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS BF16 MXFP4"
	if have := supportedNames(); have != want {
		t.Errorf("supported are %s\nwant %s", have, want)
	}
}

func TestTypeLayouts(t *testing.T) {
	for _, c := range []struct {
		t            Type
		name         string
		elems, bytes int
		ok           bool
	}{
		{TypeF32, "F32", 1, 4, true},
		{TypeQ8_0, "Q8_0", 32, 34, true},
		{TypeQ6K, "Q6_K", 256, 210, true},
		{TypeMXFP4, "MXFP4", 32, 17, true},
		{40, "NVFP4", 64, 36, true},
		{4, "Q4_2", 0, 0, false},
		{42, "type 42", 0, 0, false},
		{math.MaxUint32, "type 4294967295", 0, 0, false},
	} {
		elems, bytes, ok := c.t.Block()
		if c.t.String() != c.name || elems != c.elems || bytes != c.bytes || ok != c.ok {
			t.Errorf("type %d is %v: %d values in %d bytes, %v", uint32(c.t), c.t, elems, bytes, ok)
		}
	}
}

func TestRowBytes(t *testing.T) {
	for _, c := range []struct {
		t     Type
		elems uint64
		want  uint64
		ok    bool
	}{
		{TypeF16, 3, 6, true},
		{TypeQ4K, 512, 288, true},
		{TypeQ4K, 511, 0, false},
		{99, 32, 0, false},
		{TypeF32, math.MaxUint64, 0, false},
	} {
		have, ok := c.t.RowBytes(c.elems)
		if ok != c.ok || ok && have != c.want {
			t.Errorf("row of %d %v: %d, %v, want %d, %v", c.elems, c.t, have, ok, c.want, c.ok)
		}
	}
}
