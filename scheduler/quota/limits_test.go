package quota

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/inference"
)

func TestLimitsNameWhatIsOutOfRange(t *testing.T) {
	if err := (&Limits{}).Validate(); err != nil {
		t.Errorf("no limits: %v", err)
	}
	full := Limits{MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute, MaxPerMinute,
		MaxBudget, MaxBudget, MaxBudget, MaxBudget, Strict}
	if err := full.Validate(); err != nil {
		t.Errorf("the largest limits: %v", err)
	}
	err := (&Limits{RequestsPerMinute: -1, MonthlyCost: MaxBudget + 1}).Validate()
	if err == nil || !strings.Contains(err.Error(), "requests_per_minute is -1") || !strings.Contains(err.Error(), "monthly_cost") {
		t.Errorf("two wrong limits gave %v", err)
	}
}

func TestUnlimitedIsWithoutAnyLimit(t *testing.T) {
	var none *Limits
	if !none.Unlimited() || !(&Limits{Enforcement: Strict}).Unlimited() || (&Limits{DailyCost: 1}).Unlimited() {
		t.Error("Unlimited is wrong about nil, Enforcement alone or a daily cost")
	}
}

func TestMoneyIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]Money{"0": 0, "12": 12e6, "12.5": 12_500_000, "0.000001": 1, "007.10": 7_100_000, "1000000000": MaxBudget} {
		got, err := ParseMoney(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
		if back, err := ParseMoney(got.String()); err != nil || back != got {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000001", "1,5", "1000000000.000001", "99999999999999999999", "0x1", "1 "} {
		if got, err := ParseMoney(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	if got := Money(-1_500_000).String(); got != "-1.5" {
		t.Errorf("a negative amount is written %q", got)
	}
	if got := Money(math.MinInt64).String(); got != "-9223372036854.775808" {
		t.Errorf("the least amount is written %q", got)
	}
}

func FuzzParseMoney(f *testing.F) {
	f.Add("12.5")
	f.Add("0.000001")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMoney(text)
		if err != nil {
			return
		}
		if m < 0 || m > MaxBudget {
			t.Fatalf("%q is %d", text, m)
		}
		if back, err := ParseMoney(m.String()); err != nil || back != m {
			t.Fatalf("%q is written %q, which is %v, %v", text, m, back, err)
		}
	})
}

// Cost agrees with exact arithmetic, whatever the counts.
func TestCostIsExactAndRoundedUpOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	amount := func(most int64) int64 { return rng.Int64N(1 + most>>rng.IntN(63)) }
	for range 20_000 {
		p := Price{Input: Money(amount(int64(MaxPrice))), CachedInput: Money(amount(int64(MaxPrice))), Output: Money(amount(int64(MaxPrice)))}
		in, out := amount(math.MaxInt64-1), amount(math.MaxInt64-1)
		cached := rng.Int64N(in + 1)
		sum := new(big.Int).Mul(big.NewInt(in-cached), big.NewInt(int64(p.Input)))
		sum.Add(sum, new(big.Int).Mul(big.NewInt(cached), big.NewInt(int64(p.CachedInput))))
		sum.Add(sum, new(big.Int).Mul(big.NewInt(out), big.NewInt(int64(p.Output))))
		sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
		want := int64(MaxBudget)
		if sum.IsInt64() {
			want = min(sum.Int64(), MaxBudget)
		}
		if got := p.Cost(in, cached, out); int64(got) != want {
			t.Fatalf("%+v for %d, %d, %d is %d, want %d", p, in, cached, out, got, want)
		}
	}
	if got := (Price{Input: 150_000, Output: 600_000}).Cost(10, 0, 5); got != 5 {
		t.Errorf("1.5 and 3 millionths are %d, want 5", got)
	}
	if got := (Price{Input: 1, CachedInput: 1, Output: 1}).Cost(-5, 9, -1); got != 0 {
		t.Errorf("negative counts cost %d", got)
	}
}

func TestPricesByClass(t *testing.T) {
	p := Price{Input: 100, CachedInput: 10, Output: 1001, ClassPercent: [inference.NumClasses]int{inference.Interactive: 150, inference.Batch: 50}}
	for c, want := range map[inference.Class]Price{
		inference.Interactive: {Input: 150, CachedInput: 15, Output: 1502},
		inference.Default:     {Input: 100, CachedInput: 10, Output: 1001},
		inference.Batch:       {Input: 50, CachedInput: 5, Output: 501},
	} {
		if got := p.OfClass(c); got != want {
			t.Errorf("class %v: %+v, want %+v", c, got, want)
		}
	}
	if got := (Price{Output: 7}).OfClass(inference.Batch); got != (Price{Output: 7}) {
		t.Errorf("a price without classes: %+v", got)
	}
}
