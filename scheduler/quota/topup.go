package quota

// topUp is what a running request wants to hold more.
type topUp struct {
	tokens, leastTokens int64 // wanted, and without which its next token is not paid for
	money, leastMoney   Money
	request             demand // the whole request, as one that is cut off may ask again for
}

// newRaise is what a grant lacks for generated tokens, which are there already, and
// for cover tokens, which it would like to have paid for.
func newRaise(o *openGrant, generated, cover int64) topUp {
	generated = clampTokens(generated)
	cover = max(clampTokens(cover), generated)
	whole := max(o.most, generated)
	return topUp{
		tokens: max(cover-o.output, 0), leastTokens: max(generated-o.output, 0),
		money:      max(o.price.Cost(o.input, 0, cover)-o.money, 0),
		leastMoney: max(o.price.Cost(o.input, 0, generated)-o.money, 0),
		request:    demand{input: o.input, output: whole, money: o.price.Cost(o.input, 0, whole)},
	}
}

// fitRaise shortens a raise to what strict limits have left, and reports a refusal
// where that is less than the least. Other limits give any amount, as a debt.
func (a *accounts) fitRaise(r *topUp) *Refusal {
	for _, x := range a.all() {
		if x.limits.StrictTokens() {
			if tokens, kind := x.state.extra(x.limits); tokens < r.tokens {
				if max(tokens, 0) < r.leastTokens {
					return a.cutBy(x, kind, tokens, &r.request)
				}
				r.tokens = max(tokens, 0)
			}
		}
		if x.limits.StrictMoney() {
			if money, kind := x.state.extraMoney(x.limits); money < r.money {
				if max(money, 0) < r.leastMoney {
					return a.cutBy(x, kind, int64(money), &r.request)
				}
				r.money = max(money, 0)
			}
		}
	}
	return nil
}

// cutBy is the refusal that ends an answer: what is needed, and when it can be had, are
// those of the whole request.
func (a *accounts) cutBy(x account, k Kind, left int64, whole *demand) *Refusal {
	r := &Refusal{Kind: k, Model: x.model, Key: x.key, Left: max(left, 0), Remaining: a.remaining()}
	switch k {
	case DailyCost, MonthlyCost:
		r.Need = int64(whole.money)
	case OutputTokens:
		r.Need = whole.output
	default:
		r.Need = whole.input + whole.output
	}
	if !k.Budget() {
		r.Limit = x.limits.bucket(k)
		r.RetryAfter = x.state.wait(k, r.Limit, min(r.Need, r.Limit))
		return r
	}
	r.RetryAfter = x.state.untilPeriodEnds(k)
	for _, list := range [...][2]budget{x.state.tokenBudgets(x.limits), x.state.moneyBudgets(x.limits)} {
		for _, b := range list {
			if b.kind == k {
				r.Limit = b.limit
			}
		}
	}
	return r
}
