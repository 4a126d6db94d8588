package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/router"
	"weir/router/balance"
	"weir/router/prefix"
)

// A long prompt goes to a prefill replica first where that is expected to cost less: the replica computes the prompt's KV blocks and
// stops before the first token. Then the request goes to a decode replica as any other; the prefill replica is among those that hold the
// prompt, and the decode replica is told so, and fetches the blocks. Whatever happens to the first part, the second one takes place, and
// computes what it does not get.

// prefilled is what a prefill replica has computed for a request.
type prefilled struct {
	by       *replica
	tokens   int // of the prompt, that it holds
	computed int // of these, the last ones: for this request
}

// prefillOutcome says what happened to a prompt's prefix.
type prefillOutcome uint8

const (
	prefillDone        prefillOutcome = iota
	prefillShort                      // not begun: few tokens are to be computed
	prefillCost                       // as above: it is expected to cost no less
	prefillFailing                    // as above, because of what has failed at the prefill replica of late
	prefillUnknown                    // as above: it is not known how fast the decode replica fetches blocks, or how replicas hash them
	prefillNoReplica                  // as above: none takes it
	prefillUnreachable                // failed: no connection
	prefillRefused                    // another status than 200
	prefillTimeout                    // it took far longer than was expected
	prefillBroken                     // the connection broke
	prefillBadAnswer                  // 200 with another answer, as of a weir that does not know of prefixes
	prefillCancelled                  // the request has ended
	numPrefills
)

var prefillNames = [numPrefills]string{
	"done", "short", "cost", "failing", "unknown", "no_replica", "unreachable", "refused", "timeout", "broken", "bad_answer", "cancelled",
}

const (
	prefillPatience = 2                      // times what is expected, which a prefill replica gets …
	prefillSlack    = 250 * time.Millisecond // … and so much more
	maxPrefillBytes = 64 << 10               // of its answer
)

var errPrefillLate = errors.New("the prefill replica has taken far longer than was expected")

// prefillFirst has the prompt's prefix computed by a prefill replica, if that is worth it.
func (fl *flight) prefillFirst() {
	if !fl.fleet.members.Load().pools || fl.call.Infer != nil {
		return
	}
	fl.fleet.counts.prefills[fl.tryPrefill()].Add(1)
}

// splitOutcomes are the verdicts by which nothing is begun.
var splitOutcomes = map[balance.SplitVerdict]prefillOutcome{
	balance.SplitShort: prefillShort, balance.SplitCost: prefillCost, balance.SplitFailing: prefillFailing, balance.SplitUnknown: prefillUnknown, balance.SplitNoReplica: prefillNoReplica,
}

func (fl *flight) tryPrefill() prefillOutcome {
	if fl.fleet.blocks.root.Load() == nil || fl.call.Head.Caller == nil {
		return prefillUnknown
	}
	now, members := time.Now(), fl.fleet.members.Load()
	fl.avoid(members, now)
	split := fl.fleet.balancer.Split(now, &fl.request)
	if split.Verdict != balance.SplitWorth {
		fl.stay(&split, members)
		return splitOutcomes[split.Verdict]
	}
	r := fl.request
	r.Pool, r.Output, r.Avoid = balance.Prefilling, 1, slices.Clone(r.Avoid)
	a := fl.pickPrefill(&r)
	if a == nil {
		return prefillNoReplica
	}
	a.reason = fmt.Sprintf("prefill of %d tokens: %s", split.Prefill.Tokens, weighed(&split, members))
	return fl.prefillAt(a, prefillPatience*split.Expected()+prefillSlack, split.Direct())
}

// weighed is what a prompt is expected to take in two parts, and in one.
func weighed(s *balance.Split, m *members) string {
	return fmt.Sprintf("%.3gs, and %.3gs to fetch them, against %.3gs at %s", s.Expected().Seconds(), s.Decode.Fetch.Seconds(), s.Direct().Seconds(),
		cmp.Or(m.nameOf(s.Decode.Replica), "a decode replica"))
}

// stay notes for people why a prompt that could be computed by a prefill replica is not.
func (fl *flight) stay(s *balance.Split, m *members) {
	if fl.call.Tried == nil || s.Verdict != balance.SplitCost && s.Verdict != balance.SplitFailing {
		return
	}
	fl.stays = fmt.Sprintf("; no prefill of %d tokens at %s (%s): %s", s.Prefill.Tokens, cmp.Or(m.nameOf(s.Prefill.Replica), "a prefill replica"),
		prefillNames[splitOutcomes[s.Verdict]], weighed(s, m))
}

// nameOf is a replica's id.
func (m *members) nameOf(number balance.ReplicaID) string {
	if r := m.numbered[number]; r != nil {
		return r.id
	}
	return ""
}

