package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/internal/server/state"
	"weir/router"
	"weir/router/deployment"
	"weir/router/rollout"
	"weir/telemetry"
)

// rollouts carry out what router/rollout decides: they apply, store, log and audit its
// transitions, feed it with what happened to requests, and have copies answered.
type rollouts struct {
	s       *Server
	names   *names
	control *rollout.Controller
	series  *telemetry.Rollouts
	shadows *shadows
	holds   holds
	over    context.CancelFunc
	ctx     context.Context //nolint:containedctx // of what runs by itself; ends with stop
	ended   sync.WaitGroup
	saved   map[string]int // by rollout: how much had been seen when it was kept last; of the goroutine that applies transitions
	others  elsewhere      // as above
	trouble telemetry.LogLimiter
	kept    rolloutRecords   // nil: there is no store
	journal *rollout.Journal // as above

	changes chan []rollout.Transition
}

const (
	tickEvery = time.Second
	// changeQueue bounds transitions that wait to be applied; each rollout has few.
	changeQueue = 256
)

func newRollouts(s *Server) (*rollouts, error) {
	r := &rollouts{
		s: s, names: &names{all: []rolled{s.languages, s.fleets, s.predictors}, log: s.log}, control: rollout.NewController(), holds: holds{releases: make(map[string]func())},
		changes: make(chan []rollout.Transition, changeQueue), saved: make(map[string]int),
		trouble: telemetry.LogLimiter{Every: telemetry.TroubleEvery},
	}
	r.others = elsewhere{instance: s.ports.instance, failed: func(err error) {
		r.trouble.Do(func(held int) {
			s.log.Error("whether another server has a rollout cannot be read from the store; it is tried again", zap.Error(err), zap.Int("times_before", held))
		})
	}}
	r.ctx, r.over = context.WithCancel(context.Background())
	var err error
	r.series, err = telemetry.AddRollouts(s.metrics, r.figures)
	r.shadows = &shadows{
		control: r.control, series: r.series, entryOf: r.names.entryOf, engaged: s.engines.engaged, changed: r.changed,
		ask: func(ctx context.Context, version *models.Model, c *models.Copy) (generation.Shadowed, error) {
			return s.edge.Shadow(ctx, version, c)
		},
		copies: make(chan copied, shadowQueue), ctx: r.ctx,
	}
	return r, err
}

// start goes on with the rollouts that the store has, and moves all on until stop. The
// models of the configuration are loaded.
func (r *rollouts) start() {
	restored := make(chan struct{})
	r.ended.Go(func() {
		r.restore()
		close(restored)
		tick := time.NewTicker(tickEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				r.apply(r.control.Tick(now))
				r.saveRunning(now)
				r.others.look(r.ctx, now, func(run *rollout.Rollout) {
					if run.State().Over() {
						_ = r.control.Add(run) // for people to see
					}
					r.follow(run)
				})
			case list := <-r.changes:
				r.apply(list)
			case <-r.ctx.Done():
				return
			}
		}
	})
	if r.journal != nil {
		r.ended.Go(func() { r.journal.Run(r.ctx, r.changed, r.journalFailed) })
	}
	r.ended.Go(r.shadows.run)
	select {
	case <-restored:
	case <-time.After(resumeWait): // the stable versions answer
	}
}

// resumeWait is how long a server that starts takes no requests while rollouts load their candidates.
const resumeWait = 10 * time.Second

func (r *rollouts) stop() {
	r.over()
	r.ended.Wait()
	r.saveRunning(time.Now())
}

// changed hands transitions to the goroutine that applies them. Hooks call it, and must
// not wait for a store.
func (r *rollouts) changed(list []rollout.Transition) {
	if len(list) == 0 {
		return
	}
	select {
	case r.changes <- list:
	default:
		r.ended.Go(func() { r.apply(list) })
	}
}

