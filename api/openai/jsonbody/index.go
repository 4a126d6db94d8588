package jsonbody

import "math"

// ParseIndex reads a number of decimal digits alone.
func ParseIndex(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > math.MaxInt32 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, text != ""
}
