package openai

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// generation is a job while its backend runs it: one stream per prompt, one
// choice per answer. One goroutine at a time owns it: the connection's.
type generation struct {
	server   *Server
	job      *job.Job
	streams  []*stream
	choices  []*choice // prompt*n + number
	open     int       // choices without a finish reason
	gone     <-chan struct{}
	bill     *bill
	recalled *recollection

	events [32]inference.Event // polled, not handled yet: of streams[from]
	next   int
	polled int
	from   int

	cases   []reflect.SelectCase // for several streams only
	result  edge.RequestFinish
	slowest time.Duration // gap between tokens so far
	ended   bool
}

// stream is one prompt's run.
type stream struct {
	*inference.Stream
	prompt  []answer.TokenRecord // logprobs of the prompt so far
	began   bool                 // its first token came
	done    bool
	err     error // how it ended
	broken  error // set when a choice ended as no answer ends; the stream's own error says more
	dropped bool  // cancelled as a whole
}

// start submits a job's prompts to its backend, all or none. The caller must call
// end on the generation.
func (s *Server) start(j *job.Job, paid *bill, recalled *recollection, gone <-chan struct{}) (*generation, *api.Error) {
	g := &generation{server: s, job: j, bill: paid, recalled: recalled, gone: gone,
		result: edge.RequestFinish{RequestStart: j.RequestStart(), Status: statusOK, FromCache: recalled.isHit()}}
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(g.result.RequestStart)
	}
	streams, err := g.submit()
	if err != nil {
		fault := edge.Fault(err)
		g.fail(fault)
		g.end() // no choices, so the hook sees a finish without reasons
		return nil, fault
	}
	for _, st := range streams {
		g.streams = append(g.streams, &stream{Stream: st})
	}
	for i := range len(j.Prompts) * j.Params.N {
		g.choices = append(g.choices, newChoice(j, g.streams[i/j.Params.N], i))
	}
	g.open = len(g.choices)
	return g, nil
}

// submit starts the prompts' streams: the backend's, or those of a hit of the cache.
func (g *generation) submit() ([]*inference.Stream, error) {
	if g.recalled.isHit() {
		return g.recalled.streams(g.job.Prompts), nil
	}
	return g.job.Model.Backend.SubmitAll(g.job.Requests())
}

