package predict

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// decimal is a number's text taken apart: ±mantissa × 10^exponent. Where it is not
// exact, the text has more digits than a mantissa holds, and strconv must read it.
type decimal struct {
	mantissa uint64
	exponent int
	negative bool
	integer  bool // no fraction and no exponent are written
	exact    bool
	text     []byte
}

// maxDigits of a decimal fit into a uint64 whatever they are.
const maxDigits = 19

// read reads the JSON number that begins at b[i]; it is false where there is
// none. end is the index of what follows.
func (d *decimal) read(b []byte, i int) (end int, ok bool) {
	begin := i
	if i < len(b) && b[i] == '-' {
		d.negative = true
		i++
	}
	first := i
	i, digits := d.digits(b, i, 0)
	switch {
	case i == first, b[first] == '0' && i > first+1:
		return begin, false // no digit, or a leading zero
	}
	d.integer = true
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i, digits = d.digits(b, from, digits); i == from {
			return begin, false
		}
		d.exponent, d.integer = from-i, false
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		exponent, end, valid := readExponent(b, i+1)
		if !valid {
			return begin, false
		}
		d.exponent, d.integer, i = d.exponent+exponent, false, end
	}
	d.exact, d.text = digits <= maxDigits, b[begin:i]
	return i, true
}

// digits adds the digits at b[i:] to the mantissa, and counts them from the first that
// is not 0.
func (d *decimal) digits(b []byte, i, count int) (end, total int) {
	if count == 0 {
		for i < len(b) && b[i] == '0' {
			i++
		}
	}
	first, m := i, d.mantissa
	for i+8 <= len(b) {
		v := binary.LittleEndian.Uint64(b[i:])
		if !areDigits(v) {
			break
		}
		m = 100_000_000*m + ofDigits(v)
		i += 8
	}
	for ; i < len(b); i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		m = 10*m + uint64(c)
	}
	d.mantissa = m
	return i, count + i - first
}

// areDigits reports whether eight characters, the first in the lowest byte, are digits.
func areDigits(v uint64) bool {
	const high, six, three = 0xF0F0F0F0F0F0F0F0, 0x0606060606060606, 0x3333333333333333
	return v&high|(v+six)&high>>4 == three
}

// ofDigits is the number that eight digits are: pairs of digits first, then pairs of pairs, then both halves, each of the three
// steps for all of them in one multiplication.
func ofDigits(v uint64) uint64 {
	const pairs, fours, halves = 1 + 10<<8, 1 + 100<<16, 1 + 10_000<<32
	v -= 0x3030303030303030
	v = v * pairs >> 8 & 0x00FF00FF00FF00FF
	v = v * fours >> 16 & 0x0000FFFF0000FFFF
	return v * halves >> 32
}

// farExponent is beyond what any float's exponent needs; further digits change nothing.
const farExponent = 1 << 20

func readExponent(b []byte, i int) (exponent, end int, ok bool) {
	negative := false
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		negative = b[i] == '-'
		i++
	}
	first := i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		exponent = min(10*exponent+int(b[i]-'0'), farExponent)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, i, i > first
}

