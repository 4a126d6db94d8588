package hooks

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/configs"
	"weir/internal/inference"
	"weir/telemetry"
)

// Objectives that a reload brings decide which requests missed them.
func TestReloadedObjectives(t *testing.T) {
	tr, err := newTraces(configs.Default(), telemetry.Build{}, "", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 0)
	f := edge.RequestFinish{RequestStart: edge.RequestStart{Arrived: at, Prompts: 1, N: 1}, Status: http.StatusOK, FirstToken: at.Add(time.Second),
		LastToken: at.Add(time.Second), OutputTokens: 1, Reasons: []inference.FinishReason{inference.FinishStop}}
	for _, target := range []time.Duration{2 * time.Second, time.Second / 2, 2 * time.Second} {
		c := configs.Default()
		c.SLO.FirstToken.Target = target
		commit, err := tr.Objectives(c)
		if err != nil {
			t.Fatal(err)
		}
		if commit(); tr.missed(&f) != (target < time.Second) {
			t.Errorf("a first token after a second with a target of %v: missed is %v", target, tr.missed(&f))
		}
	}
}
