package hooks

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/configs"
	"weir/telemetry"
	"weir/telemetry/transcript"
)

// The order of those that are told of requests is stated in observers, and each place has its reason there.
func TestTheOrderOfObservers(t *testing.T) {
	w := Watchers{
		ledger: &recordedUsage{}, Transcripts: &transcript.Recorder{}, moderated: &moderated{}, Tenants: &tenantHooks{},
	}
	var names []string
	for _, o := range w.observers(edge.Hooks{}) {
		names = append(names, o.name)
		if len(o.why) < 20 {
			t.Errorf("%s: no reason for its place: %q", o.name, o.why)
		}
	}
	if want := []string{"foreground", "ledger", "journal", "engine", "tenants", "transcripts", "moderation", "rollouts"}; !slices.Equal(names, want) {
		t.Errorf("%q are told in this order; want %q", names, want)
	}
}

// What was used is owed, whatever befalls those that watch: the ledger has it when a later observer panics. Batches make room no
// longer by then.
func TestTheLedgerHasWhatWasUsedBeforeAnythingFails(t *testing.T) {
	var ledger recordedUsage
	w := Watchers{
		ledger: &ledger, Journal: admin.NewJournal(), moderated: &moderated{},
		Tenants: &tenantHooks{}, // without metrics it panics
	}
	h := joined(w.observers(edge.Hooks{OnRequestFinish: func(edge.RequestFinish) { panic("a bug") }}))
	start := edge.RequestStart{PromptTokens: 3, Model: "m"}
	h.OnRequestStart(start)
	if w.Foreground.Running() != 1 {
		t.Error("the request is not in the foreground")
	}
	func() {
		defer func() { _ = recover() }()
		h.OnRequestFinish(edge.RequestFinish{RequestStart: start, OutputTokens: 5, FirstToken: time.Now()})
	}()
	if ledger.record.Input != 3 || ledger.record.Output != 5 {
		t.Errorf("the ledger has %+v", ledger.record)
	}
	w.Foreground.came.Store(false)
	if n := w.Foreground.Running(); n != 0 {
		t.Errorf("%d requests are in the foreground after the end of one", n)
	}
}

// A request that takes a candidate back is counted before it does: who looks at why finds it.
func TestRolloutsHearOfRequestsLast(t *testing.T) {
	var told []string
	saw := func(name string) edge.Hooks {
		return edge.Hooks{
			OnRequestFinish: func(edge.RequestFinish) { told = append(told, name+" finish") },
			OnRefused:       func(edge.Refusal) { told = append(told, name+" refused") },
		}
	}
	h := joined([]observer{{name: "a", hooks: saw("a")}, {name: "none"}, {name: "b", hooks: saw("b")}})
	h.OnRequestFinish(edge.RequestFinish{})
	h.OnRefused(edge.Refusal{})
	if want := []string{"a finish", "b finish", "a refused", "b refused"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	if h.OnTokenGap != nil || h.OnWork != nil {
		t.Error("hooks that are not set are called")
	}
}

// Gaps between tokens have one listener, which is called without a detour.
func TestOneListenerIsCalledItself(t *testing.T) {
	n := 0
	h := joined([]observer{{}, {hooks: edge.Hooks{OnTokenGap: func(*edge.RequestStart, time.Duration, bool) { n++ }}}, {}})
	if got := testing.AllocsPerRun(10, func() { h.OnTokenGap(nil, 0, false) }); got != 0 || n != 11 {
		t.Errorf("%v allocations, %d calls", got, n)
	}
}

// Hooks of predictions and of batches are those of generations except for what is not theirs.
func TestHooksByProtocol(t *testing.T) {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTraces(configs.Default(), telemetry.Build{}, "", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	w := Watchers{
		metrics: metrics, log: zap.NewNop(), Journal: admin.NewJournal(), refusals: newRefusals(zap.NewNop()), Traces: tr,
		moderated: &moderated{}, Tenants: &tenantHooks{},
	}
	g, p, b := w.Generations(), w.Predictions(), w.Batches()
	if g.OnTokenGap == nil || p.OnTokenGap != nil || b.OnRequestFinish != nil || b.OnRefused == nil || p.OnRequestFinish == nil || p.StartTrace == nil {
		t.Error("hooks of one protocol are another's")
	}
}
