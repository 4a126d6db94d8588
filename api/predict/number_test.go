package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/internal/tensor"
)

// readDecimal reads the number at the beginning of b; rest is what follows.
func readDecimal(b []byte) (d decimal, rest []byte, ok bool) {
	end, ok := d.read(b, 0)
	return d, b[end:], ok
}

// checkFloat wants both precisions to be what strconv reads.
func checkFloat(t *testing.T, text string) {
	t.Helper()
	d, rest, ok := readDecimal([]byte(text + ","))
	if !ok || string(rest) != "," {
		t.Fatalf("%s: %v, rest %q", text, ok, rest)
	}
	want64, err := strconv.ParseFloat(text, 64)
	if got, ok := d.float64(); ok != (err == nil) || math.Float64bits(got) != math.Float64bits(want64) {
		t.Fatalf("%s: %v (%v), want %v (%v)", text, got, ok, want64, err)
	}
	want32, err := strconv.ParseFloat(text, 32)
	if got, ok := d.float32(); ok != (err == nil) || math.Float32bits(got) != math.Float32bits(float32(want32)) {
		t.Fatalf("float32 of %s: %v (%v), want %v (%v)", text, got, ok, want32, err)
	}
}

// Every number is rounded once, as strconv rounds: random decimals of every length,
// shortest and long forms of random floats, and decimals next to the middle of two
// floats.
func TestNumbersAreExact(t *testing.T) {
	reference.Slow(t)
	n := reference.Repeats(100_000, 200_000, 1_000_000)
	r := rand.New(rand.NewPCG(10, 4))
	sign := func() string { return [2]string{"", "-"}[r.IntN(2)] }
	for i := range n {
		var text string
		switch i % 6 {
		case 0:
			digits := strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
			point := r.IntN(len(digits) + 1)
			text = sign() + "0" + "." + digits
			if point > 0 && (digits[0] != '0' || point == 1) {
				text = sign() + digits[:point] + "." + digits[point:] + "0"
			}
		case 1:
			text = sign() + strconv.FormatUint(r.Uint64()>>r.IntN(64), 10) + "e" + strconv.Itoa(r.IntN(700)-350)
		case 2:
			f := math.Float64frombits(r.Uint64())
			if math.IsNaN(f) || math.IsInf(f, 0) {
				continue
			}
			text = strconv.FormatFloat(f, "eg"[r.IntN(2)], r.IntN(20)-1, 64)
		case 3:
			text = strconv.FormatFloat(float64(float32(r.NormFloat64()*math.Pow(10, float64(r.IntN(12)-6)))), 'f', -1, 64-32*r.IntN(2))
		case 4: // the middle of two float32, exactly and a little off
			bits := r.Uint32()>>2 + 1<<28
			f := math.Float32frombits(bits)
			middle := (float64(f) + float64(math.Float32frombits(bits+1))) / 2
			text = strconv.FormatFloat(middle, 'f', -1, 64) + strings.Repeat("0", r.IntN(3)) + [3]string{"", "1", "9"}[r.IntN(3)]
			if !strings.Contains(text, ".") {
				continue
			}
		case 5:
			text = fmt.Sprintf("%s%d.%0*d", sign(), r.IntN(1000), 1+r.IntN(18), r.Uint64N(1e15))
		}
		checkFloat(t, text)
	}
}

func TestNumbersAtTheEdges(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "0.0", "-0.0e5", "0e999999999", "1e400", "-1e400", "1e-400", "3.5e38", "3.4028235677973366e38", "3.4028235e38",
		"1.17549435e-38", "1e-45", "7e-46", "16777217", "16777217.0", "9007199254740993", "9007199254740993.0", "18446744073709551615",
		"18446744073709551616", "18446744073709551615e-19", "99999999999999999999", "0.1", "0.10000000149011612", "5e-324", "2.5e-324",
		"1.7976931348623157e308", "1.7976931348623159e308", "123456789012345678e0", "1E5", "1e+5", "33554433.5", "8388608.5", "8388609.5",
		"0.000000000000000000000000000000000000000000000000000000000001", "1" + strings.Repeat("0", 500), "0." + strings.Repeat("0", 500) + "1",
	} {
		checkFloat(t, text)
	}
	for _, text := range []string{"", "-", "+1", ".5", "5.", "01", "-01", "1e", "1e+", "e5", "x", "NaN", "--1", "0x10"} {
		if d, rest, ok := readDecimal([]byte(text)); ok && len(rest) == 0 {
			t.Errorf("%q is read as %+v", text, d)
		}
	}
}

func TestWholeNumbers(t *testing.T) {
	for _, c := range []struct {
		text  string
		least int64
		most  uint64
		want  int64
		ok    bool
	}{
		{"127", -128, 127, 127, true}, {"128", -128, 127, 0, false}, {"-128", -128, 127, -128, true}, {"-129", -128, 127, 0, false},
		{"-9223372036854775808", math.MinInt64, math.MaxInt64, math.MinInt64, true}, {"-9223372036854775809", math.MinInt64, math.MaxInt64, 0, false},
		{"18446744073709551615", 0, math.MaxUint64, -1, true}, {"18446744073709551616", 0, math.MaxUint64, 0, false}, {"9999999999999999999", 0, math.MaxUint64, -8446744073709551617, true},
		{"-0", 0, 255, 0, true}, {"-1", 0, 255, 0, false}, {"1.0", -128, 127, 0, false}, {"1e2", -128, 127, 0, false}, {"0", 0, 1, 0, true},
	} {
		d, _, ok := readDecimal([]byte(c.text))
		if !ok {
			t.Fatal(c.text)
		}
		if got, ok := d.whole(c.least, c.most); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %d, %v", c.text, got, ok)
		}
	}
}

func BenchmarkFloat32(b *testing.B) {
	for _, text := range []string{"5.1", "-0.0123", "0.10000000149011612", "1e-7"} {
		b.Run(text, func(b *testing.B) {
			raw := []byte(text)
			for b.Loop() {
				d, _, _ := readDecimal(raw)
				d.float32()
			}
		})
	}
}

// Reading numbers takes memory for the values, and none for each.
func TestNumbersTakeNoMemoryEach(t *testing.T) {
	body := []byte("[" + strings.Repeat("0.125,-3.5e-2,", 500) + "1]")
	for _, kind := range []tensor.Type{tensor.Float32, tensor.Float64} {
		got := testing.AllocsPerRun(20, func() {
			a, _ := newArray("x", dataV2, kind, 1001)
			if fault := a.read(&scanner{b: body}); fault != nil || a.elements.len() != 1001 {
				t.Error(fault)
			}
		})
		if got > 8 {
			t.Errorf("%v: %v allocations for 1001 values", kind, got)
		}
	}
}
