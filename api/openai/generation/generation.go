// Package generation runs a job's prompts on their backend and gives the answers, whole or as a stream of server-sent events; what the meter, the hooks and the response cache are told of it.
//
// A job, which a reader of some API has made, is computed and then answered whole:
//
//	g, fault := runner.Start(j, bill, nil, gone) // submits all of its prompts, or none
//	…
//	defer g.End()
//	fault = g.Run() // waits for the end
//	body := g.Answer()
//
// or as it comes:
//
//	events := generation.NewEventStream(g, leave) // ends g when it is closed
//	fault = events.Await()                        // what fails before the first event has a status of its own
package generation

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/answer"
	"weir/api/openai/choice"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// Generation is a job while its backend runs it: one stream per prompt, one
// choice per answer. One goroutine at a time owns it: the connection's.
type Generation struct {
	runner   *Runner
	Job      *job.Job
	streams  []*stream
	choices  []*choice.Choice // prompt*n + number
	open     int              // choices without a finish reason
	gone     <-chan struct{}
	Bill     *meter.Bill
	recalled *Cached

	events [32]inference.Event // polled, not handled yet: of streams[from]
	next   int
	polled int
	from   int

	cases   []reflect.SelectCase // for several streams only
	Result  edge.RequestFinish
	slowest time.Duration // gap between tokens so far
	ended   bool
}

// stream is one prompt's run.
type stream struct {
	choice.Source
	began   bool // its first token came
	done    bool
	err     error // how it ended
	broken  error // set when a choice ended as no answer ends; the stream's own error says more
	dropped bool  // cancelled as a whole
}

// Start submits a job's prompts to its backend, all or none. The caller must call
// end on the generation.
func (r *Runner) Start(j *job.Job, paid *meter.Bill, recalled *Cached, gone <-chan struct{}) (*Generation, *api.Error) {
	g := &Generation{runner: r, Job: j, Bill: paid, recalled: recalled, gone: gone,
		Result: edge.RequestFinish{RequestStart: j.RequestStart(), Status: http.StatusOK, FromCache: recalled.IsHit()}}
	if h := r.Hooks.OnRequestStart; h != nil {
		h(g.Result.RequestStart)
	}
	streams, err := g.submit()
	if err != nil {
		fault := edge.Fault(err)
		g.Fail(fault)
		g.End() // no choices, so the hook sees a finish without reasons
		return nil, fault
	}
	for _, st := range streams {
		g.streams = append(g.streams, &stream{Source: choice.Source{Stream: st}})
	}
	for i := range len(j.Prompts) * j.Params.N {
		g.choices = append(g.choices, choice.New(j, &g.streams[i/j.Params.N].Source, i))
	}
	g.open = len(g.choices)
	return g, nil
}

// submit starts the prompts' streams: the backend's, or those of a hit of the cache.
func (g *Generation) submit() ([]*inference.Stream, error) {
	if g.recalled.IsHit() {
		return g.recalled.streams(g.Job.Prompts), nil
	}
	return g.Job.Model.Backend.SubmitAll(g.Job.Requests())
}

// step handles one event and returns the choice that it changed, if any. more is
// false when no event is left to handle now, or there is an error.
func (g *Generation) step() (c *choice.Choice, more bool, err error) {
	if g.next == g.polled {
		if ok, err := g.poll(); !ok {
			return nil, false, err
		}
	}
	e := g.events[g.next]
	g.events[g.next] = inference.Event{}
	g.next++
	return g.handle(g.streams[g.from], e), true, nil
}

// poll fills the buffer from the next stream that has events. A stream that
// has ended while a choice of its own has not is an error, once its events
// are handled.
func (g *Generation) poll() (ok bool, err error) {
	for range g.streams {
		g.from = (g.from + 1) % len(g.streams)
		st := g.streams[g.from]
		if !st.done {
			g.next = 0
			g.polled, st.done, st.err = st.Poll(g.events[:])
			if g.polled > 0 {
				return true, nil
			}
		}
		if st.done && g.unfinished(g.from) {
			return false, cmp.Or(st.err, st.broken, errSilentEnd)
		}
	}
	return false, nil
}

// errSilentEnd: a backend ended a stream without the finish of every choice, which
// is a bug of the backend.
var errSilentEnd = errors.New("the stream ended before its choices did")

func (g *Generation) unfinished(stream int) bool {
	n := g.Job.Params.N
	for _, c := range g.choices[stream*n : (stream+1)*n] {
		if c.Finish == inference.FinishNone {
			return true
		}
	}
	return false
}

