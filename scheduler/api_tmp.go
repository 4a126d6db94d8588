package scheduler

import (
	"weir/internal/inference"
	"weir/kvcache"
)

// Scheduler is the step planner.
type Scheduler struct{}

// ErrExpired ends a request whose deadline passed while it waited.
var ErrExpired = inference.ErrUnavailable

// New returns a scheduler over the pool, of which it must be the only user.
func New(cfg Config, pool *kvcache.Pool) (*Scheduler, error) { return nil, inference.ErrUnavailable }

// Check refuses, in constant time, what can never be served: with
// inference.ErrInvalid, ErrContextLength or ErrNeverFits, the latter two as
// *inference.LimitError. It reads only what New set: call it from anywhere.
func (s *Scheduler) Check(promptTokens, maxTokens, n int) error { return nil }

// Submit queues a request, or refuses it: what Check says, or
// inference.ErrQueueFull as *inference.LimitError.
func (s *Scheduler) Submit(now int64, r Request) (ID, error) { return 0, nil }

// Cancel ends one choice, or all with -1, in whatever state the request is.
// Between Commit and Plan its blocks are free on return; while a plan is out,
// rows of it stay allocated until Commit, whose result for them is ignored.
// No End is reported. false means that there was nothing to end.
func (s *Scheduler) Cancel(now int64, id ID, choice int) bool { return false }

// Plan fills p with the next step; false means that there is nothing to run.
// p.Failed may name ended requests either way. Every plan that is not empty
// must be followed by Commit or Abandon.
func (s *Scheduler) Plan(now int64, p *Plan) bool { return false }

// Commit takes in what became of the plan: results[i] belongs to
// plan.Chunks[i]. It appends tokens, publishes full blocks, forks choices and
// frees finished ones. MaxTokens and the context limit are enforced here. The
// ends are valid until the next call of Commit.
func (s *Scheduler) Commit(now int64, results []Result) []End { return nil }

// Abandon drops the plan that is out, after a forward pass that failed as a
// whole: nothing of it is kept, its sequences start over from the cache.
func (s *Scheduler) Abandon(now int64) {}

// Progress reports how far a request has come; false when it has ended.
func (s *Scheduler) Progress(id ID) (inference.Progress, bool) { return inference.Progress{}, false }

// Stats reports counts and gauges.
func (s *Scheduler) Stats() Stats { return Stats{} }

// CheckInvariants recounts everything and names the first broken invariant.
func (s *Scheduler) CheckInvariants() error { return nil }

// Stats is the scheduler's state and what it has done so far.
type Stats struct {
	Running       int // sequences in the running batch
	Waiting       int // requests in the queue
	WaitingTokens int // prompt tokens of these
	Resuming      int // preempted sequences that wait to run again
	KVBlocks      int // usable blocks of the pool
	KVBlocksUsed  int // referenced by live sequences

	Submitted, Refused, Admitted       uint64 // requests
	Stopped, Length, Cancelled, Failed uint64 // requests, by how their last choice ended
	Expired                            uint64 // requests
	Preemptions                        uint64 // of sequences
	RecomputedTokens                   uint64 // rows computed again after a preemption
	PromptTokens                       uint64 // of admitted requests
	CachedTokens                       uint64 // of these, taken from the prefix cache
	OutputTokens                       uint64 // sampled and accepted
	Steps, Rows                        uint64 // plans committed, and their rows
}
