package quota

import (
	"errors"
	"fmt"
)

// Limits are what a tenant may use, of all models together or of one model, or what may be used with a key. Zero
// is unlimited. The tags are the keys of the configuration file.
//
// A limit per minute is a bucket that holds a minute's worth and refills evenly:
// after a quiet minute the whole amount may be used at once. Budgets are counted
// by day and by month of UTC.
type Limits struct {
	RequestsPerMinute     int64 `json:"requests_per_minute,omitempty" yaml:"requests_per_minute"`
	TokensPerMinute       int64 `json:"tokens_per_minute,omitempty" yaml:"tokens_per_minute"`               // input and output together
	InputTokensPerMinute  int64 `json:"input_tokens_per_minute,omitempty" yaml:"input_tokens_per_minute"`   // cached ones included
	OutputTokensPerMinute int64 `json:"output_tokens_per_minute,omitempty" yaml:"output_tokens_per_minute"` // of all choices

	MaxStreams       int64 `json:"max_streams,omitempty" yaml:"max_streams"`               // requests at once, streamed or not
	MaxContextTokens int64 `json:"max_context_tokens,omitempty" yaml:"max_context_tokens"` // prompt and output of one choice
	MaxOutputTokens  int64 `json:"max_output_tokens,omitempty" yaml:"max_output_tokens"`   // of one choice

	DailyTokens   int64 `json:"daily_tokens,omitempty" yaml:"daily_tokens"` // input and output together
	MonthlyTokens int64 `json:"monthly_tokens,omitempty" yaml:"monthly_tokens"`
	DailyCost     Money `json:"daily_cost,omitempty" yaml:"daily_cost"` // at the models' prices
	MonthlyCost   Money `json:"monthly_cost,omitempty" yaml:"monthly_cost"`

	Enforcement Enforcement `json:"enforcement,omitempty" yaml:"enforcement"`
}

// The largest values that limits may have. They keep all sums far from the ends
// of an int64, and exact in the floating-point numbers that scripts in Redis
// compute with.
const (
	MaxPerMinute = 100_000_000_000
	MaxBudget    = 1_000_000_000_000_000
)

// Validate reports every limit that is out of range.
func (l *Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		name        string
		value, most int64
	}{
		{"requests_per_minute", l.RequestsPerMinute, MaxPerMinute},
		{"tokens_per_minute", l.TokensPerMinute, MaxPerMinute},
		{"input_tokens_per_minute", l.InputTokensPerMinute, MaxPerMinute},
		{"output_tokens_per_minute", l.OutputTokensPerMinute, MaxPerMinute},
		{"max_streams", l.MaxStreams, MaxPerMinute},
		{"max_context_tokens", l.MaxContextTokens, MaxPerMinute},
		{"max_output_tokens", l.MaxOutputTokens, MaxPerMinute},
		{"daily_tokens", l.DailyTokens, MaxBudget},
		{"monthly_tokens", l.MonthlyTokens, MaxBudget},
		{"daily_cost in millionths", int64(l.DailyCost), MaxBudget},
		{"monthly_cost in millionths", int64(l.MonthlyCost), MaxBudget},
	} {
		if f.value < 0 || f.value > f.most {
			errs = append(errs, fmt.Errorf("%s is %d; it must be from 0, which is unlimited, to %d", f.name, f.value, f.most))
		}
	}
	return errors.Join(errs...)
}

// hasBudget reports whether there is a budget of a day or a month.
func (l *Limits) hasBudget() bool {
	return l.DailyTokens > 0 || l.MonthlyTokens > 0 || l.DailyCost > 0 || l.MonthlyCost > 0
}

// Unlimited reports whether no limit is set at all.
func (l *Limits) Unlimited() bool {
	return l == nil || *l == Limits{Enforcement: l.Enforcement}
}
