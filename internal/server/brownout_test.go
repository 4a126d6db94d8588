package server

import (
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/internal/server/state"
	"weir/kvcache"
	"weir/scheduler/brownout"
	"weir/telemetry"
)

// Engine's figures put a step into force and out of it, and edge and metric are told.
func TestDimmerFollowsTheEngine(t *testing.T) {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	c := configs.Config{Brownout: []brownout.Step{{
		Name: "short", Enter: brownout.Load{QueueWait: 5 * time.Second, KVPercent: 90, QueuePercent: 50}, EnterAfter: time.Second,
		LeaveAfter: 2 * time.Second, MaxTokens: [inference.NumClasses]int{9, 9, 9},
	}}}
	c.Scheduler.MaxWaiting = 100
	d, err := newBrownout(c, metrics, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	entries := map[string]int{}
	d.audit = func(action, _ string, _ state.Details) {
		mu.Lock()
		defer mu.Unlock()
		entries[action]++
	}
	at := time.Unix(1000, 0)
	run := func(seconds int, stats llm.Stats) {
		for range 4 * seconds {
			at = at.Add(lookEvery)
			d.look(at, stats)
		}
	}
	full := func(waiting, referenced int) (st llm.Stats) {
		st.Scheduler.Waiting, st.Scheduler.WaitingChoices = waiting, waiting
		st.Cache.Blocks, st.Cache.Referenced = 200, referenced
		return st
	}
	for _, tc := range []struct {
		stats llm.Stats
		want  bool
	}{{full(49, 179), false}, {full(50, 0), true}, {full(0, 0), false}, {full(0, 180), true}, {full(0, 0), false}} {
		run(4, tc.stats)
		e := d.effect.Load()
		if (e != nil) != tc.want || e != nil && (e.Name != "short" || e.MaxTokens[inference.Batch] != 9) || (d.level == 1) != tc.want {
			t.Errorf("with %d waiting and %d blocks: %+v, level %d", tc.stats.Scheduler.Waiting, tc.stats.Cache.Referenced, e, d.level)
		}
	}
	st := full(20, 0)
	for range 20 { // 2 requests a second are admitted: 20 wait for 10 s
		at = at.Add(500 * time.Millisecond)
		st.Scheduler.Admitted++
		d.look(at, st)
	}
	if d.level != 1 {
		t.Error("the expected wait is not looked at")
	}
	d.stop()
	if entries[state.ActionBrownoutLower] != 3 || entries[state.ActionBrownoutRaise] != 2 {
		t.Errorf("the audit log has %v", entries)
	}
}

// A reload changes what is lowered at once, and how many steps are in force only where
// there are fewer.
func TestReloadedSteps(t *testing.T) {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := newBrownout(configs.Config{}, metrics, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	audited := make(chan string, 8)
	d.audit = func(action, step string, _ state.Details) { audited <- action + " " + step }
	step := func(name string, most int) brownout.Step {
		return brownout.Step{Name: name, Enter: brownout.Load{KVPercent: 50}, EnterAfter: time.Second, MaxTokens: [inference.NumClasses]int{most, most, most}}
	}
	apply := func(steps ...brownout.Step) error {
		commit, err := d.live(configs.Config{Brownout: steps})
		if err == nil {
			commit()
		}
		return err
	}
	at := time.Unix(1000, 0)
	busy := func() {
		for range 20 {
			at = at.Add(lookEvery)
			d.look(at, llm.Stats{Cache: kvcache.Stats{Blocks: 10, Referenced: 9}})
		}
	}
	effect := func(name string, most int) {
		t.Helper()
		switch e := d.effect.Load(); {
		case name == "" && e != nil, name != "" && (e == nil || e.Name != name || e.MaxTokens[0] != most):
			t.Errorf("in force is %+v, want %s with %d tokens", e, name, most)
		}
	}
	if busy(); d.on.Load() {
		t.Error("without steps the load is looked at")
	}
	effect("", 0)
	if err := apply(step("one", 100), step("two", 50)); err != nil || !d.on.Load() {
		t.Fatal(err)
	}
	busy()
	effect("two", 50)
	if err := apply(step("one", 100), step("second", 40)); err != nil {
		t.Error(err)
	}
	effect("second", 40)
	if err := apply(brownout.Step{Name: "nothing"}); err == nil {
		t.Error("a step without a threshold is taken")
	}
	effect("second", 40)
	if err := apply(step("one", 80)); err != nil {
		t.Error(err)
	}
	effect("one", 80)
	if err := apply(); err != nil {
		t.Error(err)
	}
	effect("", 0)
	d.stop()
	if err := apply(step("late", 1)); err != nil {
		t.Error(err)
	}
	effect("", 0)
	close(audited)
	var got []string
	for a := range audited {
		got = append(got, a)
	}
	slices.Sort(got)
	if want := []string{"brownout.lower one", "brownout.lower two", "brownout.raise ", "brownout.raise one"}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}
