package edge

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Sooner is the smaller of two durations of which 0 is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// MaxDeadline bounds deadlines.
const MaxDeadline = 24 * time.Hour

// ParseMilliseconds reads a decimal number of milliseconds, with a fraction or without
// one, of at least a microsecond and at most MaxDeadline.
func ParseMilliseconds(text string) (time.Duration, bool) {
	ms, err := strconv.ParseFloat(text, 64)
	plain := strings.Trim(text, "0123456789.") == ""
	if err != nil || !plain || ms < 0.001 || ms > float64(MaxDeadline.Milliseconds()) {
		return 0, false
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))), true
}
