package quota

import (
	"fmt"
	"slices"
)

// Enforcement says how limits of tokens and money treat an answer, whose length
// is not known before its end.
//
// A strict limit is never exceeded. A request reserves all that its answer may use,
// as far as the limit has it at all, and an answer that finds the limit used up
// ends there, with finish reason length.
//
// Of another limit a request reserves what its answer is expected to use. An answer
// that gets longer goes on, and what it used beyond the limit is a debt that later
// requests wait for.
type Enforcement uint8

// The kinds of enforcement.
const (
	StrictMoney Enforcement = iota // budgets in money are strict, limits of tokens are not; the default
	Estimate                       // nothing is strict
	Strict                         // everything is
	numEnforcements
)

var enforcementNames = [numEnforcements]string{"money", "estimate", "strict"}

// EnforcementNames are the words of the configuration.
func EnforcementNames() []string { return enforcementNames[:] }

// String is the word of the configuration.
func (e Enforcement) String() string {
	if e < numEnforcements {
		return enforcementNames[e]
	}
	return "unknown"
}

// ParseEnforcement is the inverse of String.
func ParseEnforcement(word string) (Enforcement, bool) {
	i := slices.Index(enforcementNames[:], word)
	return Enforcement(max(i, 0)), i >= 0
}

// MarshalText gives String.
func (e Enforcement) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText is ParseEnforcement.
func (e *Enforcement) UnmarshalText(text []byte) error {
	got, ok := ParseEnforcement(string(text))
	if !ok {
		return fmt.Errorf("enforcement is %.40q; it must be one of %q", text, enforcementNames)
	}
	*e = got
	return nil
}

// StrictTokens reports whether there are limits of tokens that are never exceeded.
func (l *Limits) StrictTokens() bool {
	return l.Enforcement == Strict && (l.TokensPerMinute > 0 || l.OutputTokensPerMinute > 0 || l.DailyTokens > 0 || l.MonthlyTokens > 0)
}

// StrictMoney reports whether there are budgets in money that are never exceeded.
func (l *Limits) StrictMoney() bool {
	return l.Enforcement != Estimate && (l.DailyCost > 0 || l.MonthlyCost > 0)
}

// Strict reports whether a limit of the holder ends answers.
func (h *Holder) Strict() bool {
	for _, p := range h.parts() {
		if p.limits.StrictTokens() || p.limits.StrictMoney() {
			return true
		}
	}
	return false
}
