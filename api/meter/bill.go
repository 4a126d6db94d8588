package meter

import (
	"errors"

	"weir/scheduler/quota"
)

// Bill is what a request of a limited tenant pays with: reserved before it is
// submitted, topped up while tokens come, settled when it ends. One goroutine at a
// time owns it. A request without limits has none: all methods of nil do nothing.
type Bill struct {
	meter     Meter
	grant     quota.Grant
	generated int64 // tokens of all choices that were paid for
	Covered   int64 // tokens that are reserved
	most      int64 // tokens that the request may have
	settled   bool
	key       string // id of the key whose limit ended the answer; "" where it was the tenant's, or none
}

// topUpTokens is how many further tokens a top-up is for at least; it is for a quarter of what there is, where that is more: so
// an answer costs few of them, however long it gets.
const topUpTokens = 64

// quotaUnavailable stands in place of a limit's name where a meter that cannot be reached
// ended an answer: the meter cannot tell what its strict limits have left.
const quotaUnavailable = "quota_unavailable"

// Token pays for one more token. What it returns is the name of the limit that does not
// pay for it, "" where all do: then the token must not be delivered.
func (b *Bill) Token() (limit string) {
	if b == nil {
		return ""
	}
	if told := b.grant.Generated; told != nil {
		told.Store(b.generated + 1)
	}
	if b.generated < b.Covered {
		b.generated++
		return ""
	}
	next := b.generated + 1
	cover := max(min(next+max(topUpTokens, next/4), b.most), next)
	err := b.meter.TopUp(&b.grant, next, cover)
	if r, ok := errors.AsType[*quota.Refusal](err); ok {
		b.key = r.Key
		return r.Kind.String()
	}
	if err != nil && b.grant.Holder.Strict() {
		return quotaUnavailable
	}
	if b.Covered = b.grant.Covered(); b.Covered < next {
		b.Covered = cover // the meter cannot decide now: the answer goes on, and is settled as it ends
	}
	b.generated = next
	return ""
}

// Whose names who has the limit that ended the answer.
func (b *Bill) Whose() string {
	if b == nil || b.key == "" {
		return "the tenant's limit"
	}
	return "the key " + b.key + "'s limit"
}

// Settle ends the bill with what was used. Further calls do nothing.
func (b *Bill) Settle(use quota.Use) {
	if b == nil || b.settled {
		return
	}
	b.settled = true
	b.meter.Settle(&b.grant, use)
}

// NewBill is that of a grant, for a request that may have so many tokens.
func NewBill(m Meter, g quota.Grant, most int64) *Bill {
	return &Bill{meter: m, grant: g, Covered: g.Covered(), most: most}
}
