package schema

import (
	"math/big"
	"strings"

	"weir/tokenizer/grammar/regex"
)

const (
	// wholeDigits bounds whole numbers without a bound of their own; 18 digits fit into 64 bits.
	wholeDigits = 18
	// partDigits bounds the digits after the point of numbers without a bound of their own.
	partDigits = 15
	// boundDigits bounds the digits of minimum, maximum and multipleOf.
	boundDigits = 64
)

// span is a range of numbers. A nil bound is none.
type span struct {
	low, high         *big.Rat
	openLow, openHigh bool // the bound itself is outside
}

// atLeast narrows a range from below.
func (s *span) atLeast(low *big.Rat, open bool) {
	if s.low == nil || low.Cmp(s.low) > 0 {
		s.low, s.openLow = low, open
	} else if low.Cmp(s.low) == 0 {
		s.openLow = s.openLow || open
	}
}

// atMost narrows a range from above.
func (s *span) atMost(high *big.Rat, open bool) {
	if s.high == nil || high.Cmp(s.high) < 0 {
		s.high, s.openHigh = high, open
	} else if high.Cmp(s.high) == 0 {
		s.openHigh = s.openHigh || open
	}
}

// empty reports whether no number is in the range.
func (s *span) empty() bool {
	if s.low == nil || s.high == nil {
		return false
	}
	c := s.low.Cmp(s.high)
	return c > 0 || c == 0 && (s.openLow || s.openHigh)
}

// scaled is the range of whole numbers n with n/10^digits in the range, ends included; nil is no bound.
func (s *span) scaled(digits int) (low, high *big.Int) {
	factor := new(big.Rat).SetInt(power10(digits))
	one := big.NewInt(1)
	if s.low != nil {
		r := new(big.Rat).Mul(s.low, factor)
		low = floor(r)
		if !r.IsInt() || s.openLow {
			low.Add(low, one)
		}
	}
	if s.high != nil {
		r := new(big.Rat).Mul(s.high, factor)
		high = floor(r)
		if r.IsInt() && s.openHigh {
			high.Sub(high, one)
		}
	}
	return low, high
}

func floor(r *big.Rat) *big.Int {
	q, m := new(big.Int), new(big.Int)
	return first(q.DivMod(r.Num(), r.Denom(), m))
}

func first(a, _ *big.Int) *big.Int { return a }

func power10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// Digits of numbers.
var (
	digit     = regex.ByteRange('0', '9')
	positive  = regex.ByteRange('1', '9')
	minus     = regex.Literal("-")
	point     = regex.Literal(".")
	unbounded = regex.Concat(positive, regex.Repeat(digit, 0, wholeDigits-1))
	part      = regex.Optional(regex.Concat(point, regex.Repeat(digit, 1, partDigits)))
	// exponent keeps every number below what a float64 holds.
	exponent = regex.Optional(regex.Concat(regex.Or(regex.Literal("e"), regex.Literal("E")), regex.Optional(regex.Or(regex.Literal("+"), minus)),
		regex.Or(regex.Repeat(digit, 1, 2), regex.Concat(regex.Literal("1"), digit, digit),
			regex.Concat(regex.Literal("2"), regex.ByteRange('0', '8'), digit))))
	anyWhole  = regex.Or(regex.Literal("0"), regex.Concat(regex.Optional(minus), unbounded))
	magnitude = regex.Concat(regex.Or(regex.Literal("0"), unbounded), part, exponent)
	anyNumber = regex.Concat(regex.Optional(minus), magnitude)
)

