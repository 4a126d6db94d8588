package quota

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Holder is whom a request counts for: the tenant, the tenant's use of one model, and
// the key that the tenant has shown. Limits that are nil, or without any limit, are not counted.
type Holder struct {
	Tenant      string
	Model       string // immutable name; "" has no limits of its own
	Limits      *Limits
	ModelLimits *Limits // the tenant's for this model, beside Limits

	Key        string  // id of the key; "": another proof, or a key without limits of its own
	KeyAccount string  // what its use is counted as: the id of the first of the keys that took each other's place
	KeyLimits  *Limits // the key's, of all models, beside the others
}

// Unlimited reports whether no limit of any kind is set.
func (h *Holder) Unlimited() bool {
	return h.Limits.Unlimited() && h.ModelLimits.Unlimited() && h.KeyLimits.Unlimited()
}

// Check reports what a request's own size has to obey, as a *Refusal: the
// tokens of its longest prompt and answer together, and those of the answer.
func (h *Holder) Check(prompt, answer int64) error {
	for _, p := range h.parts() {
		if l := p.limits; l.MaxOutputTokens > 0 && answer > l.MaxOutputTokens {
			return &Refusal{Kind: AnswerTokens, Model: p.model, Key: p.key, Limit: l.MaxOutputTokens, Left: l.MaxOutputTokens, Need: answer}
		}
		if l := p.limits; l.MaxContextTokens > 0 && prompt+answer > l.MaxContextTokens {
			return &Refusal{Kind: ContextTokens, Model: p.model, Key: p.key, Limit: l.MaxContextTokens, Left: l.MaxContextTokens, Need: prompt + answer}
		}
	}
	return nil
}

// MaxAnswer is how long an answer may be at most beside a prompt, in tokens;
// below zero the prompt alone is too long.
func (h *Holder) MaxAnswer(prompt int64) int64 {
	most := int64(math.MaxInt64)
	for _, p := range h.parts() {
		if l := p.limits; l.MaxOutputTokens > 0 {
			most = min(most, l.MaxOutputTokens)
		}
		if l := p.limits; l.MaxContextTokens > 0 {
			most = min(most, l.MaxContextTokens-prompt)
		}
	}
	return most
}

// part is one of the states that a request counts for: the tenant's, the tenant's of a model, or a key's.
type part struct {
	model   string // "" is of all models
	key     string // id of the key whose limits these are; "" is the tenant's
	account string // of the key
	limits  *Limits
}

// numParts is how many parts a holder has at most.
const numParts = 3

// noLimits stands for limits that are nil.
var noLimits Limits

func (h *Holder) parts() [numParts]part {
	list := [numParts]part{{limits: h.Limits}, {model: h.Model, limits: h.ModelLimits}, {key: h.Key, account: h.KeyAccount, limits: h.KeyLimits}}
	for i := range list {
		if list[i].limits == nil {
			list[i].limits = &noLimits
		}
	}
	return list
}

// Ask is what a request wants to reserve.
type Ask struct {
	Input  int64 // prompt tokens of all its prompts
	Output int64 // tokens that all its answers are expected to have, at most what they may have
	Most   int64 // tokens that they may have, which strict limits reserve; 0 where the request does not say: as Output
	Price  Price
}

// most is what strict limits reserve of output.
func (a Ask) most() int64 { return max(a.Most, a.Output) }

// need is what a request reserves: all that its answers may use of strict limits, what
// they are expected to use of others.
func (a Ask) need(strictTokens, strictMoney bool) demand {
	n := demand{input: a.Input, output: a.Output, most: a.most()}
	if strictTokens {
		n.output = n.most
	}
	paid := a.Output
	if strictMoney {
		paid = n.most
	}
	n.money, n.leastMoney = a.Price.Cost(a.Input, 0, paid), a.Price.Cost(a.Input, 0, min(a.Output, 1))
	return n
}

// Grant is what a request holds. The zero grant is of a request without limits: it
// may be topped up and settled like any other, without effect. Who was given it
// owns it, and settles it once.
type Grant struct {
	ID        uint64 // names it to the meter that gave it; 0 is none
	Holder    Holder
	Ask       Ask   // as it was granted: Output is what is reserved now
	Money     Money // reserved now
	Remaining Remaining

	// Generated is where the holder notes how many output tokens there are, for a meter that tells it to others in case
	// this process ends; nil: never asked.
	Generated *atomic.Int64

	// Degraded is set by a meter that could not reach what it shares with others.
	Degraded bool
}

// Covered is how many output tokens the grant pays for; a grant without a meter
// pays for any number. A request tops up before it goes beyond.
func (g *Grant) Covered() int64 {
	if g.ID == 0 {
		return math.MaxInt64
	}
	return min(g.Ask.Output, g.Ask.Price.affordable(g.Ask.Input, g.Money))
}

// affordable is how many output tokens an amount pays for, beside the input.
func (p Price) affordable(input int64, money Money) int64 {
	if p.Output <= 0 {
		return math.MaxInt64
	}
	high, low := bits.Mul64(uint64(max(money, 0)), uint64(moneyUnit))
	inputHigh, inputLow := bits.Mul64(uint64(max(input, 0)), uint64(max(p.Input, 0)))
	low, borrow := bits.Sub64(low, inputLow, 0)
	high, borrow = bits.Sub64(high, inputHigh, borrow)
	if borrow != 0 {
		return 0
	}
	if high >= uint64(p.Output) {
		return math.MaxInt64
	}
	n, _ := bits.Div64(high, low, uint64(p.Output))
	return int64(min(n, math.MaxInt64))
}

// Use is what a request really used.
type Use struct {
	Ran    bool  // false: it was refused after all, and counts as no request
	Input  int64 // prompt tokens, cached ones included
	Cached int64 // of Input, from the prefix cache
	Output int64 // generated tokens
}

// clamped takes impossible counts for the nearest possible ones.
func (u Use) clamped() Use {
	if !u.Ran {
		return Use{}
	}
	u.Input, u.Output = clampTokens(u.Input), clampTokens(u.Output)
	u.Cached = min(max(u.Cached, 0), u.Input)
	return u
}

// clamped fills in Most, too: a grant keeps it when its Output is shortened.
func (a Ask) clamped() Ask {
	return Ask{clampTokens(a.Input), clampTokens(a.Output), clampTokens(a.most()), a.Price}
}

func clampTokens(n int64) int64 { return min(max(n, 0), maxTokens) }
