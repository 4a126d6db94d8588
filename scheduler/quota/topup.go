package quota

// raise is what a running request wants to hold more.
type raise struct {
	tokens, leastTokens int64 // wanted, and without which its next token is not paid for
	money, leastMoney   Money
}

// newRaise is what a grant lacks for generated tokens, which are there already, and
// for cover tokens, which it would like to have paid for.
func newRaise(o *open, generated, cover int64) raise {
	generated = clampTokens(generated)
	cover = max(clampTokens(cover), generated)
	return raise{
		tokens: max(cover-o.output, 0), leastTokens: max(generated-o.output, 0),
		money:      max(o.price.Cost(o.input, 0, cover)-o.money, 0),
		leastMoney: max(o.price.Cost(o.input, 0, generated)-o.money, 0),
	}
}

// fit shortens a raise to what the accounts have left that cut answers off, and
// reports a refusal where that is less than the least. Other accounts give any
// amount, as a debt.
func (a *accounts) fitRaise(r *raise) *Refusal {
	for _, x := range a.all() {
		if !x.limits.CutAnswers {
			continue
		}
		if tokens, kind := x.state.extra(x.limits); tokens < r.tokens {
			if tokens < r.leastTokens {
				return a.cutBy(x, kind, tokens, r.leastTokens)
			}
			r.tokens = max(tokens, 0)
		}
		if money, kind := x.state.extraMoney(x.limits); money < r.money {
			if money < r.leastMoney {
				return a.cutBy(x, kind, int64(money), int64(r.leastMoney))
			}
			r.money = max(money, 0)
		}
	}
	return nil
}

// cutBy is the refusal that ends an answer.
func (a *accounts) cutBy(x account, k Kind, left, need int64) *Refusal {
	r := &Refusal{Kind: k, Model: x.model, Left: max(left, 0), Need: need, Remaining: a.remaining()}
	if k.Budget() {
		r.RetryAfter = x.state.untilPeriodEnds(k)
		for _, b := range [...]budget{x.state.tokenBudgets(x.limits)[0], x.state.tokenBudgets(x.limits)[1],
			x.state.moneyBudgets(x.limits)[0], x.state.moneyBudgets(x.limits)[1]} {
			if b.kind == k {
				r.Limit = b.limit
			}
		}
		return r
	}
	r.Limit = x.limits.bucket(k)
	r.RetryAfter = x.state.wait(k, r.Limit, need)
	return r
}