// wholes matches the whole numbers of a range, in digits alone.
func wholes(s span) *regex.Regex {
	low, high := s.scaled(0)
	if low == nil && high == nil {
		return anyWhole
	}
	low, high = withBounds(low, high, wholeDigits)
	if low.Cmp(high) > 0 {
		return regex.Nothing()
	}
	var parts []*regex.Regex
	if low.Sign() < 0 {
		from, to := new(big.Int).Neg(high), new(big.Int).Neg(low)
		if from.Sign() <= 0 {
			from.SetInt64(1)
		}
		parts = append(parts, regex.Concat(minus, digitsBetween(from, to)))
	}
	if high.Sign() >= 0 {
		parts = append(parts, digitsBetween(larger(low, new(big.Int)), high))
	}
	return regex.Or(parts...)
}

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// withBounds gives a half-open range its other end: far enough that there is room beyond the end that it has.
func withBounds(low, high *big.Int, digits int) (*big.Int, *big.Int) {
	one := big.NewInt(1)
	if high == nil {
		n := max(digits, len(new(big.Int).Abs(low).String())+1)
		high = new(big.Int).Sub(power10(n), one)
	}
	if low == nil {
		n := max(digits, len(new(big.Int).Abs(high).String())+1)
		low = new(big.Int).Sub(one, power10(n))
	}
	return low, high
}

// digitsBetween matches the numbers from low to high, neither below zero, without leading zeros.
func digitsBetween(low, high *big.Int) *regex.Regex {
	var parts []*regex.Regex
	for low.Cmp(high) <= 0 {
		n := len(low.String())
		last := new(big.Int).Sub(power10(n), big.NewInt(1))
		to := last
		if high.Cmp(last) < 0 {
			to = high
		}
		parts = append(parts, sameLength(low.String(), to.String()))
		low = new(big.Int).Add(last, big.NewInt(1))
	}
	return regex.Or(parts...)
}

// sameLength matches the digit strings from low to high, all of one length.
func sameLength(low, high string) *regex.Regex {
	n := len(low)
	switch {
	case n == 0:
		return regex.Empty()
	case low == high:
		return regex.Literal(low)
	case only(low, '0') && only(high, '9'):
		return regex.Repeat(digit, n, n)
	case low[0] == high[0]:
		return regex.Concat(regex.Literal(low[:1]), sameLength(low[1:], high[1:]))
	}
	rest := regex.Repeat(digit, n-1, n-1)
	from, to := low[0], high[0]
	var parts []*regex.Regex
	if !only(low[1:], '0') {
		parts = append(parts, regex.Concat(regex.Literal(low[:1]), sameLength(low[1:], strings.Repeat("9", n-1))))
		from++
	}
	if !only(high[1:], '9') {
		parts = append(parts, regex.Concat(regex.Literal(high[:1]), sameLength(strings.Repeat("0", n-1), high[1:])))
		to--
	}
	if from <= to {
		parts = append(parts, regex.Concat(regex.ByteRange(from, to), rest))
	}
	return regex.Or(parts...)
}

func only(s string, c byte) bool {
	return strings.Trim(s, string([]byte{c})) == ""
}

// decimals matches the numbers of a range, whole or with a point. Zero as the only bound leaves exponents possible; other bounds are kept by
// digits, and as many digits follow the point as no float64 rounds across an open bound.
func decimals(s span) *regex.Regex {
	switch {
	case s.low == nil && s.high == nil:
		return anyNumber
	case s.high == nil && s.low.Sign() == 0 && !s.openLow:
		return magnitude
	case s.low == nil && s.high.Sign() == 0 && !s.openHigh:
		return regex.Or(regex.Literal("0"), regex.Concat(minus, magnitude))
	}
	after := s.digitsAfterPoint()
	low, high := s.scaled(after)
	low, high = withBounds(low, high, wholeDigits+after)
	if low.Cmp(high) > 0 {
		return regex.Nothing()
	}
	var parts []*regex.Regex
	if low.Sign() < 0 {
		from, to := new(big.Int).Neg(high), new(big.Int).Neg(low)
		if from.Sign() <= 0 {
			from.SetInt64(1)
		}
		parts = append(parts, regex.Concat(minus, pointed(from, to, after)))
	}
	if high.Sign() >= 0 {
		parts = append(parts, pointed(larger(low, new(big.Int)), high, after))
	}
	return regex.Or(parts...)
}

