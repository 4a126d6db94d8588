package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/internal/unit"
)

const (
	// turnWait is how long a server waits for each one before it that could take a part and does not.
	turnWait = time.Second
	// unfitFor is how long a server that could not do its part takes it no more.
	unfitFor = 30 * time.Second
	// giveUpAfter is the pause between tries at which a server leaves its part to others.
	giveUpAfter = 4 * time.Second
)

// clusterView is what a server sees of the others, as it looked last.
type clusterView struct {
	looked   time.Time
	said     *Server // of this one, as it was announced
	servers  []Server
	parts    []Part
	taken    int              // counts what this server has taken and left
	promised map[string]int64 // memory of parts that were taken and whose versions the host does not have yet, by model
	draining bool
}

// lookAround announces this server, where it has news, and looks at the others where a placement asks for it: now and then, and at once
// where records with a placement have changed.
func (f *Follower) lookAround(ctx context.Context, now bool) error {
	f.mu.Lock()
	if !now && time.Since(f.around.looked) < checkEvery {
		f.mu.Unlock()
		return nil
	}
	placed := now
	for _, t := range f.tasks {
		placed = placed || t.record != nil && t.record.Placement != nil
	}
	taken := f.around.taken
	f.mu.Unlock()
	if err := f.announce(ctx); err != nil {
		return err
	}
	var servers []Server
	var parts []Part
	if placed {
		var err error
		if servers, err = f.store.Servers(ctx); err != nil {
			return err
		}
		if parts, err = f.store.Parts(ctx); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around.servers, f.around.looked = servers, time.Now()
	if taken == f.around.taken && !f.around.draining { // of a draining server the parts are others', and what runs goes on
		f.around.parts = parts
	}
	return nil
}

// Announce tells the others of this server, before it takes anything in the store: what a process has taken that nothing is known of is its own
// until its lease ends, also where the next one listens on its address.
func (f *Follower) Announce(ctx context.Context) error { return f.announce(ctx) }

// announce tells the others of this server, where it has news.
func (f *Follower) announce(ctx context.Context) error {
	self := f.options.Self()
	f.mu.Lock()
	self.Draining = f.around.draining
	said := f.around.said
	f.mu.Unlock()
	if said != nil && said.Same(&self) {
		return nil
	}
	if err := f.store.Announce(ctx, self); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around.said = &self
	return nil
}

// Drain leaves this server's parts to others, and takes none any more. What runs here goes on.
func (f *Follower) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.around.draining = true
	own := slices.DeleteFunc(slices.Clone(f.around.parts), func(p Part) bool { return !p.Own })
	f.mu.Unlock()
	errs := []error{f.announce(ctx)}
	for _, p := range own {
		errs = append(errs, f.store.LeavePart(ctx, p.Model))
	}
	return errors.Join(errs...)
}

// part says whether this server has a part in the model, and takes one that is free where it is its turn; o says why it has none.
func (t *task) part(ctx context.Context, r *Record) (has bool, o Observation, err error) {
	p := r.Placement
	if p == nil {
		return true, o, nil
	}
	f := t.f
	f.mu.Lock()
	seen := f.around
	f.mu.Unlock()
	if seen.said == nil {
		return false, Observation{State: Pending, Why: "this server has not looked at the others yet"}, nil
	}
	if lacks := p.Lacks(seen.said.Labels); lacks != "" {
		return false, Observation{State: Unfit, Why: lacks}, t.leave(ctx)
	}
	if p.Replicas == 0 {
		return true, o, nil
	}
	others, own := 0, 0
	for _, part := range seen.parts {
		switch {
		case part.Model != r.Model:
		case part.Own:
			own = part.Number
		case part.Number <= p.Replicas:
			others++
		}
	}
	if own > 0 && own <= p.Replicas || seen.draining {
		t.vacant = time.Time{}
		return own > 0, Observation{State: Elsewhere, Why: "this server is about to end"}, nil
	}
	if free := p.Replicas - others; free > 0 {
		f.placing.Lock() // so that memory is promised once
		defer f.placing.Unlock()
		if o := t.mayTake(ctx, r, &seen, free, own > 0); o.State != "" {
			return false, o, nil
		}
		if has, err = t.claim(ctx, r); has || err != nil {
			return has, o, err
		}
	}
	t.vacant = time.Time{}
	if own > 0 {
		err = t.leave(ctx)
	}
	return false, Observation{State: Elsewhere, Standby: true, Why: fmt.Sprintf("other servers have its %d parts", p.Replicas)}, err
}

