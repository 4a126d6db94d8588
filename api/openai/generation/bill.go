package generation

import (
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// pay pays for one more token of the generation, and returns what token does. A hit of the
// response cache costs none.
func (g *Generation) pay() (limit string) {
	if g.recalled.IsHit() {
		return ""
	}
	return g.Bill.Token()
}

// settle ends the generation's bill. What was used of a prompt that was not
// prefilled to its end is what was prefilled.
func (g *Generation) settle() {
	if g.Bill == nil {
		return
	}
	use := quota.Use{Ran: len(g.streams) > 0, Cached: int64(g.Result.CachedTokens), Output: int64(g.Result.OutputTokens)}
	for i, st := range g.streams {
		if st.began {
			use.Input += int64(len(g.Job.Prompts[i].IDs))
		} else {
			use.Input += int64(st.Progress().PrefillTokens)
		}
	}
	if !g.Result.Charged() {
		use.Input, use.Cached, use.Output = 0, 0, 0
	}
	if g.recalled.IsHit() { // a request, and a prompt that was cached
		use.Input, use.Output = use.Cached, 0
		g.Bill.Settle(use)
		return
	}
	g.Bill.Settle(use)
	for i, c := range g.choices {
		if (c.Finish == inference.FinishStop || c.Finish == inference.FinishLength) && c.Stopped.Limit == "" {
			g.runner.Estimates.Learn(g.Job.Model.ID, g.Job.Tenant.Name, g.Job.Room(i/g.Job.Params.N), c.Tokens)
		}
	}
}
