package quota

import (
	"errors"
	"fmt"
	"time"
)

// Kind says which limit stands in a request's way.
type Kind uint8

// The kinds of limits.
const (
	Requests Kind = iota
	Tokens
	InputTokens
	OutputTokens
	Streams
	ContextTokens // of one request
	AnswerTokens  // of one request's answer
	DailyTokens
	MonthlyTokens
	DailyCost
	MonthlyCost
	numKinds
)

var kindNames = [numKinds]string{"requests_per_minute", "tokens_per_minute", "input_tokens_per_minute", "output_tokens_per_minute",
	"max_streams", "max_context_tokens", "max_output_tokens", "daily_tokens", "monthly_tokens", "daily_cost", "monthly_cost"}

// String is the limit's key in the configuration.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return "unknown"
}

// Budget reports whether the limit is a budget: of a day or a month, which no
// client should wait for.
func (k Kind) Budget() bool { return k >= DailyTokens }

// Refusal is the error of what a limit does not admit.
type Refusal struct {
	Kind  Kind
	Model string // of which the limit is; "" where it is for all models
	Key   string // id of the key whose limit it is; "" where it is the tenant's
	Limit int64  // millionths of the currency for costs
	Left  int64  // now
	Need  int64  // what was asked for

	// RetryAfter is when the same request would succeed, if nothing else is asked
	// for until then and what runs uses what it has reserved. 0: never, since the
	// request needs more than the limit itself.
	RetryAfter time.Duration

	// Held says that a budget has what was asked for, and running answers hold it:
	// RetryAfter is soon then, since they may use less.
	Held bool

	Remaining Remaining // for the answer's headers
}

// ErrFull is the error of a meter that has no memory for one more tenant: none of
// those it knows may be forgotten without giving credit away.
var ErrFull = errors.New("the meter knows as many tenants and models as it may")

func (r *Refusal) Error() string {
	whose := "of the tenant"
	switch {
	case r.Key != "":
		whose = "of the key " + r.Key
	case r.Model != "":
		whose = "of the tenant for the model " + r.Model
	}
	if r.Kind == DailyCost || r.Kind == MonthlyCost {
		return fmt.Sprintf("the limit %v %s is %v: %v left, %v needed; %s", r.Kind, whose, Money(r.Limit), Money(r.Left), Money(r.Need), r.remedy())
	}
	return fmt.Sprintf("the limit %v %s is %d: %d left, %d needed; %s", r.Kind, whose, r.Limit, r.Left, r.Need, r.remedy())
}

func (r *Refusal) remedy() string {
	switch {
	case r.RetryAfter <= 0:
		return "ask for less at once"
	case r.Held:
		return "running answers hold the rest; try again in " + r.RetryAfter.String()
	}
	return "try again in " + r.RetryAfter.String()
}

// worse is the refusal that more time, or nothing at all, resolves.
func worse(a, b *Refusal) *Refusal {
	switch {
	case a == nil:
		return b
	case b == nil || a.RetryAfter == 0 || b.RetryAfter != 0 && a.RetryAfter >= b.RetryAfter:
		return a
	}
	return b
}
