package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/internal/server/deployed"
	"weir/internal/server/rollouts"
	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/rollout"
	"weir/telemetry"
	"weir/telemetry/audit"
)

// deployments take a server to what the deployments in its store want. They implement deployment.Host.
type deployments struct {
	s        *Server
	kept     deploymentRecords
	follower *deployment.Follower
	ctx      context.Context //nolint:containedctx // of the following; ends with stop
	over     context.CancelFunc
	ended    sync.WaitGroup
	pulls    chan struct{} // places of versions that are brought in

	versions *deployed.Versions
	followed places
}

// deploymentRecords are the deployments in the store, and what servers observe of them.
type deploymentRecords interface {
	deployment.Store
	// NoteDeployment is ChangeDeployment with an entry in the audit log, both or neither. f gets the last generation of a record that was deleted, too.
	NoteDeployment(ctx context.Context, model string, f func(old *deployment.Record, last int64) (*deployment.Record, *audit.Change, error)) error
	ObservationsOf(ctx context.Context, model string) ([]deployment.Observation, error)
}

const (
	// pullsAtOnce bounds versions that are brought in at the same time.
	pullsAtOnce = 2
	// deployWait is how long a server that starts waits for the versions of its deployments, before requests get those of the
	// configuration.
	deployWait = 10 * time.Minute
)

// newDeployments is nil without a store.
func newDeployments(s *Server) *deployments {
	if s.store == nil {
		return nil
	}
	d := &deployments{
		s: s, kept: s.store.Deployments, pulls: make(chan struct{}, pullsAtOnce), versions: deployed.New(), followed: places{last: make(map[string]int64)},
	}
	d.ctx, d.over = context.WithCancel(context.Background())
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	d.follower = deployment.New(d.kept, d, deployment.Options{
		Instance: s.ports.instance(), Self: d.self, Changed: d.changed,
		Failed: func(err error) {
			trouble.Do(func(held int) {
				s.log.Error("the store of deployments failed; what answers now goes on", zap.Error(err), zap.Int("times_before", held))
			})
		},
	})
	return d
}

// start has the deployments of the store answer, and follows them until stop. The models of the configuration are loaded.
func (d *deployments) start() {
	if d == nil {
		return
	}
	if err := d.follower.Begin(d.ctx, deployWait); err != nil && d.ctx.Err() == nil {
		d.s.log.Error("the store of deployments failed; the configuration decides which versions answer until it is back", zap.Error(err))
	}
	d.ended.Go(func() { d.follower.Run(d.ctx) })
}

// drain leaves this server's parts to others, while its requests end.
func (d *deployments) drain() {
	if d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if err := d.follower.Drain(ctx); err != nil {
		d.s.log.Error("the other servers do not know that this one ends, until its lease is over", zap.Error(err))
	}
}

// halt ends the following soon.
func (d *deployments) halt() {
	if d != nil {
		d.over()
	}
}

// stop ends the following. A version that is being loaded is not waited for: the manager of versions closes it.
func (d *deployments) stop() {
	if d == nil {
		return
	}
	d.over()
	done := make(chan struct{})
	go func() { d.ended.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(engineTimeout):
	}
}

// changed logs where a deployment stands on this server.
func (d *deployments) changed(o deployment.Observation, before deployment.State) {
	fields := []zap.Field{
		zap.String("model", o.Model), zap.Int64("generation", o.Generation), zap.String("state", string(o.State)), zap.String("before", string(before)),
		zap.String("answers", o.Answers), zap.String("why", o.Why),
	}
	if o.State == deployment.Failed || o.State == deployment.RolledBack {
		d.s.log.Warn("deployment", fields...)
		return
	}
	d.s.log.Info("deployment", fields...)
}

// Owns refuses what an operator asks of a model that a deployment decides.
func (d *deployments) Owns(ctx context.Context, model string) error {
	if d == nil {
		return nil
	}
	if follows, err := d.follower.Follows(ctx, model); !follows || err != nil {
		return err
	}
	return fmt.Errorf("%w: POST /v1/deployments with another version of %q, or DELETE /v1/deployments/%s first", admin.ErrDeployed, model, model)
}

// of is what has the versions of a model here; nil: it is new.
func (d *deployments) of(model string) rolled { return d.s.names.of(model) }

// isClassic reports whether a model is a classical one.
func (d *deployments) isClassic(model string) bool {
	return d.s.names.IsClassic(model) || d.of(model) == nil && slices.Contains(d.s.predictors.names(), model)
}

// isRouted reports whether other servers compute a model.
func (d *deployments) isRouted(model string) bool {
	_, ok := d.s.fleets.answers(model)
	return ok
}

// Serves implements deployment.Host.
func (d *deployments) Serves(model string) (bool, string) {
	switch {
	case d.isRouted(model):
		if !d.s.fleets.hasVersions(model) {
			return false, "this server routes the model to replicas of one version; they follow the deployment by themselves"
		}
		return true, ""
	case d.isClassic(model), d.s.languages.computes():
		return true, ""
	}
	return false, "this server computes no language models and routes none of this name"
}

// SetVersions implements deployment.Host.
func (d *deployments) SetVersions(ctx context.Context, model string, list []deployment.Revision) error {
	records, changed := d.versions.Offer(model, list)
	if !changed {
		return nil
	}
	if len(list) == 0 { // the configuration's version gets the name back
		d.versions.Withdraw(model)
		d.s.rollouts.End(model, deployment.IsRollout)
		if v := d.of(model); v != nil {
			if err := v.withdraw(model, deployment.Actor); err != nil {
				d.s.log.Error("the version of the configuration does not answer", zap.String("model", model), zap.Error(err))
			}
		}
	}
	if !d.isRouted(model) && !d.isClassic(model) {
		if err := d.s.languages.stock(ctx, model, records); err != nil {
			return err
		}
	}
	d.versions.Set(model, list)
	return nil
}

