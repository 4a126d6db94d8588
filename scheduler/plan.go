package scheduler

import (
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

// Plan is one step. The caller owns it and passes the same one again, so that
// its slices are reused. Everything in it is valid until the next Commit,
// Abandon or Cancel.
type Plan struct {
	Copies    []kvcache.Copy // row copies to execute in order, before any chunk writes
	Chunks    []Chunk        // rows to run, all in one forward pass
	Failed    []End          // requests that Plan ended: expired, or out of cache; and those that were shed since the last one
	Admitted  []ID           // requests that left the queue
	Resumed   []ID           // requests of which a preempted sequence runs again
	Preempted []ID           // requests of which a sequence was preempted
	Paused    []ID           // requests of which a sequence was paused
	Unpaused  []ID           // requests of which a paused sequence runs again
	Rows      int            // sum of Chunks[i].Count
	Decodes   int            // chunks that continue an output, each by one row and its drafts
	Drafts    int            // sum of Chunks[i].Drafts
	Estimate  time.Duration  // of the step; 0 before any step was timed
}

// Chunk is a run of consecutive positions of one sequence.
type Chunk struct {
	Request ID
	Choice  int // of the request; before the fork, the first live one stands for all
	User    any

	Start  int                 // position of the first row; rows [0,Start) are in the KV cache
	Count  int                 // rows of this chunk, at least 1
	Tokens []inference.TokenID // [Count] ids of these positions

	// LogitRows is how many of the last rows need logits: 0 while a prompt is
	// incomplete or nothing but blocks is wanted, 1 for a row to sample from. With LogitsAll every prompt row
	// is asked for exactly once, also across preemptions: they arrive in order.
	LogitRows int
	// Samples is how many tokens to sample from the last row: 0, or 1 for the
	// chunk's choice, or several where a prompt ends that is forked (token i is
	// choice i's; those of ended choices are ignored). Choices beyond these
	// start later, when slots are free, with a chunk of their own.
	Samples int
	// Drafts is how many of the last tokens are draft tokens. Each of the last
	// 1+Drafts rows then needs logits. The engine samples from the first of
	// them, and from each next one while the token sampled before it equals the
	// draft token in it: exactly the tokens that it would sample without drafts.
	Drafts int
	Forced bool // the drafts are those of Result.Forced
	Hidden int  // how many of the last rows' hidden states the Proposer gets, of a prompt; it gets those of LogitRows in any case
	Decode bool // a row that continues an output, behind those that are computed again, and its drafts
	Final  bool // the last row of the request's prompt is in this chunk

	table *kvcache.Table
}

// Blocks lists the sequence's blocks of a group of layers, as kvcache.Table.Blocks does; they cover at least Start+Count rows.
func (c *Chunk) Blocks(group int) []kvcache.BlockID { return c.table.Blocks(group) }

// Passes tells from where the chunk takes the sequence's state and where it leaves it, of models with recurrent layers; see kvcache.Pass.
func (c *Chunk) Passes() (from kvcache.StateID, passes []kvcache.Pass) { return c.table.Passes() }

func (p *Plan) reset() {
	*p = Plan{
		Copies: p.Copies[:0], Chunks: p.Chunks[:0], Failed: p.Failed[:0],
		Admitted: p.Admitted[:0], Resumed: p.Resumed[:0], Preempted: p.Preempted[:0],
		Paused: p.Paused[:0], Unpaused: p.Unpaused[:0],
	}
}

// Plan fills p with the next step. It reports false where there is nothing to run: the plan before is out until
// Commit or Abandon, or no request is live except those that wait for Continue. p.Failed may name ended requests
// either way.
//
// Rows are given out in this order, inside one budget of rows and time: every
// running output first, then the oldest prompt's guaranteed part, then prompts
// that the step can finish, shortest first, then new requests, then what is
// left to the prompts that remain, shortest first again, and to drafts.
func (s *Scheduler) Plan(now int64, p *Plan) bool {
	p.reset()
	if s.step.out {
		return false
	}
	s.step.begin(now, p)
	s.pacer.begin()
	s.drafter.proposals.took = 0
	s.shortSteps.short = shortStep{}
	p.Failed = append(p.Failed, s.endings.shed...)
	clear(s.endings.shed)
	s.endings.shed = s.endings.shed[:0]
	s.waiting.Exchange()
	s.pool.Advance(now)
	s.expire(now)
	if len(s.sequences.running) > 0 {
		s.step.first = s.sequences.running[0]
	}
	s.schedule()
	if len(p.Chunks) == 0 && s.step.pressed {
		// All running sequences were preempted and still none has a row: start over with
		// an empty engine, where a request either fits or fails.
		s.step.pressed = false
		s.schedule()
	}
	s.drafter.planHidden()
	for i := range p.Chunks {
		s.step.seqs[i].advance()
		p.Rows += p.Chunks[i].Count
		p.Drafts += p.Chunks[i].Drafts
		if p.Chunks[i].Decode {
			p.Decodes++
		}
	}
	p.Estimate = s.cost.Estimate(s.pacer.load)
	s.step.out = len(p.Chunks) > 0
	return s.step.out
}

// schedule gives out the rows of a step.
func (s *Scheduler) schedule() {
	s.pacer.restart()
	s.shortSteps.shorten()
	s.decodes()
	if s.shortSteps.short.on {
		if s.shortSteps.startAhead() {
			return
		}
		s.decodes() // those that were left out
	}
	s.pauses.resumePaused(true)
	if s.pacer.pace(s.step.began, s.stats.Steps) {
		s.pacer.spread(s.prefiller.promptBacklog())
	}
	s.prefiller.prefills()
	s.admitter.admissions()
	s.pauses.resumePaused(false)
	s.prefiller.leftover()
	s.drafter.propose()
}

// decodes plans one row for every running output, and those that it replays, in order of precedence. Prompts get what their windows see next.
// Victims stand behind the sequence that lacks a block, so nothing planned is
// ever taken back here, and the slice shrinks only behind the index.
func (s *Scheduler) decodes() {
	for i := 0; i < len(s.sequences.running); i++ {
		q := s.sequences.running[i]
		if !q.decoding() && !s.pool.Windowed() || q.late || q.rows > 0 || s.shortSteps.leftOut(q) {
			continue
		}
		if s.preemptor.cover(i) && q.decoding() {
			s.step.take(q, s.outputRows(q))
		}
		if i < len(s.sequences.running) && s.sequences.running[i] != q {
			i-- // q itself left
		}
	}
}

// outputRows is how many rows an output gets: one, and those that it replays as far as a row for every other running sequence is left.
func (s *Scheduler) outputRows(q *sequence) int {
	if q.replay == 0 {
		return 1
	}
	left := s.pacer.budget
	for _, other := range s.sequences.running {
		if other != q && other.rows == 0 {
			left--
		}
	}
	return max(1, min(q.pending(), left))
}

// expire ends requests that waited as long as they may, and admitted ones of
// which a deadline has passed, whatever state they are in. Their blocks are free
// for this very plan.
func (s *Scheduler) expire(now int64) {
	for {
		ref, ok := s.waiting.Expire(now)
		if !ok {
			break
		}
		if r := s.requests.find(ID(ref)); r != nil {
			s.endings.failRequest(r, inference.FinishCancelled, r.expiry(now), expired)
		}
	}
	for _, r := range slices.Backward(s.requests.deadlines) {
		if err := r.missedDeadline(now); err != nil {
			s.endings.failRequest(r, inference.FinishCancelled, err, expired) // takes r off the list
		}
	}
}

// Trim lowers the drafts of a chunk to n, between Plan and the computing of the chunk's rows: the
// caller knows that the others cannot come.
func (s *Scheduler) Trim(p *Plan, chunk, n int) {
	if !s.step.out || p != s.step.plan || chunk >= len(p.Chunks) || n < 0 || n >= p.Chunks[chunk].Drafts {
		return
	}
	q, cut := s.step.seqs[chunk], p.Chunks[chunk].Drafts-n
	s.pacer.count(q, -cut)
	q.rows -= cut
	s.pool.Truncate(&q.table, q.computed+q.rows)
	q.advance()
	s.step.describe(q)
	p.Rows -= cut
	p.Drafts -= cut
	p.Estimate = s.cost.Estimate(s.pacer.load)
}
