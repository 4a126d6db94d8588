package llm

import (
	"math"
	"testing"
)

func TestRopeScaling(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-12+1e-9*math.Abs(want) }
	plain := rope{half: 64, base: 1e6, factor: 1, attention: 1}
	plain.prepare(nil)
	linear := rope{half: 64, base: 1e6, factor: 4, attention: 1, scaling: "linear"}
	linear.prepare(nil)
	divisors := make([]float32, 64)
	for i := range divisors {
		divisors[i] = float32(1 + i%3)
	}
	divided := rope{half: 64, base: 1e6, factor: 1, attention: 1}
	divided.prepare(divisors)
	for i := range 64 {
		if want := math.Pow(1e6, -float64(i)/64); !near(plain.freq[i], want) || !near(linear.freq[i], want/4) || !near(divided.freq[i], want/float64(divisors[i])) {
			t.Errorf("pair %d: %g, %g, %g of %g", i, plain.freq[i], linear.freq[i], divided.freq[i], want)
		}
	}

	// Values of the paper's formula (Peng et al. 2023), computed apart, for
	// heads of 128, base 1e6, a context of 32768 stretched by 4.
	yarn := rope{half: 64, base: 1e6, factor: 4, attention: 1, scaling: "yarn", original: 32768, betaFast: 32, betaSlow: 1}
	yarn.prepare(nil)
	for i, want := range map[int]float64{
		0: 1, 10: 0.1154781984689458, 23: 0.006978305848598663, 24: 0.005375321490790102, 30: 0.0010643609812470017,
		39: 6.490394320837028e-05, 40: 4.445698525097307e-05, 50: 5.133812566142866e-06, 63: 3.102344401879299e-07,
	} {
		if !near(yarn.freq[i], want) {
			t.Errorf("yarn pair %d: %g, want %g", i, yarn.freq[i], want)
		}
	}
	if want := 1 + 0.1*math.Log(4); !near(yarn.magnitude, want) {
		t.Errorf("magnitude %v, want %v", yarn.magnitude, want)
	}
}
