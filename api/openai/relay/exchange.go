package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/generation"
	"weir/api/openai/messages"
	"weir/api/openai/priority"
	"weir/api/openai/stored"
	"weir/internal/inference"
	"weir/router"
	"weir/router/chunk"
	"weir/scheduler/quota"
)

// A relayed request is authenticated, counted and watched here and computed
// elsewhere. Its bytes pass as they are except for the model's name, in both directions; of the
// answer this server reads what limits and metrics need.

// Exchange is a relayed request: the counterpart of a generation.
type Exchange struct {
	Relay    *Relay
	Result   edge.RequestFinish
	Price    quota.Price
	Bill     *meter.Bill
	Cancel   context.CancelCauseFunc // of the request to the upstream
	Cause    func() error            // why it was cancelled: edge.ErrHungUp, edge.ErrStopped, a deadline; nil if it was not
	timers   []*time.Timer           // to the deadlines: of the first token, where it is dated, and of the end
	dated    bool
	Account  Account
	Answer   *router.Answer // nil until it has begun
	closed   bool
	Texts    *Texts                                      // of a tenant with LogPrompts, or of a rollout, which compares them
	Keeps    bool                                        // the tenant agreed that texts are kept
	Copied   func(texts []string, f *edge.RequestFinish) // gets the whole answer; nil: no copy is wanted
	Run      *stored.Run                                 // of a response that is computed without its client; nil unless it runs in the background
	Route    Route                                       // that the client asked on
	Form     Form                                        // of the answer
	reasoned int                                         // output tokens that were thoughts
	Name     []byte                                      // of the model, as JSON: what stands in answers, whatever the upstream calls it
}

// Codes of faults after which another model may answer.
const (
	UpstreamUnavailable = "upstream_unavailable"
	NoReplica           = "no_replica"
	NoReplicaInRegion   = "no_replica_in_region"
)

// Ask sends the request and waits until its answer has begun.
func (p *Exchange) Ask(ctx context.Context, r *Request, sent *router.Call) (fault *api.Error) {
	var err error
	if p.Answer, err = r.Model.Upstream.Send(ctx, sent); err != nil {
		return p.broken(err)
	}
	p.Result.Replica, p.Result.RouteReason, p.Result.Attempts = p.Answer.Replica, p.Answer.Reason, p.Answer.Attempts
	status := p.Answer.Status
	if r.More && (status == http.StatusTooManyRequests || status >= http.StatusInternalServerError && status != http.StatusNotImplemented) {
		return p.broken(fmt.Errorf("status %d: %.200q", status, p.Answer.Whole))
	}
	return nil
}

// Whole reads an answer that is no stream, and gives what the client gets of it.
func (p *Exchange) Whole(r *Request) ([]byte, *api.Error) {
	p.inTime()
	read := p.Account.events.Read
	if r.Writes {
		read = p.Account.Chunk
	}
	said := read(p.Answer.Whole)
	p.Read(p.Answer.Whole, said)
	p.Texts.Read(p.Form, p.Answer.Whole)
	if said != nil && r.Job == nil && (said.HasUsage() || r.Writes && (!said.Usage.IsEmpty() || p.answers(said))) {
		if at, own := p.correction(p.Answer.Whole, said, true); own != nil {
			p.Answer.Whole = slices.Replace(p.Answer.Whole, at.From, at.To, own...)
		}
	}
	if !r.Writes {
		p.Result.Reasons = append(p.Result.Reasons, inference.FinishStop)
	}
	if r.Job != nil {
		return p.rewordWhole(r.Job)
	}
	return underName(p.Answer.Whole, p.Name), nil
}

// answers reports whether a whole answer says something. What has no answer of its own, such as embeddings, keeps that it tells no usage.
func (p *Exchange) answers(said *chunk.Chunk) bool {
	return said.Said() && (p.Form != ChatForm || said.Choices > 0)
}

// statusOf is a server's status as the path's clients know it.
func (p *Exchange) statusOf(status int) int {
	if p.Route == nil { // a copy, which no client waits for
		if status == messages.StatusOverloaded {
			return http.StatusServiceUnavailable
		}
		return status
	}
	return p.Route.StatusOf(status)
}

