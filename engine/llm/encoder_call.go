package llm

import (
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// embedCommand is a call that another goroutine submits to the loop, or cancels.
type embedCommand struct {
	call   *embedCall
	cancel bool
}

// embedCall is one call inside the lane. After submit it belongs to the loop, which
// closes done when nothing of it changes any more.
type embedCall struct {
	asked   *inference.Embedding // read, never written
	texts   []embedText
	vectors [][]float32
	left    int // texts without a vector
	err     error
	done    chan struct{}
	ended   bool

	group  string
	queued time.Time
	until  time.Time // the end of waiting: the caller's, or that of the server where it is earlier; zero: none

	// Read by Embed, too, when its caller does not wait for the end.
	taken    atomic.Int64 // when a pass took the last text so far, as time since queued; 0 before
	computed atomic.Int64 // share in passes that ended, in nanoseconds
}

// report tells the caller how long the call has waited and was computed.
func (c *embedCall) report(a *inference.Embedding) {
	a.Waited, a.Computed = time.Duration(c.taken.Load()), time.Duration(c.computed.Load())
	if a.Waited == 0 {
		a.Waited = time.Since(c.queued)
	}
}

// embedText is one text of a call.
type embedText struct {
	call    *embedCall
	index   int
	tokens  []inference.TokenID
	types   []uint8 // nil: all 0
	marks   []int   // of a decision head; nil with other heads
	item    admission.Item
	ticket  admission.Ticket
	counted bool // Encoder.precheck counts it
	waiting bool // in the loop's queue

	// These are of a text that is computed.
	flow   admission.FlowID
	row    int    // first row of the pass
	output int    // first vector of the pass that is its own
	charge uint64 // nanoseconds that its tenant was charged in advance
}

func newEmbedCall(e *Encoder, a *inference.Embedding) *embedCall {
	c := &embedCall{
		asked: a, texts: make([]embedText, len(a.Texts)), vectors: make([][]float32, len(a.Texts)),
		left: len(a.Texts), done: make(chan struct{}), queued: time.Now(), until: a.WaitUntil,
	}
	if most := e.opts.Scheduler.MaxWait; most > 0 {
		if end := c.queued.Add(most); c.until.IsZero() || end.Before(c.until) {
			c.until = end
		}
	}
	if len(a.Texts) > 1 {
		c.group = strconv.FormatUint(e.calls.Add(1), 10)
	}
	for i := range c.texts {
		c.texts[i] = embedText{call: c, index: i, tokens: a.Texts[i]}
		if a.Types != nil {
			c.texts[i].types = a.Types[i]
		}
		if a.Marks != nil {
			c.texts[i].marks = a.Marks[i]
		}
	}
	return c
}

// outputs is how many vectors the head reads of the text.
func (t *embedText) outputs() int {
	if t.marks != nil {
		return len(t.marks)
	}
	return 1
}

// textLoad is what a text of n tokens adds to a pass.
func textLoad(n int) cost.Load { return cost.Load{Rows: n, Outputs: 1, Prompt: n * n} }

// item is a text of n tokens as the queue sees it. Until a pass was timed the work of
// texts compares, but it is not known how long it takes.
func (c *embedCall) item(n int, p *cost.Prices, timed bool) admission.Item {
	a := c.asked
	it := admission.Item{
		Tenant: a.Tenant, Class: a.Class, Weight: a.Weight, Group: c.group, OverQuota: a.OverQuota, Retries: a.Retries,
		Tokens: n, Choices: 1, DoneBy: nanoseconds(a.DoneBy), Until: nanoseconds(a.DoneBy),
	}
	if until := nanoseconds(c.until); until != 0 && (it.Until == 0 || until < it.Until) {
		it.Until = until
	}
	it.Due = it.DoneBy
	it.Cost = uint64(p.Of(textLoad(n)))
	it.Work = it.Cost
	if timed {
		it.Done = time.Duration(it.Cost) + time.Duration(p.Step)
	}
	return it
}

// expired is why a call whose time to wait is over fails.
func (c *embedCall) expired(now time.Time) error {
	if d := c.asked.DoneBy; !d.IsZero() && !now.Before(d) {
		return inference.ErrDeadline
	}
	return inference.ErrQueueTimeout
}

// end fixes the outcome.
func (c *embedCall) end(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	close(c.done)
}
