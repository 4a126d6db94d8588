package openai

import (
	"weir/api"
	"weir/api/meter"
	"weir/api/openai/params"
	"weir/api/openai/relay"
	"weir/scheduler/quota"
)

// reserveTokens is reserve for a request whose tokens are counted elsewhere. Nothing here
// counts them while they come: strict limits hold because the servers are told to end its
// answers where what is reserved ends.
func (r *relaying) reserveTokens(answers int64, price quota.Price) (*meter.Bill, *api.Error) {
	who := r.holder(r.Model)
	if who.Unlimited() {
		return nil, nil
	}
	ask := quota.Ask{Input: r.expectedInput(), Price: price}
	if !r.Writes {
		return r.reserve(who, ask, 0)
	}
	ask.Output = answers * int64(r.expectedOutput())
	if !who.Strict() {
		return r.reserve(who, ask, ask.Output)
	}
	limit := r.strictLimit(who.MaxAnswer(ask.Input))
	ask.Most = answers * limit
	paid, fault := r.reserve(who, ask, ask.Most)
	if fault == nil {
		r.LimitAnswer(max(min(limit, paid.Covered/answers), 1))
		warn(r.ctx, r.Asked.Notes)
	}
	return paid, fault
}

// strictLimit is how long each answer from elsewhere may get beside strict limits, before it
// is known what they have left: as its client says, or relayMaxTokens, and at most most.
func (r *relaying) strictLimit(most int64) int64 {
	var p params.Params
	var ignored *api.Error
	if p.ReadMaxTokens(r.Sent, &ignored); p.MaxTokens < 1 {
		p.MaxTokens = relay.MaxTokens
	}
	return max(min(int64(p.MaxTokens), most), 1)
}

// expectedOutput is how long an answer from elsewhere is expected to get, in tokens.
func (r *relaying) expectedOutput() int {
	if !r.Writes {
		return 0
	}
	var p params.Params
	var ignored *api.Error
	if p.ReadMaxTokens(r.Sent, &ignored); p.MaxTokens < 0 {
		p.MaxTokens = relay.MaxTokens
	}
	return int(r.server.estimates.Expect(r.Model.ID, r.caller.Tenant.Name, p.MaxTokens))
}
