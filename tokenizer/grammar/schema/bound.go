package schema

import (
	"math/big"

	"weir/tokenizer/grammar/regex"
)

// numberFormats has the bounds of the formats of OpenAPI's numbers.
var numberFormats = map[string][2]int64{"int8": {-1 << 7, 1<<7 - 1}, "int16": {-1 << 15, 1<<15 - 1}, "int32": {-1 << 31, 1<<31 - 1},
	"int64": {-1 << 63, 1<<63 - 1}, "uint8": {0, 1<<8 - 1}, "uint16": {0, 1<<16 - 1}, "uint32": {0, 1<<32 - 1}}

// spanOf merges the bounds of numbers over members.
func (rd *reader) spanOf(members []*value) (span, error) {
	var r span
	for _, m := range members {
		low, err := rd.bound(m, "minimum")
		if err != nil {
			return r, err
		}
		high, err := rd.bound(m, "maximum")
		if err != nil {
			return r, err
		}
		openLow, above, err := rd.openBound(m, "exclusiveMinimum")
		if err != nil {
			return r, err
		}
		openHigh, below, err := rd.openBound(m, "exclusiveMaximum")
		if err != nil {
			return r, err
		}
		if low != nil {
			r.atLeast(low, openLow)
		}
		if high != nil {
			r.atMost(high, openHigh)
		}
		if above != nil {
			r.atLeast(above, true)
		}
		if below != nil {
			r.atMost(below, true)
		}
		if f := rd.doc.keyword(m, "format"); f != nil && !rd.loose {
			if ends, ok := numberFormats[f.text]; ok {
				r.atLeast(new(big.Rat).SetInt64(ends[0]), false)
				r.atMost(new(big.Rat).SetInt64(ends[1]), false)
			}
		}
	}
	return r, nil
}

func (rd *reader) bound(s *value, keyword string) (*big.Rat, error) {
	v := rd.doc.keyword(s, keyword)
	if v == nil {
		return nil, nil
	}
	if v.kind != number {
		return nil, wrong(s, keyword, "needs a number")
	}
	digits := len(new(big.Int).Quo(v.amount.Num(), v.amount.Denom()).String())
	if digits > boundDigits || fractionDigits(v.amount) >= boundDigits {
		return nil, wrong(s, keyword, "%.40s has too many digits; %d on either side of the point are possible", v.text, boundDigits)
	}
	return v.amount, nil
}

// openBound reads an exclusive bound: a number, or in draft 4 a boolean that opens the bound beside it.
func (rd *reader) openBound(s *value, keyword string) (open bool, bound *big.Rat, err error) {
	v := rd.doc.keyword(s, keyword)
	if v != nil && v.kind == boolean && (rd.doc.draft == draft4 || rd.doc.draft == anyDraft) {
		return v.truth, nil, nil
	}
	bound, err = rd.bound(s, keyword)
	return false, bound, err
}

// multipleOf is what a number must be a multiple of, nil where it need not.
func (rd *reader) multipleOf(s *value) (*big.Rat, error) {
	v := rd.doc.keyword(s, "multipleOf")
	if v == nil {
		return nil, nil
	}
	m, err := rd.bound(s, "multipleOf")
	if err == nil && m.Sign() <= 0 {
		return nil, wrong(s, "multipleOf", "%.40s is not above zero", v.text)
	}
	return m, err
}

