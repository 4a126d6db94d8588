package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"weir/router"
	"weir/router/balance"
)

// maxAnswerBytes bounds an answer that is no stream.
const maxAnswerBytes = 64 << 20

// maxAttempts bounds the replicas that are asked and that may have worked for a request;
// such as could not be reached do not count.
const maxAttempts = 3

// flight is one request on its way through the fleet.
type flight struct {
	fleet *Fleet
	call  *router.Call
	ctx   context.Context //nolint:containedctx // of the call, whose stream outlives Send
	began time.Time

	request balance.Request
	tried   []*replica // in order
	worked  int        // of them, those that may have worked for it
	spilled bool       // a refusal has sent the request on to another replica
	content bool       // the client has some
	resume  *resume    // nil: a stream that breaks after content has failed
}

// begin asks replicas until an answer has begun, or nobody else may be asked.
func (fl *flight) begin() (answer *router.Answer, err error) {
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
		if !fl.again(answer, err) {
			return answer, err
		}
	}
}

// pick chooses a replica that was not asked yet, and begins an attempt there.
func (fl *flight) pick() (*attempt, error) {
	f := fl.fleet
	members := f.members.Load()
	fl.request.Avoid = fl.request.Avoid[:0]
	for _, r := range members.list {
		if !fl.suits(r) {
			fl.request.Avoid = append(fl.request.Avoid, r.number)
		}
	}
	for {
		now := time.Now()
		lease, err := f.balancer.Pick(now, &fl.request)
		if err != nil {
			f.counts.none.Add(1)
			return nil, fmt.Errorf("model %s: %w: %d are known: %w", f.config.Model, router.ErrNoReplica, len(members.list), err)
		}
		fl.request.Avoid = append(fl.request.Avoid, lease.Replica)
		r := members.numbered[lease.Replica]
		if r == nil { // it came or left meanwhile
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		judge, err := r.breaker.Allow()
		if err != nil { // another request tries whether the replica is back
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		fl.tried = append(fl.tried, r)
		f.counts.picks[lease.Reason.Why].Add(1)
		a := &attempt{replica: r, lease: lease, reason: lease.Reason.String(), began: now, judge: judge}
		if fl.call.Tried != nil {
			a.tell, a.seen = fl.call.Tried, fl.candidates(members)
		}
		return a, nil
	}
}

// candidates are the replicas that the last pick has looked at.
func (fl *flight) candidates(m *members) []router.Candidate {
	list := make([]router.Candidate, 0, len(*fl.request.Seen))
	for _, c := range *fl.request.Seen {
		one := router.Candidate{
			Keys: c.Hit, Tokens: c.Tokens, Ahead: c.Ahead, Load: c.Load, KVShare: c.KV, CostSeconds: c.Cost, Session: c.Home, Gated: c.Gated, Waits: c.Waits,
		}
		if r := m.numbered[c.Replica]; r != nil { // it may have come meanwhile
			one.Replica = r.id
		}
		list = append(list, one)
	}
	return list
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
			return nil, fl.fail(a, errNothingLeft)
		}
	}
	var d direct
	if fl.call.Stream && fl.resume == nil && r.target.Base.Scheme == "http" {
		ctx = d.traced(ctx)
	}
	res, err := fl.send(ctx, r, body)
	if err != nil {
		return nil, fl.fail(a, err)
	}
	r.heard.Add(1)
	f.note(r, res.Header)
	a.status = res.StatusCode
	answer := &router.Answer{Status: res.StatusCode, Header: res.Header, Replica: r.id, Reason: a.reason, Attempts: len(fl.tried)}
	if res.StatusCode == http.StatusOK && isEventStream(res.Header.Get("Content-Type")) {
		d.of(res)
		s := &stream{flight: fl, attempt: a, body: res.Body, direct: d, tail: tail{dialect: dialect(apiOf(fl.call.Path))}}
		err := s.open()
		refused, ok := errors.AsType[*eventError](err)
		switch {
		case err == nil:
			answer.Events = s
			return answer, nil
		case !ok:
			_ = res.Body.Close() // it failed already
			return nil, fl.fail(a, err)
		}
		_ = res.Body.Close() // nothing follows an error
		answer.Status, answer.Whole = refused.answer()
		a.end(r.blame(answer.Status))
		return answer, nil
	}
	defer func() { _ = res.Body.Close() }() // all that was wanted of it was read
	if answer.Whole, err = readAnswer(res.Body); err == nil && res.StatusCode == http.StatusOK {
		err = fl.check(answer)
	}
	if err != nil {
		return nil, fl.fail(a, err)
	}
	a.end(r.blame(answer.Status))
	return answer, nil
}

