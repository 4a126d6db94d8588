package scheduler

import "time"

// Drafts of which little is known may lose balanceShare of the time of the steps, and what balanceTokens tokens take at the start;
// time fades by balanceFade a step, so that the share is one of the last thousand steps.
const (
	balanceShare  = 0.004
	balanceTokens = 4
	balanceFade   = 0.999
	balanceJudged = 4 // drafts of a sequence that were judged; with less, little is known
)

// draftBalance is what drafts saved less what they took, of late, in nanoseconds by the estimates of steps. It bounds what
// trying costs in all, however many sequences try.
type draftBalance struct {
	time float64 // of all steps
	net  float64
}

// step takes in the time of a step.
func (b *draftBalance) step(took time.Duration) {
	b.time = b.time*balanceFade + float64(took)
	b.net *= balanceFade
}

// settle takes in what a sequence's drafts of a step took and saved. What they save in excess is not kept for losses to come.
func (b *draftBalance) settle(took, saved float64) {
	b.net = min(b.net+saved-took, balanceShare*b.time)
}

// allows reports whether as much may be lost, where a token takes so long.
func (b *draftBalance) allows(loss float64, token time.Duration) bool {
	return loss-b.net <= balanceShare*b.time+balanceTokens*float64(token)
}
