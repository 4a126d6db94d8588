package scheduler

import (
	"fmt"
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
	"weir/scheduler/outputlen"
)

// LogitKind says which rows of a request's prompt need logits.
type LogitKind uint8

// Logit kinds.
const (
	LogitsLast LogitKind = iota // the last prompt row, to sample from
	LogitsAll                   // every prompt row from LogitsFrom on (prompt logprobs, marks of decision heads)
	LogitsNone                  // none: the request ends when its prompt is in the cache
)

// Request is one request as the scheduler sees it. The prompt is shared with
// the caller and must not change until the request has ended.
type Request struct {
	Prompt    []inference.TokenID // at least one id
	MaxTokens int                 // output tokens per choice; 0 only with LogitsAll, and always with LogitsNone
	N         int                 // choices, at most MaxChoices; 0 is 1
	Logits    LogitKind
	// LogitsFrom is the first row of LogitsAll; those before it may come from the cache.
	LogitsFrom int
	NoCache    bool           // start without cached blocks
	Domain     kvcache.Domain // isolation domain of the prefix cache
	Chain      []kvcache.Hash // of the prompt, as Domain.Chain gives it; nil is hashed here
	Tenant     string         // unit of fairness
	Group      string         // requests of the tenant that share it are one call and take turns with others as one; "" is a call of its own
	Weight     int            // the tenant's share, 1 to admission.MaxWeight; 0 is 1
	Class      inference.Class
	OverQuota  bool // shed first
	Retries    int  // times that the client has tried before: shed before first tries

	// Times, 0 is none. A request that still waits at WaitUntil ends with
	// inference.ErrQueueTimeout; one that has no token at FirstTokenBy, or has not
	// ended at DoneBy, ends with inference.ErrDeadline.
	FirstTokenBy, DoneBy, WaitUntil int64

	Spent *int64 // if not nil, grows by the compute time of the request's rows, in nanoseconds; rows computed again are left out

	// Given are the outputs of the choices, N lists, where they are known before: the rows of all of them but the last one are
	// proposed as drafts, whatever MaxDrafts is, and they are no output tokens of the statistics. nil: they are sampled.
	Given [][]inference.TokenID

	Speculate bool // its outputs are drafted, up to Config.MaxDrafts tokens at a time
	User      any  // the caller's own; handed back in chunks and ends
}

// MaxChoices bounds N. Choices beyond the free slots wait for one.
const MaxChoices = 1 << 16

// ID names a request: slab index and generation, never 0. Index is small and
// dense, so callers may keep their own per-request state in a slice.
type ID uint64

// Index is the request's slot; it is reused after the request has ended.
func (id ID) Index() int { return int(uint32(id)) }

// String prints index and generation.
func (id ID) String() string { return fmt.Sprintf("%d.%d", uint32(id), uint32(id>>32)) }

// consistent refuses values and combinations that have no meaning.
func (r *Request) consistent() error {
	switch {
	case len(r.Prompt) < 1:
		return fmt.Errorf("%w: the prompt is empty", inference.ErrInvalid)
	case r.MaxTokens < 0:
		return fmt.Errorf("%w: max_tokens is %d, want 0 or more", inference.ErrInvalid, r.MaxTokens)
	case r.N < 0 || r.N > MaxChoices:
		return fmt.Errorf("%w: n is %d, want 1 to %d", inference.ErrInvalid, r.N, MaxChoices)
	case r.LogitsFrom < 0 || r.LogitsFrom >= len(r.Prompt) || r.LogitsFrom > 0 && r.Logits != LogitsAll:
		return fmt.Errorf("%w: logits from row %d on, of a prompt of %d", inference.ErrInvalid, r.LogitsFrom, len(r.Prompt))
	case r.Logits > LogitsNone:
		return fmt.Errorf("%w: logit kind %d", inference.ErrInvalid, r.Logits)
	case r.Logits == LogitsLast && r.MaxTokens == 0:
		return fmt.Errorf("%w: max_tokens is 0 and nothing else is asked for", inference.ErrInvalid)
	case r.Logits == LogitsNone && (r.MaxTokens > 0 || r.N > 1):
		return fmt.Errorf("%w: max_tokens is %d and n is %d of a request for its prompt's blocks alone, want 0 and 1", inference.ErrInvalid, r.MaxTokens, r.N)
	}
	return r.consistentGiven()
}

