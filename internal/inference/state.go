package inference

import "time"

// State is what one live request does at a moment and why, for operators.
type State struct {
	Tenant string
	Class  Class
	Phase  Phase
	Cause  Cause // why nothing of the request is computed; CauseNone while something is

	Ahead     int           // requests that go before it; 0 once admitted
	Overtaken int           // admissions that passed it while it waited
	Debt      time.Duration // compute time, by weight, that its tenant has had beyond the least served one that waits in its class

	Choices         int // that have not ended
	PromptTokens    int
	PrefillTokens   int  // whose KV exists or existed, cached ones included
	CachedTokens    int  // of these, taken from the prefix cache
	StatelessTokens int  // beyond these, whose blocks the prefix cache had, and no state behind them
	OutputTokens    int  // of the choices that run
	KVBlocks        int  // that only this request holds
	Preemptions     int  // of its sequences
	Gave            Gave // for what it is paused or preempted
}

// Phase is a stage in the life of a request.
type Phase uint8

// The phases, the most advanced first: a request of several choices is in the first
// that one of them is in.
const (
	PhaseDecode Phase = iota
	PhasePrefill
	PhasePaused    // gave its slot to another tenant or class, and keeps its KV blocks
	PhasePreempted // gave its KV blocks, too
	PhaseWaiting   // in the waiting queue
	PhaseCompute   // of predictions, which have no other phase once they have left the queue
)

func (p Phase) String() string {
	return [...]string{"decode", "prefill", "paused", "preempted", "waiting", "compute"}[min(p, PhaseCompute)]
}

// Cause is what a request waits for.
type Cause uint8

// The causes.
const (
	CauseNone         Cause = iota
	CauseTurn               // requests of its tenant, of tenants served less, or of higher classes go first
	CauseSlots              // max_num_seqs sequences run
	CauseBlocks             // the KV cache has no room for it
	CauseLongPrefills       // as many long prompts are prefilled as may be
	CauseShare              // its tenant runs more sequences than its share while others wait
	CauseStep               // the steps' time and rows are taken; it is next
)

func (c Cause) String() string {
	return [...]string{"", "turn", "slots", "kv_blocks", "long_prefills", "tenant_share", "step"}[min(c, CauseStep)]
}