// mayTake says why this server does not take a part that is free: it cannot, or it is not its turn. moves: it has one above the
// number that is wanted.
func (t *task) mayTake(ctx context.Context, r *Record, seen *clusterView, free int, moves bool) Observation {
	if t.unfit != "" && time.Since(t.unfitAt) < unfitFor {
		return Observation{State: Unfit, Why: t.unfit}
	}
	t.unfit = ""
	if moves {
		return Observation{}
	}
	if why := t.lacksRoom(ctx, r, r.Wanted); why != "" {
		return Observation{State: Unfit, Why: why}
	}
	before := rank(r, seen.servers, seen.parts)
	if t.vacant.IsZero() {
		t.vacant = time.Now()
	}
	if before < 0 || before >= free && time.Since(t.vacant) < time.Duration(before-free+1)*turnWait {
		return Observation{State: Pending, Why: fmt.Sprintf("%d of its parts are free, and other servers are before this one", free)}
	}
	return Observation{}
}

// lacksRoom says why the memory here is too small for a version; empty: it is not, or its size is not known yet.
func (t *task) lacksRoom(ctx context.Context, r *Record, v Revision) string {
	needs, free, limited := t.f.host.Room(ctx, r.Model, v)
	if needs == 0 {
		needs = v.NeedsBytes
	}
	t.needs = needs
	t.f.mu.Lock()
	for model, bytes := range t.f.around.promised {
		if model != r.Model {
			free -= bytes
		}
	}
	t.f.mu.Unlock()
	if !limited || needs <= free {
		return ""
	}
	return fmt.Sprintf("version %s needs %s of memory, and %s are free", v.Version, unit.Bytes(needs), unit.Bytes(max(free, 0)))
}

// claim takes a part in the store, if it is free there.
func (t *task) claim(ctx context.Context, r *Record) (has bool, err error) {
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	has, err = t.f.store.TakePart(asking, r.Model, r.Generation)
	if err != nil || !has {
		return false, err
	}
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(t.f.around.parts), func(p Part) bool { return p.Own && p.Model == r.Model })
	t.f.around.taken++
	t.f.around.parts = append(list, Part{Model: r.Model, Number: 1, Owner: "", Own: true}) // its number is read at the next look
	if _, answers := t.f.host.Answers(r.Model); !answers {
		t.promise(t.needs)
	}
	return true, nil
}

// promise counts memory that a version will take. The caller holds Follower.mu.
func (t *task) promise(bytes int64) {
	next := maps.Clone(t.f.around.promised)
	if next == nil {
		next = make(map[string]int64)
	}
	if next[t.model] = bytes; bytes == 0 {
		delete(next, t.model)
	}
	t.f.around.promised = next
}

// stocked ends what claim has promised: the host counts the version now.
func (t *task) stocked() {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if _, ok := t.f.around.promised[t.model]; ok {
		t.promise(0)
	}
}

// leave gives the part to others, if this server has one.
func (t *task) leave(ctx context.Context) error {
	t.f.mu.Lock()
	has := slices.ContainsFunc(t.f.around.parts, func(p Part) bool { return p.Own && p.Model == t.model })
	t.promise(0)
	t.f.mu.Unlock()
	if !has {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := t.f.store.LeavePart(asking, t.model); err != nil {
		return err
	}
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.around.taken++
	t.f.around.parts = slices.DeleteFunc(slices.Clone(t.f.around.parts), func(p Part) bool { return p.Own && p.Model == t.model })
	return nil
}

// settleIn compares the forecast of a version whose files have come with the memory that is free, before it is loaded where nothing of the
// model is, and notes it for servers that do not have them.
func (t *task) settleIn(ctx context.Context, r *Record, v Revision) (fits bool, err error) {
	if _, answers := t.f.host.Answers(t.model); r.Placement.count() == 0 || answers {
		return true, nil
	}
	why := t.lacksRoom(ctx, r, v)
	if t.needs > 0 && v.NeedsBytes == 0 {
		if _, err := t.f.change(ctx, t.model, func(r *Record) (Record, bool) { return r.Need(v.Label, t.needs) }); err != nil {
			return false, err
		}
	}
	if why == "" {
		return true, nil
	}
	return false, t.giveUp(ctx, r, why)
}

// giveUp leaves the part to a server that may do better.
func (t *task) giveUp(ctx context.Context, r *Record, why string) error {
	t.unfit, t.unfitAt, t.retry = why, time.Now(), 0
	t.clear(ctx)
	err := t.leave(ctx)
	t.observe(ctx, r, Observation{State: Unfit, Why: why})
	return err
}

// givesUp reports whether a server that has failed leaves its part: it has tried for a while, and nothing of the model answers there.
func (t *task) givesUp(r *Record) bool {
	_, answers := t.f.host.Answers(t.model)
	return r.Placement.count() > 0 && !answers && t.retry >= giveUpAfter
}
