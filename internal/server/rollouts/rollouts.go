// Package rollouts carries out on a server what router/rollout decides: it checks a candidate before its first user, divides requests
// between two versions, has copies answered, moves names, keeps and audits each transition, and goes on after a restart.
// What answers, and who else decides of a name, it knows by the interfaces of Options.
package rollouts

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/internal/server/state"
	"weir/internal/tensor"
	"weir/router/rollout"
	"weir/telemetry"
	"weir/telemetry/slo"
)

// Models are the models of a server by name, and their versions.
type Models interface {
	// Answers is the version that requests get which name none; false: there is no such model.
	Answers(model string) (label string, ok bool)
	// IsClassic reports whether a model is a classical one.
	IsClassic(model string) bool
	// Keep holds a version ready until release is called. Errors wrap admin.ErrNoModel.
	Keep(ctx context.Context, model, label string) (release func(), err error)
	// Give lets a version answer for its name.
	Give(model, label, by string) error
	// EntryOf is a version that is ready, until release is called; false: it is not there, or its model is a classical one.
	EntryOf(model, label string) (entry *models.Model, release func(), ok bool)
	// Inputs are what a version of a classical model takes; false: it is out of order.
	Inputs(model, label string) (inputs []tensor.Spec, ok bool)
}

// Client has versions answer what no user has asked.
type Client interface {
	// Post sends a request to the protocols of this process, and returns what is answered.
	Post(r *edge.InternalRequest, path string, body []byte) (status int, answer []byte)
	// Shadow has a version answer a copy of a request. It returns when the answer is whole or ctx ends.
	Shadow(ctx context.Context, version *models.Model, c *models.Copy) (generation.Shadowed, error)
	// Engaged is how many requests of users this process computes.
	Engaged() int
}

// Audit has the changes that operators and rules make.
type Audit interface {
	// Add adds a change before it is made.
	Add(ctx context.Context, by, action, object string, more state.Details) error
	// Failed adds that a change was asked for and not made.
	Failed(ctx context.Context, by, action, object string, more state.Details, why error)
}

// Deployments decide for all servers on the store which version of a model answers.
type Deployments interface {
	// Owns refuses what an operator asks of a model that a deployment decides.
	Owns(ctx context.Context, model string) error
	// Moved tells the other servers of a transition of a deployment's rollout, and of no other.
	Moved(t *rollout.Transition) error
	// Announce says to the store that this server is there. Rollouts call it where there are Records.
	Announce(ctx context.Context) error
}

// Options are what rollouts need of their server.
type Options struct {
	Log         *zap.Logger
	Metrics     *telemetry.Metrics
	Models      Models
	Client      Client
	Audit       Audit
	Deployments Deployments
	Records     Records // nil: there is no store
	Instance    func() string
	Objectives  func() *slo.Objectives // those in force
}

// Rollouts are those of a server: two versions of a model each.
type Rollouts struct {
	Options

	control *rollout.Controller
	series  *telemetry.Rollouts
	shadows *shadows
	records *records
	holds   holds
	over    context.CancelFunc
	ctx     context.Context //nolint:containedctx // of what runs by itself; ends with Stop
	ended   sync.WaitGroup

	changes chan []rollout.Transition
}

const (
	tickEvery = time.Second
	// changeQueue bounds transitions that wait to be applied; each rollout has few.
	changeQueue = 256
	// resumeWait is how long a server that starts takes no requests while rollouts load their candidates.
	resumeWait = 10 * time.Second
)

// New has no rollout under way before Begin.
func New(o Options) (*Rollouts, error) {
	r := &Rollouts{
		Options: o, control: rollout.NewController(), holds: holds{releases: make(map[string]func())},
		changes: make(chan []rollout.Transition, changeQueue),
	}
	r.records = newRecords(&r.Options, r.control, r.finish)
	r.ctx, r.over = context.WithCancel(context.Background())
	var err error
	r.series, err = telemetry.AddRollouts(o.Metrics, r.figures)
	r.shadows = &shadows{
		control: r.control, series: r.series, models: o.Models, client: o.Client, changed: r.changed, copies: make(chan copied, shadowQueue), ctx: r.ctx,
	}
	return r, err
}

// Begin goes on with the rollouts that the store has, and moves all on until Stop. The models of the configuration are loaded. It returns
// once no name is a candidate's that should not be.
func (r *Rollouts) Begin() {
	named, restored := make(chan struct{}), make(chan struct{})
	r.ended.Go(func() {
		r.restore(func() { close(named) })
		close(restored)
		r.run()
	})
	r.records.begin(r.ctx, &r.ended, r.changed)
	r.ended.Go(r.shadows.run)
	select {
	case <-named:
	case <-r.ctx.Done():
	}
	select {
	case <-restored:
	case <-time.After(resumeWait): // the stable versions answer
	case <-r.ctx.Done():
	}
}

// run moves rollouts on until they end with the server.
func (r *Rollouts) run() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			r.apply(r.control.Tick(now))
			r.records.saveRunning(now)
			r.records.others.look(r.ctx, now, func(run *rollout.Rollout) {
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
}

// Halt ends soon what runs by itself.
func (r *Rollouts) Halt() { r.over() }

// Stop ends what runs by itself, and keeps what was seen.
func (r *Rollouts) Stop() {
	r.over()
	r.ended.Wait()
	r.records.saveRunning(time.Now())
}

// changed hands transitions to the goroutine that applies them. Hooks call it, and must
// not wait for a store.
func (r *Rollouts) changed(list []rollout.Transition) {
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
func (r *Rollouts) apply(list []rollout.Transition) {
	for i := range list {
		t := &list[i]
		r.series.CountTransition(string(t.To))
		r.Log.Info("rollout", zap.String("id", t.ID), zap.String("model", t.Model), zap.String("from", string(t.From)), zap.String("to", string(t.To)),
			zap.Int("step", t.Step), zap.Float64("percent", t.Percent), zap.String("by", t.By), zap.String("reason", t.Reason), zap.Int("harmed", t.Harmed))
		if t.To.Over() && t.To != rollout.Replaced {
			r.finish(t)
			r.records.forgetAnswers(t.ID)
		}
		if err := r.records.keep(t); err != nil {
			r.Log.Error("a change of a rollout is not in the store", zap.String("id", t.ID), zap.Error(err))
		}
		if err := r.Deployments.Moved(t); err != nil {
			r.Log.Error("the other servers do not know yet of a change of a rollout", zap.String("id", t.ID), zap.Error(err))
		}
	}
}

// finish gives a model's name to the version that a rollout ended with.
func (r *Rollouts) finish(t *rollout.Transition) {
	st, err := r.status(t.ID)
	if err != nil {
		return
	}
	if t.To == rollout.Promoted {
		r.give(&st.Plan, st.Plan.Candidate)
	}
	r.holds.release(t.ID)
}

// give lets a version of a rollout answer for its name, unless it does.
func (r *Rollouts) give(p *rollout.Plan, label string) {
	answers, ok := r.Models.Answers(p.Model)
	if !ok || answers == label {
		return
	}
	if err := r.Models.Give(p.Model, label, "rollout "+p.ID); err != nil {
		r.Log.Error("the version that a rollout decided for does not answer", zap.String("model", p.Model), zap.String("version", label), zap.Error(err))
	}
}

// status is a rollout as people see it.
func (r *Rollouts) status(id string) (rollout.Status, error) {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID == id {
			return st, nil
		}
	}
	return rollout.Status{}, rollout.ErrNone
}

// figures is what a scrape shows.
func (r *Rollouts) figures() []telemetry.Rollout {
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
