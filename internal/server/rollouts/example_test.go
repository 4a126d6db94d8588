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

// pair has two versions of the model chat, which are always ready.
type pair struct {
	rollouts.Models

	answers string
}

func (f *pair) Answers(string) (string, bool)                                    { return f.answers, true }
func (f *pair) IsClassic(string) bool                                            { return false }
func (f *pair) Keep(context.Context, string, string) (func(), error)             { return func() {}, nil }
func (f *pair) Give(_, label, _ string) error                                    { f.answers = label; return nil }
func (f *pair) Owns(context.Context, string) error                               { return nil }
func (f *pair) Moved(*rollout.Transition) error                                  { return nil }
func (f *pair) Announce(context.Context) error                                   { return nil }
func (f *pair) Add(context.Context, string, string, string, state.Details) error { return nil }
func (f *pair) Failed(context.Context, string, string, string, state.Details, error) {
}

// A version gets a part of the requests, until an operator has seen enough of it.
func Example() {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		panic(err)
	}
	chat := &pair{answers: "1"}
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
