package unit_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"weir/internal/unit"
)

func Example() {
	n, _ := unit.ParseBytes("6GiB")
	d, _ := unit.ParseDuration("90")
	fmt.Println(unit.Bytes(n-1<<29), unit.ExactBytes(n), unit.Duration(d), unit.Seconds(0.0205), unit.Count(1_543_000_000))
	// Output: 5.5 GiB 6GiB 1m30s 20.5 ms 1.5 B
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 10 << 30: "10.0 GiB", 1 << 50: "1.0 PiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := unit.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestExactFormsComeBack reads what was written.
func TestExactFormsComeBack(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1500: "1500", 1 << 10: "1KiB", 1536: "1536", 3 << 20: "3MiB", 8 << 30: "8GiB", 1 << 42: "4TiB"} {
		text := unit.ExactBytes(n)
		if back, err := unit.ParseBytes(text); text != want || back != n || err != nil {
			t.Errorf("%d: %s (%d, %v), want %s", n, text, back, err, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 2 * time.Minute: "2m", time.Hour: "1h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 10 * time.Second: "10s",
		100 * time.Millisecond: "100ms", 20 * time.Hour: "20h",
	} {
		text := unit.Duration(d)
		if back, err := unit.ParseDuration(text); text != want || back != d || err != nil {
			t.Errorf("%v: %s (%v, %v), want %s", d, text, back, err, want)
		}
	}
}

func TestTextsThatAreNoAmounts(t *testing.T) {
	for text, want := range map[string]error{
		"": unit.ErrSyntax, "1GB": unit.ErrSyntax, "1.5GiB": unit.ErrSyntax, "GiB": unit.ErrSyntax, "-1": unit.ErrRange, "9000000TiB": unit.ErrRange,
		"99999999999999999999": unit.ErrRange,
	} {
		if _, err := unit.ParseBytes(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{"", "1 minute", "five"} {
		if _, err := unit.ParseDuration(text); !errors.Is(err, unit.ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAmountsAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{"7": 7, "3 MiB": 3 << 20, "1TiB": 1 << 40} {
		if got, err := unit.ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0": 0, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second} {
		if got, err := unit.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestThreeDigits(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0 s", 1234: "1234 s", 1.5: "1.50 s", 0.9996: "1.00 s", 0.25: "250 ms", 0.0205: "20.5 ms", 250e-6: "250 us", 1.5e-6: "1.50 us", 3e-9: "3.00 ns",
	} {
		if got := unit.Seconds(s); got != want {
			t.Errorf("%g: %s, want %s", s, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{999: "999", 1200: "1.2 K", 135_000_000: "135.0 M", 8_000_000_000: "8.0 B"} {
		if got := unit.Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