// powers of ten that fit into a uint64, by exponent.
var powers = func() (p [maxDigits + 1]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// float64 is the float64 nearest to the decimal, ties to even; false where it is above
// all of them.
func (d *decimal) float64() (float64, bool) {
	if d.exact {
		if m, ok := d.scaled(); ok {
			return d.signed(float64(m)), true
		}
		if f, ok := d.divided(); ok {
			return d.signed(f), true
		}
		if d.exponent < 0 && d.exponent >= -maxDigits {
			q, shift, sticky := quotient(d.mantissa, powers[-d.exponent])
			return d.signed(float64(nearest(q, 53, sticky)) * powerOfTwo(shift+64-53)), true
		}
	}
	f, err := strconv.ParseFloat(d.string(), 64)
	return f, err == nil
}

// float32 is the float32 nearest to the decimal, rounded once; false where it is above
// all of them.
func (d *decimal) float32() (float32, bool) {
	if d.exact {
		if m, ok := d.scaled(); ok {
			return float32(d.signed(float64(toFloat32(m)))), true
		}
		// A float64 in the middle of two float32 may have been rounded to there. Any other is on the decimal's side of the middle.
		const below, middle = 1<<29 - 1, 1 << 28
		if f, ok := d.divided(); ok && math.Float64bits(f)&below != middle {
			return float32(d.signed(f)), true
		}
		if d.exponent < 0 && d.exponent >= -maxDigits {
			q, shift, sticky := quotient(d.mantissa, powers[-d.exponent])
			return float32(d.signed(float64(nearest(q, 24, sticky)) * powerOfTwo(shift+64-24))), true
		}
	}
	f, err := strconv.ParseFloat(d.string(), 32)
	return float32(f), err == nil
}

func (d *decimal) signed(f float64) float64 {
	if d.negative {
		return -f
	}
	return f
}

// string is the text without a copy, for a call that does not keep it.
func (d *decimal) string() string { return unsafe.String(unsafe.SliceData(d.text), len(d.text)) }

// scaled is the magnitude of a decimal that is a whole number of at most 64 bits by its
// exponent.
func (d *decimal) scaled() (uint64, bool) {
	if d.mantissa == 0 || d.exponent == 0 {
		return d.mantissa, true
	}
	if d.exponent < 0 || d.exponent > maxDigits {
		return 0, false
	}
	high, low := bits.Mul64(d.mantissa, powers[d.exponent])
	return low, high == 0
}

// divided is the float64 nearest to the magnitude of a decimal whose mantissa and power of ten are float64s without a rest, as most
// are: the division rounds once. The magnitude is 0 or a normal float32.
func (d *decimal) divided() (float64, bool) {
	if d.mantissa >= 1<<53 || d.exponent > 0 || d.exponent < -maxDigits {
		return 0, false
	}
	return float64(d.mantissa) / float64(powers[-d.exponent]), true
}

// quotient divides m by a power of ten, both above 0: the result is q × 2^shift with
// the top bit of q set, and sticky says that the division left a rest.
func quotient(m, power uint64) (q uint64, shift int, sticky bool) {
	up, down := bits.LeadingZeros64(m), bits.LeadingZeros64(power)
	m, power = m<<up, power<<down
	q, rest := bits.Div64(m>>1, m<<63, power)
	shift = down - up - 63
	if q>>63 == 0 {
		// One more bit of the quotient: the rest doubled holds the divisor or does not.
		bit := uint64(0)
		if rest >= power-rest {
			bit = 1
			rest -= power - rest
		} else {
			rest *= 2
		}
		q, shift = q<<1|bit, shift-1
	}
	return q, shift, rest != 0
}

// powerOfTwo is 2^n for an n that a float64 has.
func powerOfTwo(n int) float64 { return math.Float64frombits(uint64(1023+n) << 52) } //nolint:gosec // above 0

// nearest is the top n bits of q, whose top bit is set, rounded to the nearest value,
// ties to even; sticky says that q stands for a little more.
func nearest(q uint64, n int, sticky bool) uint64 {
	drop := 64 - n
	kept, lost, half := q>>drop, q&(1<<drop-1), uint64(1)<<(drop-1)
	if lost > half || lost == half && (sticky || kept&1 == 1) {
		kept++
	}
	return kept
}

// toFloat32 is the float32 nearest to a whole number, ties to even.
func toFloat32(m uint64) float32 {
	n := bits.LeadingZeros64(m)
	if m == 0 || 64-n <= 24 {
		return float32(m)
	}
	return float32(float64(nearest(m<<n, 24, false)) * powerOfTwo(64-24-n))
}

// whole is the decimal as an integer from least to most; false where it is none of
// these, or is written with a fraction or an exponent.
func (d *decimal) whole(least int64, most uint64) (int64, bool) {
	switch {
	case !d.integer:
		return 0, false
	case !d.exact: // of 20 digits, some fit
		n, err := strconv.ParseUint(d.string(), 10, 64)
		return int64(n), err == nil && n <= most //nolint:gosec // an unsigned type takes the bits
	case d.negative:
		return -int64(d.mantissa), d.mantissa <= uint64(-(least+1))+1 && least < 0 || d.mantissa == 0 //nolint:gosec // checked beside
	}
	return int64(d.mantissa), d.mantissa <= most //nolint:gosec // an unsigned type takes the bits
}
