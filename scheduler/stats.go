package scheduler

// Stats is the scheduler's state and what it has done so far.
type Stats struct {
	Running        int // sequences in the running batch
	Resuming       int // preempted sequences that wait to run again
	Paused         int // sequences that gave their slot to another tenant or class and keep their blocks
	Waiting        int // requests in the queue
	WaitingChoices int // choices of these
	WaitingTokens  int // prompt tokens of these
	Live           int // requests that have not ended, waiting ones included
	KVBlocks       int // usable blocks of the pool
	KVBlocksUsed   int // referenced by live sequences
	Counters
}

// Counters only ever grow. Every submitted request is live or counted in
// exactly one of Stopped, Length, Cancelled, Failed, Expired and Shed, by how the
// last of its choices ended.
type Counters struct {
	Submitted uint64 // requests taken into the queue
	Refused   uint64 // requests that Submit refused
	Admitted  uint64 // requests that left the queue to run
	Stopped   uint64
	Length    uint64
	Cancelled uint64
	Failed    uint64
	Expired   uint64
	Shed      uint64

	Preemptions      uint64 // of sequences
	Pauses           uint64 // of sequences
	Late             uint64 // steps of sequences in which nothing could be sampled
	RecomputedTokens uint64 // rows that had to be computed again after a preemption
	PromptTokens     uint64 // of admitted requests
	CachedTokens     uint64 // of these, taken from the prefix cache
	OutputTokens     uint64 // sampled and accepted
	Steps            uint64 // plans committed
	Rows             uint64 // rows committed
	Drafts           uint64 // times that drafts were verified
	DraftTokens      uint64 // drafts of these
	AcceptedTokens   uint64 // of these, the ones that were sampled

	DraftedBy  [DraftSources]uint64   // DraftTokens by what proposed them
	AcceptedBy [DraftSources]uint64   // AcceptedTokens, in the same way
	AcceptedAt [DraftPositions]uint64 // AcceptedTokens by their place among the drafts of a step; those beyond are not told
}

// DraftPositions is of how many places among a step's drafts it is counted how many were accepted.
const DraftPositions = 16

// proposed counts drafts of a sequence that a step verified.
func (c *Counters) proposed(by DraftSource, drafts int) {
	c.Drafts++
	c.DraftTokens += uint64(drafts)
	c.DraftedBy[by] += uint64(drafts)
}

// accepted counts those of them that were sampled.
func (c *Counters) accepted(by DraftSource, accepted int) {
	c.AcceptedTokens += uint64(accepted)
	c.AcceptedBy[by] += uint64(accepted)
	for i := range min(accepted, DraftPositions) {
		c.AcceptedAt[i]++
	}
}

// Ended is the number of requests that have ended.
func (c *Counters) Ended() uint64 {
	return c.Stopped + c.Length + c.Cancelled + c.Failed + c.Expired + c.Shed
}

// Stats reports gauges and counters in constant time.
func (s *Scheduler) Stats() Stats {
	p := s.pool.Stats()
	s.stats.Running, s.stats.Resuming, s.stats.Paused = len(s.sequences.running), len(s.sequences.preempted), len(s.sequences.paused)
	s.stats.Waiting, s.stats.WaitingChoices, s.stats.WaitingTokens = s.waiting.Len(), s.waiting.Choices(), s.waiting.Tokens()
	s.stats.Live = len(s.requests.slots) - len(s.requests.free)
	s.stats.KVBlocks, s.stats.KVBlocksUsed = p.Blocks, p.Referenced
	return s.stats
}
