package llamacpp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

// loop computes one request after the other until the engine is closed.
func (e *Engine) loop() {
	defer close(e.done)
	for {
		ref, j, flow, wait := e.take()
		switch {
		case j != nil:
			e.run(ref, j, flow)
			continue
		case wait < 0:
			e.generator.close()
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// idleWait is how long the loop sleeps at most while requests wait for nothing but their end.
const idleWait = time.Minute

// take admits the request whose turn it is. Without one it says how long to sleep, below zero to end.
func (e *Engine) take() (uint64, *job, admission.FlowID, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		for ref, j := range e.jobs {
			e.finish(ref, j, inference.FinishCancelled, j.ended)
		}
		return 0, nil, 0, -1
	}
	now := e.now()
	for {
		ref, ok := e.queue.Expire(now.UnixNano())
		if !ok {
			break
		}
		j := e.jobs[ref]
		e.finish(ref, j, inference.FinishCancelled, e.overdue(j, now))
	}
	for _, class := range e.queue.Order() {
		e.queue.Scan(class, false)
		ref, _, ok := e.queue.Next()
		if !ok {
			e.queue.EndScan()
			continue
		}
		j := e.jobs[ref]
		flow := e.queue.Take(uint64(len(j.request.Prompt)))
		e.queue.EndScan()
		e.running = j
		j.stream.SetAdmitted(now)
		j.stream.Note(inference.Moment{At: now.UnixNano(), Phase: inference.PhaseCompute})
		return ref, j, flow, 0
	}
	return 0, nil, 0, idleWait
}

// overdue says which end of waiting has passed.
func (e *Engine) overdue(j *job, now time.Time) error {
	if r := j.request; !r.WaitUntil.IsZero() && !r.WaitUntil.After(now) {
		return inference.ErrQueueTimeout
	}
	return inference.ErrDeadline
}

// run computes one answer.
func (e *Engine) run(ref uint64, j *job, flow admission.FlowID) {
	r := j.request
	began, given := e.now(), 0
	reason := inference.FinishStop
	err := e.generate(j, func(id inference.TokenID) bool {
		switch {
		case e.ended(j) != nil:
			reason = inference.FinishCancelled
			return false
		case !r.DoneBy.IsZero() && !e.now().Before(r.DoneBy):
			e.end(j, inference.ErrDeadline)
			reason = inference.FinishCancelled
			return false
		case !j.stream.Push(inference.Event{Kind: inference.EventToken, Token: id, Logprob: 0}):
			e.end(j, inference.ErrSlowConsumer)
			reason = inference.FinishCancelled
			return false
		}
		given++
		switch {
		case slices.Contains(r.StopTokens, id):
			return false
		case given >= r.MaxTokens:
			reason = inference.FinishLength
			return false
		}
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = nil
	e.queue.Charge(flow, uint64(given))
	e.queue.Done(flow)
	j.stream.SetCompute(e.now().Sub(began))
	switch {
	case j.ended != nil:
		err, reason = j.ended, inference.FinishCancelled
	case err != nil:
		reason = inference.FinishError
	}
	e.finish(ref, j, reason, err)
}

// generate calls the library and turns its pieces into ids. A panic of the callbacks ends the request and nothing else.
func (e *Engine) generate(j *job, token func(inference.TokenID) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", inference.ErrInternal, p)
		}
	}()
	prompt := e.options.Vocabulary.Text(j.request.Prompt)
	if strings.ContainsRune(prompt, 0) {
		return fmt.Errorf("%w: the prompt has a NUL character, at which llama.cpp would cut it off", inference.ErrInvalid)
	}
	stopped := false
	return e.generator.generate(call{prompt, j.request.MaxTokens, j.request.IgnoreEOS, j.request.Sampling}, func(piece string) bool {
		if stopped = stopped || e.ended(j) != nil; stopped {
			return false
		}
		for _, id := range e.options.Vocabulary.Tokens(piece) {
			if !token(id) {
				stopped = true
				return false
			}
		}
		return true
	})
}

func (e *Engine) ended(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.ended
}

func (e *Engine) end(j *job, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j.ended == nil {
		j.ended = why
	}
}