// decides reports whether a deployment decides which version of a model answers here: then no reload moves its name.
func (d *deployments) decides(model string) bool { return d != nil && d.versions.Decides(model) }

// Lacks implements deployment.Host.
func (d *deployments) Lacks(model, label string) error {
	if d.s.languages.isRetained(model, label) || d.s.predictors.local.IsRetained(model, label) {
		return fmt.Errorf("the configuration of this server has the version %s of %q no more; it answers until the server restarts: list it again, or deploy another one", label, model)
	}
	return nil
}

// Answers implements deployment.Host.
func (d *deployments) Answers(model string) (string, bool) {
	if v := d.of(model); v != nil {
		return v.answers(model)
	}
	return "", false
}

// Activate implements deployment.Host. A rollout that an operator has started before there was the deployment ends, too.
func (d *deployments) Activate(_ context.Context, model, label string) error {
	d.s.rollouts.End(model, func(string) bool { return true })
	if v := d.of(model); v != nil {
		return v.give(model, label, deployment.Actor)
	}
	return fmt.Errorf("%w: %q", admin.ErrNoModel, model)
}

// Check implements deployment.Host: a version must answer what the stable version answers. How far the answers differ, and how
// fast they come, is judged by rollouts: who deploys another version at once wants another one. Versions that are computed here
// are in memory for it, the stable one where it was or has room.
func (d *deployments) Check(ctx context.Context, model, stable, candidate string, tell deployment.CheckProgress) error {
	p := rollout.Plan{ID: "check", Model: model, Stable: stable, Candidate: candidate, Gates: rollout.Gates{Distance: -1, OutputRatio: -1, ITLRatio: -1, ComputeRatio: -1}}
	p, err := p.WithDefaults()
	if err != nil {
		return err
	}
	release, err := d.KeepLoaded(ctx, model, candidate)
	if err != nil {
		return err
	}
	defer release()
	if release, err := d.KeepLoaded(ctx, model, stable); err == nil {
		defer release()
	}
	if err := d.s.rollouts.Check(ctx, p, tell); err != nil {
		return fmt.Errorf(`%w; mend it, or deploy it with "rolloutPolicy": %q to leave the check out`, err, deployment.UncheckedPolicy)
	}
	return nil
}

// KeepLoaded implements deployment.Host.
func (d *deployments) KeepLoaded(ctx context.Context, model, label string) (func(), error) {
	if v := d.of(model); v != nil {
		return v.keep(ctx, model, label)
	}
	return func() {}, nil
}

// Rollout implements deployment.Host.
func (d *deployments) Rollout(ctx context.Context, p rollout.Plan, at *deployment.Progress, tell deployment.CheckProgress) (rollout.State, string, error) {
	d.s.rollouts.End(p.Model, func(id string) bool { return id != p.ID })
	st, err := d.s.rollouts.Begun(ctx, p.ID)
	switch {
	case !errors.Is(err, rollout.ErrNone):
	case at != nil && at.State.Over():
		return at.State, at.Why, nil
	case p.Stable == p.Candidate: // nothing else has answered here
		return rollout.Promoted, "", nil
	default:
		st, err = d.s.rollouts.StartDeployed(ctx, p, tell)
	}
	if err != nil {
		return "", "", err
	}
	if at != nil && d.followed.isNews(p.ID, at.Sequence) {
		if st, err = d.s.rollouts.Follow(p.Model, p.ID, at.Place()); err != nil {
			return "", "", err
		}
	}
	if answers, _ := d.Answers(p.Model); at != nil && at.State.Over() && at.State != rollout.Promoted && answers == p.Candidate && st.Plan.Stable != p.Candidate {
		if err := d.Activate(ctx, p.Model, st.Plan.Stable); err != nil { // it was promoted here before another server took it back
			return "", "", err
		}
	}
	if st.State.Over() && (at == nil || !at.State.Over()) { // the store did not hear of it
		t := rollout.Transition{ID: p.ID, Model: p.Model, At: time.Now(), To: st.State, Step: st.Step, By: "server", Reason: st.Reason}
		if err := d.follower.Moved(ctx, &t); err != nil {
			return "", "", err
		}
	}
	return st.State, placeOf(&st), nil
}

// places are the last ones of rollouts on all servers that were taken here, by id.
type places struct {
	mu   sync.Mutex
	last map[string]int64
}

// isNews reports whether a place of a rollout is later than the last one that was taken.
func (p *places) isNews(id string, sequence int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sequence <= p.last[id] {
		return false
	}
	p.last[id] = sequence
	return true
}

// placeOf says for people where a rollout stands.
func placeOf(st *rollout.Status) string {
	if st.State.Over() {
		return st.Reason
	}
	where := fmt.Sprintf("step %d of %d, %g %% of the requests get version %s", st.Step, len(st.Plan.Steps), st.Percent, st.Plan.Candidate)
	if st.State == rollout.Paused {
		return where + ", paused: " + st.Reason
	}
	return where
}

// Moved tells the other servers of a transition of a deployment's rollout, unless this server has only left it.
func (d *deployments) Moved(t *rollout.Transition) error {
	if d == nil || !deployment.IsRollout(t.ID) || t.By == deployment.Actor {
		return nil
	}
	return d.follower.Moved(context.Background(), t)
}

// Announce says to the store that this server is there.
func (d *deployments) Announce(ctx context.Context) error { return d.follower.Announce(ctx) }

var _ rollouts.Deployments = (*deployments)(nil)
