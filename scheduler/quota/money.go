package quota

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"weir/internal/inference"
)

// Money is an amount in millionths of the operator's currency, which is not
// named anywhere.
type Money int64

// moneyUnit is one whole unit of the currency.
const moneyUnit Money = 1_000_000

const moneyDigits = 6 // after the decimal point

// ParseMoney reads a decimal amount such as "12", "12.5" or "0.000001". More
// digits than six after the point, a sign and an exponent are errors.
func ParseMoney(text string) (Money, error) {
	whole, fraction, pointed := strings.Cut(text, ".")
	if len(fraction) > moneyDigits || pointed && fraction == "" || !areDigits(whole) || !areDigits(fraction) || whole == "" {
		return 0, fmt.Errorf("amount %q is not a decimal number with at most %d digits after the point", shorten(text), moneyDigits)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", moneyDigits-len(fraction)), 10, 64)
	if err != nil || n > MaxBudget {
		return 0, fmt.Errorf("amount %q is above the largest, %v", shorten(text), Money(MaxBudget))
	}
	return Money(n), nil
}

func areDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// shorten cuts what an error quotes.
func shorten(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// String gives the decimal form that ParseMoney reads: "12.5".
func (m Money) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	whole, fraction := n/uint64(moneyUnit), n%uint64(moneyUnit)
	if fraction == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}
	return sign + strconv.FormatUint(whole, 10) + "." + strings.TrimRight(fmt.Sprintf("%06d", fraction), "0")
}

// Units is the amount in units of the currency, for a graph; sums belong to Money.
func (m Money) Units() float64 { return float64(m) / float64(moneyUnit) }

// MarshalText gives String.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMoney.
func (m *Money) UnmarshalText(text []byte) error {
	n, err := ParseMoney(string(text))
	if err == nil {
		*m = n
	}
	return err
}

// Price is what a model's tokens cost, per million of each kind.
type Price struct {
	Input       Money `json:"input" yaml:"input"`
	CachedInput Money `json:"cached_input" yaml:"cached_input"` // prompt tokens from the prefix cache
	Output      Money `json:"output" yaml:"output"`

	// ClassPercent is the price of requests of each class, in percent of those above;
	// 0 is 100.
	ClassPercent [inference.NumClasses]int `json:"class_percent,omitzero" yaml:"class_percent"`
}

// MaxClassPercent is the largest price of a class.
const MaxClassPercent = 10_000

// OfClass is what requests of a class pay.
func (p Price) OfClass(c inference.Class) Price {
	if percent := p.ClassPercent[c]; percent > 0 {
		return p.Percent(percent)
	}
	return p.Percent(100)
}

// MaxPrice is the largest price of a million tokens: a million units.
const MaxPrice = 1_000_000 * moneyUnit

// Validate reports a price that is out of range.
func (p Price) Validate() error {
	for _, f := range []struct {
		name  string
		value Money
	}{{"input", p.Input}, {"cached_input", p.CachedInput}, {"output", p.Output}} {
		if f.value < 0 || f.value > MaxPrice {
			return fmt.Errorf("price %s is %v; it must be from 0 to %v per million tokens", f.name, f.value, MaxPrice)
		}
	}
	return nil
}

// Percent is so many hundredths of the price, each part rounded up to the next millionth,
// whatever the class.
func (p Price) Percent(percent int) Price {
	part := func(m Money) Money { return (m*Money(percent) + 99) / 100 } // at most MaxPrice times MaxClassPercent: far from the end of an int64
	return Price{Input: part(p.Input), CachedInput: part(p.CachedInput), Output: part(p.Output)}
}

// Cost is the price of one request, rounded up to the next millionth once, and at
// most MaxBudget. input counts all prompt tokens, of which cached came from the
// prefix cache. Negative counts are as zero, and cached is at most input.
func (p Price) Cost(input, cached, output int64) Money {
	input, output = max(input, 0), max(output, 0)
	cached = min(max(cached, 0), input)
	var high, low uint64
	for _, part := range [...]struct {
		tokens int64
		price  Money
	}{{input - cached, p.Input}, {cached, p.CachedInput}, {output, p.Output}} {
		h, l := bits.Mul64(uint64(part.tokens), uint64(max(part.price, 0)))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	low, carry := bits.Add64(low, uint64(moneyUnit)-1, 0)
	high += carry
	if high >= uint64(moneyUnit) {
		return MaxBudget
	}
	cost, _ := bits.Div64(high, low, uint64(moneyUnit))
	return Money(min(cost, MaxBudget))
}