// step handles one event and returns the choice that it changed, if any. more is
// false when no event is left to handle now, or there is an error.
func (g *generation) step() (c *choice, more bool, err error) {
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
func (g *generation) poll() (ok bool, err error) {
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

func (g *generation) unfinished(stream int) bool {
	n := g.job.Params.N
	for _, c := range g.choices[stream*n : (stream+1)*n] {
		if c.finish == inference.FinishNone {
			return true
		}
	}
	return false
}

// handle gives an event to its choice; events of choices that are complete
// come too late and are dropped.
func (g *generation) handle(st *stream, e inference.Event) *choice {
	switch e.Kind {
	case inference.EventPrompt:
		st.prompt = append(st.prompt, answer.TokenRecord{ID: e.Token, Logprob: e.Logprob, Top: e.Top})
		return nil
	case inference.EventToken, inference.EventFinish:
	default:
		return nil // embeddings are never asked for here
	}
	if e.Choice < 0 || e.Choice >= g.job.Params.N {
		return nil
	}
	c := g.choices[g.from*g.job.Params.N+e.Choice]
	if c.finish != inference.FinishNone {
		return nil
	}
	g.recalled.take(g.from, e)
	if e.Kind == inference.EventFinish {
		st.finished(c, e.Finish)
	} else if limit := g.pay(); limit != "" {
		g.result.Limit = limit
		c.spent(limit)
		st.Cancel(c.number)
	} else {
		g.timed(st, c)
		if c.token(e) {
			st.Cancel(c.number)
		}
	}
	if c.finish != inference.FinishNone {
		g.open--
	}
	return c
}

// finished ends a choice, or notes that its backend gave it up: then the
// stream's end says why, and the client gets an error, not a short answer.
func (st *stream) finished(c *choice, reason inference.FinishReason) {
	switch reason {
	case inference.FinishStop, inference.FinishLength:
		c.finished(reason)
	case inference.FinishCancelled:
		st.broken = inference.ErrCancelled
	default:
		st.broken = inference.ErrInternal
	}
}

// timed reports a token's time to the hooks.
func (g *generation) timed(st *stream, c *choice) {
	now := time.Now()
	hooks := &g.server.config.Hooks
	if g.result.FirstToken.IsZero() {
		g.result.FirstToken = now
	}
	g.result.LastToken = now
	if g.recalled.isHit() {
		return // hooks measure the engine
	}
	if !st.began {
		st.began = true
		if hooks.OnFirstToken != nil {
			hooks.OnFirstToken(&g.result.RequestStart, now.Sub(g.job.Arrived))
		}
	}
	if hooks.OnTokenGap != nil && !c.last.IsZero() {
		gap := now.Sub(c.last)
		slowest := gap > g.slowest
		g.slowest = max(g.slowest, gap)
		hooks.OnTokenGap(&g.result.RequestStart, gap, slowest)
	}
	c.last = now
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
func (g *generation) wait(timer <-chan time.Time) wakeup {
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
	case <-g.server.running.Aborted():
		return wokeAbort
	}
}

// waitMany is wait for several prompts, which no select statement can list.
func (g *generation) waitMany(timer <-chan time.Time) wakeup {
	g.cases = append(g.cases[:0], receive(timer), receive(g.gone), receive(g.server.running.Aborted()))
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

// run waits for the whole answer.
func (g *generation) run() *api.Error {
	for {
		fault := g.drain()
		if fault == nil && g.open == 0 {
			return nil
		}
		if fault == nil {
			fault = g.pause()
		}
		if fault != nil {
			g.fail(fault)
			return fault
		}
	}
}

// pause waits for events of the backend; a hang-up or an abort is an error.
func (g *generation) pause() *api.Error {
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
func (g *generation) drain() *api.Error {
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

// fail records an error as the result and cancels the streams that run.
func (g *generation) fail(fault *api.Error) {
	g.result.Status, g.result.Code = fault.Status, fault.Code
	g.cancel()
}

// hungUp records that nobody waits for the answer any more: the client hung up, or has
// cancelled a response that is computed without it.
func (g *generation) hungUp() *api.Error {
	fault := edge.ClientGone()
	if g.job.Background {
		fault = edge.Cancelled()
	} else if h := g.server.config.Hooks.OnDisconnect; h != nil && g.result.Status != edge.StatusHungUp {
		h(g.job.Model.ID)
	}
	g.fail(fault)
	return fault
}

// cancel ends every stream that has not ended.
func (g *generation) cancel() {
	for _, st := range g.streams {
		if !st.done && !st.dropped {
			st.dropped = true
			st.Cancel(-1)
		}
	}
}

// end ends a started generation: the code that wrote the last byte or gave up
// calls it. Further calls do nothing.
func (g *generation) end() {
	if g.ended {
		return
	}
	g.ended = true
	if g.open > 0 && g.result.Status == statusOK {
		_ = g.hungUp() // nobody took the answer to its end
	}
	g.cancel()
	g.result.Finished = time.Now()
	g.result.CachedTokens = g.cachedTokens()
	g.result.Compute = g.job.Beside
	for _, st := range g.streams {
		g.result.Compute += st.Compute()
	}
	g.result.OutputTokens = g.outputTokens()
	generated := g.result.OutputTokens
	if g.result.FromCache {
		generated = 0
	}
	if g.result.Charged() && !g.result.Prefix {
		g.result.Cost = g.job.Price().Cost(int64(g.result.PromptTokens), int64(g.result.CachedTokens), int64(generated))
	}
	g.settle()
	if g.open == 0 && g.result.Status == statusOK && !slices.ContainsFunc(g.choices, (*choice).isCutOff) {
		g.recalled.keep() // what a policy or a limit of the tenant cut off is no answer for later
	}
	g.result.Moderated = g.job.Moderated
	g.result.Admitted = g.admitted()
	for _, c := range g.choices {
		g.result.Unreadable += c.unreadable()
		reason := c.finish
		if reason == inference.FinishNone {
			reason = inference.FinishCancelled
			if g.result.Status >= statusInternal {
				reason = inference.FinishError
			}
		}
		g.result.Reasons = append(g.result.Reasons, reason)
	}
	g.judge()
	if h := g.server.config.Hooks.OnRequestFinish; h != nil {
		g.result.Texts = g.texts()
		h(g.result)
	}
	if g.job.Copied != nil && g.open == 0 && g.result.Status == statusOK {
		g.job.Copied(g.answers(), &g.result)
	}
}

// answer encodes what run has gathered, in the format of the job's endpoint.
func (g *generation) answer() []byte {
	choices := make([]answer.Delta, len(g.choices))
	for i, c := range g.choices {
		c.whole(&choices[i])
	}
	return g.job.Encoder().AppendWhole(nil, choices, g.usage())
}

func (g *generation) usage() answer.Usage {
	u := answer.Usage{Prompt: g.result.PromptTokens, Cached: g.cachedTokens()}
	for _, c := range g.choices {
		u = c.used(u)
	}
	return u
}

func (g *generation) cachedTokens() int {
	n := 0
	for _, st := range g.streams {
		n += st.Progress().CachedTokens
	}
	return n
}

// admitted is when the first of the prompts became running.
func (g *generation) admitted() (first time.Time) {
	for _, st := range g.streams {
		if t := st.Admitted(); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (g *generation) outputTokens() int {
	n := 0
	for _, c := range g.choices {
		n += c.tokens
	}
	return n
}