// apply puts transitions into force: what Choose answers has changed already.
func (r *rollouts) apply(list []rollout.Transition) {
	for i := range list {
		t := &list[i]
		r.series.CountTransition(string(t.To))
		r.s.log.Info("rollout", zap.String("id", t.ID), zap.String("model", t.Model), zap.String("from", string(t.From)), zap.String("to", string(t.To)),
			zap.Int("step", t.Step), zap.Float64("percent", t.Percent), zap.String("by", t.By), zap.String("reason", t.Reason), zap.Int("harmed", t.Harmed))
		if t.To.Over() && t.To != rollout.Replaced {
			r.finish(t)
			r.forgetAnswers(t.ID)
		}
		if err := r.keep(t); err != nil {
			r.s.log.Error("a change of a rollout is not in the store", zap.String("id", t.ID), zap.Error(err))
		}
		if err := r.s.deployments.moved(t); err != nil {
			r.s.log.Error("the other servers do not know yet of a change of a rollout", zap.String("id", t.ID), zap.Error(err))
		}
	}
}

// replaced notes that an operator has moved a model's name, over what a rollout has promoted or was trying.
func (r *rollouts) replaced(model, by string) {
	r.abort(model, by)
	r.apply(r.control.Replace(model, by, time.Now()))
}

// running reports whether a rollout of a model is under way.
func (r *rollouts) running(model string) bool {
	_, ok := r.control.Stable(model)
	return ok
}

// abort takes the candidate of a model's rollout back, if one is under way.
func (r *rollouts) abort(model, by string) bool {
	list, err := r.control.Decide(model, "abort", by, time.Now())
	r.apply(list)
	return err == nil
}

// keep stores and audits a transition.
func (r *rollouts) keep(t *rollout.Transition) error {
	if r.kept == nil {
		return nil
	}
	err := r.s.audit.add(context.Background(), "rollout: "+t.By, state.ActionRollout+string(t.To), t.Model, state.Details{
		"id": t.ID, "from": t.From, "step": t.Step, "percent": t.Percent, "reason": t.Reason, "harmed": t.Harmed,
	})
	return errors.Join(err, r.save(t.ID, t.At))
}

// save keeps where a rollout stands and what was seen of both arms. One that another server goes on with ends here: this one was taken for dead.
// That of a deployment is every server's, and its record that of whichever process has this one's address.
func (r *rollouts) save(id string, at time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	err := r.journal.Save(ctx, id, at)
	switch {
	case !errors.Is(err, rollout.ErrElsewhere):
	case deployment.IsRollout(id):
		if err = r.own(ctx, id); err == nil {
			err = r.journal.Save(ctx, id, at)
		}
	default:
		list, _ := r.control.Decide(r.control.ModelOf(id), "abort", "server, "+err.Error(), at) // or it is over here, too
		for i := range list {
			r.finish(&list[i])
		}
	}
	return err
}

// own makes the record of a deployment's rollout this process's, which one before it at its address has begun.
func (r *rollouts) own(ctx context.Context, id string) error {
	if r.others.take(ctx, r.key(id)) {
		return nil
	}
	return fmt.Errorf("%w that has this one's address %s, or has had it until a moment ago: %s; it is tried again", rollout.ErrElsewhere, r.s.ports.instance(), id)
}

// key is what the store keeps a rollout under. That of a deployment runs on several servers: each keeps what it has seen,
// and where all of them stand is in the deployment's record.
func (r *rollouts) key(id string) string {
	if deployment.IsRollout(id) {
		return id + "@" + r.s.ports.instance()
	}
	return id
}

// saveRunning keeps what was seen since the last time, so that a process that is killed goes on from there.
func (r *rollouts) saveRunning(now time.Time) {
	if r.kept == nil {
		return
	}
	for id, seen := range r.control.Seen() {
		if r.saved[id] == seen {
			continue
		}
		if err := r.save(id, now); err != nil {
			r.trouble.Do(func(held int) {
				r.s.log.Error("what was seen of a rollout is not in the store; it is tried again", zap.String("id", id), zap.Error(err), zap.Int("times_before", held))
			})
			continue
		}
		r.saved[id] = seen
	}
}

