package main

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/scheduler/brownout"
	"weir/telemetry"
)

// Engine's figures put a step into force and out of it, and edge and metric are told.
func TestDimmerFollowsTheEngine(t *testing.T) {
	metrics, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{metrics: metrics, log: zap.NewNop(), config: configs.Config{Brownout: []brownout.Step{{
		Name: "short", Enter: brownout.Load{QueueWait: 5 * time.Second, KVPercent: 90, QueuePercent: 50}, EnterAfter: time.Second,
		LeaveAfter: 2 * time.Second, MaxTokens: [inference.NumClasses]int{9, 9, 9},
	}}}}
	s.config.Scheduler.MaxWaiting = 100
	d, err := s.newBrownout()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	entries := map[string]int{}
	d.audit = func(action, _ string, _ details) {
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
	if entries[actionBrownoutLower] != 3 || entries[actionBrownoutRaise] != 2 {
		t.Errorf("the audit log has %v", entries)
	}
}

func TestNoDimmerWithoutSteps(t *testing.T) {
	if d, err := (&server{}).newBrownout(); d != nil || err != nil {
		t.Error(d, err)
	}
}