// handle gives an event to its choice; events of choices that are complete
// come too late and are dropped.
func (g *Generation) handle(st *stream, e inference.Event) *choice.Choice {
	switch e.Kind {
	case inference.EventPrompt:
		st.Prompt = append(st.Prompt, answer.TokenRecord{ID: e.Token, Logprob: e.Logprob, Rank: e.Rank, Top: e.Top})
		return nil
	case inference.EventToken, inference.EventFinish:
	default:
		return nil // embeddings are never asked for here
	}
	if e.Choice < 0 || e.Choice >= g.Job.Params.N {
		return nil
	}
	c := g.choices[g.from*g.Job.Params.N+e.Choice]
	if c.Finish != inference.FinishNone {
		return nil
	}
	g.recalled.take(g.from, e)
	if e.Kind == inference.EventFinish {
		st.finished(c, e.Finish)
	} else if limit := g.pay(); limit != "" {
		g.Result.Limit = limit
		c.Spent(limit)
		st.Cancel(c.Number)
	} else {
		g.timed(st, c)
		if c.Token(e) {
			st.Cancel(c.Number)
		}
	}
	if c.Finish != inference.FinishNone {
		g.open--
	}
	return c
}

// finished ends a choice, or notes that its backend gave it up: then the
// stream's end says why, and the client gets an error, not a short answer.
func (st *stream) finished(c *choice.Choice, reason inference.FinishReason) {
	switch reason {
	case inference.FinishStop, inference.FinishLength:
		c.Finished(reason)
	case inference.FinishCancelled:
		st.broken = inference.ErrCancelled
	default:
		st.broken = inference.ErrInternal
	}
}

// timed reports a token's time to the hooks.
func (g *Generation) timed(st *stream, c *choice.Choice) {
	now := time.Now()
	hooks := g.runner.Hooks
	if g.Result.FirstToken.IsZero() {
		g.Result.FirstToken = now
	}
	g.Result.LastToken = now
	if g.recalled.IsHit() {
		return // hooks measure the engine
	}
	if !st.began {
		st.began = true
		if hooks.OnFirstToken != nil {
			hooks.OnFirstToken(&g.Result.RequestStart, now.Sub(g.Job.Arrived))
		}
	}
	if hooks.OnTokenGap != nil && !c.Last.IsZero() {
		gap := now.Sub(c.Last)
		slowest := gap > g.slowest
		g.slowest = max(g.slowest, gap)
		hooks.OnTokenGap(&g.Result.RequestStart, gap, slowest)
	}
	c.Last = now
}

// wakeup says why wait returned.
type wakeup int

const (
	wokeNews  wakeup = iota // a stream may have events
	wokeTimer               // the timer fired
	wokeGone                // the client hung up
	wokeAbort               // the server stops
)

// wait blocks until something happens. timer may be nil.
func (g *Generation) wait(timer <-chan time.Time) wakeup {
	if len(g.streams) > 1 {
		return g.waitMany(timer)
	}
	select {
	case <-g.streams[0].Wake():
		return wokeNews
	case <-timer:
		return wokeTimer
	case <-g.gone:
		return wokeGone
	case <-g.runner.Running.Aborted():
		return wokeAbort
	}
}

// waitMany is wait for several prompts, which no select statement can list.
func (g *Generation) waitMany(timer <-chan time.Time) wakeup {
	g.cases = append(g.cases[:0], receive(timer), receive(g.gone), receive(g.runner.Running.Aborted()))
	fixed := []wakeup{wokeTimer, wokeGone, wokeAbort}
	for _, st := range g.streams {
		if !st.done {
			g.cases = append(g.cases, receive(st.Wake()))
		}
	}
	if i, _, _ := reflect.Select(g.cases); i < len(fixed) {
		return fixed[i]
	}
	return wokeNews
}

func receive(ch any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)}
}

// Run waits for the whole answer.
func (g *Generation) Run() *api.Error {
	for {
		fault := g.drain()
		if fault == nil && g.open == 0 {
			return nil
		}
		if fault == nil {
			fault = g.pause()
		}
		if fault != nil {
			g.Fail(fault)
			return fault
		}
	}
}

// pause waits for events of the backend; a hang-up or an abort is an error.
func (g *Generation) pause() *api.Error {
	switch g.wait(nil) {
	case wokeGone:
		return g.hungUp()
	case wokeAbort:
		return edge.ShuttingDown()
	case wokeNews, wokeTimer:
	}
	return nil
}

