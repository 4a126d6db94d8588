package scheduler

import (
	"math/bits"
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// sequence is one choice of a request that has blocks, or had them before it
// was preempted.
type sequence struct {
	req    *request
	choice int
	slots  int // 1, or before the fork one per live choice in [choice, req.next)
	table  kvcache.Table
	ids    []inference.TokenID // prompt and output so far

	computed   int    // leading ids whose KV is final: table.Tokens()
	produced   int    // output tokens
	shared     int    // leading rows in blocks that other sequences may hold too
	runTokens  int    // tokens produced since it last started
	recomputed int    // rows that it computed already and did not find in the cache when it last started
	startedIn  uint64 // plan in which it last got a slot
	peak       int    // most rows it ever had; below that, rows are computed again

	preemptions int
	records     [DraftSources]draftRecord
	forced      []inference.TokenID // Result.Forced behind ids
	due         int64               // scratch of prompts: a deadline that is at risk
	replay      int                 // rows of an output that are computed again: there is no state behind them, since drafts did not come true
	forecast    draftForecast       // of the drafts in the plan that is out
	rows        int                 // in the plan in the making or out, drafts included
	chunk       int                 // index of these in the plan
	late        bool                // gets no rows until Continue
	borrowed    int                 // blocks that others held when it started
	leftOutIn   uint64              // plan of a short step that leaves it out
	pausedIn    uint64              // plan that paused it last
	ended       bool                // ended while its rows are in a plan that is out
}

func (q *sequence) pending() int { return len(q.ids) - q.computed }

// grown is how many rows more its blocks cover.
func (q *sequence) grown() int { return q.table.Grown() - q.computed - q.rows }

// advance arranges where the states of the planned rows go.
func (q *sequence) advance() { q.table.Advance(q.computed + q.rows) }

// decoding means that one row continues an output, behind those that are replayed.
func (q *sequence) decoding() bool { return q.produced > 0 && q.pending() == 1+q.replay }

// settle runs commit and takes over how many rows are final. A sequence that was decoding still is, with the other rows to replay.
func (q *sequence) settle(commit func()) {
	output := q.decoding()
	commit()
	q.computed, q.replay = q.table.Tokens(), 0
	if output {
		q.replay = max(0, q.pending()-1)
	}
}

// forks means that the end of the prompt is the start of several choices.
func (q *sequence) forks() bool { return q.slots > 1 }

// private is how many blocks preempting the sequence is sure to free.
func (q *sequence) private() int { return q.table.Held(q.shared) }

// held is how many blocks count to its tenant's share: all except those that were counted to another sequence already.
func (q *sequence) held() int {
	if len(q.req.choices) > 1 {
		return q.private()
	}
	return q.table.Held(0) - q.borrowed
}

// sizeClass is how many rows a prompt has left, by powers of four.
func (q *sequence) sizeClass() int { return bits.Len(uint(q.pending())) / 2 }

// givenRows is how many rows one of a request with given outputs costs: the engine computes it finely.
const givenRows = 2

// batch is which of a step's two batches its rows are in: 1 for those that are computed finely.
func (q *sequence) batch() int {
	if q.req.Given != nil {
		return 1
	}
	return 0
}

// load is what the next rows of a sequence cost.
func (q *sequence) load(rows int, a cost.Attention) cost.Load {
	l := cost.Load{Rows: rows}
	if q.req.Given != nil {
		l.Rows *= givenRows
	}
	switch {
	case rows == 0:
	case q.decoding():
		l.Outputs, l.Decode = max(0, rows-q.replay), a.Attended(q.computed, rows)
	default:
		l.Prompt = a.Attended(q.computed, rows)
		if q.req.Logits == LogitsAll {
			l.Outputs = max(0, q.computed+rows-max(q.computed, q.req.LogitsFrom))
		} else if rows == q.pending() && q.req.Logits == LogitsLast {
			l.Outputs = 1
		}
	}
	return l
}

// sequences are the lists of those that live, each in order of precedence (compare).
type sequences struct {
	cfg *Config

	running   []*sequence // have slots; the first is preempted only for another tenant's share of the blocks
	paused    []*sequence // without a slot, their blocks kept
	preempted []*sequence // preempted: without slot and blocks
}

// hasPreempted reports whether a tenant has preempted sequences of a class.
func (sq *sequences) hasPreempted(p *tenantShare) bool {
	return slices.ContainsFunc(sq.preempted, func(q *sequence) bool { return q.req.share == p })
}

// callSlots is how many slots the call of a request has.
func (sq *sequences) callSlots(r *request) int {
	n := 0
	for _, q := range sq.running {
		if q.req == r || r.Group != "" && q.req.Group == r.Group && q.req.Tenant == r.Tenant {
			n += q.slots
		}
	}
	return n
}

// isLong is a prompt that takes more than one step.
func (sq *sequences) isLong(rows int) bool { return rows > sq.cfg.PrefillChunk }

func (sq *sequences) longPrefills() int {
	n := 0
	for _, q := range sq.running {
		if sq.isLong(q.pending()) {
			n++
		}
	}
	return n
}

// keptOut reports whether long prompts of a tenant run that crowds this one, of which none runs: then one of its own may run beside them.
func (sq *sequences) keptOut(p *tenantShare) bool {
	crowded := false
	for _, q := range sq.running {
		switch {
		case !sq.isLong(q.pending()):
		case q.req.share == p:
			return false
		default:
			crowded = crowded || q.req.share.crowds(p)
		}
	}
	return crowded
}

// inFlight reports whether a running prompt is about to publish the next block
// that the candidate lacks: waiting for it is cheaper than computing it twice.
func (sq *sequences) inFlight(c *candidate) bool {
	blockTokens := c.req.shape.BlockTokens()
	from := c.hit.Full * blockTokens
	to := from + blockTokens
	if to > c.req.reuse(c.ids) {
		return false
	}
	for _, q := range sq.running {
		if q.computed < to && to <= len(q.ids) && q.req.Domain == c.req.Domain &&
			slices.Equal(q.ids[from:to], c.ids[from:to]) && slices.Equal(q.ids[:from], c.ids[:from]) {
			return true
		}
	}
	return false
}

// phase is what a sequence does.
func (sq *sequences) phase(q *sequence) inference.Phase {
	_, paused := find(sq.paused, q)
	_, preempted := find(sq.preempted, q)
	switch {
	case paused:
		return inference.PhasePaused
	case preempted:
		return inference.PhasePreempted
	case q.produced > 0:
		return inference.PhaseDecode
	}
	return inference.PhasePrefill
}

// compare orders sequences by precedence: class, admission, choice.
func compare(a, b *sequence) int {
	if a.req.Class != b.req.Class {
		return int(a.req.Class) - int(b.req.Class)
	}
	if a.req.order != b.req.order {
		if a.req.order < b.req.order {
			return -1
		}
		return 1
	}
	return a.choice - b.choice
}

// insert puts a sequence into a list in order of precedence.
func insert(list []*sequence, q *sequence) []*sequence {
	i, _ := slices.BinarySearchFunc(list, q, compare)
	return slices.Insert(list, i, q)
}

// find is the index of a sequence in a list in order of precedence.
func find(list []*sequence, q *sequence) (i int, ok bool) {
	i, found := slices.BinarySearchFunc(list, q, compare)
	return i, found && list[i] == q
}

// remove takes a sequence out of a list; false when it is not in it.
func remove(list []*sequence, q *sequence) ([]*sequence, bool) {
	i, ok := find(list, q)
	if !ok {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}