// pickPrefill chooses a prefill replica, and begins an attempt there; nil where none takes the request. It stays free to answer the request
// itself, where no other replica is left.
func (fl *flight) pickPrefill(r *balance.Request) *attempt {
	f, members := fl.fleet, fl.fleet.members.Load()
	for {
		now := time.Now()
		lease, err := f.balancer.Pick(now, r)
		if err != nil {
			return nil
		}
		r.Avoid = append(r.Avoid, lease.Replica)
		to := members.numbered[lease.Replica]
		if to == nil || !fl.resides(to) || !to.sharesBlocks() {
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		judge, err := to.breaker.Load().Allow()
		if err != nil {
			lease.Done(now, balance.Outcome{Failed: true})
			continue
		}
		a := &attempt{replica: to, lease: lease, began: now, judge: judge}
		if fl.call.Tried != nil {
			a.tell, a.seen = fl.call.Tried, fl.candidates(members)
		}
		return a
	}
}

// prefillAt asks for the prefix and waits for it, so long at most. Without it, the decode replica takes so long.
func (fl *flight) prefillAt(a *attempt, most, direct time.Duration) prefillOutcome {
	r := a.replica
	ctx, cancel := context.WithCancelCause(fl.ctx)
	a.cancel, a.cause = cancel, func() error { return context.Cause(ctx) }
	a.timer = time.AfterFunc(most, func() { cancel(errPrefillLate) })
	r.running.Add(1)
	r.counts.requests.Add(1)
	r.await(a)
	kv, fault, err := fl.askPrefix(ctx, a)
	if err == nil {
		a.begun()
		a.end(nil)
		fl.holds(prefilled{r, kv.RemoteTokens, min(kv.RemoteComputed, kv.RemoteTokens)})
		return prefillDone
	}
	outcome := map[Fault]prefillOutcome{Unreachable: prefillUnreachable, NoAnswer: prefillBroken, BadAnswer: prefillBadAnswer}[fault]
	if outcome == prefillDone {
		outcome = prefillRefused
	}
	switch cause := context.Cause(ctx); {
	case fl.ctx.Err() != nil:
		a.end(errNotJudged)
		return prefillCancelled
	case errors.Is(cause, errPrefillLate): // the expectation is at fault
		a.overrun = time.Since(a.began) + direct
		a.end(fmt.Errorf("%w: %w", cause, errRefused))
		return prefillTimeout
	case cause != nil: // the replica is down
		err = cause
	}
	r.counts.add(fault)
	if treatments[fault].blame == innocent {
		err = fmt.Errorf("%w: %w", err, errRefused)
	}
	a.end(err)
	return outcome
}

// askPrefix sends the request as one for its prompt's blocks.
func (fl *flight) askPrefix(ctx context.Context, a *attempt) (kv inference.KVTransfer, fault Fault, err error) {
	r := a.replica
	told := fl.transfer(r)
	told.DoRemoteDecode = true
	said := fl.call.Head.Caller(time.Now(), told)
	if said == "" {
		return kv, Unsupported, errors.New("the caller cannot be stated to the replica")
	}
	res, err := r.wire.send(ctx, fl.call.Path, &fl.call.Head, http.Header{router.CallerHeader: {said}}, withModel(r.model, nil, fl.call.Body))
	if err != nil {
		if notSent(err) {
			return kv, Unreachable, err
		}
		return kv, NoAnswer, err
	}
	defer func() { _ = res.Body.Close() }() // only read; an answer that is a stream ends with it
	r.heard.Add(1)
	fl.fleet.note(r, res.Header)
	a.status = res.StatusCode
	if isEventStream(res.Header.Get("Content-Type")) {
		return kv, BadAnswer, errors.New("the answer is a stream, and no prefix")
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxPrefillBytes))
	if err != nil {
		return kv, NoAnswer, err
	}
	if fault = faultOf(res.StatusCode); fault != NoFault {
		return kv, fault, fmt.Errorf("status %d: %.200q", res.StatusCode, r.wire.hide(text))
	}
	var answer struct {
		KV inference.KVTransfer `json:"kv_transfer_params"`
	}
	if json.Unmarshal(text, &answer) != nil || !answer.KV.DoRemotePrefill || answer.KV.RemoteTokens < 1 {
		return kv, BadAnswer, fmt.Errorf("the answer tells of no prefix: %.200q", r.wire.hide(text))
	}
	return answer.KV, NoFault, nil
}

// holds notes that a replica has computed the prompt's prefix for this request.
func (fl *flight) holds(p prefilled) {
	depth := min(p.tokens/fl.fleet.blocks.root.Load().blockTokens, len(fl.request.Keys))
	fl.prefill = p
	fl.holders = slices.DeleteFunc(slices.Clone(fl.holders), func(m prefix.Match) bool { return m.Replica == p.by.number })
	at, _ := slices.BinarySearchFunc(fl.holders, depth, func(m prefix.Match, depth int) int { return cmp.Compare(depth, m.Depth) })
	fl.holders = slices.Insert(fl.holders, at, prefix.Match{Replica: p.by.number, Depth: depth})
	fl.request.Holders = fl.giving()
}
