package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/router/rollout"
)

// Host is a server that follows deployments: it fetches, loads and activates versions of its models. All methods may be called at
// the same time.
type Host interface {
	// Serves reports whether the server computes the model, or may, or routes it; why says more where it does not.
	Serves(model string) (has bool, why string)
	// Fetch brings the files of a revision here and compares them with their digests; the digest is what the revision is, empty
	// where no file is needed. tell hears how far it is.
	Fetch(ctx context.Context, model string, r Revision, tell func(s State, done, total int64)) (digest string, err error)
	// SetVersions makes fetched revisions versions of the model, beside those of the configuration and in place of the list
	// before: the first one answers where the configuration has none and none was activated. Running requests of versions that
	// are left out end normally; such a version must be fetched again. As long as there is such a list a reload of the configuration does not
	// change which version answers; an empty one gives that back to the configuration.
	SetVersions(ctx context.Context, model string, list []Revision) error
	// Room says how much memory a revision takes here, 0 where that is not known before its files are here, and how much is free for
	// it beside what answers here and what deployments have; limited is false where any takes.
	Room(ctx context.Context, model string, r Revision) (needs, free int64, limited bool)
	// Lacks says that the configuration has a version no more, which goes on all the same as long as this process does; nil: it has, or a
	// deployment has brought the version.
	Lacks(model, label string) error
	// Answers is the label of the version that requests get, if there is the model.
	Answers(model string) (label string, ok bool)
	// Activate loads a version, unless it is there, and lets it answer. A rollout of the model is over.
	Activate(ctx context.Context, model, label string) error
	// Check says why a version may not answer at once in place of the stable one; nil: it may. tell hears of each answer.
	Check(ctx context.Context, model, stable, candidate string, tell CheckProgress) error
	// KeepLoaded holds a version in memory until it is released.
	KeepLoaded(ctx context.Context, model, label string) (release func(), err error)
	// Rollout starts a rollout, or goes on with the one of the plan's id, takes it to where the other servers have it, nil for
	// nowhere yet, and says where it stands. tell hears of the answers of the check before it.
	Rollout(ctx context.Context, p rollout.Plan, at *Progress, tell CheckProgress) (s rollout.State, where string, err error)
}

// CheckProgress hears how many questions of a check were answered, and how many it asks at most.
type CheckProgress func(answered, questions int)

// ErrNoVersion says that the deployment names a label or a tag that this server does not know.
var ErrNoVersion = errors.New("this server has no such version, and nothing says where to pull it from")

// FollowEvery is how often a server looks whether a record has changed.
const FollowEvery = 200 * time.Millisecond

const (
	// checkEvery is how often a server compares what it does with what is wanted, without a change of it.
	checkEvery = time.Second
	// firstRetry is the pause after the first failure, lastRetry the longest.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// resumeWait is how long a server that starts is not to take requests, though the version answers that did before, so that the rollout
	// of another one goes on from the first request.
	resumeWait = 10 * time.Second
	// tellEvery is how often progress is written down.
	tellEvery = 500 * time.Millisecond
	// storeTimeout bounds what is asked of the store.
	storeTimeout = 15 * time.Second
	// loadsAtOnce bounds versions that are read into memory at the same time.
	loadsAtOnce = 4
)

// Options of a follower.
type Options struct {
	Instance string                            // the server's name among those on the store
	Self     func() Server                     // what it says of itself to the others
	Failed   func(err error)                   // hears of failures of the store
	Changed  func(o Observation, before State) // hears of each change of a state
}

// Follower takes a server to what the records of a store want, again and again. It keeps nothing over a restart: a server
// that was killed begins with what is wanted, and with what it finds.
type Follower struct {
	store   Store
	host    Host
	options Options
	loads   chan struct{} // places of versions that are being loaded
	nudge   chan struct{}

	looking  sync.Mutex
	revision int64

	mu    sync.Mutex
	tasks map[string]*task
	seen  map[string]Observation
	lost  map[string]bool // models whose last observation the store may not have: it failed while it took it

	around  clusterView
	placing sync.Mutex // held while a part is taken

	ended sync.WaitGroup
}

// New is a follower that has not begun.
func New(s Store, h Host, o Options) *Follower {
	return &Follower{
		store: s, host: h, options: o, loads: make(chan struct{}, loadsAtOnce), nudge: make(chan struct{}, 1),
		tasks: make(map[string]*task), seen: make(map[string]Observation), lost: make(map[string]bool),
	}
}

