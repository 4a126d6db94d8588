package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/router/rollout"
)

// task takes a server to what the record of one model wants. One goroutine runs it.
type task struct {
	f       *Follower
	model   string
	changed chan struct{} // holds one: the record is another
	begun   func()        // closes came
	came    chan struct{} // closed when the task has come somewhere for the first time
	gone    chan struct{} // closed when it has ended

	// Guarded by Follower.mu.
	record *Record // nil: the deployment is gone
	cancel context.CancelCauseFunc

	// These belong to the goroutine.
	made  map[string]string // digests of revisions whose files are here, by label
	base  *Revision         // answers until the wanted one does
	holds bool              // the host has versions of the deployment
	warm  map[string]func() // what lets versions leave memory, by label
	retry time.Duration

	vacant  time.Time // since when a part is free that others may take before
	needs   int64     // memory of the wanted version as it was forecast last
	unfit   string    // why this server has left its part
	unfitAt time.Time
}

func newTask(f *Follower, r *Record) *task {
	came := make(chan struct{})
	return &task{
		f: f, model: r.Model, record: r, changed: make(chan struct{}, 1), begun: sync.OnceFunc(func() { close(came) }), came: came, gone: make(chan struct{}),
		made: make(map[string]string), warm: make(map[string]func()),
	}
}

// take gives the task another record, nil for none. The caller holds Follower.mu.
func (t *task) take(r *Record) {
	if t.record != nil && r != nil && t.record.Generation == r.Generation && t.record.Created.Equal(r.Created) {
		t.record = r
	} else {
		t.record = r
		if t.cancel != nil {
			t.cancel(errSuperseded)
		}
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// next is what is wanted, and a context that ends when it is not any more.
func (t *task) next(ctx context.Context) (context.Context, *Record) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if t.cancel != nil {
		t.cancel(nil)
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	return ctx, t.record
}

// run goes on until the deployment is gone or ctx ends.
func (t *task) run(ctx context.Context) {
	defer close(t.gone)
	defer t.begun()
	generation := int64(0)
	for ctx.Err() == nil {
		work, r := t.next(ctx)
		if r == nil {
			t.clear(ctx)
			if err := t.leave(ctx); err != nil && ctx.Err() == nil {
				t.f.options.Failed(err) // the sweep takes it away
			}
			if t.f.forget(ctx, t) {
				return
			}
			continue
		}
		if r.Generation != generation {
			generation, t.retry, t.unfit = r.Generation, 0, ""
		}
		err := t.converge(work, r)
		wait := checkEvery
		switch {
		case err == nil:
			t.retry = 0
		case work.Err() != nil:
			wait = 0 // the server ends, or something else is wanted
		case errors.Is(err, ErrNone):
			wait = FollowEvery // the deployment is gone, as the next look tells
		default:
			t.retry = min(max(2*t.retry, firstRetry), lastRetry)
			wait = t.retry
			if t.givesUp(r) {
				if left := t.giveUp(ctx, r, err.Error()); left == nil {
					break
				}
			}
			t.observe(work, r, Observation{State: Failed, Why: err.Error()})
		}
		if err == nil || work.Err() == nil {
			t.begun()
		}
		t.wait(ctx, wait)
	}
}

func (t *task) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.changed:
	}
}

// clear takes away what the deployment has brought.
func (t *task) clear(ctx context.Context) {
	t.release(nil)
	if err := t.f.host.SetVersions(ctx, t.model, nil); err != nil && ctx.Err() == nil {
		t.f.options.Failed(fmt.Errorf("take the deployment of %q away: %w", t.model, err))
	}
	clear(t.made)
	t.base, t.holds = nil, false
}

func (t *task) observe(ctx context.Context, r *Record, o Observation) {
	o.Model, o.Generation = t.model, r.Generation
	o.Answers, _ = t.f.host.Answers(t.model)
	for label := range t.warm {
		o.Warm = append(o.Warm, label)
	}
	slices.Sort(o.Warm)
	t.f.observe(context.WithoutCancel(ctx), o)
}

