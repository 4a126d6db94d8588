package rollouts_test

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"weir/internal/server/rollouts"
	"weir/internal/server/state"
	"weir/router/rollout"
	"weir/telemetry"
	"weir/telemetry/slo"
)

// fleet has two versions of the model chat, which are always ready.
type fleet struct {
	rollouts.Models

	answers string
}

func (f *fleet) Answers(string) (string, bool)                                    { return f.answers, true }
func (f *fleet) IsClassic(string) bool                                            { return false }
func (f *fleet) Keep(context.Context, string, string) (func(), error)             { return func() {}, nil }
func (f *fleet) Give(_, label, _ string) error                                    { f.answers = label; return nil }
func (f *fleet) Owns(context.Context, string) error                               { return nil }
func (f *fleet) Moved(*rollout.Transition) error                                  { return nil }
func (f *fleet) Announce(context.Context) error                                   { return nil }
func (f *fleet) Add(context.Context, string, string, string, state.Details) error { return nil }
func (f *fleet) Failed(context.Context, string, string, string, state.Details, error) {
}

// A version gets a part of the requests, until an operator has seen enough of it.
func Example() {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		panic(err)
	}
	chat := &fleet{answers: "1"}
	r, err := rollouts.New(rollouts.Options{
		Log: zap.NewNop(), Metrics: metrics, Models: chat, Audit: chat, Deployments: chat,
		Instance: func() string { return "127.0.0.1:8000" }, Objectives: func() *slo.Objectives { return &slo.Objectives{} },
	})
	if err != nil {
		panic(err)
	}
	defer r.Stop()
	st, err := r.Start(context.Background(), "anna", rollout.Plan{Model: "chat", Candidate: "2", Unchecked: true})
	fmt.Println(st.State, st.Plan.Stable, st.Plan.Candidate, err)

	st, err = r.Decide(context.Background(), "anna", "chat", "promote")
	fmt.Println(st.State, chat.answers, err)
	// Output:
	// running 1 2 <nil>
	// promoted 2 <nil>
}
