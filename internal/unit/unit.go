// Package unit writes sizes, durations and counts as people read them, and reads what people write. It is pure.
package unit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Errors of texts that were to be read. Callers tell them apart.
var (
	ErrSyntax = errors.New("no number with a unit")
	ErrRange  = errors.New("out of range")
)

// binary are the units that sizes are read and written in, the largest first.
var binary = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Bytes is a size with one digit behind the point: 1.4 GiB.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// ExactBytes is a size in the shortest form that loses nothing: 8GiB, 1500. ParseBytes reads it.
func ExactBytes(n int64) string {
	for _, u := range binary {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// ParseBytes reads a whole number of bytes, or of KiB, MiB, GiB or TiB.
func ParseBytes(text string) (int64, error) {
	unit := int64(1)
	for _, u := range binary {
		if number, found := strings.CutSuffix(text, u.suffix); found {
			text, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, ErrRange
	case err != nil:
		return 0, ErrSyntax
	case n < 0 || n > math.MaxInt64/unit:
		return 0, ErrRange
	}
	return n * unit, nil
}

// Count is a large number with a decimal unit: 1.2 B parameters.
func Count(n uint64) string {
	switch {
	case n < 1e3:
		return strconv.FormatUint(n, 10)
	case n < 1e6:
		return fmt.Sprintf("%.1f K", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f B", float64(n)/1e9)
}

// Duration is a duration without the zero parts that time.Duration prints: 2m, 1h. ParseDuration reads it.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ParseDuration reads Go's durations; a plain number is seconds, as in vLLM's flags.
func ParseDuration(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, ErrSyntax
	}
	return d, nil
}

// Seconds is a measured time with three digits: 20.5 ms.
func Seconds(s float64) string {
	if s == 0 {
		return "0 s"
	}
	for _, u := range []struct {
		scale float64
		name  string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}} {
		if s >= 0.9995*u.scale {
			return ThreeDigits(max(s/u.scale, 1)) + " " + u.name
		}
	}
	return ThreeDigits(s*1e9) + " ns"
}

// ThreeDigits is a measured number with three digits, and all that it has in front of the point.
func ThreeDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(digits, 6), 64)
}
