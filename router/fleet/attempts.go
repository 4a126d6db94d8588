package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/router"
	"weir/router/balance"
	"weir/router/prefix"
)

// maxAttempts limits the attempts that may have reached a replica; connections that were refused do not count.
const maxAttempts = 3

// flight is one request on its way through the fleet.
type flight struct {
	fleet *Fleet
	call  *router.Call
	ctx   context.Context //nolint:containedctx // of the call, whose stream outlives Send
	began time.Time

	request balance.Request
	holders []prefix.Match   // of the prompt, before this request
	prefill prefilled        // the prompt's prefix, computed for this request; zero: it was not
	stays   string           // why no prefill replica computes it, for people; "": one does, or it need not be asked
	tried   []*replica       // in order
	last    Fault            // of the last attempt
	doubted []unclearFailure // attempts whose replica may be at fault: another one's answer tells
	worked  int              // attempts that may have worked for the request
	spilled bool             // a refusal has sent the request on to another replica
	content bool             // the client has some
	resume  *resume          // nil: a stream that breaks after content has failed
}

// unclearFailure is an attempt that has ended with a fault of which it is not known whose it is.
type unclearFailure struct {
	attempt *attempt
	err     error
}

// begin asks replicas until an answer has begun, or no further one may be asked.
func (fl *flight) begin() (answer *router.Answer, err error) {
	defer func() { fl.settle(err == nil && fl.last == NoFault) }()
	for {
		a, none := fl.pick()
		switch {
		case none == nil:
			answer, err = fl.ask(a)
		case answer == nil && err == nil:
			return nil, none
		default:
			return answer, err // of those that were asked
		}
		if !fl.again() {
			return answer, err
		}
		answer.Release()
	}
}

// settle judges the replicas of doubted attempts. A replica that has refused a request which another one then answers is at fault.
func (fl *flight) settle(answered bool) {
	for _, d := range fl.doubted {
		if answered {
			d.attempt.verdict(d.err)
		} else {
			d.attempt.verdict(fmt.Errorf("%w: %w", d.err, errNotJudged))
		}
	}
	fl.doubted = fl.doubted[:0]
}

// avoid lists the replicas that shall not be asked: those that do not suit, and where others are left, those that
// have asked for time.
func (fl *flight) avoid(m *members, now time.Time) {
	fl.request.Avoid = fl.request.Avoid[:0]
	rested := slices.ContainsFunc(m.list, func(r *replica) bool { return fl.suits(r) && !r.cools(now) && r.takes() })
	for _, r := range m.list {
		if !fl.suits(r) || rested && r.cools(now) {
			fl.request.Avoid = append(fl.request.Avoid, r.number)
		}
	}
}