// number is the regular expression of the numbers that all members hold for; nil where there is none.
func (sf *scalarForms) number(members []*value, t types) (*regex.Regex, error) {
	r, err := sf.spanOf(members)
	if err != nil || r.empty() {
		return nil, err
	}
	whole := t == isInteger
	if whole && emptyWholes(r) {
		return nil, nil
	}
	set := wholes(r)
	if !whole {
		set = decimals(r)
	}
	parts := []*regex.Regex{set}
	if t == isFraction {
		parts = append(parts, notWhole)
	}
	for _, m := range members {
		divisor, err := sf.multipleOf(m)
		if err != nil {
			return nil, err
		}
		if divisor != nil {
			multiples, err := sf.multiples(m, divisor, whole)
			if err != nil {
				if err := sf.unlessLoose(err); err != nil {
					return nil, err
				}
				continue
			}
			parts = append(parts, multiples)
		}
		if divisor := sf.made.indivisible[m]; divisor != nil {
			multiples, err := sf.multiples(m, divisor, whole)
			if err != nil {
				return nil, err
			}
			parts = append(parts, regex.Not(multiples))
		}
		for _, v := range sf.made.excluded[m] {
			if v.kind == number {
				parts = append(parts, regex.Not(spellings(v.amount)))
			}
		}
	}
	if set == regex.Nothing() {
		return nil, wrong(members[0], "", "the bounds are closer together than the %d digits that numbers have here", partDigits)
	}
	if len(parts) == 1 {
		return set, nil
	}
	return sf.unlessNothing(members, regex.And(parts...))
}

// emptyWholes reports whether no whole number is in a range.
func emptyWholes(r span) bool {
	low, high := r.scaled(0)
	return low != nil && high != nil && low.Cmp(high) > 0
}

// notWhole matches numbers with a digit behind the point that is not zero.
var notWhole = regex.Concat(regex.Optional(minus), regex.Repeat(digit, 1, regex.Unbounded), point, regex.Repeat(digit, 0, regex.Unbounded),
	positive, regex.Repeat(digit, 0, regex.Unbounded))

// maxDivisor bounds multipleOf, counted in units of its last digit and without zeros at the end: finding out whether a multiple can still
// follow looks at every remainder.
const maxDivisor = 5_000

// multiples matches the multiples of a number that are written without exponent and with no more digits behind the point than it has.
func (sf *scalarForms) multiples(at *value, divisor *big.Rat, whole bool) (*regex.Regex, error) {
	after := fractionDigits(divisor)
	units := new(big.Rat).Mul(divisor, new(big.Rat).SetInt(power10(after))).Num()
	var parts []*regex.Regex
	for digits := 0; digits <= after; digits++ {
		unit := new(big.Int).Quo(units, new(big.Int).GCD(nil, nil, units, power10(after-digits)))
		zeros := 0
		for ten := big.NewInt(10); new(big.Int).Rem(unit, ten).Sign() == 0; zeros++ {
			unit.Quo(unit, ten)
		}
		if unit.Cmp(big.NewInt(maxDivisor)) > 0 {
			return nil, wrong(at, "multipleOf", "%s has too many digits; up to %d units of the last digit are possible",
				divisor.FloatString(after), maxDivisor)
		}
		form := []*regex.Regex{regex.Optional(minus), regex.Repeat(digit, 1, regex.Unbounded)}
		if digits > 0 {
			form = append(form, point, regex.Repeat(digit, digits, digits))
		}
		parts = append(parts, regex.And(regex.Concat(form...), regex.Multiple(int(unit.Int64())), endingInZeros(zeros)))
		if whole {
			break
		}
	}
	return regex.Or(parts...), nil
}

// endingInZeros matches texts whose last digits are zeros, a point between them left out, and zero itself.
func endingInZeros(n int) *regex.Regex {
	anything := regex.Not(regex.Nothing())
	if n == 0 {
		return anything
	}
	zero := regex.Literal("0")
	last := regex.Repeat(regex.Concat(zero, regex.Optional(point)), n-1, n-1)
	noughts := regex.Concat(regex.Optional(minus), regex.Repeat(regex.Or(zero, point), 1, regex.Unbounded))
	return regex.Or(regex.Concat(anything, last, zero), noughts)
}

// spellings matches a number however it is written without exponent.
func spellings(v *big.Rat) *regex.Regex {
	after := fractionDigits(v)
	text := new(big.Rat).Abs(v).FloatString(after)
	zeros := regex.Repeat(regex.Literal("0"), 0, regex.Unbounded)
	tail := zeros
	if after == 0 {
		tail = regex.Optional(regex.Concat(point, zeros))
	}
	sign := regex.Empty()
	switch v.Sign() {
	case -1:
		sign = minus
	case 0:
		sign = regex.Optional(minus)
	}
	return regex.Concat(sign, regex.Literal(text), tail)
}
