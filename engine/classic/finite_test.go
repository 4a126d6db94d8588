package classic

import (
	"math"
	"testing"

	"weir/internal/tensor"
)

// Infinite values are found at every place of rows of any length, and nothing else is.
func TestInfiniteValuesAreFound(t *testing.T) {
	inf := float32(math.Inf(1))
	others := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, float32(math.NaN()), math.Float32frombits(0xffc00001),
		math.Float32frombits(0x7f800001), math.Float32frombits(0xff800001), math.SmallestNonzeroFloat32, 1}
	for n := range len(others) + 1 {
		rows := others[:n]
		x := tensor.Of("x", tensor.Float32, []int64{int64(n)}, append([]float32(nil), rows...))
		if infinite(x.Data) {
			t.Errorf("%v: one is infinite", rows)
		}
		for i := range rows {
			for _, v := range []float32{inf, -inf} {
				with := append([]float32(nil), rows...)
				with[i] = v
				if x := tensor.Of("x", tensor.Float32, []int64{int64(n)}, with); !infinite(x.Data) {
					t.Errorf("%v: none is infinite", with)
				}
			}
		}
	}
}
