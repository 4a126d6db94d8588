package gbdt

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestElementaryFunctionsAreGlibcs has arguments whose correctly rounded value is not what glibc gives, and ordinary ones.
func TestElementaryFunctionsAreGlibcs(t *testing.T) {
	e := newExponential(false)
	for _, c := range [][2]float64{
		{-2.4057942757603423, 0.09019382838016554},
		{-3.973076986884435, 0.0188154490827634},
		{-0.7450848662857457, 0.4746940127126983},
		{-2.6305555374304155, 0.0720384310755},
		{3.1253601037489176, 22.768092492943428},
		{4.459409770410498, 86.43647667124358},
		{4.763254681901141, 117.12651576455468},
		{2.0012795055806762, 7.398516488465103},
	} {
		if got := e.double(c[0]); got != c[1] {
			t.Errorf("exp(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	for _, c := range [][2]float32{
		{2.7309425, 15.347345},
		{2.6682143, 14.414207},
		{-0.8989043, 0.40701538},
		{-3.4887304, 0.03053962},
		{1.402168, 4.0640016},
		{2.700401, 14.885701},
		{-0.27248362, 0.76148593},
		{0.9366886, 2.5515184},
	} {
		if got := e.single(c[0]); got != c[1] {
			t.Errorf("expf(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	for _, c := range [][2]float32{
		{0.20424464, -1.5884367},
		{3.2732122, 1.1857718},
		{0.77698165, -0.25233853},
		{1.3234094, 0.28021133},
		{1.4440387, 0.3674439},
		{1.0980685, 0.0935527},
		{1.0220484, 0.021808805},
		{3.93221, 1.3692015},
	} {
		if got := logSingle(c[0]); got != c[1] {
			t.Errorf("logf(%v) = %v, want %v", c[0], got, c[1])
		}
	}
}

// TestElementaryFunctionsAreAccurate compares with Go's over all magnitudes, the ends of the range included.
func TestElementaryFunctionsAreAccurate(t *testing.T) {
	e := newExponential(false)
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		x := r.NormFloat64() * math.Exp(r.Float64()*12-6)
		if got, want := e.double(x), math.Exp(x); math.Abs(float64(ulps(got, want, true))) > 1 {
			t.Fatalf("exp(%v) = %v, Go's is %v", x, got, want)
		}
		single := float32(x)
		if got, want := e.single(single), float32(math.Exp(float64(single))); ulps(float64(got), float64(want), false) > 1 {
			t.Fatalf("expf(%v) = %v, rounded %v", single, got, want)
		}
		positive := float32(math.Exp(x / 8))
		if got, want := logSingle(positive), float32(math.Log(float64(positive))); ulps(float64(got), float64(want), false) > 1 {
			t.Fatalf("logf(%v) = %v, rounded %v", positive, got, want)
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct{ x, want float64 }{{0, 1}, {inf, inf}, {-inf, 0}, {710, inf}, {-746, 0}, {math.Copysign(0, -1), 1}} {
		if got := e.double(c.x); got != c.want {
			t.Errorf("exp(%v) = %v, want %v", c.x, got, c.want)
		}
		if got := e.single(float32(c.x)); float64(got) != c.want {
			t.Errorf("expf(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	for x, want := range map[float32]float64{1: 0, 0: -inf, float32(inf): inf, 1e-45: math.Log(math.SmallestNonzeroFloat32)} {
		if got := logSingle(x); got != float32(want) {
			t.Errorf("logf(%v) = %v, want %v", x, got, want)
		}
	}
	for _, got := range []float64{e.double(math.NaN()), float64(e.single(float32(math.NaN()))), float64(logSingle(-1))} {
		if got == got {
			t.Errorf("%v of no number", got)
		}
	}
}

// TestRoughIsCatBoosts compares with what CatBoost 1.2.10 makes of a leaf (prediction type Exponent).
func TestRoughIsCatBoosts(t *testing.T) {
	e := newExponential(true)
	for _, c := range [][2]float64{
		{0.420245229626019, 1.5223348314490088},
		{-17.20633262962613, 3.3680977338606633e-08},
		{0.1393030356551781, 1.1494723783458434},
		{-0.40070064318026866, 0.6698505553587136},
		{10.899118208555691, 54128.612599012},
		{17.154062561890917, 28178295.08988939},
		{5.257717428534395, 192.04263958329315},
		{-3.624665438391773, 0.026658014592820797},
		{0.7127227075442368, 2.0395367679658087},
		{5.003846657595517, 148.98515313560364},
		{-705.0378276556194, 6.396787386985418e-307},
		{-680.6479641001913, 2.5023328231663387e-296},
		{-407.68761581129183, 8.780477065491558e-178},
		{700.2752444019804, 1.335593993423985e+304},
		{705.7399719638481, 3.1548265166107976e+306},
		{447.958362624099, 3.514349988949202e+194},
		{-746, 0x1p-1022}, {-757.1547807167666, 0x1p-1022}, {723.8812095391688, math.Inf(1)}, {0, 1},
	} {
		if got := e.double(c[0]); got != c[1] {
			t.Errorf("exp(%v) = %v, CatBoost's is %v", c[0], got, c[1])
		}
	}
	if got := e.double(math.NaN()); got == got {
		t.Errorf("%v of no number", got)
	}
}