// digitsAfterPoint is how many digits may follow the point inside the range.
func (s *span) digitsAfterPoint() int {
	whole, fraction := 1, 1
	for _, bound := range []*big.Rat{s.low, s.high} {
		if bound == nil {
			continue
		}
		whole = max(whole, len(new(big.Int).Quo(bound.Num(), bound.Denom()).String()))
		fraction = max(fraction, fractionDigits(bound))
	}
	return max(partDigits-whole, fraction)
}

// fractionDigits is how many digits a number has after its point, at most boundDigits.
func fractionDigits(r *big.Rat) int {
	n, ten := 0, big.NewRat(10, 1)
	for x := new(big.Rat).Set(r); !x.IsInt() && n < boundDigits; n++ {
		x.Mul(x, ten)
	}
	return n
}

// pointed matches low/10^after to high/10^after, neither below zero, with up to after digits behind the point.
func pointed(low, high *big.Int, after int) *regex.Regex {
	unit := power10(after)
	var parts []*regex.Regex
	for low.Cmp(high) <= 0 {
		n := max(len(low.String()), after+1)
		last := new(big.Int).Sub(power10(n), big.NewInt(1))
		to := last
		if high.Cmp(last) < 0 {
			to = high
		}
		parts = append(parts, pointedSameLength(padded(low, n), padded(to, n), n-after))
		low = larger(new(big.Int).Add(last, big.NewInt(1)), unit)
	}
	return regex.Or(parts...)
}

func padded(n *big.Int, digits int) string {
	s := n.String()
	return strings.Repeat("0", digits-len(s)) + s
}

// pointedSameLength matches digit strings from low to high with a point after the first whole digits; zeros behind the point may be left out,
// and with the last of them the point.
func pointedSameLength(low, high string, whole int) *regex.Regex {
	if whole == 0 {
		tail := fraction(low, high)
		if only(low, '0') {
			return regex.Optional(regex.Concat(point, tail))
		}
		return regex.Concat(point, tail)
	}
	n := len(low)
	if only(low, '0') && only(high, '9') {
		return regex.Concat(regex.Repeat(digit, whole, whole), regex.Optional(regex.Concat(point, regex.Repeat(digit, 1, n-whole))))
	}
	if low[0] == high[0] {
		return regex.Concat(regex.Literal(low[:1]), pointedSameLength(low[1:], high[1:], whole-1))
	}
	zeros, nines := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
	parts := []*regex.Regex{
		regex.Concat(regex.Literal(low[:1]), pointedSameLength(low[1:], nines, whole-1)),
		regex.Concat(regex.Literal(high[:1]), pointedSameLength(zeros, high[1:], whole-1)),
	}
	if low[0]+1 < high[0] {
		free := regex.Optional(regex.Concat(point, regex.Repeat(digit, 1, n-whole)))
		parts = append(parts, regex.Concat(regex.ByteRange(low[0]+1, high[0]-1), regex.Repeat(digit, whole-1, whole-1), free))
	}
	return regex.Or(parts...)
}

// fraction matches at least one digit behind a point, from low to high, where zeros at the end may be left out.
func fraction(low, high string) *regex.Regex {
	n := len(low)
	if only(low, '0') && only(high, '9') {
		return regex.Repeat(digit, 1, n)
	}
	tail := func(low, high string) *regex.Regex {
		switch {
		case low == "":
			return regex.Empty()
		case only(low, '0'):
			return regex.Optional(fraction(low, high))
		}
		return fraction(low, high)
	}
	if low[0] == high[0] {
		return regex.Concat(regex.Literal(low[:1]), tail(low[1:], high[1:]))
	}
	zeros, nines := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
	parts := []*regex.Regex{
		regex.Concat(regex.Literal(low[:1]), tail(low[1:], nines)),
		regex.Concat(regex.Literal(high[:1]), tail(zeros, high[1:])),
	}
	if low[0]+1 < high[0] {
		parts = append(parts, regex.Concat(regex.ByteRange(low[0]+1, high[0]-1), regex.Repeat(digit, 0, n-1)))
	}
	return regex.Or(parts...)
}