// pick chooses a replica that was not asked yet, and begins an attempt there.
func (fl *flight) pick() (*attempt, error) {
	f := fl.fleet
	members := f.members.Load()
	fl.avoid(members, time.Now())
	panics := fl.panics()
	for {
		now := time.Now()
		lease, err := f.balancer.Pick(now, &fl.request)
		if err != nil && fl.request.Pool != balance.Prefilling && f.members.Load().pools { // prefill replicas can answer, too: better than no answer
			fl.request.Pool = balance.Prefilling
			continue
		}
		if err != nil {
			f.counts.none.Add(1)
			return nil, fl.unplaced(members, fmt.Errorf("model %s: %w: %d are known: %w", f.config.Model, router.ErrNoReplica, len(members.list), err))
		}
		fl.request.Avoid = append(fl.request.Avoid, lease.Replica)
		r := members.numbered[lease.Replica]
		if r == nil || !fl.resides(r) { // it came or left meanwhile
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		judge, err := r.breaker.Load().Allow()
		if err != nil && panics {
			judge, err = f.reopen(r), nil
		}
		if err != nil { // another request tries whether the replica is back
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		fl.tried = append(fl.tried, r)
		f.counts.picks[lease.Reason.Why].Add(1)
		a := &attempt{replica: r, lease: lease, reason: lease.Reason.String(), began: now, judge: judge}
		if fl.call.Tried != nil {
			a.tell, a.seen, a.stays = fl.call.Tried, fl.candidates(members), fl.stays
		}
		return a, nil
	}
}

// candidates are the replicas that the last pick has looked at.
func (fl *flight) candidates(m *members) []router.Candidate {
	list := make([]router.Candidate, 0, len(*fl.request.Seen))
	for _, c := range *fl.request.Seen {
		one := router.Candidate{
			Keys: c.Hit, Tokens: c.Tokens, Fetched: c.Fetch, Ahead: c.Ahead, Load: c.Load, KVShare: c.KV, CostSeconds: c.Cost, Session: c.Home, Gated: c.Gated, Waits: c.Waits,
		}
		if r := m.numbered[c.Replica]; r != nil { // it may have come meanwhile
			one.Replica = r.id
		}
		list = append(list, one)
	}
	return append(list, fl.excluded(m)...)
}

// ask sends the request to a replica and waits until its answer has begun.
func (fl *flight) ask(a *attempt) (*router.Answer, error) {
	r, f := a.replica, fl.fleet
	ctx, cancel := context.WithCancelCause(fl.ctx)
	a.cancel, a.cause = cancel, func() error { return context.Cause(ctx) }
	a.timer = time.AfterFunc(f.config.AnswerTimeout, func() { cancel(errStalled) })
	r.running.Add(1)
	r.counts.requests.Add(1)
	r.await(a)
	body := fl.call.Body
	if again := fl.resume; again != nil && again.again > 0 {
		again.counted = again.count(ctx, r)
		if body = again.body(again.counted); body == nil {
			return nil, fl.fail(a, NoFault, errNothingLeft)
		}
	}
	sent := fl.options(r)
	answer, err := fl.exchange(ctx, a, body, sent)
	if !bytes.Equal(sent, fl.call.StreamOptions.Asked) && err == nil {
		answer, err = fl.withoutOptions(ctx, a, body, answer)
	}
	if answer != nil && answer.Events != nil {
		fl.last = NoFault
		return answer, nil
	}
	if answer == nil {
		return nil, fl.fail(a, NoAnswer, err)
	}
	return fl.refused(a, answer, err)
}

// exchange sends the request once, with these stream_options. Without an answer the error is one of the connection, and otherwise
// what is wrong with it.
func (fl *flight) exchange(ctx context.Context, a *attempt, body, options []byte) (*router.Answer, error) {
	r := a.replica
	if api := r.target.Kind.providerOf(fl.call.Path); api != nil {
		return fl.translate(ctx, a, api, body)
	}
	var d directConn
	if fl.call.Stream && fl.resume == nil && r.target.Base.Scheme == "http" {
		ctx = d.traced(ctx)
	}
	res, err := fl.send(ctx, r, body, options)
	if err != nil {
		if notSent(err) {
			err = &faultError{fault: Unreachable, err: err}
		}
		return nil, err
	}
	r.heard.Add(1)
	fl.fleet.note(r, res.Header)
	a.status = res.StatusCode
	coded, err := decode(res)
	answer := &router.Answer{Status: res.StatusCode, Header: res.Header, Replica: r.id, Reason: a.reason, Attempts: len(fl.tried), Untold: r.counts.untell}
	streamed := res.StatusCode == http.StatusOK && isEventStream(res.Header.Get("Content-Type"))
	if streamed && !fl.call.Stream {
		err = BadAnswer.because("the answer is a stream, and none was asked for")
	}
	if err != nil {
		_ = res.Body.Close() // it was not asked for so
		return answer, err
	}
	if streamed {
		if d.of(res); coded {
			d.conn = nil
		}
		return fl.opened(answer, &stream{flight: fl, attempt: a, body: res.Body, direct: d, guard: streamChecker{dialect: dialect(apiOf(fl.call.Path)), hide: r.wire.hide}})
	}
	defer func() { _ = res.Body.Close() }() // all that was wanted of it was read
	if err = fl.fleet.read(answer, res.Body, res.ContentLength, fl.call.MostBytes); err != nil {
		return nil, err
	}
	if faultOf(answer.Status) == NoFault {
		err = fl.check(answer)
	} else {
		r.judgeStatus(answer)
	}
	return answer, err
}

// opened waits until a stream has content.
func (fl *flight) opened(answer *router.Answer, s *stream) (*router.Answer, error) {
	err := s.open()
	if err == nil {
		answer.Events = s
		return answer, nil
	}
	_ = s.body.Close() // it has failed, and nothing follows an error
	return answer, err
}

// refused ends an attempt whose answer is there whole, or has an error in place of it. An error that the server has
// put into an answer under 200 is an answer with the error's status.
func (fl *flight) refused(a *attempt, answer *router.Answer, err error) (*router.Answer, error) {
	err = a.replica.wire.withhold(err)
	if faultOf(answer.Status) != NoFault {
		answer.Whole = a.replica.wire.hide(answer.Whole)
	}
	if said, ok := errors.AsType[*eventError](err); ok {
		answer.Status, answer.Whole = said.Refusal()
		answer.Header.Set("Content-Type", "application/json")
		err = nil
	}
	if err != nil {
		answer.Release()
		fault := NoAnswer
		if e, ok := errors.AsType[*faultError](err); ok {
			fault = e.fault
		}
		if fault == Unsupported { // the replica has seen nothing of it
			fl.last = fault
			a.replica.counts.add(fault)
			a.end(fmt.Errorf("%w: %w", err, errNotJudged))
			return answer, nil
		}
		return nil, fl.fail(a, fault, err)
	}
	if fl.last = fl.judged(answer); fl.last != NoFault {
		answer.Fault = fl.last.ofStatus(answer.Status)
	}
	a.replica.counts.add(fl.last)
	switch t := treatments[fl.last]; {
	case fl.last == NoFault:
		a.end(nil)
	case t.blame == guilty:
		a.end(fl.last.ofStatus(answer.Status))
	case t.blame == suspected:
		err := fl.last.ofStatus(answer.Status)
		a.leave(err)
		fl.doubted = append(fl.doubted, unclearFailure{a, err})
	default:
		if t.cools {
			a.replica.cool(answer.Header, time.Now())
		}
		a.end(fmt.Errorf("%w: %w", fl.last.ofStatus(answer.Status), errRefused))
	}
	return answer, nil
}

// send posts the request in the form that its kind has at a replica.
func (fl *flight) send(ctx context.Context, r *replica, body, options []byte) (*http.Response, error) {
	if fl.call.Infer != nil {
		return r.wire.infer(ctx, r.model, fl.call, fl.introduction(r))
	}
	return r.wire.send(ctx, fl.call.Path, &fl.call.Head, fl.introduction(r), withModel(r.model, options, body))
}

// options are the stream_options that a replica gets.
func (fl *flight) options(r *replica) []byte {
	if r.plain.Load() || kinds[r.target.Kind].provider != nil {
		return fl.call.StreamOptions.Asked
	}
	return fl.call.StreamOptions.Sent
}

// withoutOptions asks a replica once more, without the stream_options that its client has not sent, where these may be why it
// refuses the request: it says so, or it has never taken them. The replica gets them no
// more where it said so, or takes the request without.
func (fl *flight) withoutOptions(ctx context.Context, a *attempt, body []byte, first *router.Answer) (*router.Answer, error) {
	r := a.replica
	if first.Events != nil {
		if !r.options.Load() {
			r.options.Store(true)
		}
		return first, nil
	}
	named := bytes.Contains(first.Whole, []byte("stream_options")) || bytes.Contains(first.Whole, []byte("include_usage"))
	refused := first.Status == http.StatusBadRequest || first.Status == http.StatusUnprocessableEntity
	if !refused && (first.Status != http.StatusInternalServerError || !named) || !named && r.options.Load() {
		return first, nil
	}
	first.Release()
	answer, err := fl.exchange(ctx, a, body, fl.call.StreamOptions.Asked)
	if named || err == nil && answer.Status == http.StatusOK {
		r.plain.Store(true)
	}
	return answer, err
}

// introduction tells another weir who calls, and that the request is counted here.
func (fl *flight) introduction(r *replica) http.Header {
	head := &fl.call.Head
	if r.target.Kind != Weir {
		return nil
	}
	said := http.Header{}
	if head.Caller != nil {
		if caller := head.Caller(time.Now(), fl.transfer(r)); caller != "" {
			said.Set(router.CallerHeader, caller)
		}
	}
	if head.Counted != "" {
		said.Set(router.CountedHeader, head.Counted)
	}
	return said
}

// fail ends an attempt that gave no answer. Where the client hung up, or its
// deadline has passed, the replica is not blamed.
func (fl *flight) fail(a *attempt, fault Fault, err error) error {
	err = a.replica.wire.withhold(err)
	if cause := a.cause(); cause != nil && fl.ctx.Err() == nil {
		err = cause // the attempt was ended here: what was read then says less
	}
	if fl.last = fault; fl.ctx.Err() != nil {
		fl.last = NoFault
		a.end(errNotJudged)
		return err
	}
	switch e, named := errors.AsType[*faultError](err); {
	case named:
		fl.last = e.fault
	case fault != NoFault:
		err = &faultError{fault: fault, err: err}
	}
	a.replica.counts.add(fl.last)
	a.end(err)
	return err
}

// breaks ends an attempt whose stream broke after content. An error event says whose fault that is.
func (fl *flight) breaks(a *attempt, err error) error {
	fault := BrokenStream
	a.harmed = true
	if said, ok := errors.AsType[*eventError](err); ok {
		status, _ := said.Refusal()
		if fault = faultOf(status); treatments[fault].blame != guilty {
			err = fmt.Errorf("%w: %w", err, errNotJudged)
		}
	}
	return fl.fail(a, fault, err)
}

// again reports whether another replica shall be asked, after an answer or an error that
// was not seen yet.
func (fl *flight) again() bool {
	now := time.Now()
	if fl.ctx.Err() != nil || fl.late(now) || !fl.fleet.has(fl) {
		return false
	}
	counts := &fl.fleet.counts
	switch treatments[fl.last].again {
	case never:
		return false
	case always:
		return true
	case once:
		again := !fl.spilled
		if fl.spilled = true; again {
			counts.spills.Add(1)
		}
		return again
	case opinion:
		again := len(fl.doubted) < maxAttempts
		if again {
			counts.spills.Add(1)
		}
		return again
	case budgeted:
		fl.worked++
		again := fl.worked < maxAttempts && fl.fleet.budget.take(now)
		if again {
			counts.retries.Add(1)
		}
		return again
	}
	return false
}

// late reports whether a deadline of the request has passed.
func (fl *flight) late(now time.Time) bool {
	past := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	return past(fl.call.Head.DoneBy) || !fl.content && past(fl.call.Head.FirstTokenBy)
}

// errNothingLeft: the stream broke when all tokens that were asked for had been said.
var errNothingLeft = fmt.Errorf("the answer had all its tokens and no end: %w", errNotJudged)

// suits reports whether a replica was not asked yet and can do what the request needs now.
func (fl *flight) suits(r *replica) bool {
	goesOn := fl.resume != nil && fl.resume.again > 0
	return fl.resides(r) && !slices.Contains(fl.tried, r) && (!goesOn || !fl.resume.chat || kinds[r.target.Kind].continues)
}