// consistentGiven refuses outputs that are no outputs of the request's choices.
func (r *Request) consistentGiven() error {
	if r.Given == nil {
		return nil
	}
	if len(r.Given) != max(r.N, 1) || r.Logits == LogitsNone {
		return fmt.Errorf("%w: outputs of %d choices are given, want those of %d, and their logits", inference.ErrInvalid, len(r.Given), max(r.N, 1))
	}
	for i, given := range r.Given {
		if len(given) < 1 || len(given) > r.MaxTokens {
			return fmt.Errorf("%w: of choice %d %d tokens are given, want 1 to max_tokens, %d", inference.ErrInvalid, i, len(given), r.MaxTokens)
		}
	}
	return nil
}

// waitsUntil is when the request waits no longer, 0 for never.
func (r *Request) waitsUntil() int64 {
	until := int64(0)
	for _, t := range [...]int64{r.WaitUntil, r.FirstTokenBy, r.DoneBy} {
		if t != 0 && (until == 0 || t < until) {
			until = t
		}
	}
	return until
}

// firstDeadline is the sooner of the two deadlines, 0 for none.
func (r *Request) firstDeadline() int64 {
	if r.FirstTokenBy == 0 || r.DoneBy != 0 && r.DoneBy < r.FirstTokenBy {
		return r.DoneBy
	}
	return r.FirstTokenBy
}

// request is a submitted request until its last choice ends.
type request struct {
	Request
	id      ID
	ticket  admission.Ticket   // valid while it waits
	flow    admission.FlowID   // valid once admitted
	started bool               // has left the queue
	next    int                // choices below it have got a slot; the live others wait for one
	order   uint64             // of admission; kept across preemptions, so that turns are kept
	limit   int                // output tokens per choice: MaxTokens, cut by CapOutput
	choices []choice           // [N]
	live    int                // choices that have not ended
	outcome outcome            // of the choice that ended last
	answers *outputlen.History // of its tenant
	share   *tenantShare       // its tenant's
	shape   *kvcache.Shape     // of its sequences

	overtaken int    // admissions that passed it while it waited
	lacking   int    // blocks that it lacked at its last trial; below that a trial is pointless
	judgedIn  uint64 // plan of the last trial

	answered  bool   // a token was sampled
	prefilled int    // prompt rows that were computed or cached at some time
	cached    int    // prompt rows found in the cache at the first start
	stateless int    // prompt rows beyond these whose blocks were there, and no state behind them
	charged   uint64 // to the flow for the prompt, in nanoseconds
	spent     uint64 // on the prompt

	reported int // prompt rows whose logits the engine has had (LogitsAll)

	gave inference.Gave // for what a sequence of it was paused or preempted last
}

// choice is one answer of a request. Before the fork, the first live choice
// has the sequence that prefills the prompt for all that have a slot.
type choice struct {
	seq   *sequence
	ended bool
}

// outcome is how a request ended, for the counts.
type outcome uint8

const (
	stopped outcome = iota
	length
	cancelled
	failed
	expired
	shed
)

func (r *request) init(in Request, shape *kvcache.Shape, usable int) {
	choices := slices.Grow(r.choices[:0], in.N)[:in.N]
	clear(choices)
	*r = request{
		Request: in, id: r.id, ticket: r.ticket, choices: choices, live: in.N,
		reported: in.LogitsFrom,
		limit:    min(in.MaxTokens, shape.MostRows(usable)-len(in.Prompt)+1), shape: shape,
	}
}

// reuse is how many of a sequence's leading rows may come from the cache. One
// row is always left to compute. Rows whose logits are still owed must be
// computed.
func (r *request) reuse(ids []inference.TokenID) int {
	switch {
	case r.Logits == LogitsAll:
		return min(len(ids)-1, r.reported)
	case r.NoCache && r.prefilled == 0:
		return 0
	}
	return len(ids) - 1
}

// carrier is the sequence that prefills the prompt for several choices; nil if
// there is none.
func (r *request) carrier() *sequence {
	for i := range r.choices {
		if q := r.choices[i].seq; q != nil && q.forks() {
			return q
		}
	}
	return nil
}

// waitingChoices is how many live choices wait for a slot.
func (r *request) waitingChoices() int {
	n := 0
	for i := r.next; i < len(r.choices); i++ {
		if !r.choices[i].ended {
			n++
		}
	}
	return n
}

// assignSlots gives slots to the first n live choices from choice k on.
func (r *request) assignSlots(k, n int) {
	for r.next = k; n > 0; r.next++ {
		if !r.choices[r.next].ended {
			n--
		}
	}
}

// complete means that all rows of the prompt were computed and reported, so
// that further choices need none but the last one.
func (r *request) complete() bool {
	return r.prefilled >= len(r.Prompt) && (r.Logits != LogitsAll || r.reported >= len(r.Prompt))
}

// wholeBlocks is how many leading rows of a prompt fill whole blocks.
func (r *request) wholeBlocks() int {
	n := r.shape.BlockTokens()
	return len(r.Prompt) / n * n
}
