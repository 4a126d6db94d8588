package tensor

import (
	"math"
	"slices"
	"testing"
)

func TestValuesAreTheTensorsMemory(t *testing.T) {
	in := []float32{1, -2.5, float32(math.Inf(1))}
	x := Of("x", Float32, []int64{3}, in)
	if got := Values[float32](&x); &got[0] != &in[0] || !slices.Equal(got, in) {
		t.Errorf("%v", got)
	}
	shifted := append([]byte{0}, x.Data...)
	y := Tensor{Type: Float32, Shape: []int64{3}, Data: shifted[1:]}
	if got := Values[float32](&y); !slices.Equal(got, in) {
		t.Errorf("unaligned: %v", got)
	}
	if got := Values[float64](&Tensor{Type: Float64}); got != nil {
		t.Errorf("empty: %v", got)
	}
}

func TestValuesOfAnotherSizePanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("eight bytes were read as four")
		}
	}()
	x := Of("x", Float64, []int64{1}, []float64{1})
	Values[float32](&x)
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		want  int64 // -1: refused
	}{
		{nil, 1}, {[]int64{3, 4}, 12}, {[]int64{1 << 40, 0}, 0}, {[]int64{10, 11}, -1},
		{[]int64{-1}, -1}, {[]int64{0, -1}, -1}, {[]int64{1 << 40, 1 << 40}, -1},
	} {
		got, err := Elements(c.shape, 100)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%v: %d, %v", c.shape, got, err)
		}
	}
}

func TestTypesHaveNames(t *testing.T) {
	for typ := Bool; typ <= Bytes; typ++ {
		if back, err := ParseType(typ.String()); err != nil || back != typ {
			t.Errorf("%v: %v, %v", typ, back, err)
		}
	}
	if _, err := ParseType("INVALID"); err == nil {
		t.Error("INVALID is a type")
	}
}

func TestFits(t *testing.T) {
	s := Spec{Name: "x", Type: Float32, Shape: []int64{Any, 4}}
	for _, c := range []struct {
		typ   Type
		shape []int64
		ok    bool
	}{{Float32, []int64{9, 4}, true}, {Float32, []int64{9, 5}, false}, {Float32, []int64{4}, false}, {Float64, []int64{9, 4}, false}} {
		if err := s.Fits(&Tensor{Name: "x", Type: c.typ, Shape: c.shape}); (err == nil) != c.ok {
			t.Errorf("%v %v: %v", c.typ, c.shape, err)
		}
	}
}