// converge does what is left to do. Where all is as it is wanted, it does nothing.
func (t *task) converge(ctx context.Context, r *Record) error {
	if has, why := t.f.host.Serves(t.model); !has {
		t.observe(ctx, r, Observation{State: Elsewhere, Why: why})
		return nil
	}
	has, without, err := t.part(ctx, r)
	if err != nil {
		return err
	}
	if !has {
		t.clear(ctx)
		t.observe(ctx, r, without)
		return nil
	}
	if err := t.bringBase(ctx, r); err != nil {
		return err
	}
	wanted, err := t.bring(ctx, r, r.Wanted)
	if _, answers := t.f.host.Answers(t.model); errors.Is(err, ErrNoVersion) && !answers {
		if r.Placement.count() > 0 {
			return t.giveUp(ctx, r, err.Error())
		}
		t.observe(ctx, r, Observation{State: Elsewhere, Why: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	if fits, err := t.settleIn(ctx, r, wanted); err != nil || !fits {
		return err
	}
	if err := t.setVersions(ctx, r, wanted, t.known(r.Kept())); err != nil {
		return err
	}
	t.stocked()
	state, where, err := t.takeOver(ctx, r, &wanted)
	if err != nil {
		return err
	}
	if state == Serving {
		if err := t.settle(ctx, r); err != nil {
			return err
		}
		if o, ok := t.f.Observed(t.model); !ok || o.State != Serving || o.Generation != r.Generation {
			t.observe(ctx, r, Observation{State: Serving}) // warm versions may take their time
		}
	} else {
		t.observe(ctx, r, Observation{State: state, Why: where})
	}
	lacks := errors.Join(t.f.host.Lacks(t.model, wanted.Label), t.keepWarm(ctx, r, wanted))
	if state == Serving && ctx.Err() == nil {
		o := Observation{State: Serving}
		if lacks != nil {
			o.Why = strings.ReplaceAll(lacks.Error(), "\n", "; ")
		}
		t.observe(ctx, r, o)
	}
	return nil
}

// settle notes that the wanted version answers here, unless servers try it still: this one has it by its configuration.
func (t *task) settle(ctx context.Context, r *Record) error {
	if r.IsSettled() {
		return nil
	}
	_, err := t.f.change(ctx, t.model, func(now *Record) (Record, bool) {
		if !now.Created.Equal(r.Created) {
			return *now, false // it was deleted, and made again
		}
		if p := now.Progress; p != nil && !p.State.Over() {
			return *now, false
		}
		return now.Settle(r.Generation)
	})
	return err
}

// known are the revisions whose files are here.
func (t *task) known(list []Revision) []Revision {
	return slices.DeleteFunc(slices.Clone(list), func(v Revision) bool {
		_, ok := t.made[v.Label]
		return !ok
	})
}

// bringBase has the settled version answer until the wanted one does, on a server where nothing else answers.
func (t *task) bringBase(ctx context.Context, r *Record) error {
	if r.Settled == nil || r.IsSettled() {
		return nil
	}
	base, err := t.bring(ctx, r, *r.Settled)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return nil // the wanted version may come all the same
	}
	if t.base != nil && t.base.Label == base.Label {
		return nil
	}
	answers, _ := t.f.host.Answers(t.model)
	if answers != base.Label || !t.holds { // from now on no reload moves the name
		if err := t.f.host.SetVersions(ctx, t.model, []Revision{base}); err != nil {
			return err
		}
		t.holds = true
	}
	if answers != base.Label {
		if err := t.give(ctx, r, base.Label); err != nil { // also where the configuration's choice is the wanted version
			return err
		}
	}
	t.base = &base
	time.AfterFunc(resumeWait, t.begun) // what answered before does
	return nil
}

// bring has the files of a revision here, and notes what it is.
func (t *task) bring(ctx context.Context, r *Record, v Revision) (Revision, error) {
	if digest, ok := t.made[v.Label]; ok && (v.Digest == "" || v.Digest == digest) {
		v.Digest = digest
		return v, nil
	}
	note, told := t.telling(ctx, r, Observation{Why: "version " + v.Version})
	digest, err := t.f.host.Fetch(ctx, t.model, v, func(s State, done, total int64) {
		note(func(o *Observation) { o.State, o.DoneBytes, o.TotalBytes = s, done, total })
		if s == Pulling {
			t.begun()
		}
	})
	told()
	if err != nil {
		return v, err
	}
	if v.Digest == "" && digest != "" {
		now, err := t.f.change(ctx, t.model, func(r *Record) (Record, bool) { return r.Pin(v.Label, digest) })
		if err != nil {
			return v, err
		}
		if pinned, ok := now.Find(v.Label); ok && pinned.Digest != digest {
			return v, fmt.Errorf("the version %s is %s here, and the deployment's is %s, as another server has found first", v.Version, digest, pinned.Digest)
		}
	}
	if v.Digest = digest; v.Digest != "" || v.Label != "" {
		t.made[v.Label] = digest
	}
	return v, nil
}

// telling writes down how far something is: a new state at once, and what else note changes now and then, until done is called.
func (t *task) telling(ctx context.Context, r *Record, last Observation) (note func(change func(o *Observation)), done func()) {
	var mu sync.Mutex
	write := func() {
		mu.Lock()
		o := last
		mu.Unlock()
		if o.State != "" {
			t.observe(ctx, r, o)
		}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				write()
			case <-over:
				return
			}
		}
	}()
	note = func(change func(o *Observation)) {
		mu.Lock()
		before := last.State
		change(&last)
		news := last.State != before
		mu.Unlock()
		if news {
			write()
		}
	}
	return note, func() { close(over); <-ended }
}

// bringKept has the files of the versions here that stay warm; cold says which cannot.
func (t *task) bringKept(ctx context.Context, r *Record) (kept []Revision, cold error) {
	for _, v := range r.Kept() {
		v, err := t.bring(ctx, r, v)
		if err != nil {
			cold = errors.Join(cold, fmt.Errorf("the version %s is not warm: %w", v.Version, err))
			continue
		}
		kept = append(kept, v)
	}
	return kept, cold
}