// finish gives a model's name to the version that a rollout ended with.
func (r *rollouts) finish(t *rollout.Transition) {
	plan, ok := r.plan(t.ID)
	if !ok {
		return
	}
	if t.To == rollout.Promoted {
		r.names.give(&plan, plan.Candidate)
	}
	r.holds.release(t.ID)
}

// holds keep versions in memory, by what they are held for.
type holds struct {
	mu       sync.Mutex
	releases map[string]func()
}

// keep remembers what lets the versions of a rollout leave memory.
func (h *holds) keep(id string, release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releases[id] = release
}

// release lets the versions of a rollout leave memory, once.
func (h *holds) release(id string) {
	h.mu.Lock()
	release := h.releases[id]
	delete(h.releases, id)
	h.mu.Unlock()
	if release != nil {
		release()
	}
}

func (r *rollouts) plan(id string) (rollout.Plan, bool) {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID == id {
			return st.Plan, true
		}
	}
	return rollout.Plan{}, false
}

// Start implements admin.Rollouts.
func (r *rollouts) Start(ctx context.Context, by string, p rollout.Plan) (rollout.Status, error) {
	return r.startTelling(ctx, by, p, func(int, int) {})
}

// startTelling is Start; tell hears how far the check is.
func (r *rollouts) startTelling(ctx context.Context, by string, p rollout.Plan, tell deployment.CheckProgress) (rollout.Status, error) {
	if by != deploymentActor {
		p.ID = strings.TrimPrefix(cmp.Or(p.ID, strings.ToLower(rand.Text()[:10])), deployment.RolloutPrefix)
		if err := r.s.deployments.owns(ctx, p.Model); err != nil {
			return rollout.Status{}, err
		}
	}
	if err := r.complete(&p); err != nil {
		return rollout.Status{}, err
	}
	o := r.s.watchers.Traces.Slo.Load()
	run, err := rollout.Start(p, 1-min(o.Availability, o.FirstToken.Share), time.Now())
	if err != nil {
		return rollout.Status{}, err
	}
	if err := r.control.Free(p.Model); err != nil {
		return rollout.Status{}, err
	}
	release, err := r.names.hold(ctx, p)
	if err != nil {
		return rollout.Status{}, err
	}
	if err := r.s.audit.add(ctx, by, state.ActionRollout+"start", p.Model, state.Details{"id": p.ID, "stable": p.Stable, "candidate": p.Candidate}); err != nil {
		release()
		return rollout.Status{}, err
	}
	r.holds.keep(p.ID, release)
	err = r.check(ctx, run.Plan(), tell)
	if err == nil {
		err = r.control.Add(run)
	}
	if err == nil && by != deploymentActor {
		err = overrule(ctx, r.s.deployments, p.Model)
	}
	if err != nil {
		r.holds.release(p.ID)
		r.s.audit.failed(ctx, by, state.ActionRollout+"start", p.Model, state.Details{"id": p.ID, "candidate": p.Candidate}, err)
		return rollout.Status{}, err
	}
	r.names.give(&p, p.Stable)
	r.apply(run.Take())
	return r.status(p.ID)
}

// complete fills in the version that answers now. A plan may name another stable version of a classical model, whose newest version
// answers without being asked: the stable one answers from the rollout's start on.
func (r *rollouts) complete(p *rollout.Plan) error {
	v := r.names.of(p.Model)
	if v == nil {
		return fmt.Errorf("%w: %q", admin.ErrNoModel, p.Model)
	}
	answers, _ := v.answers(p.Model)
	if p.Stable = cmp.Or(p.Stable, answers); p.Stable != answers && !r.names.isClassic(p.Model) {
		return fmt.Errorf("%w: the stable version is %q, and %q answers; move the name first", rollout.ErrPlan, p.Stable, answers)
	}
	return nil
}

