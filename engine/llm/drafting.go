package llm

import (
	"fmt"
	"time"

	"weir/scheduler"
	"weir/scheduler/cost"
)

// drafting is what proposes draft tokens, a draft model or the file's MTP head, kept apart from requests: a panic in it, or counts of its cache that do
// not add up, end drafting with it until the model is loaded again. Requests go on without its drafts, to the same answers. It is the
// scheduler's Proposer.
type drafting struct {
	model   *draftModel  // nil without Options.Draft and MTP
	mtp     *mtpProposer // whose part model is with Options.MTP; nil without
	faults  *faults      // the loop's
	stopped error        // why it has ended; nil: it works
}

// source names it to operators.
func (d *drafting) source() string {
	if d.mtp != nil {
		return "the MTP head"
	}
	return "the draft model"
}

// is reports whether there is a draft model or MTP head that works.
func (d *drafting) is() bool { return d.model != nil && d.stopped == nil }

// wantsHidden reports whether it wants the model's hidden states.
func (d *drafting) wantsHidden() bool { return d.mtp != nil && d.stopped == nil }

// proposer is what proposes: the head or the draft model.
func (d *drafting) proposer() scheduler.Proposer {
	if d.mtp != nil {
		return d.mtp
	}
	return d.model
}

// attempt calls it, if it works. A panic ends drafting.
func (d *drafting) attempt(call func()) {
	if !d.is() {
		return
	}
	f := d.faults
	before := f.phase
	defer func() {
		if v := recover(); v != nil {
			d.stop(f.panicked(v))
		}
		f.phase = before
	}()
	f.at(proposing)
	call()
}

// stop ends drafting for good, and says so.
func (d *drafting) stop(why error) {
	d.stopped = why
	d.faults.tell(fmt.Sprintf("%s proposes no draft tokens any more, until the model is loaded again; requests go on without, to the same answers: %v", d.source(), why))
}

// why says why it has ended; "": it has not.
func (d *drafting) why() string {
	if d.stopped == nil {
		return ""
	}
	return d.stopped.Error()
}

// reset forgets everything, for a scheduler that knows nothing either.
func (d *drafting) reset() error {
	if !d.is() {
		return nil
	}
	return d.model.reset()
}

// check ends drafting where the counts of its cache do not add up, and forgets texts that are open while no request is live. It reports what is wrong.
func (d *drafting) check(live int) (err error) {
	d.attempt(func() {
		if err = d.model.pool.Check(); err != nil {
			err = fmt.Errorf("the cache of %s: %w", d.source(), err)
			d.stop(err)
			return
		}
		if n := len(d.model.read); n > 0 && live == 0 {
			err = fmt.Errorf("%s has %d open texts, and no request is live", d.source(), n)
			for id := range d.model.read {
				d.model.Forget(id)
			}
		}
	})
	return err
}

// Price implements scheduler.Proposer.
func (d *drafting) Price(texts []scheduler.DraftText, n int) (reading, proposing time.Duration) {
	reading, proposing = never, never
	d.attempt(func() { reading, proposing = d.proposer().Price(texts, n) })
	return reading, proposing
}

// Propose implements scheduler.Proposer.
func (d *drafting) Propose(texts []scheduler.DraftText, n int, reading time.Duration) (took time.Duration) {
	d.attempt(func() { took = d.proposer().Propose(texts, n, reading) })
	if d.stopped != nil {
		for i := range texts {
			texts[i].Drafts = nil
		}
	}
	return took
}

// HiddenCost implements scheduler.Proposer.
func (d *drafting) HiddenCost(chunk cost.Load) (share float64) {
	d.attempt(func() { share = d.proposer().HiddenCost(chunk) })
	return share
}

// Forget implements scheduler.Proposer.
func (d *drafting) Forget(id scheduler.SequenceID) {
	d.attempt(func() { d.proposer().Forget(id) })
}

// begin forgets the hidden states of a step that did not complete.
func (d *drafting) begin() {
	if d.wantsHidden() {
		d.mtp.hiddenRows = d.mtp.hiddenRows[:0]
	}
}

// takeHidden gives an MTP head the hidden states of a step that was computed.
func (d *drafting) takeHidden(plan *scheduler.Plan, hidden []float32) {
	if d.wantsHidden() {
		d.attempt(func() { d.mtp.takeHidden(plan, hidden) })
	}
}