// broken notes why there is no answer, or no more of it.
func (p *Exchange) broken(err error) *api.Error {
	cause := p.Cause()
	fault := p.Relay.Hooks.Interrupted(p.Result.Model, cause)
	switch {
	case fault != nil:
	case errors.Is(cause, inference.ErrDeadline):
		fault = edge.Fault(cause)
	case errors.Is(err, router.ErrResidency):
		fault = Displaced()
		p.Result.Cause = err
	case errors.Is(err, router.ErrNoReplica):
		fault = api.Refuse(NoReplica, "none of the servers behind this model takes requests now; retry")
		p.Result.Cause = err
	case errors.Is(err, router.ErrNoMemory):
		fault = NoMemory()
		p.Result.Cause = err
	case errors.Is(err, router.ErrOversized):
		fault = Oversized()
		p.Result.Cause = err
	default:
		fault = upstreamFault(err)
		p.Result.Cause = err
	}
	fault.Status = p.statusOf(fault.Status)
	p.Result.Status, p.Result.Code = fault.Status, fault.Code
	return fault
}

// NoMemory refuses a request whose answer there is no memory for.
func NoMemory() *api.Error {
	return api.NoMemory("request bodies and the answers of the servers behind models use")
}

// Oversized refuses a request whose answer is larger than this server ever takes in one piece.
func Oversized() *api.Error {
	return api.Refuse("answer_too_large", "the whole answer of the server behind this model is larger than this server takes in one piece, and is so each time; "+
		"ask for a stream, for fewer choices, log-probabilities or inputs at once, or raise --http-body-memory-bytes (a whole answer takes up to 64 MiB, and twice its size of three quarters of that memory)")
}

// Displaced refuses a request that only servers outside its tenant's residency could take.
func Displaced() *api.Error {
	return api.Refuse(NoReplicaInRegion, "none of the servers behind this model that are in a region of the tenant's residency takes requests now; retry")
}

// upstreamFault tells a caller what a server did: by its kind, since what else the error says may be a secret of the
// operator, or with the words that the server has put into its stream.
func upstreamFault(err error) *api.Error {
	if said, ok := errors.AsType[router.StreamedFault](err); ok {
		status, body := said.Refusal()
		return RefusalOf(&router.Answer{Status: status, Whole: body})
	}
	f, ok := errors.AsType[router.UpstreamFault](err)
	switch {
	case !ok:
		return api.Refuse(UpstreamUnavailable, "the server behind this model did not answer, or not to the end; retry")
	case f.Lasting():
		return api.Refuse(UpstreamUnavailable, "the server behind this model "+f.Told()+": its operator, or that of this server, has to correct that")
	}
	return api.Refuse(UpstreamUnavailable, "the server behind this model "+f.Told()+" ("+f.FaultKind()+"); retry")
}

// End is called exactly once, by the goroutine that wrote the last byte or gave up;
// further calls do nothing.
func (p *Exchange) End() {
	if p.closed {
		return
	}
	p.closed = true
	defer p.Relay.Running.Leave()
	for _, part := range []func(){p.release, p.Estimate, p.charge, p.tell} {
		p.Relay.Hooks.Guarded("stream", part)
	}
}

// release ends what works for the request.
func (p *Exchange) release() {
	p.Cancel(nil)
	for _, t := range p.timers {
		t.Stop()
	}
	if p.Answer != nil && p.Answer.Events != nil {
		_ = p.Answer.Events.Close() // all that was wanted of it was read
	}
	p.Answer.Release()
	p.Result.Finished = time.Now()
}

func (p *Exchange) charge() {
	if p.Result.Estimated && p.Answer != nil && p.Answer.Untold != nil {
		p.Answer.Untold(p.Account.guessed + p.Result.OutputTokens)
	}
	if p.Result.Charged() {
		p.Result.Cost = p.Price.Cost(int64(p.Result.PromptTokens), int64(p.Result.CachedTokens), int64(p.Result.OutputTokens))
	}
	p.settle()
}