// setVersions gives the host the versions, the one that answers until the wanted one does first.
func (t *task) setVersions(ctx context.Context, r *Record, wanted Revision, kept []Revision) error {
	var list []Revision
	if answers, _ := t.f.host.Answers(t.model); t.base != nil && answers != wanted.Label && t.base.Label != wanted.Label {
		list = append(list, *t.base)
	}
	list = append(list, wanted)
	for i := range kept {
		if !slices.ContainsFunc(list, func(v Revision) bool { return v.Label == kept[i].Label }) {
			list = append(list, kept[i])
		}
	}
	if err := t.f.host.SetVersions(ctx, t.model, list); err != nil {
		return err
	}
	t.holds = true
	if r.IsSettled() && list[0].Label == wanted.Label {
		t.base = nil
	}
	for label := range t.made { // the host has forgotten what is in the list no more
		if !slices.ContainsFunc(list, func(v Revision) bool { return v.Label == label }) {
			delete(t.made, label)
		}
	}
	return nil
}

// takeOver lets the wanted version answer, at once or by its rollout.
func (t *task) takeOver(ctx context.Context, r *Record, wanted *Revision) (State, string, error) {
	answers, ok := t.f.host.Answers(t.model)
	if r.Rollout == "" && ok && answers != wanted.Label && !r.Unchecked && !r.hasAnswered(wanted.Label) {
		if err := t.check(ctx, r, answers, wanted.Label); err != nil {
			return Failed, "", err
		}
	}
	if r.Rollout == "" || r.IsSettled() || !ok {
		return Serving, "", t.give(ctx, r, wanted.Label)
	}
	if promoted := r.Progress != nil && r.Progress.State == rollout.Promoted; answers == wanted.Label && r.Settled != nil && t.base == nil && !promoted {
		return Failed, "", fmt.Errorf("the version %s is not here, which answers what the rollout of %s leaves to it; deploy a version with the policy immediate, or bring that one back", r.Settled.Version, wanted.Version)
	}
	plan := *r.Policy
	plan.ID, plan.Model, plan.Stable, plan.Candidate = r.Rollout, t.model, answers, wanted.Label
	state, where, err := t.roll(ctx, r, plan)
	if p := r.Progress; err == nil && p != nil && p.State.Over() { // what this server alone has seen counts no more
		state, where = p.State, p.Why
	}
	switch {
	case err != nil:
		return Failed, "", err
	case state == rollout.Promoted:
		return Serving, "", t.give(ctx, r, wanted.Label)
	case state.Over():
		return RolledBack, where, nil
	}
	return RollingOut, where, nil
}

// check loads a version and looks at what it answers.
func (t *task) check(ctx context.Context, r *Record, stable, candidate string) error {
	if !t.f.place(ctx) {
		return context.Cause(ctx)
	}
	defer t.f.leave()
	t.begun() // what answers goes on
	tell, told := t.asking(ctx, r, Observation{State: Loading, Why: "checking what version " + candidate + " answers"})
	defer told()
	return t.f.host.Check(ctx, t.model, stable, candidate, tell)
}

// asking writes down o, and then how far its check is, until done is called.
func (t *task) asking(ctx context.Context, r *Record, o Observation) (tell CheckProgress, done func()) {
	t.observe(ctx, r, o)
	note, done := t.telling(ctx, r, o)
	return func(answered, questions int) {
		note(func(o *Observation) { o.Answered, o.Questions = answered, questions })
	}, done
}

func (t *task) roll(ctx context.Context, r *Record, p rollout.Plan) (rollout.State, string, error) {
	if !t.f.place(ctx) {
		return "", "", context.Cause(ctx)
	}
	defer t.f.leave()
	tell := func(int, int) {} // it stands somewhere: nothing is asked any more
	if o, ok := t.f.Observed(t.model); !ok || o.State != RollingOut && o.State != RolledBack {
		var told func()
		tell, told = t.asking(ctx, r, Observation{State: Loading, Why: "version " + p.Candidate})
		defer told()
	}
	return t.f.host.Rollout(ctx, p, r.Progress, func(answered, questions int) {
		t.begun() // what answers goes on
		tell(answered, questions)
	})
}

// give lets a version answer, which may have to be loaded before.
func (t *task) give(ctx context.Context, r *Record, label string) error {
	if o, ok := t.f.Observed(t.model); ok && o.State == Serving && o.Generation == r.Generation {
		if answers, _ := t.f.host.Answers(t.model); answers == label {
			return nil
		}
	}
	if !t.f.place(ctx) {
		return context.Cause(ctx)
	}
	defer t.f.leave()
	t.observe(ctx, r, Observation{State: Loading, Why: "version " + label})
	return t.f.host.Activate(ctx, t.model, label)
}

// place waits for a place among the versions that are being loaded.
func (f *Follower) place(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false // also where there is a place
	}
	select {
	case f.loads <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *Follower) leave() { <-f.loads }