func (r *rollouts) status(id string) (rollout.Status, error) {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID == id {
			return st, nil
		}
	}
	return rollout.Status{}, rollout.ErrNone
}

// Decide implements admin.Rollouts.
func (r *rollouts) Decide(ctx context.Context, by, model, what string) (rollout.Status, error) {
	list, err := r.control.Decide(model, what, by, time.Now())
	if err != nil {
		r.s.audit.failed(ctx, by, state.ActionRollout+what, model, nil, err)
		return rollout.Status{}, err
	}
	r.apply(list)
	return r.status(list[0].ID)
}

// Kill implements admin.Rollouts.
func (r *rollouts) Kill(ctx context.Context, by string) error {
	list := r.control.Kill(by, time.Now()) // first: nothing may delay it
	r.apply(list)
	return r.s.audit.add(ctx, by, state.ActionRollout+"kill", "", state.Details{"aborted": len(list)})
}

// List implements admin.Rollouts.
func (r *rollouts) List() []rollout.Status { return r.control.List(time.Now()) }

// namesInStore are the models that deployments and rollouts of the store have, or may have, given to other versions than the configuration does.
func namesInStore(ctx context.Context, s *Server) map[string]bool {
	names := make(map[string]bool)
	if s.store == nil {
		return names
	}
	ctx, cancel := context.WithTimeout(ctx, state.Timeout)
	defer cancel()
	records, err := s.deployments.kept.Deployments(ctx)
	for i := range records {
		names[records[i].Model] = true
	}
	list, failed := s.rollouts.kept.Rollouts(ctx)
	for _, record := range list {
		if run, err := rollout.Restore(record, time.Now()); err == nil {
			names[run.Plan().Model] = true
		}
	}
	if err := errors.Join(err, failed); err != nil {
		s.log.Error("which names are another version's cannot be read from the store; the configuration decides until it is back", zap.Error(err))
	}
	return names
}

// restore goes on with what the store has: rollouts that were under way, and versions that
// were promoted over what the configuration says.
func (r *rollouts) restore() {
	if r.kept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, state.Timeout)
	defer cancel()
	err := r.s.deployments.follower.Announce(ctx)
	records, failed := r.kept.Rollouts(ctx)
	if err := errors.Join(err, failed); err != nil {
		r.s.log.Error("rollouts cannot be read from the store; none goes on", zap.Error(err))
		return
	}
	last := make(map[string]*rollout.Rollout)
	for _, record := range records {
		run, err := rollout.Restore(record, time.Now())
		if err != nil {
			r.s.log.Error("a rollout in the store cannot be read; it does not go on", zap.Error(err))
			continue
		}
		if deployment.IsRollout(run.Plan().ID) {
			continue // its deployment goes on with it
		}
		if !run.State().Over() && !r.others.take(ctx, run.Plan().ID) {
			r.others.await(run.Plan().ID)
			continue
		}
		last[run.Plan().Model] = run
		if run.State().Over() {
			_ = r.control.Add(run) // for people to see
		}
	}
	for _, run := range last {
		r.follow(run)
	}
}

// follow goes on with the last rollout of a model, or with what it has left.
func (r *rollouts) follow(run *rollout.Rollout) {
	p := run.Plan()
	if run.State().Over() {
		r.left(&p, run.State())
		return
	}
	_ = r.resume(run) // which logs why not
}

// resume goes on with a rollout where it was: the stable version answers by default, whatever the configuration says.
func (r *rollouts) resume(run *rollout.Rollout) error {
	p := run.Plan()
	log := r.s.log.With(zap.String("id", p.ID), zap.String("model", p.Model), zap.String("candidate", p.Candidate))
	r.names.give(&p, p.Stable)
	release, err := r.names.hold(r.ctx, p)
	if err == nil {
		r.holds.keep(p.ID, release)
		err = r.control.Add(run)
	}
	if err == nil && !deployment.IsRollout(p.ID) {
		err = overrule(r.ctx, r.s.deployments, p.Model)
	}
	if err != nil {
		r.holds.release(p.ID)
		log.Error("a rollout does not go on", zap.Error(err))
		return fmt.Errorf("the rollout %s does not go on: %w", p.ID, err)
	}
	log.Info("a rollout goes on where it was")
	return nil
}