// drain handles all events that have arrived.
func (g *Generation) drain() *api.Error {
	for g.open > 0 {
		_, more, err := g.step()
		if err != nil {
			return edge.Fault(err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// Fail records an error as the result and cancels the streams that run.
func (g *Generation) Fail(fault *api.Error) {
	g.Result.Status, g.Result.Code = fault.Status, fault.Code
	g.cancel()
}

// hungUp records that no client waits for the answer any more: the client hung up, or has
// cancelled a response that is computed without it.
func (g *Generation) hungUp() *api.Error {
	fault := edge.ClientGone()
	if g.Job.Background {
		fault = edge.Cancelled()
	} else if h := g.runner.Hooks.OnDisconnect; h != nil && g.Result.Status != edge.StatusHungUp {
		h(g.Job.Model.ID)
	}
	g.Fail(fault)
	return fault
}

// cancel ends every stream that has not ended.
func (g *Generation) cancel() {
	for _, st := range g.streams {
		if !st.done && !st.dropped {
			st.dropped = true
			st.Cancel(-1)
		}
	}
}

// End ends a started generation: the code that wrote the last byte or gave up
// calls it. Further calls do nothing.
func (g *Generation) End() {
	if g.ended {
		return
	}
	g.ended = true
	if g.open > 0 && g.Result.Status == http.StatusOK {
		_ = g.hungUp() // the client did not take the answer to its end
	}
	g.cancel()
	g.Result.Finished = time.Now()
	g.Result.CachedTokens = g.CachedTokens()
	g.Result.Compute = g.Job.Beside
	for _, st := range g.streams {
		g.Result.Compute += st.Compute()
	}
	g.Result.OutputTokens = g.outputTokens()
	generated := g.Result.OutputTokens
	if g.Result.FromCache {
		generated = 0
	}
	if g.Result.Charged() && !g.Result.Prefix {
		g.Result.Cost = g.Job.Price().Cost(int64(g.Result.PromptTokens), int64(g.Result.CachedTokens), int64(generated))
	}
	g.settle()
	if g.open == 0 && g.Result.Status == http.StatusOK && !slices.ContainsFunc(g.choices, (*choice.Choice).IsCutOff) {
		g.recalled.keep() // what a policy or a limit of the tenant cut off is no answer for later
	}
	g.Result.Moderated = g.Job.Moderated
	g.Result.Admitted = g.admitted()
	for _, st := range g.streams[:min(len(g.streams), mostLives)] {
		g.Result.Lives = append(g.Result.Lives, st.Lived())
	}
	for _, c := range g.choices {
		g.Result.Unreadable += c.Unreadable()
		reason := c.Finish
		if reason == inference.FinishNone {
			reason = inference.FinishCancelled
			if g.Result.Status >= http.StatusInternalServerError {
				reason = inference.FinishError
			}
		}
		g.Result.Reasons = append(g.Result.Reasons, reason)
	}
	g.judge()
	if h := g.runner.Hooks.OnRequestFinish; h != nil {
		g.Result.Texts = g.texts()
		h(g.Result)
	}
	if g.Job.Copied != nil && g.open == 0 && g.Result.Status == http.StatusOK {
		g.Job.Copied(g.answers(), &g.Result)
	}
}

// Answer encodes what run has gathered, in the format of the job's endpoint.
func (g *Generation) Answer() []byte {
	choices := make([]answer.Delta, len(g.choices))
	for i, c := range g.choices {
		c.Whole(&choices[i])
	}
	return g.Job.Encoder().AppendWhole(nil, choices, g.usage())
}

func (g *Generation) usage() answer.Usage {
	u := answer.Usage{Prompt: g.Result.PromptTokens, Cached: g.CachedTokens(),
		Times: answer.Times{Admitted: g.admitted(), FirstToken: g.Result.FirstToken, LastToken: g.Result.LastToken}}
	for _, c := range g.choices {
		u = c.Used(u)
	}
	return u
}

// CachedTokens counts the tokens of the prompts that the prefix cache had.
func (g *Generation) CachedTokens() int {
	n := 0
	for _, st := range g.streams {
		n += st.Progress().CachedTokens
	}
	return n
}

// mostLives bounds the prompts of a request of which is told what the engine did with them.
const mostLives = 8

// admitted is when the first of the prompts became running.
func (g *Generation) admitted() (first time.Time) {
	for _, st := range g.streams {
		if t := st.Admitted(); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (g *Generation) outputTokens() int {
	n := 0
	for _, c := range g.choices {
		n += c.Tokens
	}
	return n
}