// tell tells those who watch requests that this one is over.
func (p *Exchange) tell() {
	if len(p.Result.Reasons) == 0 && !p.Result.FirstToken.IsZero() {
		reason := inference.FinishCancelled
		if p.Result.Status >= http.StatusInternalServerError {
			reason = inference.FinishError
		}
		p.Result.Reasons = append(p.Result.Reasons, reason)
	}
	p.judge()
	if h := p.Relay.Hooks.OnRequestFinish; h != nil {
		if p.Keeps {
			p.Result.Texts = p.Texts.texts()
		}
		h(p.Result)
	}
	if p.Copied != nil && p.ended() {
		p.Copied(p.Texts.Said(), &p.Result)
	}
}

// settle ends the exchange's bill: what it has used takes the place of what was reserved.
func (p *Exchange) settle() {
	if p.Bill == nil {
		return
	}
	r := &p.Result
	use := quota.Use{
		Ran:   r.Status == http.StatusOK || !r.FirstToken.IsZero(),
		Input: int64(r.PromptTokens), Cached: int64(r.CachedTokens), Output: int64(r.OutputTokens),
	}
	if !r.Charged() {
		use.Input, use.Cached, use.Output = 0, 0, 0
	}
	p.Bill.Settle(use)
	if len(r.Reasons) == 1 && r.OutputTokens > 0 {
		p.Relay.Estimates.Learn(r.Model, r.Tenant, MaxTokens, r.OutputTokens)
	}
}

// ended reports whether the answer came to its own end.
func (p *Exchange) ended() bool {
	r := p.Result.Reasons
	return p.Result.Status == http.StatusOK && len(r) > 0 && (r[0] == inference.FinishStop || r[0] == inference.FinishLength || r[0] == inference.FinishFiltered)
}

// judge notes what a rollout asks of an answer's text.
func (p *Exchange) judge() {
	if p.Texts == nil || !p.ended() {
		return
	}
	p.Result.Empty, p.Result.Refuses = true, p.Result.Reasons[0] == inference.FinishFiltered
	for i, text := range p.Texts.Said() {
		p.Result.Empty = p.Result.Empty && text == ""
		p.Result.Refuses = p.Result.Refuses || i == 0 && generation.Refuses(text)
	}
}

// WatchDeadlines ends the request at the upstream when a deadline passes. The end of
// the exchange stops the timers.
func (p *Exchange) WatchDeadlines(t priority.Terms) {
	for _, d := range []struct {
		at  time.Time
		why error
	}{{t.FirstTokenBy, errFirstTokenLate}, {t.DoneBy, errAnswerLate}} {
		if !d.at.IsZero() {
			p.timers = append(p.timers, time.AfterFunc(time.Until(d.at), func() { p.Cancel(d.why) }))
		}
	}
	p.dated = !t.FirstTokenBy.IsZero()
}

// inTime stops the timer to the first token, which has come: of an answer that is no
// stream with the whole answer.
func (p *Exchange) inTime() {
	if p.dated {
		p.timers[0].Stop()
	}
}

var (
	errFirstTokenLate = fmt.Errorf("%w: the server behind this model had not begun its answer", inference.ErrDeadline)
	errAnswerLate     = fmt.Errorf("%w: the answer was due before it ended", inference.ErrDeadline)
)

// AskEvents has an answer computed whose events go to the run's log.
func (p *Exchange) AskEvents(ctx context.Context, r *Request, sent *router.Call, body *TranslatedStream) {
	fault := p.Ask(ctx, r, sent)
	if fault == nil && p.Answer.Status != http.StatusOK {
		fault = p.Refused(nil, r.Job)
	}
	if fault == nil && p.Answer.Events != nil {
		fault = p.Run.Events.Copy(body)
	}
	if fault != nil {
		p.Run.Events.Add(body.Encoder.AppendFault(nil, fault))
	}
}

// AskWhole has an answer computed without its client: the job's encoder keeps it.
func (p *Exchange) AskWhole(ctx context.Context, r *Request, sent *router.Call) *api.Error {
	fault := p.Ask(ctx, r, sent)
	switch {
	case fault != nil:
		return fault
	case p.Answer.Status != http.StatusOK:
		return p.Refused(nil, r.Job)
	}
	_, fault = p.Whole(r)
	return fault
}