// left gives a name to the version that the last rollout of its model has left it with before the server started, unless the
// configuration says otherwise since. The configuration says nothing of that for a classical model, whose newest version answers.
func (r *rollouts) left(p *rollout.Plan, end rollout.State) {
	v := r.names.of(p.Model)
	if v == nil {
		return
	}
	answers, _ := v.answers(p.Model)
	switch classic := r.names.isClassic(p.Model); {
	case end == rollout.Promoted && (classic || answers == p.Stable):
		r.names.give(p, p.Candidate)
	case end != rollout.Promoted && classic:
		r.names.give(p, p.Stable)
	}
}

// choose lets a rollout decide which version answers a request that names none. reaches says whether the tenant's residency lets it go
// to a version; nil: to all.
func (r *rollouts) choose(a *models.Ask, reaches func(version string) bool) (d rollout.Decision, ok bool) {
	if a.Pinned {
		return d, false
	}
	if a.Spare {
		return r.control.Stable(a.Model)
	}
	return r.control.Choose(a.Model, a.Tenant, a.Conversation, a.ID, reaches)
}

// spare is how a request that the candidate fails comes to the stable version; nil: it does not.
func (r *rollouts) spare(a *models.Ask, d rollout.Decision) func() bool {
	if d.Arm != rollout.Candidate || a.Spare {
		return nil
	}
	return func() bool { return r.control.Spare(a.Model, d.Rollout) }
}

// lost ends a rollout one of whose versions is not there any more.
func (r *rollouts) lost(model string, why error) {
	list, err := r.control.Decide(model, "abort", "server, "+why.Error(), time.Now())
	if err == nil {
		r.changed(list)
	}
}

// figures is what a scrape shows.
func (r *rollouts) figures() []telemetry.Rollout {
	var list []telemetry.Rollout
	for _, st := range r.control.List(time.Now()) {
		if st.State.Over() {
			continue
		}
		t := telemetry.Rollout{Model: st.Plan.Model, Percent: st.Percent, Step: st.Step, Paused: st.State == rollout.Paused, Copies: st.Copies}
		for _, a := range st.Arms {
			t.Arms = append(t.Arms, telemetry.RolloutArm{Arm: a.Arm, Requests: a.Requests, Failed: a.Failed, Empty: a.Empty, Length: a.Length, Refused: a.Refused,
				Denied: a.Denied, Throttled: a.Throttled})
		}
		list = append(list, t)
	}
	return list
}

// chooseClassic lets a rollout decide which version of a classical model answers; "": that which answers by default.
func (r *rollouts) chooseClassic(model string, by router.StickyKey) (version string, arm router.Arm) {
	if r == nil {
		return "", arm
	}
	reaches := func(version string) bool { return r.s.predictors.remotes.reaches(model, version, by.Residency) }
	if d, ok := r.control.Choose(model, by.Tenant, by.User, by.Request, reaches); ok {
		return d.Version, armOf(d)
	}
	return "", arm
}

// spareClassic is the stable version in place of a candidate that has failed a request to a classical model.
func (r *rollouts) spareClassic(model string, arm router.Arm) (version string, may bool) {
	if r == nil || arm.Name != rollout.Candidate.String() || !r.control.Spare(model, arm.Rollout) {
		return "", false
	}
	if d, ok := r.control.Stable(model); ok {
		return d.Version, true
	}
	return "", true // the rollout is over
}

// drift takes a candidate back whose features or scores drift.
func (r *rollouts) drift(model, version string, columns []string) {
	if r == nil {
		return
	}
	why := "drift of " + strings.Join(columns[:min(len(columns), 5)], ", ")
	r.changed(r.control.Alarm(model, version, rollout.DriftRule, why, time.Now()))
}