// Begin looks for the first time, and waits until each deployment has come somewhere: it answers, rolls out, has failed, or
// its files are on their way. What runs on ends with ctx; the wait ends with limit.
func (f *Follower) Begin(ctx context.Context, limit time.Duration) error {
	if err := f.look(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	tasks := slices.Collect(maps.Values(f.tasks))
	f.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, t := range tasks {
		select {
		case <-t.came:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// Run follows the store until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	tick := time.NewTicker(FollowEvery)
	defer tick.Stop()
	for {
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			f.options.Failed(err)
		}
		select {
		case <-ctx.Done():
			f.ended.Wait()
			return
		case <-tick.C:
		case <-f.nudge:
		}
	}
}

// Nudge makes the follower look at once.
func (f *Follower) Nudge() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// Observed is what the follower has seen of a model.
func (f *Follower) Observed(model string) (Observation, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.seen[model]
	return o, ok
}

// States counts the deployments that the follower has seen, by where it is with them.
func (f *Follower) States() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := make(map[string]int)
	for _, o := range f.seen {
		states[string(o.State)]++
	}
	return states
}

// Follows reports whether there is a deployment of a model. Where one was deleted, it waits until this server has given the
// model's name back.
func (f *Follower) Follows(ctx context.Context, model string) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if _, has, err := f.store.Deployment(asking, model); has || err != nil {
		return has, err
	}
	f.mu.Lock()
	t := f.tasks[model]
	f.mu.Unlock()
	if t == nil {
		return false, nil
	}
	f.Nudge()
	select {
	case <-t.gone:
	case <-asking.Done():
		return false, fmt.Errorf("this server has not given the name of a deployment of %q back that was deleted: %w; ask again", model, asking.Err())
	}
	return false, nil
}

// look starts, changes and ends tasks where the records have changed.
func (f *Follower) look(ctx context.Context) error {
	f.looking.Lock()
	defer f.looking.Unlock()
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	revision, err := f.store.DeploymentRevision(asking)
	if err != nil {
		return err
	}
	if revision == f.revision {
		return f.lookAround(asking, false)
	}
	list, err := f.store.Deployments(asking)
	if err != nil {
		return err
	}
	if err := f.lookAround(asking, slices.ContainsFunc(list, func(r Record) bool { return r.Placement != nil })); err != nil {
		return err
	}
	f.mu.Lock()
	wanted := make(map[string]bool)
	for i := range list {
		r := &list[i]
		wanted[r.Model] = true
		if t := f.tasks[r.Model]; t != nil {
			t.take(r)
			continue
		}
		t := newTask(f, r)
		f.tasks[r.Model] = t
		f.ended.Go(func() { t.run(ctx) })
	}
	for model, t := range f.tasks {
		if !wanted[model] {
			t.take(nil)
		}
	}
	f.mu.Unlock()
	f.revision = revision
	return nil
}

// observe writes down where a deployment stands, where that is news.
func (f *Follower) observe(ctx context.Context, o Observation) {
	o.Instance = f.options.Instance
	f.mu.Lock()
	was, known := f.seen[o.Model]
	o.Since = time.Now()
	if known && was.State == o.State && was.Generation == o.Generation {
		o.Since = was.Since
	}
	f.seen[o.Model] = o
	lost := f.lost[o.Model]
	f.mu.Unlock()
	if known && same(&was, &o) && !lost {
		return
	}
	if f.options.Changed != nil && (!known || was.State != o.State || was.Why != o.Why || was.Generation != o.Generation) {
		f.options.Changed(o, was.State)
	}
	writing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := f.store.Observe(writing, o)
	f.mu.Lock()
	if delete(f.lost, o.Model); err != nil {
		f.lost[o.Model] = true // what is observed next is written, also where it is what was observed before
	}
	f.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		f.options.Failed(err)
	}
}

func same(a, b *Observation) bool {
	return slices.Equal(a.Warm, b.Warm) && a.Generation == b.Generation && a.State == b.State && a.Answers == b.Answers && a.Why == b.Why && a.Standby == b.Standby && a.DoneBytes == b.DoneBytes && a.TotalBytes == b.TotalBytes &&
		a.Answered == b.Answered && a.Questions == b.Questions
}

// change changes the record of a model, if that is the one that the change is for.
func (f *Follower) change(ctx context.Context, model string, do func(r *Record) (Record, bool)) (Record, error) {
	changing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var is Record
	err := f.store.ChangeDeployment(changing, model, func(old *Record) (*Record, error) {
		if old == nil {
			return nil, ErrNone
		}
		next, changed := do(old)
		if is = next; !changed {
			return old, nil
		}
		return &next, nil
	})
	return is, err
}

// Moved tells all servers of a transition of a deployment's rollout on this one. Where they have gone further, this one
// follows them.
func (f *Follower) Moved(ctx context.Context, t *rollout.Transition) error {
	_, err := f.change(ctx, t.Model, func(r *Record) (Record, bool) { return r.Move(t) })
	if errors.Is(err, ErrNone) {
		return nil // it is being taken away
	}
	f.Nudge()
	return err
}

// forget ends a task whose deployment is gone, unless it is there again.
func (f *Follower) forget(ctx context.Context, t *task) bool {
	writing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := f.store.Unobserve(writing, t.model); err != nil && ctx.Err() == nil {
		f.options.Failed(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, t.model)
	delete(f.lost, t.model)
	if t.record != nil {
		return false // this task observes it again, and no other one did meanwhile
	}
	delete(f.tasks, t.model)
	return true
}

// errSuperseded ends work for a generation that is not the last one any more.
var errSuperseded = errors.New("another version is wanted now")
