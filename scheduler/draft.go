package scheduler

import (
	"math"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// draftRecord is how a sequence's drafts of one kind have fared.
type draftRecord struct {
	accepted, judged float64 // drafts, with fading weight
	backoff          int     // tokens before one is tried again, once they do not pay
	idle             int     // tokens since it was found that they do not
}

// DraftSource is where drafts come from.
type DraftSource uint8

// What proposes drafts.
const (
	LookedUp     DraftSource = iota // in the text so far
	Forced                          // Result.Forced
	Proposed                        // by the Proposer
	DraftSources                    // how many there are
)

// priorRates are the shares of drafts that are expected to be accepted before anything is known of a sequence's.
var priorRates = [DraftSources]float64{LookedUp: 0.6, Forced: 1, Proposed: 0.6}

// A sequence whose drafts do not pay tries a single one again after a pause, which doubles
// each time that it is rejected.
const (
	recordDecay = 0.9
	minBackoff  = 8
	maxBackoff  = 128
)

// acceptanceRate is the expected share of accepted drafts.
func (d *draftRecord) acceptanceRate(prior float64) float64 {
	return (d.accepted + prior) / (d.judged + 1)
}

// kind is where the sequence's next drafts come from, unless a Proposer has them.
func (q *sequence) kind() DraftSource {
	if len(q.forced) > 0 {
		return Forced
	}
	return LookedUp
}

// learn takes in that of planned drafts so many were accepted. The first
// rejected one was judged too; those behind it say nothing.
func (d *draftRecord) learn(planned, accepted int) {
	judged := min(accepted+1, planned)
	d.accepted = d.accepted*recordDecay + float64(accepted)
	d.judged = d.judged*recordDecay + float64(judged)
	d.idle = 0
	if accepted > 0 {
		d.backoff = minBackoff
	} else {
		d.backoff = min(2*max(d.backoff, minBackoff), maxBackoff)
	}
}

// draftForecast is what a sequence's drafts of a step are expected to take, and to save if they are accepted.
type draftForecast struct {
	kind  DraftSource
	rows  int
	took  time.Duration // all of them
	token time.Duration // each that is accepted
}

// drafter proposes draft tokens for outputs that are planned.
type drafter struct {
	cfg       *Config
	cost      *cost.Model
	pool      *kvcache.Pool
	pacer     *pacer
	step      *step
	sequences *sequences
	forecast  *forecast
	balance   draftBalance
	proposals proposals
}

// propose gives rows that are still left to drafts of the tokens to come, for
// outputs that are planned. Drafts get no budget that a prompt wants and no block
// that a running sequence may need next.
func (d *drafter) propose() {
	if d.step.pressed || d.pacer.outputs.Outputs == 0 {
		return
	}
	// What a token costs without drafts is what an accepted one saves.
	token := d.cost.Estimate(d.pacer.outputs) / time.Duration(d.pacer.outputs.Outputs)
	for _, q := range d.sequences.running {
		if q.rows == 1 && q.replay == 0 && q.decoding() && d.mayDraft(q) {
			d.draft(q, token)
		}
	}
	d.askProposer(token)
}

// mayDraft reports whether outputs of a sequence are drafted.
func (d *drafter) mayDraft(q *sequence) bool {
	return q.req.Given != nil || d.cfg.MaxDrafts > 0 && (q.req.Speculate || len(q.forced) > 0)
}

// draft extends a planned output by as many drafts as are worth their rows and
// can be proposed. Those of outputs that are given are worth theirs.
func (d *drafter) draft(q *sequence, token time.Duration) {
	most, left := d.cfg.MaxDrafts, q.req.limit-q.produced-1
	if q.req.Given != nil {
		most, left = d.pool.StepRows()-1, min(left, len(q.given())-1)
	}
	n := d.affordable(q, min(most, d.pacer.budget, left), token)
	if n <= 0 {
		return
	}
	n = q.writeDrafts(n, d.cfg.LookupMin, d.cfg.LookupMax)
	d.take(q, n, draftForecast{kind: q.kind(), token: token})
}

// take plans n drafts of a sequence, if there are blocks for them. f.took is what they take beside the step.
func (d *drafter) take(q *sequence, n int, f draftForecast) {
	if n <= 0 || !d.cover(q, n) {
		return
	}
	before := d.cost.Estimate(d.pacer.load)
	d.step.take(q, n)
	f.rows, f.took = n, f.took+d.cost.Estimate(d.pacer.load)-before
	q.forecast = f
}

// replayCost is what computing a row again costs, in rows: the step that does has no drafts.
const replayCost = 2

// affordable is how many of n drafts are expected to save more time than they
// take: draft i saves a token if all up to it are accepted. Where a model has states, it
// also takes the rows that are computed again if it is the first to be rejected.
func (d *drafter) affordable(q *sequence, n int, token time.Duration) int {
	if !d.cost.Ready() || d.cfg.EveryDraft {
		return n
	}
	without := d.pacer.load.Sub(q.load(q.rows, d.pacer.cfg.Attention))
	record, prior := &q.records[q.kind()], priorRates[q.kind()]
	known := record.judged >= balanceJudged || q.req.Given != nil
	start, rate := d.cost.Estimate(d.pacer.load), record.acceptanceRate(prior)
	before, saved, reached := start, float64(token), 1.0
	if q.req.Given != nil {
		saved = math.Inf(1)
	}
	for i := range n {
		after := d.cost.Estimate(without.Add(q.load(q.rows+i+1, d.pacer.cfg.Attention)))
		took := float64(after - before)
		if d.pool.Stateful() && q.req.Given == nil {
			took += replayCost * reached * (1 - rate) * float64(after-start)
		}
		saved, reached = saved*rate, reached*rate
		tried := known || d.balance.allows(float64(after-start), token)
		switch {
		case after > d.pacer.limit:
			return i
		case took <= saved && tried:
		case i == 0 && took <= float64(token) && d.balance.allows(took, token):
			return record.retry()
		default:
			return i
		}
		before = after
	}
	return n
}

// settle takes in that of a sequence's drafts so many were accepted, and that rows of it are computed again.
func (d *drafter) settle(q *sequence, drafts, accepted int) {
	q.records[q.forecast.kind].learn(drafts, accepted)
	if q.forecast.kind == Proposed {
		d.proposals.learn(drafts, accepted)
	}
	if q.req.Given == nil {
		each := float64(q.forecast.took) / float64(q.forecast.rows)
		d.balance.settle(each*float64(drafts+q.replay), float64(q.forecast.token)*float64(accepted))
	}
}

// retry counts a token without drafts that a better rate would have had, and
// allows one when the pause is over.
func (d *draftRecord) retry() int {
	if d.idle++; d.idle <= d.backoff {
		return 0
	}
	return 1
}

// cover gets the blocks for n drafts, but not those that running
// sequences may need for their next row.
func (d *drafter) cover(q *sequence, n int) bool {
	rows := len(q.ids) + n
	need, _ := d.pool.CanGrow(&q.table, rows, kvcache.Hit{})
	if need > 0 && d.pool.FreeFor(q.req.Domain) < need+len(d.sequences.running)*d.pool.Groups() {
		return false
	}
	return d.pool.Grow(&q.table, rows, kvcache.Hit{}, &d.step.plan.Copies)
}

// given are the outputs that are given of a sequence's choice and have not come yet.
func (q *sequence) given() []inference.TokenID {
	if q.req.Given == nil {
		return nil
	}
	return q.req.Given[q.choice][q.produced:]
}

// writeDrafts writes up to n drafts behind the sequence's ids, into their spare
// capacity, and returns how many: what is given or forced, or what followed the most recent of the longest
// earlier runs, of shortest to longest ids, that equal the last ones. Where
// less than n ids followed, the draft goes on with itself: text that repeats
// is drafted as far as wanted.
func (q *sequence) writeDrafts(n, shortest, longest int) int {
	certain := q.forced
	if len(certain) == 0 {
		certain = q.given()
	}
	if len(certain) > 0 {
		n = min(n, len(certain))
		q.ids = slices.Grow(q.ids, n)
		return copy(q.ids[len(q.ids):len(q.ids)+n], certain)
	}
	at := lookup(q.ids, shortest, longest)
	if at == 0 {
		return 0
	}
	q.ids = slices.Grow(q.ids, n)
	ids := q.ids[:len(q.ids)+n]
	for i := range n {
		ids[len(q.ids)+i] = ids[at+i]
	}
	return n
}

// lookup returns where the continuation of an earlier run begins that equals
// the last ids; 0 if there is none. It costs a pass over the ids.
func lookup(ids []inference.TokenID, shortest, longest int) int {
	best, at := shortest-1, 0
	last := len(ids) - 1
	for end := last - 1; end >= shortest-1; end-- {
		if ids[end] != ids[last] {
			continue
		}
		n := 1
		for n < longest && n <= end && ids[end-n] == ids[last-n] {
			n++
		}
		if n > best {
			if best, at = n, end+1; n == longest {
				break
			}
		}
	}
	return at
}

// verified is how many leading drafts of a sequence equal what was sampled.
func (q *sequence) verified(drafts int, tokens []inference.TokenID) int {
	written := q.ids[len(q.ids) : len(q.ids)+drafts]
	for i, id := range written {
		if i >= len(tokens) || tokens[i] != id {
			return i
		}
	}
	return drafts
}
