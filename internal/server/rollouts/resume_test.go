package rollouts

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/rollout"
	"weir/telemetry"
	"weir/telemetry/slo"
)

// versions has two versions of a model, one of which answers.
type versions struct {
	Models

	answers string
	classic bool
}

func (v *versions) Answers(string) (string, bool)                        { return v.answers, true }
func (v *versions) IsClassic(string) bool                                { return v.classic }
func (v *versions) Keep(context.Context, string, string) (func(), error) { return func() {}, nil }
func (v *versions) Give(_, label, _ string) error                        { v.answers = label; return nil }

// quiet has no deployments and no audit log.
type quiet struct{}

func (quiet) Owns(context.Context, string) error                                   { return nil }
func (quiet) Moved(*rollout.Transition) error                                      { return nil }
func (quiet) Announce(context.Context) error                                       { return nil }
func (quiet) Add(context.Context, string, string, string, state.Details) error     { return nil }
func (quiet) Failed(context.Context, string, string, string, state.Details, error) {}

// kept is a store with rollouts.
type kept struct {
	Records

	list [][]byte
}

func (k *kept) Rollouts(context.Context) ([][]byte, error) { return slices.Clone(k.list), nil }
func (k *kept) TakeRollout(context.Context, string, string) (bool, error) {
	return true, nil
}

// SaveRollout implements rollout.AnswerStore: the newest record of the only rollout is the last.
func (k *kept) SaveRollout(_ context.Context, _ string, _ time.Time, r rollout.StoredRecord) error {
	k.list = [][]byte{r.JSON}
	return nil
}
func (k *kept) ForgetRollout(context.Context, string) error { return nil }

func begin(t *testing.T, v *versions, k *kept) *Rollouts {
	t.Helper()
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{
		Log: zap.NewNop(), Metrics: metrics, Models: v, Audit: quiet{}, Deployments: quiet{}, Records: k,
		Instance: func() string { return "here" }, Objectives: func() *slo.Objectives { return &slo.Objectives{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	r.restore(func() {})
	return r
}

// What a rollout has left a name with holds after a restart, whichever version the configuration names first: the promoted version, or the
// stable one in place of a candidate that was taken back, until an operator or a deployment gives the name to another one.
func TestWhatARolloutHasLeft(t *testing.T) {
	decide := func(what, by string) func(r *Rollouts) {
		return func(r *Rollouts) { _, _ = r.Decide(context.Background(), by, "chat", what) }
	}
	move := func(label string) func(r *Rollouts) {
		return func(r *Rollouts) {
			r.Replaced("chat", label, "anna")
			_ = r.Models.Give("chat", label, "anna")
		}
	}
	for name, c := range map[string]struct {
		ends    []func(r *Rollouts)
		choice  string // of the configuration after the restart
		classic bool
		want    string
	}{
		"taken back, and the configuration names the candidate":      {[]func(*Rollouts){decide("abort", "anna")}, "2", false, "1"},
		"taken back, and the configuration names the stable version": {[]func(*Rollouts){decide("abort", "anna")}, "1", false, "1"},
		"taken back, and the configuration names a third":            {[]func(*Rollouts){decide("abort", "anna")}, "3", false, "3"},
		"taken back by a switch for all":                             {[]func(*Rollouts){func(r *Rollouts) { _ = r.Kill(context.Background(), "anna") }}, "2", false, "1"},
		"taken back by its gates": {[]func(*Rollouts){func(r *Rollouts) {
			for range 300 {
				r.apply(r.control.Observe("chat", time.Now(), &rollout.Outcome{Rollout: r.List()[0].Plan.ID, Arm: rollout.Stable}))
				r.apply(r.control.Observe("chat", time.Now(), &rollout.Outcome{Rollout: r.List()[0].Plan.ID, Arm: rollout.Candidate, Failed: true}))
			}
		}}, "2", false, "1"},
		"a deployment came and went":                           {[]func(*Rollouts){decide("abort", deployment.Actor)}, "2", false, "2"},
		"an operator wants the candidate that was taken back":  {[]func(*Rollouts){decide("abort", "anna"), move("2")}, "2", false, "2"},
		"an operator has moved the name to the stable version": {[]func(*Rollouts){move("1")}, "2", false, "1"},
		"promoted, and the configuration names the stable one": {[]func(*Rollouts){decide("promote", "anna")}, "1", false, "2"},
		"promoted, and an operator has moved the name since":   {[]func(*Rollouts){decide("promote", "anna"), move("1")}, "1", false, "1"},
		"a classical one that was taken back":                  {[]func(*Rollouts){decide("abort", "anna")}, "2", true, "1"},
		"a classical one that an operator wants all the same":  {[]func(*Rollouts){decide("abort", "anna"), move("2")}, "2", true, "2"},
		"a classical one that was promoted":                    {[]func(*Rollouts){decide("promote", "anna")}, "1", true, "2"},
		"under way, and the configuration names the candidate": {nil, "2", false, "1"},
		"paused, and the configuration names the candidate":    {[]func(*Rollouts){decide("pause", "anna")}, "2", false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kept{}
			before := begin(t, &versions{answers: "1", classic: c.classic}, k)
			if _, err := before.Start(t.Context(), "anna", rollout.Plan{Model: "chat", Candidate: "2", Unchecked: true, Steps: []rollout.Step{{Percent: 50, MinRequests: 100, MinTime: rollout.Duration(time.Minute)}}}); err != nil {
				t.Fatal(err)
			}
			for _, end := range c.ends {
				end(before)
			}
			after := &versions{answers: c.choice, classic: c.classic}
			again := begin(t, after, k)
			if after.answers != c.want {
				t.Errorf("version %s answers after the restart, not %s: %+v", after.answers, c.want, again.List()[0])
			}
		})
	}
}