// send posts the request in the form that its kind has at a replica.
func (fl *flight) send(ctx context.Context, r *replica, body []byte) (*http.Response, error) {
	if fl.call.Infer != nil {
		return r.wire.infer(ctx, r.model, fl.call, fl.introduction(r))
	}
	return r.wire.send(ctx, fl.call.Path, &fl.call.Head, fl.introduction(r), withModel(r.model, body))
}

// check reads an answer that is no stream as far as to know that it is one.
func (fl *flight) check(a *router.Answer) error {
	switch {
	case fl.call.Infer != nil:
		return fl.call.Infer.Read(a.Header, a.Whole)
	case !json.Valid(a.Whole):
		return fmt.Errorf("the answer is no JSON: %.200q", a.Whole)
	}
	return nil
}

// introduction tells another weir who calls.
func (fl *flight) introduction(r *replica) http.Header {
	if fl.call.Head.Caller == nil || r.target.Kind != Weir {
		return nil
	}
	said := fl.call.Head.Caller(time.Now())
	if said == "" {
		return nil
	}
	return http.Header{router.CallerHeader: {said}}
}

// fail ends an attempt that gave no answer. Who hung up, or asked for an answer by a
// time that has passed, is no reason to doubt the replica.
func (fl *flight) fail(a *attempt, err error) error {
	if cause := a.cause(); cause != nil && fl.ctx.Err() == nil {
		err = cause // the attempt was ended here: what was read then says less
	}
	if fl.ctx.Err() != nil {
		a.end(errNotJudged)
		return err
	}
	if !errors.Is(err, errNotJudged) {
		a.replica.counts.failures.Add(1)
	}
	a.end(err)
	return err
}

// blame is what a status says about its replica: a refusal nothing, a failure that it fails.
func (r *replica) blame(status int) error {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		r.counts.refusals.Add(1)
		return errNotJudged
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		r.counts.failures.Add(1)
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// again reports whether another replica shall be asked, after an answer or an error that
// nobody has seen yet.
func (fl *flight) again(answer *router.Answer, err error) bool {
	now := time.Now()
	if fl.ctx.Err() != nil || fl.late(now) || !fl.fleet.has(fl.tried) {
		return false
	}
	switch {
	case errors.Is(err, errNothingLeft):
		return false
	case err != nil && notSent(err):
		return true // nobody has worked for it
	case err == nil && answer.Events != nil, err == nil && answer.Status < http.StatusTooManyRequests:
		return false
	case err == nil && (answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable):
		again := !fl.spilled
		if fl.spilled = true; again {
			fl.fleet.counts.spills.Add(1)
		}
		return again
	case err == nil && (answer.Status < http.StatusInternalServerError || answer.Status == http.StatusNotImplemented):
		return false
	}
	fl.worked++
	again := fl.worked < maxAttempts && fl.fleet.budget.take(now)
	if again {
		fl.fleet.counts.retries.Add(1)
	}
	return again
}

// late reports whether a deadline of the request has passed.
func (fl *flight) late(now time.Time) bool {
	past := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	return past(fl.call.Head.DoneBy) || !fl.content && past(fl.call.Head.FirstTokenBy)
}

func readAnswer(r io.Reader) ([]byte, error) {
	whole, err := io.ReadAll(io.LimitReader(r, maxAnswerBytes+1))
	if err == nil && len(whole) > maxAnswerBytes {
		err = fmt.Errorf("the answer is above %d bytes", maxAnswerBytes)
	}
	return whole, err
}

// errNothingLeft: the stream broke when all tokens that were asked for had been said.
var errNothingLeft = fmt.Errorf("the answer had all its tokens and no end: %w", errNotJudged)

// suits reports whether a replica was not asked yet and can do what the request needs now.
func (fl *flight) suits(r *replica) bool {
	goesOn := fl.resume != nil && fl.resume.again > 0
	return !slices.Contains(fl.tried, r) && (!goesOn || !fl.resume.chat || kinds[r.target.Kind].continues)
}
